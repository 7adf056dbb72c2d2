"""Stress: the safe kernel is correct in every run, every unsafe variant is seen to fail."""

from __future__ import annotations

import json
import shutil
import sys
import time
from dataclasses import replace
from functools import partial

import pytest

from titan.cli.main import run as titan
from titan.codegen.pipeline.build import BuildLimits
from titan.codegen.tile.load import load_tile
from titan.device.package_files import read_manifest
from titan.device.sizes import sizes_for, spread_cases, trips_of
from titan.device.stress import StressSettings, document, planned, stress
from titan.device.variants import (
    COUNTER_VARIANTS,
    SAFE,
    TENSOR_VARIANTS,
    VARIANTS,
    variants,
)
from titan.foundation.resources import root
from titan.package.produce import produce

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
TILE = root("protocols") / "tiles" / "gemm_small_tiles.yaml"


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    tile = replace(load_tile(TILE), depth=2)
    folder = tmp_path_factory.mktemp("package")
    return produce(tile, TILE.read_text(), folder, BuildLimits(), with_toolchain=False).folder


def source(package):
    return (package / "kernel.cu").read_text()


def test_every_variant_changes_the_kernel_and_says_so(package):
    made = variants(source(package))
    assert list(made) == [SAFE, *(variant.name for variant in VARIANTS)]
    assert made[SAFE] == source(package)
    assert all("UNSAFE on purpose" in made[variant.name] for variant in VARIANTS)
    assert len(set(made.values())) == len(made)


