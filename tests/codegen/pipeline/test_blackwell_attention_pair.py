"""Pipelines of attention by pairs of Blackwell CTAs that multiply together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.codegen.pipeline.test_hopper import any_number, verdict
from tests.codegen.pipeline.written import blackwell as construct
from tests.package.built import write
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.write import emit
from titan.codegen.pipeline.build import BuildHooks, BuildLimits, build, decoded
from titan.codegen.pipeline.candidates import shapes
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.tile.load import load_tile, parse_tile
from titan.foundation.resources import root
from titan.foundation.verdict import Verdict
from titan.package.check import check_package
from titan.package.write import package_files
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


# ------------------------------------------------- pairs for a tile program of single CTAs

SINGLE = load_tile(FOLDER / "attention_forward_sm_100a.yaml")


def test_pairs_are_a_shape_of_single_ctas():
    """The same text as where the tile program asks for them, and behind all single CTAs."""
    asked = replace(TILE, name=SINGLE.name)
    shape = Shape("", 2, pair=True)
    assert construct(SINGLE, shape, {}, 1) == construct(asked, Shape("", 2), {}, 1)
    listed = list(shapes(SINGLE, 2, 2))
    pairs = [one for one in listed if one.pair]
    assert {one.depth for one in pairs} == {2, 3}  # 2 x 64 KiB, or 3 x 32
    first = listed.index(pairs[0])
    assert all(one.pair or not one.specialised for one in listed[first:])
    assert all(one.specialised and not one.pair for one in listed[:first])


@pytest.mark.parametrize(
    ("name", "many"),
    [
        ("64", True), ("256", True), ("grouped", True), ("causal", False), ("persistent", False),
        ("causal_pair", False), ("causal_packed", False),
    ],
)  # fmt: skip
def test_where_pairs_are_a_shape(name, many):
    """CTAs differ in the queries alone, with one trip count, and have one work item."""
    tile = load_tile(FOLDER / f"attention_forward_{name}_sm_100a.yaml")
    found = [one for one in shapes(tile, 2, 2) if one.pair]
    assert bool(found) is many
    if found:
        assert verdict(construct(tile, found[0], {}, 1)).verdict is Verdict.VERIFIED


def test_a_package_of_pairs_is_checked(tmp_path):
    """The tile program has single CTAs; the shape that was taken has pairs."""
    text = (FOLDER / "attention_forward_64_sm_100a.yaml").read_text(encoding="utf-8")
    tile = parse_tile(text)
    hooks = BuildHooks(accept=lambda made: None if made.shape.pair else "single CTAs")
    made = build(tile, text, BuildLimits(schedule_seconds=0.5), hooks)
    assert made.shape.pair and made.tile.cluster == 1 and made.kernel.ctas == 2
    emitted = emit(made.tile, made.kernel, made.program)
    assert emitted.manifest["launch"]["cluster"] == 2
    checked = check_package(write(tmp_path / "package", package_files(made, emitted)))
    assert not checked.fault and checked.question is not None
    wrong = replace(made, shape=replace(made.shape, pair=False))
    assert check_package(write(tmp_path / "wrong", package_files(wrong, emitted))).fault


def test_pairs_of_packed_sequences_are_not_written():
    """A tile beyond the longest sequence would store what no tile of single CTAs does."""
    tile = load_tile(FOLDER / "attention_forward_packed_sm_100a.yaml")
    kernel, program = decoded(construct(tile, Shape("", 2, pair=True), {}, 1))
    with pytest.raises(EmissionRefused, match="beyond the last i would lie in its tensor"):
        emit(tile, kernel, program)


def test_only_a_program_of_single_ctas_leaves_pairs_to_the_shape():
    kernel, program = decoded(written())
    with pytest.raises(EmissionRefused, match="differ in CTAs of a cluster"):
        emit(replace(TILE, cluster=4), kernel, program)
