"""The suite as it is started on a device: real child processes, a GPU that computes nothing.

A folder stands in for the machine: `cupy` is the fake of `fake_gpu.py`, libcuda.so.1 that of
`fake_driver.c`. Every kernel leaves its outputs as they were, so every package is wrong; what is
shown is that each job of the runner gets as far as the comparison, with no package but NumPy.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.device import fake_gpu
from titan.codegen.pipeline.build import BuildLimits
from titan.codegen.tile.load import load_tile
from titan.foundation.resources import root
from titan.litmus.render.files import render_all, write_all
from titan.package import ablation
from titan.package.produce import produce

pytestmark = pytest.mark.skipif(
    fake_gpu.include() is None or shutil.which("gcc") is None, reason="no cuda.h, or no gcc"
)
TILE = root("protocols") / "tiles" / "gemm_small_tiles.yaml"
REPOSITORY = root("protocols").parent


# What the machine does not have; Python reads this file when it starts.
BARE = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {
            "cffi", "click", "cvc5", "jinja2", "networkx", "ortools", "pysat", "pysmt",
            "rich", "ruamel", "torch", "yaml", "z3",
        }:
            raise ImportError(f"{name} is not on this machine")

sys.meta_path.insert(0, Absent())
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """The environment of a machine with the fake device."""
    folder = tmp_path_factory.mktemp("machine")
    fake_gpu.build(folder)
    (folder / "libcuda.so").rename(folder / "libcuda.so.1")
    text = Path(fake_gpu.__file__).read_text(encoding="utf-8")
    (folder / "sitecustomize.py").write_text(BARE)
    (folder / "cupy.py").write_text(f"{text}\n\nglobals().update(vars(cupy()))\n")
    return {
        **os.environ, "LD_LIBRARY_PATH": str(folder),
        "PYTHONPATH": os.pathsep.join([str(folder), str(REPOSITORY)]),
    }  # fmt: skip


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    (folder / "litmus").mkdir()
    names = ("SB", "MP+weak", "CoRR")
    files, _ = render_all([root("litmus") / "classic" / f"{n}.litmus" for n in names], "cuda")
    write_all(folder / "litmus", files)
    shutil.copytree(root("litmus") / "probes", folder / "probes")
    tile = load_tile(TILE)
    produce(tile, TILE.read_text(), folder / "packages", BuildLimits(), with_toolchain=False)
    ablation.prepare(
        [(tile, TILE.read_text())], folder / "variants", BuildLimits(),
        variants=ablation.VARIANTS[:1], with_toolchain=False,
    )  # fmt: skip
    return folder


def device(machine, folder, *words):
    return subprocess.run(
        [sys.executable, "-m", "titan.device", *map(str, words)],
        cwd=folder, env=machine, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def results(machine, prepared, tmp_path_factory):
    """Where the suite, run once, has put its results."""
    folder = tmp_path_factory.mktemp("results")
    ran = device(machine, folder, "suite", prepared, "--quick", "--root", folder)
    assert ran.returncode == 1, ran.stderr
    return folder


def test_the_facts(machine, tmp_path):
    ran = device(machine, tmp_path, "facts")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["name"] == "Fake H100"


def test_the_suite_gets_as_far_as_the_comparison(results, prepared):
    (result,) = (results / "benchmarks" / "results").glob("fake-h100/*.json")
    data = json.loads(result.read_text())
    rows = {row["variant"]: row for row in data["stress"]["rows"]}
    assert set(rows["safe"]["states"]) == {"wrong"}  # nothing was computed, but all was compared
    assert len(rows) == 6
    assert all("error" not in row["first"].lower() for row in rows.values())
    assert {row["state"] for row in data["bench"]["rows"]} == {"wrong"}
    assert {row["state"] for row in data["ablations"]["rows"]} == {"wrong"}
    assert data["cycles"]["rows"][0]["message"].startswith("0 cycles for")
    assert {row["state"] for row in data["probes"]["probes"]} <= {"answered", "no reading fits"}
    (litmus,) = (results / "litmus" / "results").glob("fake-h100/*.json")
    tests = json.loads(litmus.read_text())["tests"]
    assert {test["state"] for test in tests} == {"nothing observed"}
    assert len(tests) == 3
    assert result.with_suffix(".html").stat().st_size > 5000
    assert len(list((prepared / "compiled").glob("*.cubin"))) > 10


def test_a_finding_of_the_suite_is_replayed(machine, results, tmp_path):
    folder = sorted((results / "findings").iterdir())[0]
    names = {path.name for path in (folder / "binaries").iterdir()}
    assert "kernel.cubin" in names
    ran = device(machine, tmp_path, "replay", folder, "--times", "2")
    assert ran.returncode == 1, ran.stderr
    assert "seen again in 2 of 2" in ran.stdout
    assert "wrong" in ran.stdout
