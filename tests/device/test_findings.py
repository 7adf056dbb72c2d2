"""Findings: whole or not at all, unchanged, and run again from their folder alone."""

from __future__ import annotations

import json
import os
import shutil
import sys

import pytest

from titan.cli.main import run as titan
from titan.codegen.pipeline.build import BuildLimits
from titan.codegen.tile.load import load_tile
from titan.device import findings, litmus
from titan.device.__main__ import main
from titan.device.findings import BadFinding, Keep, read, save
from titan.device.replay import replay
from titan.device.stress import StressSettings, stress
from titan.device.variants import variants
from titan.device.watchdog import Log
from titan.foundation.atomic import CannotWrite
from titan.foundation.resources import root
from titan.litmus.render.files import render_all, write_all
from titan.package.produce import produce

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
TILE = root("protocols") / "tiles" / "gemm_small_tiles.yaml"
DEVICE = {"name": "a GPU"}


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    folder = tmp_path_factory.mktemp("package")
    return produce(
        load_tile(TILE), TILE.read_text(), folder, BuildLimits(), with_toolchain=False
    ).folder


def one(folder):
    (found,) = [path for path in folder.iterdir() if not path.name.startswith(".")]
    return found


def test_a_finding_is_whole_and_tells_its_content(tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "kernel.cubin").write_bytes(b"machine code")
    made = save(tmp_path / "all", "stress", "A/b C", DEVICE, {"seed": 3}, {"k.cu": b"x"}, kept)
    assert made.name.split("-")[3:-1] == ["stress", "a", "b", "c"]
    record = read(made)
    assert (record["seed"], record["device"]) == (3, DEVICE)
    assert set(record["files"]) == {"sources/k.cu", "binaries/kernel.cubin"}
    again = save(tmp_path / "all", "stress", "A/b C", DEVICE, {"seed": 3}, {"k.cu": b"x"}, kept)
    assert again == made
    assert len(list((tmp_path / "all").iterdir())) == 1


def test_what_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CannotWrite, match="no space"):
        save(tmp_path / "all", "stress", "x", DEVICE, {}, {"k.cu": b"x"})
    assert list((tmp_path / "all").iterdir()) == []


def test_a_name_cannot_leave_the_folder(tmp_path):
    made = save(tmp_path / "all", "litmus", "../../x", DEVICE, {}, {"../../k.cu": b"x"})
    assert made.parent == tmp_path / "all"
    assert (made / "sources" / "k.cu").is_file()


def damaged(record):
    yield {**record, "titan": "2"}
    yield {**record, "of": "else"}
    yield {key: value for key, value in record.items() if key != "files"}
    yield {**record, "files": {"../x": "0"}}
    yield {**record, "files": {"sources/../../x": "0"}}
    yield {**record, "files": {"sources/missing": "0"}}
    yield []


def test_damaged_findings_are_refused(tmp_path, capsys):
    made = save(tmp_path, "stress", "x", DEVICE, {}, {"k.cu": b"x"})
    record = read(made)
    for other in damaged(record):
        (made / "finding.json").write_text(json.dumps(other))
        with pytest.raises(BadFinding):
            read(made)
    (made / "finding.json").write_text(json.dumps(record))
    with pytest.raises(BadFinding, match=r"lacks .(backend|sizes)"):
        list(replay(made, 1, 1.0))
    (made / "sources" / "k.cu").write_bytes(b"y")
    assert main(["replay", str(made)]) == 2
    assert "is not as it was written" in capsys.readouterr().err


# ------------------------------------------------------------------------------------- stress

