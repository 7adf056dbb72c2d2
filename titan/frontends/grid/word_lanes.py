"""Whether the lanes of a warp that vote on a word wait for the same numbers of it.

One instruction reads the word for several lanes, and a run gives all of them one number. In an
execution each lane reads for itself, and they may find several numbers. Where they vote on what
they have read, what was found out with one number holds if all lanes want the same numbers: one of
them has then found a number with which the warp goes on. If they want different ones, the warp may
go on where the word has none that they all want: some have found the number before the last one,
others an older one. So what they bring to a vote has to be the same, but for lanes that bring the
same whatever they have read.
"""

from __future__ import annotations

from titan.frontends.grid.asked_words import Item, NotWaiting, asked_before
from titan.frontends.grid.joint_votes import check_vote
from titan.frontends.grid.word_actors import WordActor, WordWaits
from titan.frontends.grid.word_loops import COLLECTIVE, votes
from titan.isa.simt.execution import SimtExecution
from titan.isa.simt.outcome import Run
from titan.isa.simt.state import Fragment
from titan.isa.simt.values import Scalar, lane, lanes_of

Brought = list[tuple[Scalar, ...]]  # what each lane brings to a meeting, by meeting and operand


class _Voting(SimtExecution):
    """A run that notes what lanes of a warp bring to what they meet at behind the last answer."""

    item: Item
    behind: int
    brought: Brought

    def step(self, fragment: Fragment) -> bool:
        """Execute one instruction."""
        step = self.code.steps[fragment.pc]
        if (
            self.asked > self.behind
            and fragment.warp.index == self.item.warp
            and step.op in COLLECTIVE
        ):
            for register in step.args:
                if register >= 0:
                    value = fragment.warp.registers[register]
                    self.brought.append(tuple(lane(value, n) for n in lanes_of(self.item.lanes)))
        return super().step(fragment)


def check_lanes(waits: WordWaits, actor: WordActor) -> None:
    """Lanes that vote on a word wait for the same numbers; raises NotWaiting."""
    code = waits.runs.made.code
    for at, item in enumerate(actor.items):
        if not item.polls:
            continue
        before = actor.answers[: item.asks]
        found = [
            waits.to_question(actor.cta, (*before, number))
            for number in waits.found_by(actor.cta, at)
        ]
        if item.members:
            check_vote(code, actor.run, item, found)
        elif item.lanes & (item.lanes - 1) and votes(code, item.instruction):
            behind = asked_before(actor.run, item.place)
            brought = [_brought(run, item, behind) for run in found]
            if not all(map(_alike, zip(*brought, strict=False))):
                raise NotWaiting("lanes wait for different numbers of a word", item.instruction)


def _brought(run: Run, item: Item, behind: int) -> Brought:
    assert run.prepared is not None
    machine = _Voting.again(run.prepared)
    machine.item, machine.behind, machine.brought = item, behind, []
    machine.run()
    return machine.brought


def _alike(choices: tuple[tuple[Scalar, ...], ...]) -> bool:
    """Whether lanes bring the same with each number, but for those that bring always the same."""
    lanes = list(zip(*choices, strict=True))
    return len({one for one in lanes if len(set(one)) > 1}) <= 1
