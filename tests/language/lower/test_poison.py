"""Poisoned stages: who reads one outside of the branch is refuted, by every engine alike."""

from __future__ import annotations

import pytest

from titan.engines.explore.reference import explore_reference
from titan.engines.explore.search import explore
from titan.engines.happens_before.engine import analyse
from titan.foundation.verdict import Verdict
from titan.language.kernel.decode import decode_text
from titan.language.lower import LoweringRefused, lower_with_notes
from titan.sync import program as ir
from titan.sync.expression import ZERO
from titan.sync.fault import FaultKind

# Poison that follows from the index, and poison that the producer finds in its data.
BY_INDEX = "t + 1 == tiles"
BY_DATA = "bad > 0"

TEXT = """
titan: 1
kernel: poisoned
target: TARGET
sizes: {tiles: any, bad: {any: true, per: t}, depth: 2}
buffers:
  A: {stages: depth, tile: [64, 64], dtype: bf16}
rings:
  operands: {buffers: [A], depth: depth, partial: poison}
roles:
  producer: {warps: 1}
  consumer: {warps: 2}
program:
  producer:
    - for: t in 0..tiles
      do:
        - acquire: operands[t]
        - {produce: operands[t], poison: CONDITION}
    - finalize
  consumer:
    - for: t in 0..tiles
      do:
        - wait: operands[t]
        - when poisoned: operands[t]
          else:
            - read: operands[t]
        - release: operands[t]
    - finalize
"""
ASKED = """        - when poisoned: operands[t]
          else:
            - read: operands[t]
"""
RELEASED = "        - release: operands[t]\n"

# What a consumer does instead, and what the three engines may call it.
STALE, RACE = FaultKind.STALE_READ, FaultKind.DATA_RACE
MUTANTS = {
    "reads without asking": (ASKED, "        - read: operands[t]\n"),
    "reads where it is poisoned": (ASKED, ASKED.replace("else:", "then:")),
    "reads before it asks": (ASKED, "        - read: operands[t]\n" + ASKED),
    "reads after it has asked": (ASKED, ASKED + "        - read: operands[t]\n"),
}


def lowered(condition, old="", new="", target="sm_90a"):
    text = TEXT.replace("CONDITION", condition).replace("TARGET", target)
    assert old in text
    if "bad" not in condition:
        text = text.replace("bad: {any: true, per: t}, ", "")
    if target.startswith("gfx"):
        text = text.replace("dtype: bf16}", "dtype: bf16, lane_bytes: 4}")
    family, errors = decode_text(text.replace(old, new) if old else text, "kernel.yaml")
    assert not errors
    return lower_with_notes(family.kernels[0].protocol)


def sizes(condition, tiles, bad):
    return {"tiles": tiles, "bad": bad} if "bad" in condition else {"tiles": tiles}


@pytest.mark.parametrize("condition", [BY_INDEX, BY_DATA])
def test_a_branch_on_poison_verifies(condition):
    program = lowered(condition).program
    for tiles in (0, 1, 2, 3, 5):
        for bad in (0, 1):
            given = sizes(condition, tiles, bad)
            assert explore_reference(program, given).verdict is Verdict.VERIFIED
            assert analyse(program, given).verdict is Verdict.VERIFIED
    assert explore(program).verdict is Verdict.VERIFIED


def test_one_number_for_all_turns():
    """The explorer with a number of its own for each turn that is given once for all of them."""
    right, wrong = (
        lowered(BY_DATA, *change).program for change in ((), MUTANTS["reads without asking"])
    )
    for bad in (0, 1):
        assert explore(right, {"bad": bad}).verdict is Verdict.VERIFIED
        for tiles in (0, 1, 3):
            given = {"tiles": tiles, "bad": bad}
            assert explore(wrong, given).verdict is explore_reference(wrong, given).verdict
    assert explore(wrong, {"bad": 0}).verdict is Verdict.VERIFIED
    assert explore(wrong, {"bad": 1}).verdict is Verdict.REFUTED


@pytest.mark.parametrize("mutant", MUTANTS)
@pytest.mark.parametrize("condition", [BY_INDEX, BY_DATA])
def test_all_engines_refute_who_reads_a_poisoned_stage(condition, mutant):
    program = lowered(condition, *MUTANTS[mutant]).program
    given = sizes(condition, 3, 1)
    found = [explore_reference(program, given), explore(program, given), explore(program)]
    assert [one.verdict for one in found] == [Verdict.REFUTED] * 3
    assert {one.trace.fault.kind for one in found} == {STALE}
    order = analyse(program, given)
    assert order.verdict is Verdict.REFUTED
    assert order.fault.kind is STALE


@pytest.mark.parametrize("mutant", MUTANTS)
def test_nothing_is_wrong_with_them_where_nothing_is_poisoned(mutant):
    """The faults above come from poison, not from the change itself."""
    program = lowered(BY_DATA, *MUTANTS[mutant]).program
    assert explore_reference(program, {"tiles": 3, "bad": 0}).verdict is Verdict.VERIFIED


def test_another_condition_of_the_consumer_is_refuted():
    """An `if` is as good as `when poisoned` where it is right, and refuted where it is not."""
    for condition, verdict in (("t + 1 < tiles", None), ("t < tiles", STALE), ("t > 0", STALE)):
        new = ASKED.replace("when poisoned: operands[t]", f"if: {condition}")
        program = lowered(BY_INDEX, ASKED, new.replace("else:", "then:")).program
        for found in (explore_reference(program, {"tiles": 3}), explore(program)):
            kind = found.trace.fault.kind if found.trace else None
            assert kind is verdict, condition


