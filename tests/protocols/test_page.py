"""The table of docs/reference/library.md: written from the results, and true of the library."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from tests.sampling import WHOLE

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "library.md"
# These depend on the reductions and on the machine: how far the second engine gets in its time.
MEASURED = ("states", "seconds", "happens_before_sizes")


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    path = ROOT / "benchmarks" / "bench_library.py"
    spec = importlib.util.spec_from_file_location("library_benchmark", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_holds_the_results(bench: ModuleType) -> None:
    rows = json.loads(bench.RESULTS.read_text(encoding="utf-8"))["kernels"]
    text = PAGE.read_text(encoding="utf-8")
    assert text.split(bench.BEGIN)[1].split(bench.END)[0] == bench.table(rows)


def test_the_results_are_those_of_the_library(bench: ModuleType) -> None:
    """Of every third kernel, unless all tests run."""
    step = 1 if WHOLE else 3
    rows = json.loads(bench.RESULTS.read_text(encoding="utf-8"))["kernels"]
    kernels = bench.kernels()
    assert len(rows) == len(kernels)
    rows, found = rows[::step], [bench.measure(kernel, 1) for kernel in kernels[::step]]
    for row in (*rows, *found):
        assert row["verdict"] == "verified" and row["states"] > 0
        for name in MEASURED:
            del row[name]
    assert rows == json.loads(json.dumps(found))
