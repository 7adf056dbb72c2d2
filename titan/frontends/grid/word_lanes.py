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

from titan.frontends.grid.asked_words import Item, NotWaiting
from titan.frontends.grid.word_actors import WordActor, WordWaits
from titan.frontends.grid.word_loops import COLLECTIVE, votes
from titan.isa.simt.execution import SimtExecution
from titan.isa.simt.state import Fragment
from titan.isa.simt.values import Scalar, lane, lanes_of

Brought = list[tuple[Scalar, ...]]  # what each lane brings to a meeting, by meeting and operand


class _Voting(SimtExecution):
    """A run that notes what lanes of a warp bring to what they meet at behind the last answer."""

    item: Item
    brought: Brought

    def step(self, fragment: Fragment) -> bool:
        """Execute one instruction."""
        step = self.code.steps[fragment.pc]
        answered = self.asked == len(self.launch.answers or ())
        if answered and fragment.warp.index == self.item.warp and step.op in COLLECTIVE:
            for register in step.args:
                if register >= 0:
                    value = fragment.warp.registers[register]
                    self.brought.append(tuple(lane(value, n) for n in lanes_of(self.item.lanes)))
        return super().step(fragment)


def check_lanes(waits: WordWaits, actor: WordActor) -> None:
    """Lanes that vote on a word wait for the same numbers; raises NotWaiting."""
    code = waits.runs.made.code
    for at, item in enumerate(actor.items):
        if not item.polls or not item.lanes & (item.lanes - 1):
            continue
        if votes(code, item.instruction):
            found = waits.found_by(actor.cta, at)
            brought = [_brought(waits, actor, item, number) for number in found]
            if not all(map(_alike, zip(*brought, strict=False))):
                raise NotWaiting("lanes wait for different numbers of a word", item.instruction)


def _brought(waits: WordWaits, actor: WordActor, item: Item, number: int) -> Brought:
    made = waits.runs.prepared(actor.cta, (*actor.answers[: item.asks], number))
    machine = _Voting.again(made)
    machine.item, machine.brought = item, []
    machine.run()
    return machine.brought


def _alike(choices: tuple[tuple[Scalar, ...], ...]) -> bool:
    """Whether lanes bring the same with each number, but for those that bring always the same."""
    lanes = list(zip(*choices, strict=True))
    return len({one for one in lanes if len(set(one)) > 1}) <= 1
