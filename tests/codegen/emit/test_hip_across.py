"""Operands that are read across a tile: transposed reads on gfx950, turned in registers on gfx942.

Numbers come from clang's assembly and from the source on the CPU; faults in the header are seen.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace

import pytest

from tests.codegen.emit.hip_kernels import HEADER, make, needs_clang, shape
from tests.sampling import sampled
from titan.codegen.emit.hip import SOURCE
from titan.codegen.emit.hip_operations import never_negative
from titan.codegen.emit.hip_values import values_of
from titan.codegen.tile.load import read_tile
from titan.codegen.tile.outputs import difference, sample_inputs
from titan.codegen.tile.semantics import run
from titan.foundation.resources import root
from titan.foundation.source.span import Source
from titan.sync.expression import parse_expression
from titan.validate.hip.gcn import assembled, emulate_gcn
from titan.validate.hip.run import KernelFault, emulate_hip

SIZES = {"heads": 1, "queries": 80, "keys": 72, "M": 200, "N": 136, "K": 80}
ATTENTION, DKV = "attention_forward_gfx942", "attention_backward_dkv_gfx942"
CAUSAL = "attention_forward_causal_64_gfx942"


def tile_of(name, target):
    text = (root("protocols") / "tiles" / f"{name}.yaml").read_text()
    return read_tile(Source("tile.yaml", text), target)


def furthest(made, engine):
    """The largest difference of an output, in units of what is tolerated."""
    manifest, files = made.emitted.manifest, made.emitted.files
    parameters = {item.name: SIZES[item.name] for item in made.tile.parameters}
    inputs = sample_inputs(made.tile, parameters, 5)
    if engine == "assembly":
        found = emulate_gcn(assembled(files, manifest), manifest, inputs, parameters)
    else:
        found = emulate_hip(files, manifest, inputs, parameters)
    meant = run(made.tile, inputs, parameters)
    return max(difference(made.tile, name, found[name], one).error for name, one in meant.items())


FORMS = [(name, target, engine) for name in (ATTENTION, CAUSAL, DKV)
         for target in ("gfx942", "gfx950") for engine in ("assembly", "source")]  # fmt: skip


@needs_clang
@pytest.mark.parametrize(("name", "target", "engine"), sampled(FORMS, every=2))
def test_the_numbers_are_right(name, target, engine):
    assert furthest(make(tile_of(name, target), shape(2)), engine) <= 1


@needs_clang
@pytest.mark.parametrize("name", [ATTENTION, CAUSAL, DKV])
def test_nothing_is_read_by_two_bytes(name):
    for target, wanted in (
        ("gfx942", r"ds_read\w*_b(32|64|128)"),
        ("gfx950", "ds_read_b64_tr_b16"),
    ):
        text = make(tile_of(name, target), shape(2)).compiled().text
        assert not re.search(r"ds_read_[ui](8|16)", text)
        assert re.search(wanted, text)


FAULTS = [
    ("gfx942", "BLOCKS * Block<B>::column(lane, 4 * run)", "Block<B>::column(lane, 4 * run)"),
    ("gfx942", "x.d[r][at_run % BLOCKS][", "x.d[r][at_run / 4 % BLOCKS]["),
    ("gfx942", "? lower_halves(low, high)", "? lower_halves(high, low)"),
    ("gfx942", "+ lane % B * BLOCKS)", "+ lane % B * 2)"),
    (
        "gfx942",
        "offset_in<D>(at, first + block * B + lane % B, column, true)",
        "offset_in<D>(at, first + block * B + lane / B, column, true)",
    ),
    (
        "gfx942",
        "if constexpr (PAIRED) out.d[block][step + 1] = u32x2{bits[2], bits[3]};",
        "if constexpr (PAIRED) out.d[block][step + 1] = u32x2{bits[0], bits[3]};",
    ),
    (
        "gfx942",
        "u32 first = static_cast<u32>(row) * at.row_bytes + further;",
        "u32 first = static_cast<u32>(row) * at.row_bytes + 0 * further;",
    ),
    ("gfx950", "lane % B / 16 * 16 + lane % 4 * 4", "lane % B / 16 * 16 + lane / 4 % 4 * 4"),
    ("gfx950", "/ D::bytes + lane % 16 / 4;", "/ D::bytes + lane % 16 % 4;"),
    ("gfx950", "first + block * B + lane % B / 16 * 16", "first + block * B"),
]


@needs_clang
@pytest.mark.parametrize("engine", ["assembly", "source"])
@pytest.mark.parametrize(("target", "old", "new"), sampled(FAULTS, every=3))
def test_a_fault_in_the_header_shows(target, old, new, engine):
    made = make(tile_of(ATTENTION, target), shape(2)).edited(old, new, HEADER)
    with suppress(KernelFault):
        assert not furthest(made, engine) <= 1


ACROSS = [  # the right operand of the GEMM lies along N
    ("B: {shape: [N, K]", "B: {shape: [K, N]"),
    ("B[n * columns, k * k_tile]", "B[k * k_tile, n * columns]"),
    ("tile: [columns, k_tile]", "tile: [k_tile, columns]"),
    ("b.T]", "b]"),
]


@needs_clang
@pytest.mark.parametrize("engine", ["assembly", "source"])
@pytest.mark.parametrize("name", [ATTENTION, CAUSAL, "gemm_gfx942"])
@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_tiles_that_pass_through_registers_are_turned_there(name, kind, engine):
    """Once in a work-group: what is read of LDS enters the product as it is."""
    text = (root("protocols") / "tiles" / f"{name}.yaml").read_text().replace("bf16", kind)
    for old, new in ACROSS:
        text = text.replace(old, new)
    made = make(read_tile(Source("tile.yaml", text), "gfx942"), shape(2), staged=True)
    source = made.emitted.files[SOURCE]
    assert "titan::put_turned<" in source and "read_interleaved" not in source
    assert furthest(made, engine) <= 1
    assert not made.faults()


TURNED_FAULTS = [
    ("? u32x2{lower_halves(a, b)", "? u32x2{lower_halves(a, c)"),
    (": u32x2{upper_halves(a, b)", ": u32x2{lower_halves(a, b)"),
    ("own % BLOCKS * B + own / BLOCKS", "own % BLOCKS * B + own % B"),
    ("run / GROUPS % 2 * 8", "(1 - run / GROUPS % 2) * 8"),
    ("place.run * 4 + i % 4", "place.run * 4 + 3 - i % 4"),
    ("(j - from) * B * LDS_ROW", "(j - from) * B / 2 * LDS_ROW"),
    ("index % (CHUNKS / 4) * 4 + lane % 4", "index % (CHUNKS / 4) * 4 + lane % 2"),
]


@needs_clang
@pytest.mark.parametrize("engine", ["assembly", "source"])
@pytest.mark.parametrize(("old", "new"), sampled(TURNED_FAULTS, every=3))
def test_a_fault_in_turning_shows(old, new, engine):
    made = make(tile_of(ATTENTION, "gfx942"), shape(2), staged=True).edited(old, new, HEADER)
    with suppress(KernelFault):
        assert not furthest(made, engine) <= 1


def test_what_another_product_takes_otherwise_is_not_turned():
    source = make(tile_of(DKV, "gfx942"), shape(2), staged=True).emitted.files[SOURCE]
    assert "titan::put_tile<" in source and "_turned<" not in source


def test_offsets_that_may_be_below_zero_are_not_said_to_be_none():
    for text, known in (("j * 64", True), ("j * 64 - 1", False), ("(i + 2) // 3 % 4", True)):
        assert never_negative(parse_expression(text)) is known


def test_what_depends_on_columns_keeps_them_in_order():
    plain = tile_of(ATTENTION, "gfx942")
    assert {"o", "o_next", "o_shrunk", "normal", "narrow"} == values_of(plain).interleaved
    assert not values_of(tile_of(ATTENTION, "gfx950")).interleaved
    masked = replace(
        next(item for item in plain.body if item.kind == "mask"), name="late", operands=("o_next",)
    )
    late = replace(masked, result=replace(plain.operation("o_next").value, name="late"))
    assert not values_of(replace(plain, after=(late, *plain.after))).interleaved


@pytest.mark.parametrize(("rows", "columns", "groups", "split"), [
    (128, 128, 4, (2, 2)), (256, 64, 4, (4, 1)), (256, 128, 8, (4, 2)), (64, 256, 4, (1, 4)),
    (256, 256, 16, (4, 4)), (128, 64, 4, (4, 1)),
])  # fmt: skip
def test_waves_share_a_tile_of_a_product_in_both_dimensions(rows, columns, groups, split):
    text = (root("protocols") / "tiles" / "gemm_gfx942.yaml").read_text()
    text = text.replace("rows: 128, columns: 128", f"rows: {rows}, columns: {columns}")
    tile = read_tile(Source("tile.yaml", text.replace("groups: 4", f"groups: {groups}")), "gfx950")
    values = values_of(tile)
    assert values.split == split
    down, right = split
    read = rows // down + columns // right
    assert read <= rows // groups + columns


def test_rows_that_are_summed_stay_whole():
    for name in (ATTENTION, "softmax_rows_gfx942", "rms_norm_gfx942", "row_sum_gfx942"):
        tile = tile_of(name, "gfx942")
        assert values_of(tile).split == (tile.groups, 1)
