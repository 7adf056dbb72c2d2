"""The program of benchmarks/bench_ring.py and its Promela twin mean the same, and stay small."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from titan.engines.explore.search import explore
from titan.foundation.verdict import Verdict

PATH = Path(__file__).resolve().parents[3] / "benchmarks" / "bench_ring.py"


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ring_benchmark", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("depth", "consumers"), [(4, 3), (4, 4), (5, 4), (6, 2), (4, 8)])
def test_the_verdict_is_for_every_number_of_tiles(
    bench: ModuleType, depth: int, consumers: int
) -> None:
    result = explore(bench.ring(depth, consumers))
    assert result.verdict is Verdict.VERIFIED
    assert "any number of tiles" in result.scope
    assert result.states < 20_000


def test_a_release_before_the_drain_is_refuted(bench: ModuleType) -> None:
    assert explore(bench.ring(2, 1, drained=False)).verdict is Verdict.REFUTED


@pytest.mark.skipif(shutil.which("spin") is None, reason="needs spin and gcc")
@pytest.mark.parametrize(("allowed", "errors"), [("1", 0), ("2", 1)])
def test_the_promela_twin(bench: ModuleType, tmp_path: Path, allowed: str, errors: int) -> None:
    text = bench.ring_promela(2, 1).replace("groups[c] <= 1;", f"groups[c] <= {allowed};")
    (tmp_path / "ring.pml").write_text(text)
    subprocess.run(["spin", "-a", "ring.pml"], cwd=tmp_path, check=True, capture_output=True)
    build = ["gcc", "-O1", "-DSAFETY", "-w", "-o", "pan", "pan.c"]
    subprocess.run(build, cwd=tmp_path, check=True)
    done = subprocess.run(["./pan", "-m10000"], cwd=tmp_path, capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert f"errors: {errors}" in done.stdout
