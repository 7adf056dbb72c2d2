"""Pipelines on Hopper: whatever order a schedule asks for, what is written verifies."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.codegen.pipeline import examples
from tests.codegen.pipeline.written import hopper as construct
from tests.sampling import part
from titan.codegen.pipeline.build import BuildLimits, decoded, judged
from titan.codegen.pipeline.loop_body import (
    ItemKind,
    by_schedule,
    in_order,
    last_product_late,
    loop_body,
)
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.pipeline.rings import rings_of
from titan.codegen.tile.load import parse_tile
from titan.foundation.resources import root
from titan.foundation.verdict import Verdict
from titan.language.kernel.decode import decode_text
from titan.verify.model import VerifyOptions
from titan.verify.pipeline import verify_kernel

PROGRAMS = {
    "gemm": examples.gemm,
    "attention": partial(examples.attention, columns=32),
    "copy": examples.copy,
    "scaled_rows": examples.scaled_rows,
    "shared": examples.shared,
}


def in_sequence(tile, second=0):
    """Start cycles as the body is written; the last `second` operations behind the next first."""
    names = [operation.name for operation in tile.body if operation.kind != "load"]
    late = len(names) - second
    starts = {name: 100 * i for i, name in enumerate(names[:late])}
    starts |= {name: 10_000 + i + 1 for i, name in enumerate(names[late:])}
    return starts, 10_000


def verdict(text, seconds=60):
    family, errors = decode_text(text, "pipeline.yaml")
    assert not errors, errors[0].headline
    options = VerifyOptions(save_traces=None, seconds_max=seconds, reviews_fences=False)
    return verify_kernel(family.kernels[0], options)


def any_number(finding):
    return any(
        report.verdict is Verdict.VERIFIED and all(values is None for _, values in report.sizes)
        for report in finding.engines
    )


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("depth", [2, 3, 5])
def test_one_iteration_at_a_time(name, depth):
    text = construct(PROGRAMS[name](), Shape("", depth, overlapped=False), {}, 1)
    finding = verdict(text)
    assert finding.verdict is Verdict.VERIFIED
    assert any_number(finding)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_without_a_loading_warp(name, depth):
    shape = Shape("", depth, specialised=False, overlapped=False)
    finding = verdict(construct(PROGRAMS[name](), shape, {}, 1))
    assert finding.verdict is Verdict.VERIFIED
    assert any_number(finding)


@pytest.mark.parametrize("ping_pong", [False, True])
def test_scores_of_the_next_block_run_beside_the_values_of_this_one(ping_pong):
    tile = examples.attention()
    starts, ii = in_sequence(tile, second=2)
    text = construct(tile, Shape("", 2, ping_pong=ping_pong), starts, ii)
    lines = [line.strip() for line in text.splitlines()]
    loop = lines[lines.index("- for: t in 1..tiles") :]
    scores = loop.index("- issue: mma(q[0], k[t])")
    values = loop.index("- issue: mma(v[t - 1])")
    assert scores < values < loop.index("- drain: s")
    finding = verdict(text)
    assert finding.verdict is Verdict.VERIFIED
    assert any_number(finding)


def test_persistent_kernels_verify():
    text = construct(
        examples.gemm(persistent=True), Shape("", 2, overlapped=False, persistent=True), {}, 1
    )
    family, errors = decode_text(text, "pipeline.yaml", {"depth": (2,)})
    assert not errors
    finding = verify_kernel(family.kernels[0], VerifyOptions(save_traces=None, seconds_max=10))
    assert finding.verdict is Verdict.VERIFIED


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_loop_is_verified_without_its_computations(name):
    text = construct(PROGRAMS[name](), Shape("", 3, overlapped=False), {}, 1)
    kernel, program = decoded(text)
    assert judged(kernel, BuildLimits()).verdict is Verdict.VERIFIED
    assert program.name == name


@settings(max_examples=part(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_order_is_refused_or_verified(data):
    """Random start cycles: the construction never writes a pipeline that can go wrong."""
    tile = PROGRAMS[data.draw(st.sampled_from(sorted(PROGRAMS)))]()
    names = [operation.name for operation in tile.body if operation.kind != "load"]
    starts = {name: data.draw(st.integers(0, 39)) for name in names}
    ii = data.draw(st.integers(5, 40))
    depth = data.draw(st.integers(2, 3))
    turns = tile.groups == 2 and data.draw(st.booleans())
    try:
        text = construct(tile, Shape("", depth, ping_pong=turns), starts, ii)
    except FormRefused:
        return
    assert verdict(text).verdict is Verdict.VERIFIED, text


@settings(max_examples=part(60), deadline=None)
@given(st.data())
@pytest.mark.heavy
@pytest.mark.long
def test_shifted_orders_of_attention(data):
    """Legal orders in which a suffix of the chain runs one interval later."""
    tile = examples.attention()
    count = sum(operation.kind != "load" for operation in tile.body)
    starts, ii = in_sequence(tile, second=data.draw(st.integers(0, count - 1)))
    try:
        text = construct(tile, Shape("", 2), starts, ii)
    except FormRefused:
        return
    assert verdict(text).verdict is Verdict.VERIFIED, text


@pytest.mark.parametrize("ping_pong", [False, True])
def test_only_the_last_product_one_turn_behind(ping_pong):
    """The order of FlashAttention-3: scores, the product of the block before, then softmax."""
    tile = examples.attention()
    placed = by_schedule(tile, *last_product_late(tile))
    names = [operation.name for operation in placed.operations]
    behind = {name for name, lag in zip(names, placed.lags, strict=True) if lag}
    assert behind == {"o_scaled", "o_new"}
    assert names[:3] == ["s", "o_scaled", "o_new"]
    assert names[3:] == [op.name for op in tile.body if op.name in set(names[3:])]
    text = construct(tile, Shape("", 2, overlapped=False, behind=True, ping_pong=ping_pong), {}, 1)
    finding = verdict(text)
    assert finding.verdict is Verdict.VERIFIED
    assert any_number(finding)


def test_one_product_cannot_run_behind_itself():
    with pytest.raises(FormRefused, match="no second multiplication"):
        construct(examples.gemm(), Shape("", 2, overlapped=False, behind=True), {}, 1)


def test_a_stage_is_given_back_when_the_last_of_its_readers_is_over():
    """Also where a reader that stands earlier in the turn belongs to an older iteration."""
    tile = examples.attention()
    starts, ii = in_sequence(tile, second=2)
    items = loop_body(tile, rings_of(tile), by_schedule(tile, starts, ii))
    release = next(i for i in items if i.kind is ItemKind.RELEASE and i.name == "ring_v")
    assert release.lag == 1
    assert items[items.index(release) - 1].kind is ItemKind.DRAIN


def test_a_lone_multiplication_is_drained_one_turn_later():
    tile = examples.gemm()
    items = loop_body(tile, rings_of(tile), in_order(tile))
    assert [(item.kind, item.lag) for item in items] == [
        (ItemKind.WAIT, 0),
        (ItemKind.ISSUE, 0),
        (ItemKind.DRAIN, 1),
        (ItemKind.RELEASE, 1),
    ]


def test_the_turn_keeps_one_copy_of_every_value():
    """A schedule may let `positive` live for two iterations; the turn then reads it earlier."""
    tile = examples.scaled_rows()
    starts = {"r": 0, "twice": 1, "positive": 2, "part": 13, "total_new": 14, "y": 15}
    placed = by_schedule(tile, starts, 10)
    order = [operation.name for operation in placed.operations]
    assert placed.lags[order.index("part")] == 1
    assert order.index("part") < order.index("positive")


SCALED = (root("protocols") / "tiles" / "gemm_fp8_scaled.yaml").read_text()
TWICE = "  - more: {add: [acc, scaled]}\n"
STARTS = {"a_scale": 0, "b_scale": 1, "scale": 9, "product": 2, "scaled": 10, "acc_next": 13}


@pytest.mark.parametrize(
    ("text", "stays"),
    [
        (SCALED, True),
        (SCALED.replace("{add: [acc, scaled]}", "{subtract: [acc, scaled]}"), True),
        (SCALED.replace("{add: [acc, scaled]}", "{maximum: [acc, scaled]}"), False),
        (SCALED.replace("  - acc_next: {add: [acc,", f"{TWICE}  - acc_next: {{add: [more,"), False),
    ],
)
def test_what_one_instruction_computes_stays_together(text, stays):
    """A product and its sum, between which the schedule has the next product of the tensor cores:
    both are 64 instructions a tile together, and 128 apart."""
    tile = parse_tile(text, target="sm_90a")
    starts = STARTS | ({"more": 13, "acc_next": 14} if "more" in text else {})
    placed = by_schedule(tile, starts, 9)
    order = [operation.name for operation in placed.operations]
    assert {placed.lags[order.index(name)] for name in ("scaled", "acc_next")} == {1}
    place = order.index("scaled")
    assert order[place + 1] == ("acc_next" if stays else "product"), order


def test_values_that_no_order_can_keep_are_refused():
    tile = examples.scaled_rows()
    starts = {"r": 0, "twice": 11, "positive": 2, "part": 3, "total_new": 4, "y": 5}
    with pytest.raises(FormRefused, match="before twice"):
        construct(tile, Shape("", 2), starts, 10)
