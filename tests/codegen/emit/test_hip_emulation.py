"""Emitted HIP computes what its tile program means, however late copies land, on the CPU."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import numpy as np
import pytest

from tests.codegen.emit.hip_kernels import FORMS, HEADER, SOURCE, Made, form
from tests.sampling import sampled
from titan.codegen.tile.dtypes import rounded
from titan.codegen.tile.semantics import run
from titan.sync.expression import evaluate
from titan.validate.hip.run import MODES, KernelFault, LaunchRefused, emulate_hip

pytestmark = pytest.mark.skipif(
    shutil.which("g++") is None and shutil.which("c++") is None, reason="no C++ compiler"
)

# Relative to the largest number of the output: sums in f32 in another order, one rounding.
TOLERANCE = {"f32": 1e-5, "bf16": 1e-2, "f16": 2e-3, "e4m3": 0.1}
SIZES = [
    {"M": 200, "N": 144, "K": 64},
    {"M": 33, "N": 80, "K": 16},  # fewer tiles than stages
    {"M": 1, "N": 48, "K": 208},
    {"M": 130, "N": 16, "K": 112},
]


def launches(made: Made, sizes: dict[str, int], seed: int = 0) -> Iterator[tuple[str, float]]:
    """How far every output is from what is meant, for each mode of landing."""
    parameters = {item.name: sizes[item.name] for item in made.tile.parameters}
    random = np.random.default_rng(seed)
    inputs = {}
    for tensor in made.tile.tensors:
        shape = [evaluate(extent, parameters) for extent in tensor.shape]
        if not tensor.output:
            inputs[tensor.name] = rounded(random.standard_normal(shape), tensor.dtype)
    meant = run(made.tile, inputs, parameters)
    for mode in MODES:
        found = emulate_hip(
            made.emitted.files, made.emitted.manifest, inputs, parameters, seed, mode
        )
        for tensor in made.tile.tensors:
            if tensor.output:
                far = np.abs(found[tensor.name] - meant[tensor.name]).max()
                scale = max(float(np.abs(meant[tensor.name]).max()), 1e-3)
                yield tensor.dtype, float(far) / scale


@pytest.mark.parametrize("name", sampled(FORMS, every=3))
@pytest.mark.parametrize("sizes", SIZES, ids=lambda sizes: "x".join(map(str, sizes.values())))
def test_what_is_computed_is_what_is_meant(name: str, sizes: dict[str, int]):
    results = list(launches(form(name), sizes))
    assert len(results) >= len(MODES)
    for dtype, far in results:
        assert far <= TOLERANCE[dtype]


def wrong(made: Made, sizes: dict[str, int] | None = None) -> bool:
    """Whether a fault shows: by a message, or in the numbers."""
    for seed in range(2):
        try:
            results = list(launches(made, sizes or {"M": 128, "N": 144, "K": 208}, seed))
        except KernelFault:
            return True
        if any(not far <= TOLERANCE[dtype] for dtype, far in results):
            return True
    return False


WAIT = "titan::wait_copies<16, 2>(titan::smaller(2, tiles - i_t - 1));"
BARRIER = "titan::workgroup_barrier();"
WAITED = f"{WAIT}\n        {BARRIER}"
PRODUCT, SWAPPED = "multiply<D, B>(first, second,", "multiply<D, B>(second, first,"
UNSWIZZLED = "place.partner(lane) / D::bytes, true,"
FOUR, TURNS, PASSING = (
    "gemm of 4 waves",
    "gemm of 8 waves that take turns",
    "gemm through registers",
)
FAULTS = [
    ("a wait is dropped", FOUR, SOURCE, WAIT, ""),
    ("a tile too many in flight", FOUR, SOURCE, "2>(titan::smaller(2,", "3>(titan::smaller(3, 1 +"),
    ("the barrier is dropped", FOUR, SOURCE, BARRIER, ""),
    ("the barrier before the wait", FOUR, SOURCE, WAITED, f"{BARRIER} {WAIT}"),
    ("reads are not waited for", FOUR, SOURCE, "titan::wait_shared();", "//"),
    ("a stage too far", FOUR, SOURCE, "(i_t + 4 - 1) % 4", "(i_t + 4) % 4"),
    ("no guard at the end", FOUR, SOURCE, "if (i_t + 4 - 1 < tiles)", "if (i_t >= 0)"),
    ("half of the waves are not behind", TURNS, SOURCE, "if (wave >= 4)", "if (wave >= 5)"),
    ("a permutation on one side", FOUR, HEADER, UNSWIZZLED, "place.byte / D::bytes, true,"),
    ("operands swapped", FOUR, HEADER, PRODUCT, SWAPPED),
    ("what instructions add is not taken off", FOUR, HEADER, "at.base - ADDED", "at.base"),
    ("the place of another copy", FOUR, HEADER, "(COPIES - 1 - i) * LANES", "(COPIES - 1) * LANES"),
    ("rows of another wave", FOUR, SOURCE, "part.row * 64, lane);", "0, lane);"),
    ("columns of another wave", FOUR, SOURCE, "part.column * 64, lane);", "0, lane);"),
    ("columns of a lane", FOUR, HEADER, "lane / B * 4 + i % 4", "lane / B * 8 + i % 4"),
    ("halves of a pair", FOUR, HEADER, "step / 2 * 16 * GROUPS", "step / 2 * 8 * GROUPS"),
    ("bounds of rows", FOUR, HEADER, "inside(at.row, row, at.rows)", "inside(0, row, at.rows)"),
    ("bounds of columns", FOUR, HEADER, "across ? place : END", "true ? place : END"),
    ("truncation", FOUR, HEADER, "0x7fffu + (bits >> 16 & 1u)", "0u"),
    ("a row across lanes", "row statistics", HEADER, "mask < LANES; mask", "mask < B; mask"),
    ("nothing comes to LDS", PASSING, HEADER, "LANES * BYTES || place.row < ROWS", "0 || false"),
    ("writes of LDS are not waited for", PASSING, SOURCE, "titan::wait_shared();", "//"),
]  # fmt: skip


@pytest.mark.parametrize("fault, name, file, old, new", sampled(FAULTS, every=8))
def test_a_planted_fault_shows(fault: str, name: str, file: str, old: str, new: str):
    sizes = {"M": 200, "N": 208, "K": 48} if fault.startswith("bounds") else None
    if fault.startswith("truncation"):
        made = form(name).edited(old, new, file)
        results = [far for _, far in launches(made, {"M": 128, "N": 128, "K": 16})]
        good = [far for _, far in launches(form(name), {"M": 128, "N": 128, "K": 16})]
        assert max(results) > 2 * max(good)
        return
    assert wrong(form(name).edited(old, new, file), sizes)


def test_without_a_fault_nothing_shows():
    assert not wrong(form("gemm of 4 waves"))
    assert not wrong(form("gemm of 8 waves that take turns"))


def test_a_launch_that_breaks_a_constraint_is_refused():
    with pytest.raises(LaunchRefused, match="% 2 == 0"):
        list(launches(form("gemm of 4 waves"), {"M": 8, "N": 8, "K": 7}))
