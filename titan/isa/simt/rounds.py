"""The loops of a kernel that do more than wait, and the rounds that lanes make of them.

A loop is the natural loop of a branch backwards: its head, and all from which the branch is reached
without passing the head. One that only tests barriers is none here: how often it runs is up to the
interleaving.
"""

from __future__ import annotations

from collections.abc import Mapping

from titan.isa.simt.control_flow import FlowGraph
from titan.isa.simt.execution import SimtExecution
from titan.isa.simt.launch import Launch, Options
from titan.isa.simt.layout import MemoryLayout
from titan.isa.simt.operations import WAITING, DecodedCode, Op
from titan.isa.simt.passages import Lanes, Loops, Passage, RoundCounter, Steps, step_between
from titan.isa.simt.rendezvous import TOKEN
from titan.isa.simt.state import Fragment
from titan.isa.simt.values import LANES, Value, lane, lanes_of


def loops_of(code: DecodedCode) -> dict[int, frozenset[int]]:
    """The instructions of each loop, by its head."""
    found: dict[int, frozenset[int]] = {}
    for start, end in code.functions:
        graph = FlowGraph(code.steps, start, end)
        before: list[list[int]] = [[] for _ in range(graph.exit + 1)]
        for number, following in enumerate(graph.next):
            for other in following:
                before[other].append(number)
        for number, following in enumerate(graph.next):
            for head in following:
                if head <= number < graph.exit:
                    body = _body(before, head, number)
                    at = graph.blocks[head][0]
                    steps = {n for one in body for n in range(*graph.blocks[one])}
                    found[at] = found.get(at, frozenset()) | steps
    return {head: body for head, body in found.items() if not _waits(code, head, body, found)}


def _body(before: list[list[int]], head: int, last: int) -> set[int]:
    """The blocks from which `last` is reached without passing the head, and the head."""
    body, work = {head}, [last]
    while work:
        number = work.pop()
        if number not in body:
            body.add(number)
            work += before[number]
    return body


def _waits(code: DecodedCode, head: int, body: frozenset[int], loops: Loops) -> bool:
    """Whether a loop only waits; one around another does more."""
    if any(other != head and other in body for other in loops):
        return False
    ops = {code.steps[number].op for number in body}
    return Op.BARRIER_WAIT in ops and ops <= WAITING


def lanes_at(fragment: Fragment) -> Lanes:
    """Which lanes a fragment has."""
    return fragment.warp.cta.rank, fragment.warp.index, fragment.mask


class CountedExecution(SimtExecution):
    """A run that counts its rounds, and remembers registers at some heads.

    `watched`: how many rounds lie between the two heads, by passage; `first` is the first of them,
    by its number.
    """

    def __init__(
        self,
        code: DecodedCode,
        layout: MemoryLayout,
        launch: Launch,
        options: Options,
        first: int = 0,
        watched: Mapping[tuple[Lanes, int], int] | None = None,
    ) -> None:
        super().__init__(code, layout, launch, options)
        self.orders_lanes = False
        self.counter = RoundCounter(loops_of(code), watched or ())
        self.first = first
        self.watched = watched or {}
        self.steps_between: dict[tuple[Lanes, int], Steps] = {}
        self._registers: dict[tuple[Lanes, int], list[Value]] = {}

    def step(self, fragment: Fragment) -> bool:
        """Execute one instruction."""
        passage = self.counter.arrive(lanes_at(fragment), fragment.pc)
        if passage is not None and self.watched:
            self._watch(fragment, passage)
        return super().step(fragment)

    def _watch(self, fragment: Fragment, passage: Passage) -> None:
        key = lanes_at(fragment), passage.number
        rounds = self.watched.get(key)
        if rounds is None:
            return
        if passage.visits == self.first:
            self._registers[key] = list(fragment.warp.registers)
        elif passage.visits == self.first + rounds:
            self.steps_between[key] = _steps(self._registers[key], fragment)


def _steps(before: list[Value], fragment: Fragment) -> Steps:
    """How far each register goes in each lane, of those that go anywhere."""
    found: dict[int, list[int]] = {}
    for register, (then, now) in enumerate(zip(before, fragment.warp.registers, strict=True)):
        if then is now:
            continue
        steps = [0] * LANES
        for index in lanes_of(fragment.mask):
            one, other = lane(then, index), lane(now, index)
            if isinstance(one, int) and isinstance(other, int) and not one & other & TOKEN:
                steps[index] = step_between(one, other)
        if any(steps):
            found[register] = steps
    return found
