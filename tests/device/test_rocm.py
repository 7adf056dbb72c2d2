"""The runner on an AMD GPU that is this process: real children, real manifests, counted outcomes.

`fake_hip.cpp` has the functions of HIP and hipRTC with the types of their headers; it computes the
kernels of rendered source tests, so that what is tested is the whole way from a test to its row.
"""

from __future__ import annotations

import json
import os

import pytest

from tests.device import fake_rocm
from titan.codegen.pipeline.build import BuildLimits
from titan.codegen.tile.load import load_tile
from titan.device import bench, driver, hip_driver, hooks, litmus, rocm, stress
from titan.device.findings import Keep
from titan.device.litmus import RunSettings
from titan.device.litmus_plan import LitmusPlan
from titan.device.platforms import runs_on, target_here
from titan.device.replay import replay
from titan.foundation.resources import root
from titan.litmus.render.files import render_all, write_all
from titan.package.produce import produce

pytestmark = pytest.mark.skipif(not fake_rocm.AVAILABLE, reason="no g++")
REPOSITORY = root("litmus").parent
NAMES = ("message+ra@xcds", "MP+ra.system@xcds")
SMALL = RunSettings(0.001, scale=0.001, most=1)
ABSENT = "import sys\nsys.modules['cupy'] = None\n"  # what makes an import of CuPy fail


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """The environment of a machine with ROCm, NumPy and nothing else, for children of this one."""
    folder = fake_rocm.build(tmp_path_factory.mktemp("rocm"))
    (folder / "sitecustomize.py").write_text(ABSENT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_LIBRARY_PATH", str(folder))
        patch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(REPOSITORY)]))
        yield


@pytest.fixture(scope="module")
def tests(tmp_path_factory):
    """Rendered tests: of AMD source, of instructions, and one of PTX."""
    folder = tmp_path_factory.mktemp("tests")
    paths = [root("litmus") / "amdgpu" / f"{name}.litmus" for name in NAMES]
    paths += [root("litmus") / "cdna" / "dma+none.gfx950.litmus"]
    paths += [root("litmus") / "classic" / "SB.litmus"]
    files, refused = render_all(paths)
    assert not refused
    write_all(folder, files)
    return folder


@pytest.fixture(scope="module")
def rows(machine, tests):
    """The rows of one run, by test."""
    facts = litmus.machine("gpu")
    paths = litmus.manifests(tests, facts)
    found = list(litmus.run_tests(paths, SMALL))
    return {row["test"]: row for row in litmus.document(facts, found)["tests"]}


def changed(tests, folder, edit=lambda text: text, data=lambda manifest: None):
    """The manifest of the first message test with its source and itself edited."""
    (place,) = (path for path in tests.glob("*.json") if "message" in path.name)
    manifest = json.loads(place.read_text())
    data(manifest)
    source = place.parent / manifest["source"]
    (folder / source.name).write_text(edit(source.read_text()))
    (folder / place.name).write_text(json.dumps(manifest))
    return folder / place.name


def test_the_facts(machine):
    facts = litmus.machine("gpu")
    assert (facts["name"], facts["architecture"], facts["xcds"]) == ("Fake MI300X", "gfx942", 8)
    assert facts["multiprocessors"] == 304
    assert facts["warps_per_multiprocessor"] == 32


