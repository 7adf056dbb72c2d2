"""GEMMs on AMD of waves alone on their SIMDs: sums in accumulation registers, reads amid products.

Their loops against those of the peers in docs/reference/sass.md, in instructions for 8192
multiply-adds; and that numbers rest on each part of the product.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.codegen.emit.hip_kernels import HEADER, Made, form, make, needs_clang, shape
from tests.codegen.emit.test_gcn_numbers import code_of, furthest
from tests.codegen.pipeline.cdna_programs import gemm
from titan.codegen.emit.hip_values import values_of
from titan.codegen.tile.load import load_tile
from titan.codegen.tile.rates import rates
from titan.codegen.tile.roofline import operand_bytes
from titan.codegen.tile.wave_split import accumulators, alone_on_simd, wave_split
from titan.foundation.resources import root
from titan.inspect.counts import count
from titan.inspect.machine import of_compiled
from titan.validate.hip.run import KernelFault

ALONE, ALONE_950 = "gemm of waves alone", "gemm of waves alone on gfx950"
BEST_OF_PEERS = {"gfx942": 2.4, "gfx950": 1.7}  # Composable Kernel, aiter


def test_sums_of_a_lane_decide():
    large = gemm(rows=256, columns=256, k_tile=32)
    assert accumulators(large) == 256 and alone_on_simd(large)
    assert values_of(large).alone == "acc_next"
    for other in (
        gemm(),
        gemm(rows=256, columns=256, k_tile=32, groups=8),  # 128 registers a lane
        load_tile(root("protocols") / "tiles" / "attention_forward_gfx942.yaml", target="gfx942"),
    ):
        assert not alone_on_simd(other) and values_of(other).alone is None


@pytest.mark.parametrize(("sizes", "parts", "block"), [
    ({"rows": 256, "columns": 256, "k_tile": 32}, (2, 2), 32),
    ({"rows": 256, "columns": 128, "groups": 8}, (4, 2), 32),
    ({"rows": 64, "columns": 64, "k_tile": 32}, (2, 2), 32),
])  # fmt: skip
def test_reads_of_lds_are_those_of_the_split(sizes, parts, block):
    """Each wave reads the rows of both operands for its part, and no others."""
    tile = gemm(**sizes)
    split = wave_split(tile)
    assert split is not None and (split.parts, split.block) == (parts, block)
    product = next(item for item in tile.body if item.kind == "mma")
    down, right = parts
    rows = tile.groups * (product.value.rows // down + product.value.columns // right)
    k_tile = next(item for item in tile.body if item.kind == "load").value.columns
    assert operand_bytes(tile, product, rates("gfx942")) == rows * k_tile * 2


@needs_clang
@pytest.mark.parametrize("name", [ALONE, ALONE_950])
def test_it_has_no_spills_and_no_more_instructions_than_the_best_peer(name):
    made = form(name)
    assert made.faults() == []
    compiled = made.compiled()
    assert compiled.figures.spill_bytes == 0 and compiled.figures.registers <= 512
    (main,) = (count(function).main for function in of_compiled(compiled))
    assert main is not None
    k_tile = made.tile.body[0].value.columns
    units = 128 * 128 * k_tile / 8192  # of a wave
    assert main.usual / units <= BEST_OF_PEERS[made.tile.target]


def in_vain(made: Made, old: str, new: str) -> bool:
    """Whether an edit of the header leaves the numbers as they are meant."""
    edited = made.edited(old, new, HEADER)
    with suppress(KernelFault):
        return furthest(edited, code_of(edited)) <= 1
    return False


@needs_clang
def test_numbers_are_those_that_are_meant_and_rest_on_every_step():
    made = form(ALONE)
    assert furthest(made, code_of(made)) <= 1
    for old, new in (
        ("multiply_steps<D, STEP - 2, STEP>(sum, left, right);",
         "multiply_steps<D, STEP, STEP>(sum, left, right);"),
        ("multiply_steps<D, STEPS - 2, STEPS>(sum, left, right);",
         "multiply_steps<D, STEPS - 1, STEPS>(sum, left, right);"),
        ("read_step<D, RIGHT_COLUMNS, B, true>(right, right_tile, column, STEP, lane);",
         "read_step<D, RIGHT_COLUMNS, B, true>(right, right_tile, column + B, STEP, lane);"),
    ):  # fmt: skip
        assert not in_vain(made, old, new), old


@needs_clang
def test_reads_behind_their_wait_are_found():
    """Operands that are read when the barrier has been passed again."""
    made = form(ALONE_950)
    lines = made.emitted.files["kernel.hip.cpp"].splitlines()
    (product,) = (line for line in lines if "product_of_tiles" in line)
    (waited,) = (line for line in lines if "wait_shared()" in line)
    swapped = [
        waited if line == product else f"{waited}\n{product}" if line == waited else line
        for line in lines
    ]
    edited = made.edited("\n".join(lines), "\n".join(swapped))
    assert edited.mismatches()


def test_other_loops_are_not_written_so():
    assert "product_of_tiles" not in make(gemm(), shape(2)).emitted.files["kernel.hip.cpp"]