def test_poison_that_is_found_in_the_data_is_handed_over_by_a_flag():
    made = lowered(BY_DATA)
    flag = next(buffer for buffer in made.program.buffers if buffer.name == "operands_poison")
    assert (flag.stages, flag.space) == (2, ir.Space.SHARED)
    assert any("is read from operands_poison" in note.text for note in made.notes)
    producer, consumer = made.program.roles
    for role, write in ((producer, True), (consumer, False)):
        touched = [
            effect
            for operation in ir.walk(role.body)
            if isinstance(operation, ir.Access)
            for effect in operation.effects
            if effect.buffer == "operands_poison"
        ]
        assert [effect.write for effect in touched] == [write]
    assert not any(b.name == "operands_poison" for b in lowered(BY_INDEX).program.buffers)


def test_the_flag_is_verified_like_any_memory():
    """Asked before the wait, or after the stage is given back: the flag is raced on."""
    early = ASKED.replace("else:\n", "else:\n            - wait: operands[t]\n")
    early_text = "        - wait: operands[t]\n" + ASKED
    program = lowered(BY_DATA, early_text, early).program
    assert explore_reference(program, {"tiles": 2, "bad": 0}).verdict is Verdict.REFUTED
    assert explore(program).verdict is Verdict.REFUTED
    assert analyse(program, {"tiles": 2, "bad": 0}).verdict is Verdict.REFUTED
    only_asks = ASKED.replace("else:\n            - read: operands[t]", "then: []")
    late = lowered(BY_DATA, ASKED + RELEASED, RELEASED + only_asks).program
    found = explore_reference(late, {"tiles": 4, "bad": 1}), explore(late)
    assert {one.trace.fault.kind for one in found} <= {RACE, STALE}


def test_poison_of_another_turn_is_refused():
    late = """        - when poisoned: operands[t - 1]
          else:
            - read: operands[t]
"""
    with pytest.raises(LoweringRefused) as refused:
        lowered(BY_DATA, ASKED, late)
    assert refused.value.diagnostics[0].code == "TTN401"


def test_poison_on_amd():
    program = lowered(BY_INDEX, target="gfx942").program
    assert explore(program).verdict is Verdict.VERIFIED
    wrong = lowered(BY_INDEX, *MUTANTS["reads without asking"], target="gfx942").program
    assert explore(wrong).trace.fault.kind is STALE
    with pytest.raises(LoweringRefused):
        lowered(BY_DATA, target="gfx942")


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize(
    ("produce", "counted"),
    [
        ("{produce: operands[t]}", True),
        ("{produce: operands[t], poison: t + 1 == tiles}", False),
        ("{produce: operands[t], bytes: min(8192 * (tiles - 1 - t), 8192)}", False),
    ],
)
def test_copies_that_are_left_out_are_not_counted_on(target, produce, counted):
    """A wave that only fills publishes a stage by the copies behind it, where all are issued."""
    text = TEXT.replace(
        "- {produce: operands[t], poison: CONDITION}\n    - finalize", f"- {produce}"
    )
    text = text.replace("TARGET", target).replace("bad: {any: true, per: t}, ", "")
    text = text.replace("dtype: bf16}", "dtype: bf16, lane_bytes: 4}")
    if "poison:" not in produce:
        text = text.replace(ASKED, "        - read: operands[t]\n")
    family, errors = decode_text(text, "kernel.yaml")
    assert not errors
    program = lower_with_notes(family.kernels[0].protocol).program
    assert explore(program).verdict is Verdict.VERIFIED
    waits = [
        item.pending
        for item in ir.walk(program.roles[0].body)
        if isinstance(item, ir.QueueWait) and item.queue == "vmcnt"
    ]
    assert any(pending != ZERO for pending in waits) == counted


def test_a_tail_that_is_stored_into_a_bulk_ring():
    """`stored: true`: the agent fills the last stage itself, and fences before the engine reads."""
    more = """        - {produce: operands[t], poison: CONDITION}
    - finalize
  consumer""".replace("CONDITION", BY_INDEX)
    loop = "t in 0..tiles\n      do:\n        - acquire: operands[t]\n"
    tail = """        - produce: operands[t]
    - if: tiles > 0
      then:
        - acquire: operands[tiles - 1]
        - {produce: operands[tiles - 1], stored: true}
    - finalize
  consumer"""
    text = TEXT.replace("TARGET", "sm_90a").replace("bad: {any: true, per: t}, ", "")
    text = text.replace("CONDITION", BY_INDEX).replace(loop, loop.replace("tiles", "tiles - 1"), 1)
    text = text.replace(more, tail).replace(ASKED, "        - issue: {mma: A[t], as: group}\n"
                                            "        - drain: group\n")  # fmt: skip
    family, errors = decode_text(text, "kernel.yaml")
    assert not errors
    made = lower_with_notes(family.kernels[0].protocol)
    assert any("generic writes before the tensor core reads" in note.text for note in made.notes)
    assert explore(made.program).verdict is Verdict.VERIFIED
    bare = lower_with_notes(family.kernels[0].protocol, add_fences=False).program
    for found in (explore_reference(bare, {"tiles": 2}), explore(bare)):
        assert found.trace.fault.kind is FaultKind.MISSING_FENCE
    assert analyse(bare, {"tiles": 2}).fault.kind is FaultKind.MISSING_FENCE
