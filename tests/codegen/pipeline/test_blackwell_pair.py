"""Pipelines of pairs of Blackwell CTAs that multiply together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.codegen.pipeline import examples
from tests.codegen.pipeline.test_hopper import any_number, verdict
from tests.codegen.pipeline.written import blackwell as construct
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.tile.model import View, WorkDimension
from titan.foundation.verdict import Verdict
from titan.sync.expression import parse_expression

STARTS = {"acc_next": 0}


def paired(**more):
    """Its CTAs differ in the rows, so that they share the tile of B."""
    tile = replace(examples.gemm(groups=1, **more), target="sm_100a", cluster=2)
    m, n = tile.work
    assert isinstance(m, WorkDimension)
    return replace(tile, work=(n, m))


def written(persistent=True, depth=2):
    tile = paired(persistent=persistent)
    return construct(tile, Shape("", depth, persistent=persistent), STARTS, 1)


@pytest.mark.parametrize(("persistent", "depth"), [(False, 2), (True, 2), (True, 3)])
def test_a_pair_verifies_for_any_number(persistent, depth):
    finding = verdict(written(persistent, depth))
    assert finding.verdict is Verdict.VERIFIED
    assert any_number(finding)


def test_one_thread_multiplies_for_both_and_each_loads_half_of_the_common_tile():
    text = written()
    whole = next(op for op in paired().body if op.name == "b").value
    assert f"  b: {{stages: depth, tile: [{whole.rows // 2}, {whole.columns}]" in text
    assert "  issuer: {warps: 1, cta: 0, counters: {n: 0}}" in text
    assert "into: acc[w % 2]@0 = w, acc[w % 2]@1 = w" in text
    assert "ring_a_full: {stages: depth, count: 1, cta: 0}" in text
    assert "multicast" not in text


def row_by_row(columns=256):
    """The right operand as C = A B has it: its columns are those of the product."""
    tile = paired(persistent=True, columns=columns)
    a, b, product = tile.body
    b = examples.load("b", (64, columns), examples.view("B", "k * k_tile", "n * columns"))
    return replace(tile, body=(a, b, replace(product, transpose=(False, False))))


@pytest.mark.parametrize("columns", [128, 256])
def test_of_a_right_operand_that_is_not_k_major_each_loads_half_of_the_columns(columns):
    text = construct(row_by_row(columns), Shape("", 2, persistent=True), STARTS, 1)
    assert f"  b: {{stages: depth, tile: [64, {columns // 2}]" in text
    finding = verdict(text)
    assert finding.verdict is Verdict.VERIFIED and any_number(finding)


def test_half_of_the_columns_are_whole_rows_of_what_is_swizzled():
    assert "tile: [64, 32], dtype: bf16, swizzle: 64B" in construct(
        row_by_row(64), Shape("", 2, persistent=True), STARTS, 1
    )
    with pytest.raises(FormRefused, match="no rows of 32 bytes"):
        construct(row_by_row(48), Shape("", 2, persistent=True), STARTS, 1)


REMOVED = {
    "the barrier at the end": "    - sync: cluster\n",
    "stages given back to the peer": "            - commit: tensor_core\n"
    "              arrives: ring_a_empty[n % depth]@1\n",
    "the accumulator handed to the peer": "        - commit: tensor_core\n"
    "          arrives: ring_acc_full[w % 2]@1\n",
    "the accumulator given back": "        - arrive: ring_acc_empty[w % 2]\n"
    "          scope: cluster\n          order: relaxed\n",
    "the wait for both consumers": "        - wait: ring_acc_empty[w % 2]\n"
    "          phase: w // 2 - 1\n          scope: cluster\n          order: relaxed\n",
    "the wait for a stage": "            - wait: ring_a_empty[n % depth]\n"
    "              phase: n // depth - 1\n",
    "the last wait for each stage": "        - wait: ring_a_empty[(n + s) % depth]\n"
    "          phase: (n + s) // depth - 1\n",
    "the wait for copies": "            - wait: ring_a_full[n % depth]\n"
    "              phase: n // depth\n",
}


@pytest.mark.parametrize("what", REMOVED)
def test_what_pairs_need_is_needed(what):
    text = written()
    assert text.count(REMOVED[what]) >= 1
    times = -1 if "barrier" in what else 1  # it does not wait for a role that has ended
    broken = text.replace(REMOVED[what], "", times).replace("      do:\n    - sync", "    - sync")
    broken = broken.replace("    - for: s in 0..depth\n    - sync", "    - sync")
    assert verdict(broken).verdict is Verdict.REFUTED


def test_what_pairs_say_is_right():
    text = written()
    bytes_of = next(line for line in text.splitlines() if "bytes:" in line).split()[-1]
    count = "ring_acc_empty: {stages: 2, count: 2, cta: 0}"
    for old, new in (
        (f"bytes: {bytes_of}", f"bytes: {int(bytes_of) // 2}"),
        ("              when: cta == 0\n", ""),
        (count, count.replace("count: 2", "count: 1")),
    ):
        assert old in text
        assert verdict(text.replace(old, new, 1)).verdict is Verdict.REFUTED


def test_a_pair_needs_a_common_right_operand():
    tile = paired()
    rows_last = replace(tile, work=tuple(reversed(tile.work)))
    with pytest.raises(FormRefused, match="a alone differs"):
        construct(rows_last, Shape("", 2), STARTS, 1)
    at = View("B", (parse_expression("(m + n) * columns"), parse_expression("k * k_tile")))
    trips = replace(tile, trip_count=parse_expression("m + 1"))
    with pytest.raises(FormRefused, match="a alone differs"):
        construct(trips, Shape("", 2), STARTS, 1)
    a, b, *rest = tile.body
    with pytest.raises(FormRefused, match="a alone differs"):
        construct(replace(tile, body=(a, replace(b, view=at), *rest)), Shape("", 2), STARTS, 1)


@pytest.mark.parametrize(
    "shape",
    [Shape("", 2, specialised=False, overlapped=False), Shape("", 2, poison=True),
     Shape("", 2, unified=True)],
)  # fmt: skip
def test_other_shapes_have_no_form_in_pairs(shape):
    with pytest.raises(FormRefused, match="pairs of CTAs load by a warp"):
        construct(paired(), shape, STARTS, 1)


def test_larger_clusters_have_no_form():
    with pytest.raises(FormRefused, match="clusters of 4"):
        construct(replace(paired(), cluster=4), Shape("", 2), STARTS, 1)