def test_without_a_driver_both_reasons_are_given(machine, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", "")
    with pytest.raises(litmus.NoMachine, match=r"CuPy.*ROCm"):
        litmus.machine("gpu")


def test_source_tests_are_run_and_their_outcomes_counted(rows):
    """Every instance is observed: it stood on the XCDs that the test asks for, and all came."""
    assert "SB" not in rows  # a test of PTX is not for this device
    for name in NAMES:
        row = rows[name]
        assert row["state"] in ("seen", "not seen"), (name, row.get("error"))
        assert row["instances"] == 16 and row["incomplete"] == 0, name
        assert row["outcomes"] and all(o["state"] == "allowed" for o in row["outcomes"]), name
    assert max(len(rows[name]["outcomes"]) for name in NAMES) > 1  # threads do interleave


def test_a_test_of_another_device_is_not_run(rows):
    row = rows["dma+none"]
    assert row["state"] == "not run"
    assert "built for gfx950; this device is gfx942" in row["error"]


def test_instances_on_the_wrong_xcds_are_no_observations(machine, tests, tmp_path):
    """Where work-groups land on one XCD, tests over several of them count nothing."""
    path = changed(tests, tmp_path, lambda text: "#define FAKE_XCDS 1\n" + text)
    (row,) = litmus.run_tests([path], SMALL)
    assert row.state == "nothing observed"
    assert row.verdict is not None and row.verdict.incomplete == 16


@pytest.mark.heavy
@pytest.mark.long
def test_a_forbidden_outcome_is_a_finding_and_is_replayed(machine, tests, tmp_path):
    def allow_nothing(manifest):
        manifest["verdict"]["readings"][0]["allowed"] = []

    path = changed(tests, tmp_path, data=allow_nothing)
    keep = Keep(tmp_path / "findings", litmus.machine("gpu"))
    (row,) = litmus.run_tests([path], SMALL, keep=keep)
    assert row.state == "finding"
    (kept,) = (tmp_path / "findings").iterdir()
    ((again, _),) = replay(kept, 1, 0.001, False)
    assert again


def test_a_source_that_does_not_compile_is_reported(machine, tests, tmp_path):
    path = changed(tests, tmp_path, lambda text: "#error no kernel")
    (row,) = litmus.run_tests([path], SMALL)
    assert row.state == "failed" and "no kernel" in row.error


@pytest.mark.parametrize(
    ("architecture", "units", "xcds"),
    [("gfx942", 304, 8), ("gfx942", 228, 6), ("gfx942", 38, 1), ("gfx950", 256, 8),
     ("gfx90a", 104, 1)],
)  # fmt: skip
def test_xcds_follow_from_compute_units(architecture, units, xcds):
    assert rocm.xcds_of(architecture, units) == xcds


@pytest.mark.parametrize("xcds", [1, 2, 3, 8])
@pytest.mark.parametrize("name", ["IRIW+ra.agent@xcds", "MP+ra.agent@agent", "SB+sc.agent@xcds"])
def test_a_launch_has_a_place_for_every_instance_and_few_more(name, xcds):
    """The kernel's arithmetic of rows and columns, again in Python."""
    files, _ = render_all([root("litmus") / "amdgpu" / f"{name}.litmus"])
    manifest = json.loads(next(text for file, text in files.items() if file.endswith(".json")))
    options = {key: value["default"] for key, value in manifest["options"].items()}
    plan = LitmusPlan.of(manifest, options, 0.01, xcds)
    (_, groups, threads) = plan.launches()[1]
    assert threads == 64 * manifest["launch"]["warps_per_group"]
    taken = manifest["launch"]["clusters_per_instance"]
    each = manifest["launch"]["ctas_per_instance"] // taken
    here = max(xcds, taken)
    side = here // taken
    places = set()
    for group in range(groups):
        column, row = group % here, group // here
        if column < side * taken:
            instance = row // each * side + column // taken
            places.add((instance, column % taken * each + row % each))
            assert xcds < taken or group % xcds == column  # it lands on the XCD of its column
    wanted = {(n, cta) for n in range(plan.instances) for cta in range(taken * each)}
    assert wanted <= places
    assert groups <= here * each * (plan.instances // side + 1)


@pytest.mark.heavy
def test_a_package_gets_as_far_as_the_comparison(machine, tmp_path):
    """Its kernel has matrix instructions and does nothing here: all outputs stay as they were."""
    place = root("protocols") / "tiles" / "gemm_small_tiles_gfx942.yaml"
    produce(load_tile(place), place.read_text(), tmp_path, BuildLimits(), with_toolchain=False)
    (folder,) = (path.parent for path in tmp_path.glob("*/manifest.json"))
    settings = stress.StressSettings("gpu", unsafe=False, seconds=60.0)
    runs = list(stress.stress([folder], settings))
    assert {(run.policy, run.state) for run in runs} == {("quiet", "wrong")}
    facts = litmus.machine("gpu")
    (row,) = bench.bench([folder], facts, bench.BenchSettings(launches=2))
    assert row.state == "wrong"


def test_types_are_those_of_the_table():
    """HIP's functions by CUDA's names take as many arguments as CUDA's."""
    for cuda, hip in hip_driver.SAME.items():
        assert len(driver.FUNCTIONS[cuda]) == len(hip_driver.FUNCTIONS[hip]), (cuda, hip)


def test_what_runs_where():
    amd, nvidia = {"architecture": "gfx942"}, {"compute_capability": "9.0"}
    assert runs_on("gfx942", amd) and not runs_on("sm_90a", amd)
    assert runs_on("sm_90a", nvidia) and not runs_on("gfx942", nvidia)
    assert target_here({"target": "sm_90a"}) == "sm_90a"
    assert [level.name for level in hooks.levels({"target": "gfx942"})] == ["quiet"]
