"""Arithmetic on two columns at once for sm_100a: numbers on the emulated device, and both ways of a
correction that data decide."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.codegen.pipeline.written import blackwell as construct
from tests.device.compared import needs_toolchain, outputs
from titan.codegen.emit.packed import packed, unless_one
from titan.codegen.emit.register_array import RegisterArray
from titan.codegen.emit.statements import (
    SpelledCall,
    SpelledElementwise,
    SpelledFetch,
    SpelledPacked,
    SpelledPut,
    SpelledUnlessOne,
)
from titan.codegen.emit.write import emit
from titan.codegen.pipeline.build import decoded
from titan.codegen.pipeline.model import Shape
from titan.codegen.tile.load import parse_tile
from titan.codegen.tile.outputs import furthest, sample_inputs
from titan.codegen.tile.semantics import run
from titan.foundation.resources import root
from titan.isa.numbers.device import EmulatedDevice, LaunchShape
from titan.validate.compare.compile import ptx_of

TEXT = (root("protocols") / "tiles" / "attention_forward_64_sm_100a.yaml").read_text("utf-8")
SIZES = {"heads": 1, "queries": 130, "keys": 400}
EXPONENTIALS = """
#include "titan_device.cuh"
extern "C" __global__ void exponentials(const float* x, float* y) {
  const int i = 2 * threadIdx.x;
  titan::exp2_both(x[i], x[i + 1], y[i], y[i + 1]);
}
"""


def emitted(text=TEXT):
    tile = parse_tile(text)
    kernel, program = decoded(construct(tile, Shape("", 2), {}, 1))
    return tile, emit(tile, kernel, program)


def exponentials(x):
    """2 to the x by the polynomial, on the emulated device."""
    needs_toolchain("sm_100a")
    _, made = emitted()
    header = {name: text for name, text in made.files.items() if name != "kernel.cu"}
    ptx = ptx_of({"kernel.cu": EXPONENTIALS, **header}, "sm_100a")
    device = EmulatedDevice()
    given, found = device.array(x), device.array(np.zeros_like(x))
    device.launch(ptx, LaunchShape((1, 1, 1), (len(x) // 2, 1, 1)), [given, found])
    return found.values


def test_the_polynomial_is_as_near_as_its_comment_says():
    x = np.random.default_rng(0).uniform(-125, 9, 512).astype(np.float32)
    x[:64] = np.linspace(-2, 2, 64)
    exact = np.exp2(x.astype(np.float64))
    error = np.abs(exponentials(x) / exact - 1).max()
    assert 2**-14 < error <= 2**-13.5  # a smaller one would be the other unit's


def test_integers_are_exact_and_what_is_small_is_nothing():
    x = np.array([0, 1, -1, 8, -100, -126, -np.inf, -1e30], np.float32)
    found = exponentials(x)
    assert found.tolist() == [1, 2, 0.5, 256, 2.0**-100, 2.0**-126, 0, 0]
    small = exponentials(np.linspace(-140, -126.01, 64).astype(np.float32))
    assert (small >= 0).all() and (small <= 2.0**-126).all()


def test_a_number_that_is_none_does_not_vanish():
    found = exponentials(np.array([np.nan, 0.0], np.float32))
    assert not found[0] < 3e38 and found[1] == 1


def rising(tile, warps=(1, 4)):
    """Inputs of which some warps' rows meet much larger scores in later tiles; the others not."""
    inputs = sample_inputs(tile, SIZES, 3)
    inputs["K"][:, 128:256] *= 4
    inputs["K"][:, 256:] *= 16
    for warp in range(5):
        if warp not in warps:
            inputs["Q"][:, 32 * warp : 32 * warp + 32] /= 64
    return inputs


def wrong(tile, files, manifest, inputs, policy="shuffled"):
    got = outputs(manifest, files, SIZES, inputs, policy=policy)
    found = furthest(tile, got, run(tile, inputs, dict(tile.sizes) | SIZES))
    return "" if found.same else found.describe()


@pytest.mark.parametrize("policy", ["shuffled", "starved", "ahead"])
def test_rows_whose_maximum_grows_are_corrected_and_the_others_left(policy):
    tile, made = emitted()
    inputs = rising(tile)
    assert wrong(tile, made.files, made.manifest, inputs, policy) == ""


