"""The suite keeps to its budget, tells what it did not reach, and writes dated files."""

from __future__ import annotations

import json
import shutil
import sys

import pytest

from titan.device import suite
from titan.device.__main__ import main, write_whole
from titan.memory.render.files import render_all, write_all
from titan.package.produce import produce
from titan.pipeline.build import Limits
from titan.resources import root
from titan.tile.load import load_tile

FACTS = {"name": "NVIDIA H100 80GB HBM3", "multiprocessors": 132, "clock_khz": 1_700_000}
CHILD = """
import json, sys
job = json.loads(sys.stdin.readline())
if job["kind"] == "litmus":
    manifest = json.load(open(job["manifest"]))
    histogram = [0] * (manifest["outcomes"]["incomplete_bucket"] + 1)
    histogram[0] = 100
    print(json.dumps({"kind": "counts", "histogram": histogram, "seconds": 0.1, "seed": 1}))
if job["kind"] == "probe":
    names = json.load(open(job["manifest"]))["counters"]
    print(json.dumps({"kind": "counters", "counters": dict.fromkeys(names, 0) | ANSWER}))
for sizes in job.get("sizes") or [case["sizes"] for case in job.get("cases", [])]:
    if job["kind"] == "check":
        print(json.dumps({"kind": "begin", "sizes": sizes}))
        bad = job.get("variant", "safe") != "safe"
        print(json.dumps({"kind": "run", "sizes": sizes, "state": "wrong" if bad else "correct",
                          "told": ""}))
    else:
        print(json.dumps({"kind": "time", "sizes": sizes, "median_seconds": 0.001}))
"""
OPTIONS = {"command": (sys.executable, "-c", CHILD.replace("ANSWER", '{"reads": 9}'))}
OPEN = {"command": (sys.executable, "-c", CHILD.replace("ANSWER", "{}"))}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    names = ("SB", "MP+weak")
    files, _ = render_all([root("litmus") / "classic" / f"{n}.litmus" for n in names], "cuda")
    (folder / "litmus").mkdir()
    write_all(folder / "litmus", files)
    (folder / "probes").mkdir()
    for name in ("overwrite.json", "overwrite.cu", "probe.cuh"):
        shutil.copy(root("litmus") / "probes" / name, folder / "probes")
    path = root("protocols") / "tiles" / "gemm_small_tiles.yaml"
    tile = load_tile(path)
    produce(tile, path.read_text(), folder / "packages", Limits(), with_toolchain=False)
    return folder


def test_the_three_parts(prepared, tmp_path):
    found = suite.run(prepared, FACTS, 60, tmp_path / "log.jsonl", lambda text: None, **OPTIONS)
    assert len(found.litmus["tests"]) == 2
    assert found.stress["safe_failures"] == []
    assert found.stress["unsafe_variants"] == found.stress["unsafe_seen_to_fail"] == 5
    assert {row["state"] for row in found.bench["rows"]} == {"timed"}
    assert not any(found.left.values())
    assert [row["answer"] for row in found.probes["probes"]] == ["never seen without a fence"]
    assert not found.bad
    levels = {name for row in found.stress["rows"] for name in row["policies"]}
    assert levels == set(suite.QUICK_LEVELS)
    paths = suite.save(found, tmp_path, write_whole)
    assert {path.parent.name for path in paths} == {"nvidia-h100-80gb-hbm3"}
    assert {path.parents[2].name for path in paths} == {"litmus", "benchmarks"}
    assert all(json.loads(path.read_text())["device"] == FACTS for path in paths)
    assert json.loads(paths[0].read_text())["probes"][0]["probe"] == "overwrite"


def test_what_the_budget_does_not_reach_is_told(prepared, tmp_path):
    found = suite.run(prepared, FACTS, 0, tmp_path / "log.jsonl", lambda text: None, **OPTIONS)
    assert found.left["litmus"] == ["classic-SB"] or len(found.left["litmus"]) == 1
    assert found.left["stress"] == found.left["bench"] == ["gemm_small_tiles-sm_90a"]


def test_a_probe_that_fits_no_reading_is_told(prepared, tmp_path):
    found = suite.run(prepared, FACTS, 0, tmp_path / "log.jsonl", lambda text: None, **OPEN)
    assert [row["state"] for row in found.probes["probes"]] == ["no reading fits"]
    assert found.bad


def test_without_a_device(prepared, capsys):
    if main(["suite", str(prepared)]) != 2:
        pytest.skip("there is a GPU")
    assert "no device" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "slug"), [("A/../b c", "a-b-c"), ("", "device")])
def test_a_device_gives_its_name_to_a_folder(name, slug):
    assert suite.slug(name) == slug
