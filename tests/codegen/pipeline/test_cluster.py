"""Pipelines of pairs of CTAs that share a tile by multicast."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.codegen.pipeline import examples
from tests.codegen.pipeline.test_hopper import any_number, verdict
from tests.codegen.pipeline.written import hopper as construct
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.tile.model import View
from titan.foundation.verdict import Verdict
from titan.sync.expression import parse_expression

STARTS = {"acc_next": 0}


def paired(**more):
    return replace(examples.gemm(**more), cluster=2)


def test_a_pair_verifies_for_any_number_of_tiles():
    finding = verdict(construct(paired(groups=1), Shape("", 2), STARTS, 1))
    assert finding.verdict is Verdict.VERIFIED
    assert any_number(finding)


@pytest.mark.parametrize(("groups", "depth"), [(2, 2), (1, 3), (2, 3)])
def test_larger_pairs_verify(groups, depth):
    """What multicast copies do not publish is followed only in searches that stay small."""
    finding = verdict(construct(paired(groups=groups), Shape("", depth), STARTS, 1), seconds=3)
    assert finding.verdict is Verdict.VERIFIED


def test_what_does_not_depend_on_the_last_coordinate_is_shared():
    text = construct(paired(), Shape("", 2), STARTS, 1)
    assert "bulk_load: a[t % depth, cta] = t" in text
    assert "bulk_load: b[t % depth] = t" in text
    assert text.count("multicast: all") == 1


@pytest.mark.parametrize(
    "removed",
    ["    - sync: cluster\n", "        - arrive: ring_a_empty[(t - 1) % depth]@1\n"],
)
def test_what_pairs_need_is_needed(removed):
    text = construct(paired(groups=1), Shape("", 2), STARTS, 1)
    start = text.index(removed)
    end = start + len(removed)
    while text[end:].startswith("          "):  # options of the statement
        end = text.index("\n", end) + 1
    broken = text[:start] + text[end:]
    if "sync" in removed:  # the barrier does not wait for a role that has ended
        broken = text.replace(removed, "")
    assert verdict(broken).verdict is Verdict.REFUTED


def test_nothing_to_share():
    tile = paired()
    at = View("A", (parse_expression("(m + n) * rows"), parse_expression("k * k_tile")))
    body = (replace(tile.body[0], view=at), *tile.body[1:])
    with pytest.raises(FormRefused, match="nothing to share"):
        construct(replace(tile, body=body), Shape("", 2), STARTS, 1)


def test_attention_has_no_form_in_pairs():
    tile = replace(examples.attention(), cluster=2)
    with pytest.raises(FormRefused, match="one multiplication alone"):
        construct(tile, Shape("", 2, overlapped=False), {}, 1)
