"""Pipelines on Blackwell: accumulators in tensor memory, handed over by commits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.codegen.pipeline import examples
from tests.codegen.pipeline.test_hopper import any_number, verdict
from tests.codegen.pipeline.written import blackwell as construct
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.foundation.verdict import Verdict

STARTS = {"acc_next": 0}


def gemm(**more):
    return replace(examples.gemm(groups=1, **more), target="sm_100a")


@pytest.mark.parametrize(("persistent", "depth"), [(False, 2), (False, 4), (True, 2)])
def test_gemm_verifies_for_any_number(persistent, depth):
    shape = Shape("", depth, persistent=persistent)
    finding = verdict(construct(gemm(persistent=persistent), shape, STARTS, 1))
    assert finding.verdict is Verdict.VERIFIED
    assert any_number(finding)


def test_two_accumulators_only_where_work_goes_on():
    once = construct(gemm(), Shape("", 2), STARTS, 1)
    many = construct(gemm(persistent=True), Shape("", 2, persistent=True), STARTS, 1)
    assert "acc: {space: tensor, stages: 1," in once
    assert "acc: {space: tensor, stages: 2," in many


def test_without_multiplications_the_form_is_that_of_hopper():
    tile = replace(examples.copy(), target="sm_100a")
    text = construct(tile, Shape("", 3, overlapped=False), {}, 1)
    assert "target: sm_100a" in text
    assert verdict(text).verdict is Verdict.VERIFIED


@pytest.mark.parametrize(
    ("tile", "reason"),
    [
        (replace(examples.attention(), target="sm_100a"), "computes 128 rows"),
        (replace(gemm(), groups=2), "one for each lane"),
        (replace(examples.gemm(groups=1, columns=512, persistent=True)), "tensor memory"),
    ],
)
def test_what_has_no_form_is_refused(tile, reason):
    starts = {operation.name: 0 for operation in tile.body}
    with pytest.raises(FormRefused, match=reason):
        construct(tile, Shape("", 2, persistent=tile.persistent, overlapped=False), starts, 1)
