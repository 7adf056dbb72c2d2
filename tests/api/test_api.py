"""`titan.verify`, `schedule`, `build` and `litmus`: paths, texts, kernels, and bad input."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import titan
from tests.language.kernel.examples import ROOT
from tests.verify import test_as_written
from titan.cli.main import run
from titan.foundation.verdict import Verdict

RING = ROOT / "examples" / "ring.yaml"
EARLY = ROOT / "examples" / "early_release.yaml"
FENCED = test_as_written.RING.replace("TARGET", "sm_90a")
SB = ROOT / "litmus" / "classic" / "SB.litmus"


def test_a_path_a_text_and_the_command_say_the_same(capsys: pytest.CaptureFixture[str]):
    found = titan.verify(RING)
    assert found.verified and found.verdict is Verdict.VERIFIED
    assert run(["verify", "--format", "json", str(RING)]) == 0
    assert found.json() == capsys.readouterr().out
    again = titan.verify(RING.read_text(encoding="utf-8"))
    assert again[0].engines[0].verdict == found[0].engines[0].verdict
    assert again[0].path == "<kernel>"


def test_a_refuted_kernel():
    found = titan.verify(str(EARLY))
    assert not found.verified and found.verdict is Verdict.REFUTED
    assert found.diagnostics[0].code == "TTN202"
    assert "REFUTED early_release" in str(found)
    assert "TTN202" in found._repr_html_() and "<script" not in found._repr_html_()
    assert found.html().startswith("<!doctype html>")
    assert json.loads(found.perfetto())["traceEvents"]


def test_sizes_and_policies():
    found = titan.verify(RING, sizes={"depth": [2, 3]}, policies={"war_fence": False})
    assert [dict(item.coverage.sizes)["depth"] for item in found] == [2, 3]
    assert dict(found[0].coverage.policies)["war_fence"] == "false"
    with pytest.raises(ValueError, match="no size 'dept'"):
        titan.verify(RING, sizes={"dept": 2})
    with pytest.raises(ValueError, match="no policy 'war'"):
        titan.verify(RING, policies={"war": False})
    with pytest.raises(ValueError, match="writer or path"):
        titan.verify(RING, policies={"fence_rule": "none"})


def test_lowering():
    (found,) = titan.verify(FENCED)
    assert found.verdict is Verdict.VERIFIED and found.added
    (found,) = titan.verify(FENCED, lowering=titan.LoweringOptions(as_written=True))
    assert found.verdict is Verdict.REFUTED and not found.added
    with pytest.raises(ValueError, match="no rewrite 'grup'; known are transport"):
        titan.verify(RING, lowering=titan.LoweringOptions(rewrites=["grup"]))


def test_bad_input_is_a_finding():
    for given in ("titan: 1\nkernel: [\n", "no/such/file.yaml"):
        found = titan.verify(given)
        assert found.verdict is Verdict.REFUSED
        assert found.diagnostics[0].code in ("TTN001", "TTN002")


def test_a_kernel_that_was_built():
    kernel = titan.Kernel("copy", target="sm_90a", tiles="any", depth=2)
    a = kernel.buffer("A", tile=[64, 64], dtype="bf16")
    ring = kernel.ring("ring", buffers=["A"], depth="depth")
    with kernel.role("producer", warps=1) as producer, producer.loop("t", "tiles") as t:
        producer.acquire(ring[t])
        producer.produce(ring[t])
    with kernel.role("consumer", warps=1) as consumer, consumer.loop("t", "tiles") as t:
        consumer.wait(ring[t])
        consumer.read(a[t])
        consumer.release(ring[t])
    found = titan.verify(kernel)
    assert found.verified
    producer.acquire(ring["tiles + depth"])
    assert titan.verify(kernel).verdict is Verdict.REFUTED


def test_a_room_that_is_called_is_still_a_room():
    import titan.litmus.decide
    import titan.verify.pipeline

    assert titan.verify.pipeline.verify_file  # type: ignore[attr-defined]
    assert titan.litmus.decide.decide  # type: ignore[attr-defined]
    assert titan.verify(RING).verified
    with pytest.raises(AttributeError, match="no attribute 'verifi'"):
        titan.verifi  # type: ignore[attr-defined]  # noqa: B018
    assert {"verify", "litmus", "build", "schedule", "Kernel"} <= set(dir(titan))


def test_a_schedule():
    loop = ROOT / "protocols" / "loops" / "toy_gemm.yaml"
    found = titan.schedule(loop, solver="rau")
    assert found.schedule is not None and found.ii == found.schedule.ii
    assert found.svg().startswith("<svg") and "<svg" in found._repr_html_()
    assert str(found.ii) in str(found)
    with pytest.raises(titan.InputError, match="TTN007") as caught:
        titan.schedule("titan: 1\nloop: x\n")
    assert caught.value.diagnostics


def test_a_litmus_test():
    found = titan.litmus(SB)
    assert found.verdict in ("Allowed", "Forbidden")
    assert found.verdict == titan.litmus(SB.read_text(encoding="utf-8")).verdict
    assert (found.allowed is True) == ("<svg" in found._repr_html_())
    with pytest.raises(titan.InputError, match="TTN001"):
        titan.litmus("PTX broken\n{\n")


@pytest.mark.heavy
def test_a_package(tmp_path: Path):
    made = titan.build(ROOT / "protocols" / "tiles" / "gemm.yaml", tmp_path, compile=False)
    assert made.folder.is_dir() and made.finding.verdict is Verdict.VERIFIED
    assert titan.verify(made.pipeline).verified
    assert "BUILT gemm" in str(made) and "BUILT gemm" in made._repr_html_()


def test_a_tile_program_that_is_none(tmp_path: Path):
    with pytest.raises(titan.InputError, match="TTN007"):
        titan.build("titan: 1\ntile: x\n", tmp_path)


def test_importing_costs_little():
    """No engine, solver or parser is loaded before it is asked for."""
    code = "import sys, titan; print(*sorted(m for m in sys.modules if m.partition('.')[0] in %r))"
    heavy = {"z3", "ruamel", "numpy", "click", "rich", "networkx", "pysmt"}
    ran = subprocess.run([sys.executable, "-c", code % heavy], capture_output=True, text=True,
                         check=True)  # fmt: skip
    assert ran.stdout.strip() == ""


def test_examples_of_the_document_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    text = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 3
    monkeypatch.chdir(ROOT)
    for block in blocks:
        if "# not run" not in block:
            exec(compile(block, "python.md", "exec"), {})


LOOP = ROOT / "protocols" / "loops" / "gemm_hopper.yaml"
TILE = ROOT / "protocols" / "tiles" / "copy.yaml"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda _: titan.verify(RING, engine="z3"), "engine is auto or explore or order"),
        (lambda _: titan.verify(RING, require="Any"), "require is any or bounded, not 'Any'"),
        (lambda _: titan.verify(RING, states_max=0), "states_max is at least 1, not 0"),
        (lambda _: titan.verify(RING, sizes={"depth": "2"}), "the size depth is an integer"),
        (lambda _: titan.verify(RING, sizes={"depth": 2.0}), "the size depth is an integer"),
        (lambda _: titan.verify(RING, sizes={"depth": []}), "the size depth is an integer"),
        (lambda _: titan.verify(RING, sizes={"depth": True}), "the size depth is an integer"),
        (lambda _: titan.verify(RING, sizes={"depth": [2, True]}), "the size depth is an integer"),
        (lambda _: titan.schedule(LOOP, solver="x"), "solver is auto or rau"),
        (lambda _: titan.schedule(LOOP, objective="x"), "objective is ii or length"),
        (lambda _: titan.schedule(LOOP, budget_seconds=float("nan")), "a number above 0, not nan"),
        (lambda _: titan.schedule(LOOP, budget_seconds=-1), "a number above 0, not -1"),
        (lambda out: titan.build(TILE, out, require="Any"), "require is any or bounded"),
        (lambda out: titan.build(TILE, out, solver="x"), "solver is auto or rau"),
        (lambda _: titan.litmus(SB, solver="yices"), "solver is z3 or cvc5"),
        (lambda _: titan.verify_ptx("", sweep="no"), "sweep is True or False, not 'no'"),
        (lambda _: titan.schedule(LOOP, proofs=1), "proofs is True or False, not 1"),
        (lambda out: titan.build(TILE, out, compile="no"), "compile is True or False, not 'no'"),
    ],
)
def test_words_and_numbers_that_no_option_has(call, said, tmp_path):
    with pytest.raises(ValueError, match=said):
        call(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_integers_of_numpy_are_sizes():
    numpy = pytest.importorskip("numpy")
    found = titan.verify(RING, sizes={"depth": numpy.int64(3)})
    assert dict(found[0].coverage.sizes)["depth"] == 3


def test_several_threads():
    """Solvers share their state: calls go one after the other, and all give the same."""
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(titan.verify, [RING, EARLY] * 4))
    verdicts = [one.verdict for one in found]
    assert verdicts == [Verdict.VERIFIED, Verdict.REFUTED] * 4
