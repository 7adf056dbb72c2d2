"""Pipelines of block-scaled products: scales go through tensor memory, stage by stage."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.codegen.pipeline.test_hopper import any_number, verdict
from tests.codegen.pipeline.written import blackwell as construct
from titan.codegen.pipeline.build import decoded
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.tile.functional import OutputDifference, check, interleavings
from titan.codegen.tile.load import load_tile
from titan.codegen.tile.outputs import sample_inputs
from titan.foundation.resources import root
from titan.foundation.verdict import Verdict

STARTS = {"acc_next": 0}
LISTED = "policies: {tensor_pipe: listed}\n"


def scaled(kind="mxf8", **more):
    return replace(load_tile(root("protocols") / "tiles" / f"gemm_{kind}_sm_100a.yaml"), **more)


def written(persistent=False, depth=2, kind="mxf8"):
    tile = scaled(kind, persistent=persistent)
    return construct(tile, Shape("", depth, persistent=persistent), STARTS, 1)


@pytest.mark.parametrize(("persistent", "depth"), [(False, 2), (False, 3), (True, 2)])
@pytest.mark.parametrize("listed", [False, True])
def test_scaled_products_verify_for_any_number(persistent, depth, listed):
    """Also where the tensor core keeps no other pairs in order than PTX lists."""
    text = written(persistent, depth)
    if listed:
        text = text.replace("sizes:", f"{LISTED}sizes:", 1)
        assert LISTED in text
    finding = verdict(text)
    assert finding.verdict is Verdict.VERIFIED
    assert any_number(finding)


@pytest.mark.parametrize("kind", ["mxf8_wide", "nvf4_wide", "mxf4_wide"])
def test_products_of_256_columns_have_two_tiles_of_scales(kind):
    text = written(kind=kind).replace("sizes:", f"{LISTED}sizes:", 1)
    finding = verdict(text)
    assert finding.verdict is Verdict.VERIFIED
    assert any_number(finding)
    low, high = "b_low_in_tensor_memory", "b_high_in_tensor_memory"
    assert text.count(low) == text.count(high) == 3
    *_, copy = copies(text)
    assert high in copy and verdict(broken(copy, "", text)).verdict is Verdict.REFUTED


def test_two_accumulators_of_256_columns_leave_no_columns_for_scales():
    with pytest.raises(FormRefused, match="536 columns of tensor memory"):
        written(persistent=True, kind="mxf8_wide", depth=2)


@pytest.mark.parametrize("kind", ["nvf4", "mxf4"])
def test_products_of_four_bits_verify_for_any_number(kind):
    text = written(kind=kind).replace("sizes:", f"{LISTED}sizes:", 1)
    finding = verdict(text)
    assert finding.verdict is Verdict.VERIFIED
    assert any_number(finding)
    columns = {"nvf4": 64, "mxf4": 32}[kind]
    assert (
        f"a_scale_in_tensor_memory: {{space: tensor, stages: depth, tile: [128, {columns}]" in text
    )


def broken(old: str, new: str = "", text: str | None = None) -> str:
    text = written() if text is None else text
    assert text.count(old) == 1, (old, text)
    return text.replace(old, new)


FREED = "        - commit: tensor_core\n          arrives: ring_a_empty[t % depth]\n"
WAITED = "        - wait: ring_a_full[t % depth]\n          phase: t // depth\n"


def copies(text: str) -> list[str]:
    """The statements that copy scales, each with its lines."""
    lines = text.splitlines(keepends=True)
    first = [n for n, line in enumerate(lines) if "- async:" in line]
    return ["".join(lines[n : n + 4]) for n in first]


def test_what_hands_scales_over_is_needed():
    text = written()
    a_copy, b_copy = copies(text)
    unsafe = {
        "stage freed without a commit": (FREED, "        - arrive: ring_a_empty[t % depth]\n"),
        "no wait for the stage": (WAITED, ""),
        "scales of A never copied": (a_copy, ""),
        "scales of B never copied": (b_copy, ""),
        "stage never freed": (FREED, ""),
    }
    for what, (old, new) in unsafe.items():
        assert verdict(broken(old, new, text)).verdict is Verdict.REFUTED, what


def test_a_stage_freed_before_its_products_is_refuted():
    text = written()
    first = copies(text)[0]
    early = broken(FREED, "", text)
    assert verdict(early.replace(first, FREED + first)).verdict is Verdict.REFUTED


def test_scales_that_another_thread_copies_are_refuted():
    """The order of a copy and a product is one of the same thread."""
    text = written()
    both = "".join(copies(text))
    without = broken(both, "", text)
    other = f"  copier:\n    - for: t in 0..tiles\n      do:\n{WAITED}{both}"
    program = without.replace("  consumer:\n    - wait", f"{other}  consumer:\n    - wait", 1)
    role = "  consumer: {warpgroups: 1}"
    program = program.replace(role, f"  copier: {{warps: 1}}\n{role}", 1)
    assert program.count("copier:") == 2
    assert verdict(program).verdict is Verdict.REFUTED


def test_one_set_of_columns_needs_more_than_the_listed_pairs():
    """Scales of all stages in the same columns: CUTLASS relies on the order of the pipe there."""
    text = written()
    shared = text
    for name in ("a", "b"):
        buffer = f"{name}_scale_in_tensor_memory"
        shared = shared.replace(f"  {buffer}: {{space: tensor, stages: depth",
                                f"  {buffer}: {{space: tensor, stages: 1")  # fmt: skip
        shared = shared.replace(f"{buffer}[t % depth]", f"{buffer}[0]")
    assert shared != text
    listed = shared.replace("sizes:", f"{LISTED}sizes:", 1)
    assert verdict(listed).verdict is Verdict.REFUTED
    ordered = shared.replace("sizes:", "policies: {tensor_pipe: in_order}\nsizes:", 1)
    assert verdict(ordered).verdict is Verdict.VERIFIED


@pytest.mark.parametrize(
    "shape",
    [Shape("", 2, specialised=False, overlapped=False), Shape("", 2, poison=True),
     Shape("", 2, unified=True)],
)  # fmt: skip
def test_other_shapes_have_no_form(shape):
    with pytest.raises(FormRefused, match="scales are loaded by a warp"):
        construct(scaled(), shape, STARTS, 1)


def test_a_pair_needs_common_columns():
    with pytest.raises(FormRefused, match="a and its scales alone differs"):
        construct(scaled(cluster=2), Shape("", 2), STARTS, 1)
    tile = scaled("mxf8_pair")
    b_scale = next(op for op in tile.body if op.name == "b_high")
    own = replace(b_scale, view=next(op for op in tile.body if op.name == "a_scale").view)
    body = tuple(own if op is b_scale else op for op in tile.body)
    with pytest.raises(FormRefused, match="a and its scales alone differs"):
        construct(replace(tile, body=body), Shape("", 2), STARTS, 1)


def test_work_items_from_the_hardware_have_no_form():
    with pytest.raises(FormRefused, match="ask the hardware"):
        construct(scaled(persistent=True, launch_control=True), Shape("", 2), STARTS, 1)


@pytest.mark.parametrize(
    ("kind", "depth", "atoms"), [("mxf8", 2, 1), ("mxf8", 3, 1), ("mxf4", 2, 2), ("nvf4", 2, 4)]
)
@pytest.mark.parametrize("listed", [False, True])
def test_pairs_verify_for_any_number(kind, depth, atoms, listed):
    """Each CTA has half of the columns, and the scales of all of them."""
    text = written(depth=depth, kind=f"{kind}_pair")
    rows = 32 * atoms
    assert text.count(f"stages: depth, tile: [{rows}, 16]") == 3
    assert "  b: {stages: depth, tile: [128, 128]" in text
    assert f"bytes: {2 * (2 * 128 * 128 + 3 * 16 * rows)}\n" in text
    finding = verdict(text.replace("sizes:", f"{LISTED}sizes:", 1) if listed else text)
    assert finding.verdict is Verdict.VERIFIED
    assert any_number(finding)


def test_what_hands_scales_over_in_a_pair_is_needed():
    text = written(kind="mxf8_pair")
    freed = [FREED.replace("depth]", f"depth]@{cta}") for cta in (0, 1)]
    unsafe = {
        "no wait for the stage": broken(WAITED, "", text),
        "the stage of the peer is never freed": broken(freed[1], "", text),
        "the own stage is never freed": broken(freed[0], "", text),
        "the stages are freed before the scales are copied": broken("".join(freed), "", text)
        .replace(copies(text)[0], "".join(freed) + copies(text)[0]),
        "fewer bytes": broken("bytes: 68608", "bytes: 68096", text),
        "scales of the peer are not copied": text.replace(
            ", b_high[t % depth]@1 = t", "").replace(
            "b_high_in_tensor_memory[t % depth]@0 = t, b_high_in_tensor_memory[t % depth]@1 = t\n",
            "b_high_in_tensor_memory[t % depth]@0 = t\n", 1),
    }  # fmt: skip
    for number, copy in enumerate(copies(text)):
        unsafe[f"copy {number} is left out"] = broken(copy, "", text)
    for what, program in unsafe.items():
        assert program != text and verdict(program).verdict is Verdict.REFUTED, what


def test_scales_of_too_many_stages_do_not_fit_beside_the_accumulators():
    with pytest.raises(FormRefused, match="columns of tensor memory"):
        construct(scaled(), Shape("", 60), STARTS, 1)


def deviations(text: str, kind: str) -> list[OutputDifference]:
    """What goes wrong in numbers, one adversarial interleaving at a time."""
    tile = scaled(kind)
    sizes = dict(zip([item.name for item in tile.parameters], (130, 40, 300), strict=True))
    _, program = decoded(text)
    assert program is not None
    return check(tile, program, sample_inputs(tile, sizes, 1), sizes, interleavings(6))


@pytest.mark.parametrize(
    "kind",
    ["mxf8", *(pytest.param(kind, marks=pytest.mark.heavy) for kind in ("nvf4", "nvf4_wide"))],
)
def test_scales_reach_their_products_in_every_interleaving(kind):
    assert deviations(written(kind=kind), kind) == []


def test_numbers_show_scales_of_another_stage():
    text = written()
    start, end = text.split("        - mma:")
    other = f"{start}        - mma:{end.replace('memory[t %', 'memory[(t + 1) %', 1)}"
    assert other != text
    assert deviations(other, "mxf8")