SHUFFLED = "__shfl_sync(~0u, titan_changes, 0)"
FAULTS = {
    "never": (r"any_of_warp\(titan_changes\)", "any_of_warp(false)"),
    "one lane decides": (
        r"titan::any_of_warp\(titan_changes\)",
        SHUFFLED,
    ),
    "half of the rows": (
        r"titan_changes \|= (.*);",
        r"titan_changes |= titan_lane % 16 < 8 && \1;",
    ),
    "half of the columns": (r"titan::tensor_memory_put_rows<64, 32, 32>[^;]*;", ""),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_correction_shows(name):
    tile, made = emitted()
    pattern, replacement = FAULTS[name]
    text, count = re.subn(pattern, replacement, made.files["kernel.cu"])
    assert count
    inputs = rising(tile)
    # What is looked at does not change: rows of the first lanes of each half, of the first lane.
    seen = {"half of the rows": (16, 8), "one lane decides": (32, 1)}.get(name, (1, 0))
    inputs["Q"][:, [row for row in range(130) if row % seen[0] < seen[1]]] /= 64
    assert wrong(tile, {**made.files, "kernel.cu": text}, made.manifest, inputs) != ""


def test_small_scores_are_not_corrected_at_all():
    tile, made = emitted()
    text = made.files["kernel.cu"].replace("any_of_warp(titan_changes)", "any_of_warp(false)")
    assert wrong(tile, {**made.files, "kernel.cu": text}, made.manifest, rising(tile, ())) == ""


# --------------------------------------------------------------------------- statements

FLOATS = RegisterArray("v", "float", "f32", 2, 128, 0, 2, 64, "s", "0", 16)
ROWS = replace(FLOATS, name="r", form="row", columns=1, value="top")
OTHER = replace(FLOATS, name="w", value="other")
SCALE = SpelledElementwise("scale", FLOATS, (FLOATS,), "0.5f")
SUBTRACT = SpelledElementwise("subtract", FLOATS, (FLOATS, ROWS))


def functions(statements):
    return [getattr(one, "function", one.kind) for one in packed(statements, {})]


def test_a_scale_and_the_subtraction_behind_it_are_one():
    between = SpelledElementwise("scale", ROWS, (ROWS,), "0.5f")
    assert functions([SCALE, SUBTRACT]) == ["scale_subtract"]
    assert functions([SCALE, between, SUBTRACT]) == ["scale", "scale_subtract"]


@pytest.mark.parametrize(
    "between",
    [
        SpelledElementwise("add", OTHER, (OTHER, FLOATS)),
        SpelledElementwise("add", FLOATS, (FLOATS, OTHER)),
        SpelledPut(FLOATS, "0"),
        SpelledUnlessOne(ROWS, ()),
        SpelledUnlessOne(ROWS, (SpelledCall("nothing"),)),
    ],
)
def test_what_reads_the_scaled_value_in_between_keeps_them_apart(between):
    made = functions([SCALE, between, SUBTRACT])
    alone = isinstance(between, SpelledUnlessOne) and not between.body
    assert ("scale_subtract" in made) == alone


def test_only_what_goes_back_where_it_came_from_is_left_out():
    fetch = SpelledFetch(FLOATS, "a")
    multiply = SpelledElementwise("multiply", FLOATS, (FLOATS, ROWS))
    wait, after = SpelledCall("tensor_put_wait"), SpelledCall("tensor_fence_after")
    before = SpelledCall("tensor_fence_before")
    good = [after, fetch, multiply, SpelledPut(FLOATS, "a"), wait, before]
    assert unless_one(good) == [SpelledUnlessOne(ROWS, tuple(good))]
    assert unless_one([before, *good, wait]) == [before, SpelledUnlessOne(ROWS, tuple(good)), wait]
    for number, bad in (
        (0, before),
        (2, SpelledElementwise("add", FLOATS, (FLOATS, ROWS))),
        (2, SpelledElementwise("multiply", FLOATS, (FLOATS, OTHER))),
        (2, SpelledElementwise("multiply", OTHER, (FLOATS, ROWS))),
        (3, SpelledPut(FLOATS, "b")),
        (3, SpelledPut(OTHER, "a")),
        (4, before),
        (5, after),
    ):
        changed = [*good[:number], bad, *good[number + 1 :]]
        assert unless_one(changed) == changed


def test_pairs_are_computed_by_the_share_that_is_asked_for():
    exp2 = SpelledElementwise("exp2", FLOATS, (FLOATS,))
    assert packed([exp2], {}) == [exp2]
    (made,) = packed([exp2], {"s": 5})
    assert isinstance(made, SpelledPacked) and (made.share, made.shares) == (5, 16)
    for share in range(17):
        taken = [j for j in range(32) if j % 16 * share % 16 < share]
        assert len(taken) == 2 * share