FAILS = """
import json, pathlib, sys
job = json.loads(sys.stdin.readline())
if "keep" in job:
    pathlib.Path(job["keep"], "kernel.cubin").write_bytes(b"as it was loaded")
ready = "binaries" in job and pathlib.Path(job["binaries"], "kernel.cubin").read_text()
for case in job["cases"]:
    print(json.dumps({"kind": "begin", "sizes": case["sizes"]}), flush=True)
    bad = case["policy"] == "storm"
    told = f"C[0, 0] is 3, {ready or 'compiled'}"
    print(json.dumps({"kind": "run", "state": "wrong" if bad else "correct", "message": told,
                      "launch": {"grid": 7}}), flush=True)
"""
FAKE = {"command": (sys.executable, "-c", FAILS)}


def test_a_safe_kernel_that_fails_on_a_device_is_kept_and_run_again(package, tmp_path, capsys):
    keep = Keep(tmp_path / "findings", DEVICE)
    policies = ("quiet", "storm")
    runs = list(stress([package], StressSettings("gpu", [5], policies), keep=keep, **FAKE))
    bad = [run for run in runs if run.variant == "safe" and run.state == "wrong"]
    assert bad
    made = sorted((tmp_path / "findings").iterdir())
    assert len(made) == min(len(bad), findings.MOST)
    for folder in made:
        record = read(folder)
        assert (record["policy"], record["seed"], record["launch"]) == ("storm", 5, {"grid": 7})
        assert record["device"] == DEVICE
        assert (folder / "binaries" / "kernel.cubin").read_bytes() == b"as it was loaded"
        for name in ("kernel.cu", "titan_device.cuh", "manifest.json"):
            assert (folder / "sources" / name).read_bytes() == (package / name).read_bytes()
    again = list(replay(made[0], 3, 5.0, **FAKE))
    assert [seen for seen, _ in again] == [True] * 3
    assert all("as it was loaded" in told for _, told in again)
    fresh = list(replay(made[0], 1, 5.0, fresh=True, **FAKE))
    assert "compiled" in fresh[0][1]
    record = {**read(made[0]), "policy": "quiet"}
    (made[0] / "finding.json").write_text(json.dumps(record))
    assert [seen for seen, _ in replay(made[0], 1, 5.0, **FAKE)] == [False]


def test_a_run_goes_on_where_nothing_can_be_kept(package, tmp_path, capsys):
    (tmp_path / "findings").write_text("a file where the folder should be")
    keep = Keep(tmp_path / "findings", DEVICE)
    runs = list(stress([package], StressSettings("gpu", [5], ("storm",)), keep=keep, **FAKE))
    assert {run.state for run in runs} == {"wrong"}
    assert "cannot be kept" in capsys.readouterr().err


def test_unsafe_variants_are_no_findings(package, tmp_path):
    code = FAILS.replace('case["policy"] == "storm"', 'job["variant"] != "safe"')
    keep = Keep(tmp_path / "findings", DEVICE)
    command = (sys.executable, "-c", code)
    settings = StressSettings("gpu", policies=("quiet",))
    runs = list(stress([package], settings, keep=keep, command=command))
    assert any(run.state == "wrong" for run in runs)
    assert not (tmp_path / "findings").exists()


@needs_compiler
def test_a_finding_of_the_emulation_is_run_again(package, tmp_path, monkeypatch, capsys):
    broken = tmp_path / "broken"
    shutil.copytree(package, broken)
    text = (broken / "kernel.cu").read_text()
    (broken / "kernel.cu").write_text(variants(text)["missing fence"])
    monkeypatch.chdir(tmp_path)
    command = ["stress", str(broken), "--backend", "emulated", "--seeds", "1", "--safe-only"]
    assert titan([*command, "--findings", "kept"]) == 1
    folder = sorted((tmp_path / "kept").iterdir())[0]
    assert ".entry" in (folder / "binaries" / "kernel.ptx").read_text()
    shutil.rmtree(broken)
    capsys.readouterr()
    assert main(["replay", str(folder), "--times", "2"]) == 1
    told = capsys.readouterr().out
    assert "without a proxy fence" in told
    assert "seen again in 2 of 2" in told
    source = folder / "sources" / "kernel.cu"
    source.write_text(text)  # the safe kernel does not show it
    record = json.loads((folder / "finding.json").read_text())
    record["files"]["sources/kernel.cu"] = __import__("hashlib").sha256(text.encode()).hexdigest()
    (folder / "finding.json").write_text(json.dumps(record))
    assert main(["replay", str(folder), "--times", "1"]) == 1  # the code that was kept does
    assert main(["replay", str(folder), "--times", "1", "--fresh"]) == 0


