"""Persistent attention on Blackwell: any number of work items and of tiles; broken ones refuted."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.codegen.pipeline.test_hopper import any_number, verdict
from tests.codegen.pipeline.written import blackwell as construct
from tests.sampling import part, sampled
from titan.codegen.pipeline import document as doc
from titan.codegen.pipeline import forms
from titan.codegen.pipeline.build import decoded
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.pipeline.printer import pipeline_text
from titan.codegen.tile import functional
from titan.codegen.tile.load import load_tile, parse_tile
from titan.codegen.tile.outputs import sample_inputs
from titan.engines.happens_before.engine import analyse
from titan.foundation.resources import root
from titan.foundation.verdict import Verdict
from titan.sync import program as ir
from titan.verify.mutate.judge import Fate, judge_all

FOLDER = root("protocols") / "tiles"
STATIC = load_tile(FOLDER / "attention_forward_persistent_sm_100a.yaml")
ASKING = load_tile(FOLDER / "attention_forward_causal_persistent_sm_100a.yaml")
TEXT = (FOLDER / "attention_forward_64_sm_100a.yaml").read_text(encoding="utf-8")
SMALL = parse_tile(TEXT.replace("groups: 2", "groups: 2\npersistent: true"))
ONE = parse_tile(
    TEXT.replace("groups: 2", "groups: 1\npersistent: true").replace("rows: 256", "rows: 128")
)
ITEMS = [(0, 1), (1, 1), (1, 3), (2, (1, 1)), (3, (3, 1, 2)), (4, (1, 4, 1, 2)), (3, (2, 5, 1))]


def made(tile, depth=2) -> str:
    return construct(tile, Shape("", depth, overlapped=False, persistent=True), {}, 1)


def plain(program: ir.SyncProgram) -> ir.SyncProgram:
    roles = (replace(role, body=ir.without_computations(role.body)) for role in program.roles)
    return replace(program, roles=tuple(roles))


@pytest.mark.parametrize(
    ("tile", "depth"),
    sampled([(ONE, 1), (SMALL, 1), (ONE, 3), (SMALL, 2), (SMALL, 3), (ONE, 2)], every=3),
)
def test_any_number_of_items_and_tiles_verifies(tile, depth):
    text = made(tile, depth)
    assert any_number(verdict(text))
    assert "work: any, tiles: {any: true, minimum: 1, per: w}" in text


@pytest.mark.parametrize("tile", [STATIC, ASKING], ids=["static", "asking"])
def test_the_library_verifies_and_happens_before_agrees(tile):
    """The second engine goes through single numbers of items, each with tiles of its own."""
    text = made(tile)
    assert any_number(verdict(text))
    _, program = decoded(text)
    for work, tiles in ITEMS[1 if tile.launch_control else 0 :]:
        found = analyse(plain(program), {"work": work, "tiles": tiles})
        assert found.verdict is Verdict.VERIFIED, (work, tiles, found.remark)


CORRECTED = "            - arrive: p16_full[g]\n"
FETCHED = "            - load: o[g] = n - 1\n            - compute: o\n              tile: tiles\n"
MUTANTS = {
    # What several work items need beside what one needs.
    "queries overwritten": ("        - wait: q_empty[0]\n          phase: w - 1\n", ""),
    "queries given back early": (
        "        - count: {n: n + 1}\n        - for: t in 1..tiles\n          do:\n"
        "            - wait: v_full",
        "        - commit: tensor_core\n          arrives: q_empty[0]\n"
        "        - count: {n: n + 1}\n        - for: t in 1..tiles\n          do:\n"
        "            - wait: v_full",
    ),
    "queries never given back": (
        "        - commit: tensor_core\n          arrives: q_empty[0]\n", "",
    ),
    "sums overwritten": ("        - wait: total_empty[self]\n          phase: w - 1\n", ""),
    "sums never given back": ("            - arrive: total_empty[g]\n", ""),
    "sums given back unread": (
        "            - load: total[g] = w\n            - compute: total\n"
        "              tile: tiles\n            - arrive: total_empty[g]\n",
        "            - arrive: total_empty[g]\n            - load: total[g] = w\n"
        "            - compute: total\n              tile: tiles\n",
    ),
    "accumulators not free at the start": (
        "  correction:\n    - for: g in 0..2\n      do:\n        - arrive: p16_full[g]\n",
        "  correction:\n",
    ),
    "accumulator free before it is fetched": (FETCHED, CORRECTED + FETCHED),
    "accumulator not waited for": ("            - wait: o_full[g]\n              phase: w\n", ""),
    "values of the last tile never given back": (
        "              arrives: o_full[g]\n        - commit: tensor_core\n"
        "          arrives: v_empty[(n - 1) % depth]\n",
        "              arrives: o_full[g]\n",
    ),
    "the last commit in flight": (
        "    - wait: v_empty[(n - 1) % depth]\n      phase: (n - 1) // depth\n", "",
    ),
    "iterations of one item alone": (
        "            - wait: s_full[self]\n              phase: n\n",
        "            - wait: s_full[self]\n              phase: t\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_pipeline_is_refuted(name):
    old, new = MUTANTS[name]
    text = made(SMALL)
    assert text.count(old) == 1, old
    broken = text.replace(old, new)
    if name == "accumulator free before it is fetched":
        (kept,) = re.findall(r" *- store: out\[0\].*\n", broken)
        assert broken.count(kept + CORRECTED) == 1
        broken = broken.replace(kept + CORRECTED, kept)
    assert verdict(broken).verdict is Verdict.REFUTED


ANSWERS = {
    "asked before all have read": (
        "        - wait: answer_read_correction[0]\n          phase: w - 1\n", "",
    ),
    "asked before the softmax has read": (
        "        - wait: answer_read_softmax[0]\n          phase: w - 1\n", "",
    ),
    "asked before the issuer has read": (
        "        - wait: answer_read_issuer[0]\n          phase: w - 1\n", "",
    ),
    "read before it is there": (
        "        - wait: answer_there[0]\n          phase: w\n        - load: answer[0] = w\n"
        "        - fence: async\n        - arrive: answer_read_correction[0]\n",
        "        - load: answer[0] = w\n        - fence: async\n"
        "        - arrive: answer_read_correction[0]\n",
    ),
    "not given back": ("        - arrive: answer_read_issuer[0]\n", ""),
    "no fence behind a read": (
        "        - load: answer[0] = w\n        - fence: async\n"
        "        - arrive: answer_read_softmax[0]\n",
        "        - load: answer[0] = w\n        - arrive: answer_read_softmax[0]\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_what_answers_need_is_needed(name):
    old, new = ANSWERS[name]
    text = made(ASKING)
    assert text.count(old) == 1, old
    assert verdict(text.replace(old, new)).verdict is Verdict.REFUTED


@pytest.mark.heavy
@pytest.mark.long
def test_no_mutant_survives():
    """What verifies without an operation is the meeting of the warps of one agent."""
    _, program = decoded(made(ONE, 1))
    score = judge_all(plain(program))
    counts = score.counts()
    assert counts[Fate.KILLED] > 150
    assert counts[Fate.SURVIVING] == counts[Fate.UNDECIDED] == 0
    needless = {
        judgement.mutant.where
        for judgement in score.judgements
        if judgement.mutant.what == "deleted" and judgement.fate is not Fate.KILLED
    }
    assert needless == {"sync together[0] of 128"}


def without(block: doc.Block, left_out: tuple[doc.DocumentStatement, ...]) -> doc.Block:
    return tuple(
        replace(one, body=without(one.body, left_out)) if isinstance(one, doc.ForStatement) else one
        for one in block
        if one not in left_out
    )


def test_a_correction_that_is_left_out_is_verified_like_one_that_is_made():
    document = forms.blackwell(STATIC, Shape("", 2, overlapped=False), {}, 1)
    sums = doc.slot("o", "g", content="n - 1")
    roles = []
    for role, body in document.program:
        # The last fetch of an item stays: it is in the loop over items, not in that over tiles.
        moves = (doc.LoadStatement(sums), doc.StoreStatement(sums))
        roles.append((role, left_in_tiles(body, moves)))
    edited = replace(document, program=tuple(roles))
    assert len(pipeline_text(edited)) < len(pipeline_text(document))
    assert any_number(verdict(pipeline_text(edited)))


def left_in_tiles(block: doc.Block, moves: tuple[doc.DocumentStatement, ...]) -> doc.Block:
    return tuple(
        replace(one, body=without(one.body, moves) if one.variable == "t"
                else left_in_tiles(one.body, moves))
        if isinstance(one, doc.ForStatement)
        else one
        for one in block
    )  # fmt: skip


NUMBERS = [
    (SMALL, {"heads": 3, "queries": 300, "keys": 200}, 2),
    (ONE, {"heads": 2, "queries": 300, "keys": 300}, 1),
    (ASKING, {"heads": 2, "queries": 300, "keys": 300}, 1),
    (ASKING, {"heads": 2, "queries": 520, "keys": 300}, 3),
]


@pytest.mark.parametrize(("tile", "sizes", "ctas"), NUMBERS)
def test_the_numbers_are_right_under_hostile_interleavings(tile, sizes, ctas):
    _, program = decoded(made(tile))
    inputs = sample_inputs(tile, sizes, 1)
    runs = list(functional.interleavings(part(4)))
    assert functional.check(tile, program, inputs, sizes, runs, ctas) == []


def test_a_product_that_adds_to_the_item_before_gives_wrong_numbers():
    """The functional run knows which product begins an item from the trips of all."""
    _, program = decoded(made(SMALL))
    sizes = {"heads": 3, "queries": 100, "keys": 200}
    inputs = sample_inputs(SMALL, sizes, 1)
    text = made(SMALL).replace("into: o[g] = n - 1", "into: o[g] = n")
    _, shifted = decoded(text)
    run = next(iter(functional.interleavings(1)))
    good = functional.simulate(SMALL, program, inputs, sizes, run, 1)
    bad = functional.simulate(SMALL, shifted, inputs, sizes, run, 1)
    assert good.fault is None
    assert bad.fault is not None or not np.allclose(
        good.outputs["O"], bad.outputs["O"], equal_nan=True
    )


def test_the_longest_items_come_first():
    from titan.codegen.tile import semantics

    sizes = {**dict(ASKING.sizes), "heads": 2, "queries": 1024, "keys": 1024}
    counts = semantics.trips_of_items(ASKING, sizes)
    assert counts == sorted(counts, reverse=True) == [8, 8, 6, 6, 4, 4, 2, 2]


@pytest.mark.parametrize(
    ("tile", "reason"),
    [
        (replace(ASKING, persistent=False), "nothing to ask for"),
        (replace(ASKING, cluster=2), "single CTAs alone"),
        (replace(STATIC, cluster=2), "in pairs has one work item a CTA"),
    ],
)
def test_what_has_no_form_is_refused(tile, reason):
    with pytest.raises(FormRefused, match=reason):
        made(tile)