def test_sizes_below_at_and_beyond_the_depth_whole_and_ragged(package):
    manifest = json.loads((package / "manifest.json").read_text())
    sizes = sizes_for(manifest, 2)
    trips = {-(-size["K"] // 64) for size in sizes}
    assert trips == {1, 2, 3, 5}
    assert any(size["K"] % 64 for size in sizes)
    assert any(not size["K"] % 64 for size in sizes)


def test_few_runs_cover_all_policies_and_the_ends_of_the_sizes():
    """Every case once; of the first ones no two in a row are alike in size, policy or seed."""
    for seeds, count, policies in ((2, 8, 5), (1, 10, 5), (3, 4, 4), (2, 1, 5), (2, 9, 1)):
        sizes = [{"K": number} for number in range(count)]
        names = [f"policy {number}" for number in range(policies)]
        cases = spread_cases(range(seeds), sizes, names)
        every = {(case["sizes"]["K"], case["seed"], case["policy"]) for case in cases}
        assert len(cases) == len(every) == seeds * count * policies
        assert cases[0]["sizes"] == sizes[-1]
        front = cases[: seeds * policies]
        assert {case["policy"] for case in front} == set(names)
        assert {case["seed"] for case in front} == set(range(seeds))
        assert len({case["sizes"]["K"] for case in front}) >= min(count, policies)
    assert spread_cases([0], [], ["shuffled"]) == []


def test_a_limit_on_runs_is_counted(package):
    """What it leaves out, of all variants together; without one nothing is left out."""
    settings = StressSettings("emulated", seeds=(0, 1), runs=10)
    plan, whole = planned([package], settings), planned([package], replace(settings, runs=None))
    assert set(plan.runs.values()) == {10} and whole.left_out == 0
    assert plan.left_out == sum(whole.runs.values()) - sum(plan.runs.values()) > 0


@needs_compiler
def test_progress_is_a_line_for_each_variant_where_there_is_no_terminal(package, capfd):
    """On standard error, so that the document on standard output stays whole."""
    command = ["stress", str(package), "--backend", "emulated", "--seeds", "1", "--safe-only"]
    assert titan([*command, "--runs", "2", "--format", "json"]) == 0
    shown = capfd.readouterr()
    data = json.loads(shown.out)
    assert data["runs"] == 2 and data["left_out"] > 0
    assert shown.err.splitlines() == [
        f"variants: 1, runs: 2 of {2 + data['left_out']} (--runs)",
        "1 of 1: gemm_small_tiles depth 2, safe: 2 correct",
    ]


@needs_compiler
@pytest.mark.parametrize("form", ["text", "json"])
def test_an_interrupt_leaves_what_was_done(form, package, tmp_path, capfd, monkeypatch):
    """On standard error; nothing that would pass for a result."""
    from titan.cli.stress_progress import StressProgress

    whole, seen = StressProgress.add, []

    def interrupted(self, run):
        if len(seen) == 3:
            raise KeyboardInterrupt
        seen.append(run)
        whole(self, run)

    monkeypatch.setattr(StressProgress, "add", interrupted)
    result = tmp_path / "result.json"
    command = ["stress", str(package), "--backend", "emulated", "--seeds", "1", "--runs", "2"]
    assert titan([*command, "--format", form, "--result", str(result)]) == 130
    shown = capfd.readouterr()
    assert shown.out == "" and not result.exists()
    lines = shown.err.splitlines()
    states = [run.state for run in seen]
    assert states[:2] == ["correct", "correct"]
    broken = seen[2].variant
    name = f"gemm_small_tiles depth 2, {broken}: 1 {states[2]}"
    assert lines[1:4] == [
        "1 of 6: gemm_small_tiles depth 2, safe: 2 correct",
        "3 of 12 runs are done, 1 of 6 variants whole",
        "gemm_small_tiles depth 2, safe: 2 correct",
    ]
    assert lines[4].startswith(name)
    assert lines[5].startswith("3 runs; safe kernels failed 0 times")
    assert lines[6:] == ["interrupted"]


def synthetic(trip_count, work):
    return {
        "entry": "k", "parameters": [{"name": "M", "minimum": 1}], "constraints": [],
        "tensors": [{"name": "X", "dtype": "bf16", "shape": ["M", "64"], "output": False}],
        "arguments": [], "trip_count": trip_count,
        "launch": {"block": 128, "grid": "(M + 127) // 128", "dynamic_shared_bytes": 0},
        "program": {"work": work, "sizes": {"rows": 128}},
    }  # fmt: skip


def test_a_kernel_with_one_trip_count_is_run_all_the_same():
    sizes = sizes_for(synthetic("4", {}), 2)
    assert sizes == [{"M": 64}, {"M": 1}]


def test_trips_are_those_of_the_longest_item():
    manifest = synthetic("min((M + 127) // 128, i + 1)", {"i": "(M + rows - 1) // rows"})
    assert trips_of(manifest, {"M": 520}) == 5
    assert {trips_of(manifest, sizes) for sizes in sizes_for(manifest, 2)} == {1, 2, 3, 5}


@needs_compiler
def test_unsafe_variants_are_seen_to_fail_and_the_safe_one_never(package):
    settings = StressSettings("emulated", policies=("shuffled", "checked"))
    runs = list(stress([package], settings))
    data = document({"name": "this CPU"}, runs)
    assert data["safe_failures"] == []
    assert data["unsafe_variants"] == data["unsafe_seen_to_fail"] == len(VARIANTS)
    safe = next(row for row in data["rows"] if row["variant"] == SAFE)
    assert safe["states"] == {"correct": safe["runs"]}


@needs_compiler
def test_a_safe_kernel_that_fails_is_a_failure(package, tmp_path, capsys):
    """A package whose source was broken by hand."""
    broken = tmp_path / "broken"
    shutil.copytree(package, broken)
    text = (broken / "kernel.cu").read_text()
    (broken / "kernel.cu").write_text(variants(text)["missing fence"])
    command = ["stress", str(broken), "--backend", "emulated", "--seeds", "1", "--safe-only"]
    assert titan([*command, "--findings", str(tmp_path / "findings")]) == 1
    assert "without a proxy fence" in capsys.readouterr().out


def amd_package(folder, depth, target="gfx942", name="gemm_small_tiles_gfx942"):
    path = root("protocols") / "tiles" / f"{name}.yaml"
    tile = replace(load_tile(path, target=target), depth=depth)
    return produce(tile, path.read_text(), folder, BuildLimits(), with_toolchain=False).folder


@needs_compiler
def test_an_amd_package_runs_on_the_cpu(tmp_path):
    made = amd_package(tmp_path, 2)
    runs = list(stress([made], StressSettings("emulated", policies=("shuffled",), unsafe=False)))
    assert {run.state for run in runs} == {"correct"}


# With two stages a wait leaves no copy in flight, so that there is no tile too few to wait for.
COUNTED = [variant.name for variant in COUNTER_VARIANTS]
DRAINED = [name for name in COUNTED if name != "one tile too few"]


WITH_COUNTERS = pytest.mark.parametrize(
    ("name", "target", "depth", "names"),
    [
        ("gemm_small_tiles_gfx942", "gfx950", 3, COUNTED),
        ("row_sum_gfx942", "gfx942", 2, DRAINED),
    ],
)


@WITH_COUNTERS
def test_waits_for_copies_to_lds_have_their_variants(tmp_path, name, target, depth, names):
    made = amd_package(tmp_path, depth, target, name)
    assert list(variants((made / "kernel.hip.cpp").read_text())) == [SAFE, *names]


@pytest.mark.heavy
@pytest.mark.long
@needs_compiler
@WITH_COUNTERS
def test_unsafe_variants_with_wait_counters_are_seen_to_fail(tmp_path, name, target, depth, names):
    made = amd_package(tmp_path, depth, target, name)
    settings = StressSettings("emulated", policies=("shuffled", "starved"))
    data = document({"name": "this CPU"}, list(stress([made], settings)))
    assert data["safe_failures"] == [] and data["not_run"] == 0
    assert data["unsafe_variants"] == data["unsafe_seen_to_fail"] == len(names)


def test_a_wait_for_tiles_in_registers_is_no_variant(tmp_path):
    """The compiler waits for what it loads to registers, with our wait or without it."""
    made = amd_package(tmp_path, 2, name="gemm_gfx942")
    text = (made / "kernel.hip.cpp").read_text()
    assert "titan::loaded(" in text and "titan::wait_vector<0>" in text
    assert "missing wait" not in variants(text)


def test_a_long_launch_has_so_many_trips_by_one_size(package):
    manifest = json.loads((package / "manifest.json").read_text())
    plain, more = sizes_for(manifest, 2), sizes_for(manifest, 2, 1000)
    assert more[:-1] == plain and trips_of(manifest, more[-1]) == 1000
    assert sizes_for(synthetic("4", {}), 2, 1000) == sizes_for(synthetic("4", {}), 2)


@pytest.mark.heavy
@pytest.mark.long
@needs_compiler
@pytest.mark.parametrize("depth", [2, 3, 4, 5])
def test_parities_wrap_hundreds_of_times(tmp_path, depth):
    tile = replace(load_tile(TILE), depth=depth)
    made = produce(tile, TILE.read_text(), tmp_path, BuildLimits(), with_toolchain=False).folder
    settings = StressSettings(
        "emulated", policies=("starved",), unsafe=False, longest=1000, seconds=600.0
    )
    runs = list(stress([made], settings))
    assert max(run.trips for run in runs) == 1000
    assert {run.state for run in runs} == {"correct"}


@pytest.mark.heavy
@pytest.mark.long
@needs_compiler
def test_unsafe_variants_with_tensor_memory_are_seen_to_fail(tmp_path):
    path = root("protocols") / "tiles" / "gemm_sm_100a.yaml"
    tile = load_tile(path, target="sm_100a")
    made = produce(tile, path.read_text(), tmp_path, BuildLimits(), with_toolchain=False).folder
    names = set(variants((made / "kernel.cu").read_text()))
    assert {variant.name for variant in TENSOR_VARIANTS} < names
    data = document({"name": "this CPU"}, list(stress([made], StressSettings("emulated"))))
    assert data["safe_failures"] == [] and data["unsafe_variants"] == len(names) - 1
    assert data["unsafe_seen_to_fail"] == data["unsafe_variants"]


@needs_compiler
def test_what_does_not_compile_is_no_verdict(package, tmp_path, capsys):
    broken = tmp_path / "broken"
    shutil.copytree(package, broken)
    (broken / "kernel.cu").write_text(source(package) + "\n#include <no_such_header.h>\n")
    command = ["stress", str(broken), "--backend", "emulated", "--seeds", "1", "--safe-only"]
    assert titan([*command, "--findings", str(tmp_path / "findings")]) == 3
    out = capsys.readouterr().out
    assert "0 runs; safe kernels failed 0 times" in out
    assert "could not be run" in out
    assert "no_such_header" in out


def test_a_hang_takes_one_run_with_it(package):
    """A child that hangs in its second run; the ones behind it follow in a new child."""
    code = (
        "import json, sys, time\njob = json.loads(sys.stdin.readline())\n"
        "for n, case in enumerate(job['cases']):\n"
        "  print(json.dumps({'kind': 'begin', 'sizes': case['sizes']}), flush=True)\n"
        "  if n == 1: time.sleep(60)\n"
        "  print(json.dumps({'kind': 'run', 'state': 'correct', 'message': ''}), flush=True)\n"
    )
    runs = list(
        stress(
            [package],
            StressSettings("emulated", policies=("shuffled",), unsafe=False, seconds=0.7),
            command=(sys.executable, "-c", code),
        )
    )  # fmt: skip
    states = [run.state for run in runs]
    assert len(runs) == len(sizes_for(json.loads((package / "manifest.json").read_text()), 2))
    assert states.count("hung") == len(runs) // 2
    assert len({run.sizes for run in runs}) == len(runs)


def test_without_a_gpu_it_says_what_it_needs(package, capsys):
    if titan(["stress", str(package)]) != 2:
        pytest.skip("there is a GPU")
    assert "no device" in capsys.readouterr().err


OTHER = "import sys; sys.exit('a warning\\nOtherDevice: built for sm_90a; this one is 8.0')"


def test_no_run_at_all_is_no_success(package, capsys, monkeypatch):
    elsewhere = partial(stress, command=(sys.executable, "-c", OTHER))
    monkeypatch.setattr("titan.device.stress.stress", elsewhere)
    assert titan(["stress", str(package), "--backend", "emulated"]) == 3
    assert "0 runs; safe kernels failed 0 times" in capsys.readouterr().out


def test_packages_for_another_device_are_skipped_with_the_reason(package):
    runs = list(stress([package], StressSettings("gpu"), command=(sys.executable, "-c", OTHER)))
    data = document({"name": "another"}, runs)
    assert {(run.state, run.message) for run in runs} == {
        ("skipped", "built for sm_90a; this one is 8.0")
    }
    assert data["safe_failures"] == []
    assert data["runs"] == 0
    assert len(data["skipped"]) == 1 + len(VARIANTS)


def test_a_library_that_a_child_lacks_is_no_failure_of_the_kernel(package):
    code = """import sys; sys.exit("ModuleNotFoundError: No module named 'numpy'")"""
    runs = list(stress([package], StressSettings("gpu"), command=(sys.executable, "-c", code)))
    data = document({"name": "another"}, runs)
    assert {(run.state, run.message) for run in runs} == {("not run", "No module named 'numpy'")}
    assert data["safe_failures"] == [] and data["not_run"] == len(runs)


def test_a_short_time_goes_to_those_in_front():
    from titan.device.stress import LEAST_SECONDS, _Share

    share = _Share(2.5 * LEAST_SECONDS, 10, 1)
    begun = time.monotonic()
    first = share.next()
    assert first - begun == pytest.approx(LEAST_SECONDS, abs=0.1)
    assert _Share(100 * LEAST_SECONDS, 10, 2).next() - begun > 19 * LEAST_SECONDS
    assert _Share(None, 3, 1).next() is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "manifest.json:1:1: this is not JSON"),
        (b'{"kernel": 7,\n  oops}', "manifest.json:2:3: this is not JSON"),
        (b"\xef\xbb\xbf{}", "this is not JSON"),
        (b"\x80", "this is not JSON"),
        (b"[" * 99_999, "this is not JSON"),
        (b"[]", "this is no manifest of a package"),
        (b"{}", "the manifest lacks `arguments`"),
        (None, "manifest.json is not the file that certificate.json names"),
    ],
)
def test_a_manifest_that_was_changed_is_bad_input(text, said, package, tmp_path, capsys):
    folder = shutil.copytree(package, tmp_path / "p")
    manifest = folder / "manifest.json"
    manifest.write_bytes(manifest.read_bytes() + b"\n" if text is None else text)
    assert titan(["stress", "--backend", "emulated", "--safe-only", str(folder)]) == 2
    assert said in capsys.readouterr().err
    assert read_manifest(package)["kernel"] == "gemm_small_tiles"