# ------------------------------------------------------------------------------------- litmus

FORBIDDEN = """
import json, pathlib, sys
job = json.loads(sys.stdin.readline())
manifest = json.load(open(job["manifest"]))
if "keep" in job:
    pathlib.Path(job["keep"], "test+1.cubin").write_bytes(b"code")
for number in [job["only"]] if "only" in job else range(3):
    histogram = [0] * (manifest["outcomes"]["incomplete_bucket"] + 1)
    histogram[0] = 5
    if number == 2:
        for bucket in range(manifest["outcomes"]["buckets"]):
            histogram[bucket] = 1
    print(json.dumps({"kind": "counts", "histogram": histogram, "seconds": 0.1, "number": number,
                      "seed": job["seed"] + number, "options": {"TITAN_LANES": 8}}))
"""


@pytest.fixture
def rendered(tmp_path):
    def make(name, language="cuda"):
        files, _ = render_all([root("litmus") / "classic" / f"{name}.litmus"], language)
        folder = tmp_path / "tests"
        folder.mkdir()
        write_all(folder, files)
        return litmus.manifests(folder)[0]

    return make


def test_a_forbidden_outcome_is_kept_with_its_batch_and_run_again(rendered, tmp_path):
    path = rendered("CoRR")
    options = {"command": (sys.executable, "-c", FORBIDDEN)}
    with Log(tmp_path / "log") as log:
        keep = Keep(tmp_path / "findings", DEVICE)
        row = litmus.run_test(path, litmus.RunSettings(0.1, 11), log, keep, **options)
    assert row.state == "finding"
    record = read(one(tmp_path / "findings"))
    assert [batch["number"] for batch in record["batches"]] == [2]
    assert record["batches"][0]["options"] == {"TITAN_LANES": 8}
    assert (record["seed"], record["batches"][0]["seed"]) == (11, 13)
    assert record["forbidden"]
    assert set(record["files"]) == {
        f"sources/{path.name}", f"sources/{path.stem}.cu", "binaries/test+1.cubin"
    }  # fmt: skip
    again = list(replay(one(tmp_path / "findings"), 2, 0.1, **options))
    assert [seen for seen, _ in again] == [True, True]
    assert "forbidden outcomes in" in again[0][1]


def test_what_the_model_allows_is_no_finding(rendered, tmp_path):
    code = FORBIDDEN.replace("number == 2", "False")
    with Log(tmp_path / "log") as log:
        keep = Keep(tmp_path / "findings", DEVICE)
        settings = litmus.RunSettings(0.1)
        command = (sys.executable, "-c", code)
        litmus.run_test(rendered("SB"), settings, log, keep, command=command)
    assert not (tmp_path / "findings").exists()


@needs_cc
def test_a_finding_of_the_cpu_is_run_again(rendered, tmp_path, capsys):
    """What this CPU shows is called forbidden in the manifest."""
    path = rendered("SB", "c11")
    manifest = json.loads(path.read_text())
    for reading in manifest["verdict"]["readings"]:
        reading["allowed"] = []
    path.write_text(json.dumps(manifest))
    command = ["litmus", str(path.parent), "--backend", "cpu", "--seconds", "0.05"]
    assert main([*command, "--findings", str(tmp_path / "findings")]) == 1
    folder = one(tmp_path / "findings")
    assert (folder / "binaries" / "test.so").stat().st_size > 1000
    shutil.rmtree(path.parent)
    assert main(["replay", str(folder), "--times", "1", "--seconds", "0.05"]) == 1
    assert "seen again in 1 of 1" in capsys.readouterr().out
