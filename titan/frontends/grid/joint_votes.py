"""Warps of a CTA that poll a word together: each reads it, and they vote at a barrier of the CTA.

`while (__syncthreads_or(*flag != n));` by all threads. In a run all warps find one number in a
round (`AskedRuns.joint`), so that they are one question. In an execution each lane reads for
itself. That is the same where

- what a lane reads decides nothing but what it brings to the vote, a conjunction or a disjunction,
  and is used nowhere else (`is_joint_vote`), so that the CTA does one of two things;
- all lanes bring the same where they read the same, but for those that bring always the same
  (`check_vote`): what the vote gives for several numbers is what it gives for one of them, which a
  lane has read.

Which of the lanes that was is open (`word_order.py`).
"""

from __future__ import annotations

from collections.abc import Iterable

from titan.frontends.grid.asked_words import Item, NotWaiting, asked_before
from titan.frontends.grid.word_loops import innermost
from titan.isa.simt.execution import SimtExecution
from titan.isa.simt.operations import PURE, DecodedCode, Op
from titan.isa.simt.outcome import Run
from titan.isa.simt.state import Fragment
from titan.isa.simt.values import Scalar, lane, lanes_of

_VOTES = (2, 3)  # `bar.red.and` and `bar.red.or`, as flags of the instruction
Brought = dict[tuple[int, int], Scalar]  # what lanes bring to the vote, by warp and lane


def is_joint_vote(code: DecodedCode, instruction: int) -> bool:
    """Whether warps that ask by a load in a loop leave it by one vote on what they read alone."""
    if code.steps[instruction].op is not Op.LOAD:
        return False
    try:
        body = innermost(code, instruction)
    except NotWaiting:
        return False
    meetings = [at for at in body if code.steps[at].op is Op.BARRIER_NAMED]
    if len(meetings) != 1 or code.steps[meetings[0]].flags[2] not in _VOTES:
        return False
    made = _made_from(code, body, instruction)
    for at, step in enumerate(code.steps):
        used = made.intersection((*step.args, step.guard))
        votes = at == meetings[0] and not used.intersection((*step.args[:2], step.guard))
        if used and not votes and (at not in body or step.op not in PURE):
            return False
    return True


def _made_from(code: DecodedCode, body: frozenset[int], instruction: int) -> set[int]:
    """The registers that arithmetic in a loop makes from what an instruction reads."""
    made = {register for register in code.steps[instruction].out if register >= 0}
    while True:
        more = {
            register
            for at in body
            if code.steps[at].op in PURE
            and made.intersection((*code.steps[at].args, code.steps[at].guard))
            for register in code.steps[at].out
            if register >= 0
        }
        if more <= made:
            return made
        made |= more


class _Voting(SimtExecution):
    """A run that notes what lanes bring to the vote behind a number of answers."""

    behind: int
    vote: int
    members: dict[int, int]  # lanes by warp
    brought: Brought

    def step(self, fragment: Fragment) -> bool:
        """Execute one instruction."""
        if fragment.pc == self.vote and self.asked > self.behind:
            warp = fragment.warp.index
            value = fragment.warp.registers[self.code.steps[fragment.pc].args[2]]
            for number in lanes_of(self.members.get(warp, 0) & fragment.mask):
                self.brought.setdefault((warp, number), lane(value, number))
        return super().step(fragment)


def check_vote(code: DecodedCode, first: Run, item: Item, found: Iterable[Run]) -> None:
    """Lanes want the same numbers of a word; raises NotWaiting. `first`: the run that has the item,
    of warps that vote together; `found`: those that have found other numbers by it."""
    body = innermost(code, item.instruction)
    vote = next(at for at in body if code.steps[at].op is Op.BARRIER_NAMED)
    members = {first.events[place].warp: lanes for place, lanes in item.reads}
    behind = asked_before(first, item.place)
    brought = []
    for run in found:
        assert run.prepared is not None
        machine = _Voting.again(run.prepared)
        machine.members, machine.behind, machine.vote, machine.brought = members, behind, vote, {}
        machine.run()
        brought.append(machine.brought)
    if any(set(one) != set(brought[0]) for one in brought):
        raise NotWaiting("not all lanes that read a word vote on it", item.instruction)
    lanes = {tuple(one[key] for one in brought) for key in (brought[0] if brought else ())}
    if len({one for one in lanes if len(set(one)) > 1}) > 1:
        raise NotWaiting("lanes wait for different numbers of a word", item.instruction)
