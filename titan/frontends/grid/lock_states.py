"""The state of a CTA that asks for a word, once nothing else of it can proceed.

A CTA that spins on a lock comes back to the question that it has asked. Where its state is then the
one that it had before, the rounds in between have left nothing, and any number of them is as good
as one. The state is all that a continuation may depend on: registers that are still read, memory
with what is known of it, where the lanes of each warp are, and barriers; not what only records the
run: events, counts of steps, generations of barriers.

A warp that asks is kept where it is, and all others run until they end or wait: what they have done
by then is the same in every schedule.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from titan.foundation.errors import TitanError
from titan.frontends.grid.asked_words import NotWaiting, Ranges, writes_of
from titan.frontends.grid.word_loops import plain_event
from titan.isa.simt.control_flow import FunctionGraphs, successors
from titan.isa.simt.execution import SimtExecution
from titan.isa.simt.launch import QUESTION, WORD_BYTES
from titan.isa.simt.memory import KNOWN, PAGE_BITS, Bytes
from titan.isa.simt.operations import DecodedCode, Op
from titan.isa.simt.outcome import Ending, PreparedLaunch, Run, Waiter
from titan.isa.simt.state import Blocked, Cta, Fragment, Join, Warp
from titan.isa.simt.values import Value, lane, lanes_of

STEPS_MAX = 3_000_000  # warp instructions of all runs that are made for their states
_ALL = -1


class AskedError(TitanError):
    """A run comes to a question that has no answer."""


@dataclass(frozen=True, slots=True)
class ParkedState:
    """What a run has come to. `asked`: address, instruction, warp and lanes of its question, or
    None where it has ended; `state`: what its continuation depends on. `done`: its events since the
    last answer."""

    asked: tuple[int, int, int, int] | None
    state: Hashable
    done: tuple[Hashable, ...] = field(default=(), compare=False)


class ParkedExecution(SimtExecution):
    """A run in which what asks is kept, while other warps and lanes go on. `parked`: what asked,
    with the address of its word. `leaves`: lanes go on without those of their warp that ask."""

    parked: tuple[tuple[Fragment, int], ...] = ()
    leaves = False
    answered = 0  # events before the last answer

    def refuse(self, fragment: Fragment, reason: str) -> NoReturn:
        """Raise what ends the run, or keeps the warp that asks."""
        if reason == QUESTION:
            raise AskedError(reason)
        super().refuse(fragment, reason)

    def step(self, fragment: Fragment) -> bool:
        """Execute one instruction."""
        asked, events = self.asked, len(self.events)
        try:
            stops = super().step(fragment)
        except AskedError:
            warp, mask, pc = fragment.warp, fragment.mask, fragment.pc

            def waiter() -> Waiter:
                return Waiter(warp.cta.number, warp.index, mask, pc, "a word of global memory")

            fragment.blocked = Blocked(lambda: False, lambda: None, waiter)
            self.parked = (*self.parked, (fragment, self.map_offset))
            return True
        if self.asked != asked:
            self.answered = events
        return stops

    def _break_join(self, warp: Warp) -> bool:
        return (self.leaves or not self.parked) and super()._break_join(warp)


def check_alone(run: Run, words: Sequence[int]) -> None:
    """No other warp or lane of a CTA that asks writes one of these words; raises NotWaiting.

    A run ends where it asks, and what others of the CTA do then is not in it.
    """
    assert run.prepared is not None
    machine = ParkedExecution.again(run.prepared)
    machine.orders_lanes, machine.leaves = False, True
    whole = machine.run()
    place = machine.parked[0][0].pc
    ended = whole.outcome.ending in (Ending.HUNG, Ending.FINISHED)
    if len(machine.parked) > 1 or not ended:
        raise NotWaiting("several warps of a CTA ask for words", place)
    for event, (low, high) in writes_of(whole):
        late = event.sequence >= len(run.events)
        if late and any(low < at + max(WORD_BYTES) and at < high for at in words):
            raise NotWaiting(
                "one warp of a CTA waits, and another one writes such a word", event.instruction
            )


class ParkedStates:
    """States of the runs of a launch. Raises NotWaiting where they take too long."""

    def __init__(self, code: DecodedCode) -> None:
        self.code = code
        self.graphs = FunctionGraphs(code)
        self.steps = 0
        self._live: dict[int, int] = {}
        self._calls = any(step.op is Op.CALL for step in code.steps)

    def of(self, made: PreparedLaunch, written: Iterable[tuple[int, int]]) -> ParkedState:
        """The state that a run comes to. `written`: the bytes of global memory that it may change,
        as ranges."""
        machine = ParkedExecution.again(made)
        machine.orders_lanes = False
        run = machine.run()
        self._count(machine)
        if not machine.parked:
            if run.outcome.ending is not Ending.FINISHED:
                raise NotWaiting("the run of a CTA does not come to its end", run.outcome.site)
            return ParkedState(None, None)
        if len(machine.parked) > 1:
            raise NotWaiting("several warps of a CTA take locks", machine.parked[1][0].pc)
        fragment, address = machine.parked[0]
        asked = address, fragment.pc, fragment.warp.index, fragment.mask
        done = tuple(map(plain_event, machine.events[machine.answered :]))
        return ParkedState(asked, self._frozen(machine, written), done)

    def at_question(
        self, made: PreparedLaunch, written: Iterable[tuple[int, int]], forgotten: Ranges
    ) -> Hashable:
        """What the continuation of a run depends on where it ends, at a question or otherwise.
        `forgotten`: bytes of global memory that nothing reads without asking."""
        machine = SimtExecution.again(made)
        machine.run()
        self._count(machine)
        for low, high in forgotten:
            machine.memory.write(low, high - low, 0)
        return self._frozen(machine, written)

    def _count(self, machine: SimtExecution) -> None:
        self.steps += machine.count
        if self.steps > STEPS_MAX:
            raise NotWaiting(
                f"the states of CTAs that ask are compared for up to {STEPS_MAX:,} instructions"
            )

    def _frozen(self, machine: SimtExecution, written: Iterable[tuple[int, int]]) -> Hashable:
        ctas = [cta for cluster in machine.clusters for cta in cluster.ctas]
        pages = machine.memory.pages
        changed = {
            number
            for low, high in written
            for number in range(low >> PAGE_BITS, (high - 1 >> PAGE_BITS) + 1)
        }
        memory = tuple((number, _bytes(pages[number])) for number in sorted(changed & set(pages)))
        flight = tuple((operation.number, operation.stored) for operation in machine.flight)
        return memory, flight, _bytes(machine.parameters), tuple(map(self._cta, ctas))

    def _cta(self, cta: Cta) -> Hashable:
        barriers = tuple(
            (at, item.expected, item.pending, item.bytes, item.phase)
            for at, item in sorted(cta.barriers.items())
        )
        named = tuple(
            (at, item.arrived, item.expected if item.arrived else 0, tuple(item.values))
            for at, item in sorted(cta.named.items())
        )
        columns = tuple(sorted(cta.columns.items())), cta.in_pair, cta.pair_allocations
        warps = tuple(map(self._warp, cta.warps))
        return _bytes(cta.shared), barriers, named, columns, warps

    def _warp(self, warp: Warp) -> Hashable:
        fragments = tuple(
            sorted(
                (item.mask, item.pc, item.blocked is not None, item.stack, _join(item.join))
                for item in warp.fragments
                if not item.dead
            )
        )
        joins = tuple(sorted(map(_join, warp.joins)))
        places = [item.pc for item in warp.fragments] + [join.pc for join in warp.joins]
        live = self._live_in(places)
        lanes = lanes_of(warp.live)
        registers = tuple(
            (number, _value(value, lanes))
            for number, value in enumerate(warp.registers)
            if live >> number & 1
        )
        local = tuple((at, _bytes(item)) for at, item in sorted(warp.local.items()))
        groups = tuple(
            (key, tuple(one.number for one in item.open),
             tuple(tuple(one.number for one in part) for part in item.closed))
            for key, item in sorted(warp.groups.items())
        )  # fmt: skip
        marks = tuple(sorted(item for item in warp.marks.items() if live >> item[0] & 1))
        owned = tuple(sorted((number, item.number) for number, item in warp.owned.items()))
        arrivals = tuple(sorted(warp.arrivals.items()))
        return warp.live, fragments, joins, registers, local, groups, marks, owned, arrivals

    def _live_in(self, places: Iterable[int]) -> int:
        """The registers that may be read from these instructions on."""
        if self._calls:
            return _ALL
        found = 0
        for place in places:
            if place not in self._live:
                self._live[place] = self._before(place)
            found |= self._live[place]
        return found

    def _before(self, place: int) -> int:
        steps = self.code.steps
        if not 0 <= place < len(steps):
            return _ALL
        graph = self.graphs.around(place)
        number = graph.block_at[graph.head_of(place)]
        _, high = graph.blocks[number]
        live = 0
        for after in successors(steps, high - 1, graph.end):
            live |= 0 if after == graph.end else graph.live_at(after)
        for at in range(high - 1, place - 1, -1):
            step = steps[at]
            if step.guard < 0:
                for register in step.out:
                    live &= ~(1 << register) if register >= 0 else _ALL
            for register in (*step.args, step.guard):
                live |= 1 << register if register >= 0 else 0
        return live


def _bytes(memory: Bytes) -> tuple[bytes, bytes]:
    """What is known of a memory, and of which bytes."""
    state = bytes(memory.state)
    if state.count(KNOWN) == len(state):
        return bytes(memory.data), state
    known = state.translate(_KNOWN)
    masked = int.from_bytes(memory.data, "little") & int.from_bytes(known, "little")
    return masked.to_bytes(len(state), "little"), state


_KNOWN = bytes(255 if state == KNOWN else 0 for state in range(256))


def _join(join: Join | None) -> tuple[tuple[int, ...], ...]:
    """Where lanes meet again, with what is around it."""
    return tuple((at.pc, at.depth, at.expected, at.arrived) for at in _outwards(join))


def _outwards(join: Join | None) -> Iterator[Join]:
    while join is not None:
        yield join
        join = join.parent


def _value(value: Value, lanes: Sequence[int]) -> Hashable:
    found = tuple(lane(value, index) for index in lanes)
    return found[0] if len(set(found)) == 1 else found
