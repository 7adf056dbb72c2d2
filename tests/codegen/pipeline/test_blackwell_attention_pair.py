"""Pipelines of attention by pairs of Blackwell CTAs that multiply together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.codegen.pipeline.test_hopper import any_number, verdict
from tests.codegen.pipeline.written import blackwell as construct
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.tile.load import load_tile, parse_tile
from titan.foundation.resources import root
from titan.foundation.verdict import Verdict
from titan.sync.expression import parse_expression

FOLDER = root("protocols") / "tiles"
TILE = load_tile(FOLDER / "attention_forward_pair_sm_100a.yaml")


def written(depth=2, tile=TILE):
    return construct(tile, Shape("", depth), {}, 1)


@pytest.mark.parametrize("depth", [1, 2])
def test_a_pair_verifies_for_any_number(depth):
    finding = verdict(written(depth))
    assert finding.verdict is Verdict.VERIFIED
    assert any_number(finding)


def test_each_cta_holds_half_of_the_keys_and_half_of_the_columns_of_the_values():
    text = written()
    assert "  q: {tile: [256, 128]" in text or "  q: {stages: 1, tile: [256, 128]" in text
    assert "  k: {stages: depth, tile: [64, 128]" in text
    assert "  v: {stages: depth, tile: [128, 64]" in text
    assert "p16_full: {stages: 2, count: 4, cta: 0}" in text


@pytest.mark.parametrize("name", ["pair_64", "causal_pair", "causal_pair_64"])
def test_other_heads_and_trips_that_both_ctas_have_verify(name):
    text = written(tile=load_tile(FOLDER / f"attention_forward_{name}_sm_100a.yaml"))
    finding = verdict(text)
    assert finding.verdict is Verdict.VERIFIED
    assert any_number(finding)
    assert ("v: {stages: depth, tile: [128, 32], dtype: bf16, swizzle: 64B" in text) is (
        "64" in name
    )


def test_half_of_the_values_fills_a_swizzle():
    """16 columns of 16 bits are the least; each half of a product is a multiple of 16 columns."""
    text = (FOLDER / "attention_forward_pair_64_sm_100a.yaml").read_text(encoding="utf-8")
    assert "swizzle: 32B" in written(tile=parse_tile(text.replace("head: 64}", "head: 32}")))
    with pytest.raises(FormRefused, match="half of v is not a multiple of 16"):
        written(tile=parse_tile(text.replace("head: 64}", "head: 48}")))


def without(text, begin, lines, *, last=False):
    """The text without so many lines, from the first or last that is `begin`."""
    found = text.splitlines(keepends=True)
    at = [number for number, line in enumerate(found) if line.strip() == begin]
    first = at[-1 if last else 0]
    return "".join((*found[:first], *found[first + lines :]))


REMOVED = {
    "scores handed to the peer": ("arrives: s_full[g]@1", -1),
    "keys given back to the peer": ("arrives: k_empty[t % depth]@1", -1),
    "the wait for keys": ("- wait: k_full[t % depth]", 2),
    "the wait for values": ("- wait: v_full[(t - 1) % depth]", 2),
    "the wait for both of the left operand": ("- wait: p16_full[g]", 4),
}


@pytest.mark.parametrize("what", REMOVED)
def test_what_pairs_need_is_needed(what):
    text = written()
    begin, lines = REMOVED[what]
    if lines < 0:  # with the line before, which says whose commit it is
        found = text.splitlines(keepends=True)
        at = next(number for number, line in enumerate(found) if line.strip() == begin)
        broken = "".join((*found[: at - 1], *found[at + 1 :]))
    else:
        broken = without(text, begin, lines)
    assert broken != text
    assert verdict(broken).verdict is Verdict.REFUTED


def test_arrivals_of_one_cta_are_too_few():
    text = written()
    count = "p16_full: {stages: 2, count: 4, cta: 0}"
    broken = text.replace(count, count.replace("count: 4", "count: 2"))
    assert verdict(broken).verdict is Verdict.REFUTED


def test_what_differs_between_the_ctas_is_refused():
    last = TILE.work[-1].name
    for trips in (f"{last} + 1", f"{last} // 3", f"({last} + 1) // 2"):
        with pytest.raises(FormRefused, match="q alone differs with i"):
            written(tile=replace(TILE, trip_count=parse_expression(trips)))
    with pytest.raises(FormRefused, match="q alone differs with h"):
        written(tile=replace(TILE, work=tuple(reversed(TILE.work))))
    with pytest.raises(FormRefused, match="one work item a CTA"):
        written(tile=replace(TILE, persistent=True))
    with pytest.raises(FormRefused, match="clusters have no form"):
        written(tile=replace(TILE, cluster=4))
