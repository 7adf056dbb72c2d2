"""The suite keeps to its budget, tells what it did not reach, and writes dated files."""

from __future__ import annotations

import json
import shutil
import sys
import time

import pytest

from titan.codegen.pipeline.build import BuildLimits
from titan.codegen.tile.load import load_tile
from titan.device import suite
from titan.device.__main__ import main, write_whole
from titan.device.stress import StressSettings, stress
from titan.foundation.resources import root
from titan.litmus.render.files import render_all, write_all
from titan.package import ablation
from titan.package.produce import produce

FACTS = {"name": "NVIDIA H100 80GB HBM3", "multiprocessors": 132, "clock_khz": 1_700_000}
CHILD = """
import json, sys
job = json.loads(sys.stdin.readline())
if job["kind"] == "compile":
    assert job["cache"]
    for task in job.get("tasks") or job["manifests"]:
        print(json.dumps({"kind": "compiled"}))
    sys.exit(0)
for path in job.get("manifests", []):
    manifest = json.load(open(path))
    histogram = [0] * (manifest["outcomes"]["incomplete_bucket"] + 1)
    histogram[0] = 100
    print(json.dumps({"kind": "counts", "histogram": histogram, "seconds": 0.1, "seed": 1,
                      "number": 0}), flush=True)
    print(json.dumps({"kind": "over", "error": "", "stop": False}), flush=True)
if job["kind"] == "probe":
    names = json.load(open(job["manifest"]))["counters"]
    print(json.dumps({"kind": "counters", "counters": dict.fromkeys(names, 0) | ANSWER}))
for sizes in job.get("sizes") or [case["sizes"] for case in job.get("cases", [])]:
    if job["kind"] == "check":
        print(json.dumps({"kind": "begin", "sizes": sizes}))
        bad = job.get("variant", "safe") != "safe"
        print(json.dumps({"kind": "run", "sizes": sizes, "state": "wrong" if bad else "correct",
                          "message": ""}))
    elif job["kind"] == "cycles":
        print(json.dumps({"kind": "cycles", "sizes": sizes, "span_cycles": 900 + 3 * sizes["K"]}))
    else:
        slow = "never" in job.get("folder", "")
        print(json.dumps({"kind": "time", "sizes": sizes, "median_seconds": 0.001 * (1 + slow)}))
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
    produce(tile, path.read_text(), folder / "packages", BuildLimits(), with_toolchain=False)
    wanted = (("product", "as built"), ("specialisation", "never"), ("depth", "2"))
    chosen = tuple(v for v in ablation.VARIANTS if (v.axis, v.setting) in wanted)
    ablation.prepare(
        [(tile, path.read_text())], folder / "variants", BuildLimits(), variants=chosen,
        with_toolchain=False,
    )  # fmt: skip
    return folder


def test_the_three_parts(prepared, tmp_path, monkeypatch):
    monkeypatch.setattr(suite, "QUICK_SECONDS", 3000)  # a budget that no busy machine uses up
    found = suite.run(prepared, FACTS, 3000, tmp_path / "log.jsonl", lambda text: None, **OPTIONS)
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
    files = [path for path in paths if path.suffix == ".json"]
    assert all(json.loads(path.read_text())["device"] == FACTS for path in files)
    assert json.loads(files[0].read_text())["probes"][0]["probe"] == "overwrite"
    pages = {path.stem + path.suffix: path.read_text() for path in paths if path not in files}
    assert any("Device suite" in html and "Variants" in html for html in pages.values())


def test_variants_stand_beside_the_product_and_fit_the_machine(prepared, tmp_path):
    found = suite.run(prepared, FACTS, 60, tmp_path / "log.jsonl", lambda text: None, **OPTIONS)
    rows = {(row["axis"], row["setting"]): row for row in found.ablations["rows"]}
    assert rows["product", "as built"]["against_product"] == 1.0
    assert rows["specialisation", "never"]["against_product"] == 0.5
    assert rows["depth", "2"]["fences"] == 1
    (machine,) = found.machines
    measured = {row["measured"] for row in machine["residuals"]}
    assert measured == {3 * 64.0}  # of the fake clock: 3 cycles for each number of K, 64 a turn
    assert found.cycles["rows"][0]["tail_cycles"] == 900
    assert set(found.shares) == set(suite.SHARES)


def test_all_that_is_run_is_compiled_ahead(prepared, tmp_path):
    tests = suite.litmus.manifests(prepared / "litmus")
    packages = [prepared / "packages" / "gemm_small_tiles-sm_90a"]
    until = time.monotonic() + 60
    made = suite.compile_all(tests, packages, None, tmp_path, until, OPTIONS)
    assert made == len(tests) + 1 + 5  # the safe kernel and its unsafe variants
    assert suite.compile_all(tests, packages, None, tmp_path, time.monotonic() - 1, OPTIONS) == 0


def test_what_the_budget_does_not_reach_is_told(prepared, tmp_path):
    found = suite.run(prepared, FACTS, 0, tmp_path / "log.jsonl", lambda text: None, **OPTIONS)
    assert found.left["litmus"] == ["classic-SB"] or len(found.left["litmus"]) == 1
    assert found.left["bench"] == ["gemm_small_tiles-sm_90a"]
    assert len(found.left["stress"]) == 6
    assert any("safe: 16 runs under quiet, storm" in text for text in found.left["stress"])
    assert len(found.left["ablations"]) == 3
    assert found.stress["runs"] == 0
    assert not found.bad


SLOW = CHILD.replace("ANSWER", '{"reads": 9}').replace(
    'for sizes in job.get("sizes")', 'import time; time.sleep(900)\nfor sizes in job.get("sizes")'
)


def test_a_child_that_is_under_way_ends_with_its_part(prepared, tmp_path):
    """Every child sleeps for longer than the whole time; nothing of that is called a hang."""
    begun = time.monotonic()
    options = {"command": (sys.executable, "-c", SLOW)}
    (prepared / "litmus").rename(prepared / "no-litmus")
    (prepared / "probes").rename(prepared / "no-probes")
    try:
        found = suite.run(prepared, FACTS, 4, tmp_path / "log", lambda text: None, **options)
    finally:
        (prepared / "no-litmus").rename(prepared / "litmus")
        (prepared / "no-probes").rename(prepared / "probes")
    assert time.monotonic() - begun < 600  # none was waited for
    assert found.stress["runs"] == 0
    rows = [*found.bench["rows"], *found.ablations["rows"]]
    assert {row["state"] for row in rows} <= {"not run"}  # none where no time was left at all
    assert not found.stress["safe_failures"]
    assert all(item["taken_seconds"] < 600 for item in found.shares.values())


def test_safe_kernels_come_before_unsafe_ones(prepared, tmp_path):
    folder = prepared / "packages" / "gemm_small_tiles-sm_90a"
    runs = list(stress([folder], StressSettings("gpu"), **OPTIONS))
    variants = [run.variant for run in runs]
    assert variants.index("safe") == 0
    assert "safe" not in variants[variants.count("safe") :]


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
