"""`titan verify` tells what is illegal first: refuted, with a place, before any search."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.verify.kernels import GOOD, PROTOCOL
from tests.verify.legality.kernels import text
from titan.cli.main import run
from titan.foundation.verdict import Verdict
from titan.language.kernel.table import TARGETS
from titan.target.limits import FaultyLimits, known_targets, limits, parse_limits
from titan.verify.model import VerifyOptions
from titan.verify.pipeline import verify_file


def finding(tmp_path: Path, source: str):
    path = tmp_path / "k.yaml"
    path.write_text(source, encoding="utf-8")
    (found,) = verify_file(str(path), VerifyOptions(save_traces=None))
    return found


@pytest.mark.parametrize("source", [GOOD, PROTOCOL])
def test_a_legal_kernel_says_what_was_assumed(tmp_path: Path, source: str):
    found = finding(tmp_path, source)
    assert found.verdict is Verdict.VERIFIED
    (note,) = [note for note in found.notes if note.startswith("assumed")]
    assert "bulk copies lie at multiples" in note and "mbarriers" in note and "rank" in note


@pytest.mark.parametrize("source", [GOOD, PROTOCOL])
def test_an_illegal_kernel_is_refuted_before_the_search(tmp_path: Path, source: str):
    old = "tile: [64, 64], dtype: bf16"
    assert old in source
    changed = source.replace(old, old + ", swizzle: 128B, base: 512")
    found = finding(tmp_path, changed)
    assert (found.verdict, found.engines, found.trace) == (Verdict.REFUTED, (), None)
    (told,) = found.diagnostics
    assert told.code == "TTN408" and told.span is not None
    assert told.span.excerpt().strip().startswith("A:")
    assert any(note.startswith("source: ") for note in told.notes)
    assert any("`base: 1024`" in text and "costs 512 bytes" in text for text in told.helps)


def test_the_exit_code_is_that_of_a_refutation(tmp_path: Path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "k.yaml"
    path.write_text(text(ctas=2, target="sm_80"), encoding="utf-8")
    assert run(["verify", str(path)]) == 1
    assert "error[TTN419] cluster-size" in "".join(capsys.readouterr())


def test_a_warning_does_not_refute_and_can_be_allowed(tmp_path: Path):
    source = GOOD.replace("count: 1}", "count: 1, base: 65536}").replace(
        "queues:",
        "tensor_maps:\n  m: {buffer: A, global_shape: [64, 64], box: [64, 64], "
        "global_strides: [64]}\nqueues:",
    )
    found = finding(tmp_path, source)
    assert found.verdict is Verdict.VERIFIED
    assert "TTN423" in [item.code for item in found.diagnostics]
    allowed = source + "allow: [{rule: TTN423, reason: a permuted view}]\n"
    assert "TTN423" not in [item.code for item in finding(tmp_path, allowed).diagnostics]


@pytest.mark.parametrize("room", [0, 4096])
def test_padding_is_offered_where_there_is_room(tmp_path: Path, room: int):
    """Otherwise another transport is."""
    size = 232448 // 2 // 1024 * 1024 + 16 - room
    buffers = f"{{A: {{stages: 2, bytes: {size}, swizzle: 128B}}}}"
    found = finding(tmp_path, text(buffers=buffers))
    (told,) = found.diagnostics
    expected = "leaves 1008 bytes after each stage" if room else "transport: async_copy"
    assert told.code == "TTN408" if room else told.code in ("TTN407", "TTN408")
    assert any(expected in item for item in told.helps)


def test_every_target_of_the_data_can_be_read():
    assert {"sm_80", "sm_90a", "sm_100a", "gfx942", "gfx950", "gfx1250"} <= set(known_targets())
    for target in known_targets():
        found = limits(target)
        assert found.target == target
        assert all(found.source(name) for name in found.values)
        assert all(row.source for row in found.matrix)


def test_every_target_of_the_language_has_data():
    assert set(TARGETS) <= set(known_targets())


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("limits: {threads_mux: {value: 1, source: s}}", "TTN011"),
        ("limits: {threads_max: {value: many, source: s}}", "TTN008"),
        ("limits: {threads_max: {value: 1}}", "TTN007"),
        ("limits: {setmaxnreg: {value: 24, source: s}}", "TTN008"),
        ("limits: {swizzle_span: {value: [32], source: s}}", "TTN008"),
        ("extends: sm_1\nlimits: {}", "TTN010"),
        ("limits: {}\nmatrix: [{kind: wgmma}]", "TTN007"),
        ("limit: {}", "TTN006"),
    ],
)
def test_faulty_data_is_told_with_its_place(content: str, code: str):
    with pytest.raises(FaultyLimits) as raised:
        parse_limits(f"titan: 1\nlegality: mine\n{content}\n")
    assert code in [item.code for item in raised.value.diagnostics]
    assert all(item.span is not None for item in raised.value.diagnostics)


def test_limits_extend_others():
    found = parse_limits(
        "titan: 1\nlegality: mine\nextends: sm_100a\nwithout_types: [i8, u8]\n"
        "limits: {threads_max: {value: 512, source: a guess}}\n"
    )
    assert (found.number("threads_max"), found.source("threads_max")) == (512, "a guess")
    assert found.number("tensor_columns") == 512
    assert not any("i8" in row.types for row in found.matrix)


def test_findings_can_be_read_by_programs(tmp_path: Path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "k.yaml"
    path.write_text(text(ctas=2, target="sm_80"), encoding="utf-8")
    assert run(["verify", "--format", "json", str(path)]) == 1
    assert "TTN419" in json.dumps(json.loads(capsys.readouterr().out))
