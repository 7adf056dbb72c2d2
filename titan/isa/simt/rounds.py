"""The loops of a kernel that do more than wait, and the rounds that lanes make of them.

A loop is the natural loop of a branch backwards: its head, and all from which the branch is reached
without passing the head. One that only tests barriers is none here: how often it runs is up to the
interleaving.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from titan.isa.simt.control_flow import FlowGraph
from titan.isa.simt.execution import SimtExecution
from titan.isa.simt.launch import Launch, Options
from titan.isa.simt.layout import MemoryLayout
from titan.isa.simt.operations import WAITING, DecodedCode, Op
from titan.isa.simt.rendezvous import TOKEN
from titan.isa.simt.state import Fragment
from titan.isa.simt.values import LANES, Value, lane, lanes_of

Lanes = tuple[int, int, int]  # CTA, warp, mask: lanes that run together
Steps = Mapping[int, Sequence[int]]  # of registers, by lane
WORD = 1 << 32
Loops = Mapping[int, frozenset[int]]


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


@dataclass(slots=True)
class Passage:
    """One time through a loop: how often its head was reached. `number` counts those of the lanes,
    in the order in which they began."""

    head: int
    number: int
    visits: int = 0


@dataclass(slots=True)
class Passages:
    """All passages of lanes that run together; `open` are those that have not ended. `last`: where
    the lanes were; an instruction that blocks is stepped again."""

    all: list[Passage] = field(default_factory=list)
    open: list[Passage] = field(default_factory=list)
    last: int = -1


class RoundCounter:
    """Counts rounds while a run is made."""

    def __init__(self, code: DecodedCode) -> None:
        self.loops = loops_of(code)
        self.of: dict[Lanes, Passages] = {}

    def arrive(self, fragment: Fragment) -> Passage | None:
        """The passage whose head a fragment is at, counted; None: it is at none."""
        key = lanes_at(fragment)
        found = self.of.get(key)
        pc = fragment.pc
        if found is None:
            if pc not in self.loops:
                return None
            found = self.of[key] = Passages()
        if found.last == pc:
            return None
        found.last = pc
        if found.open:
            found.open = [item for item in found.open if pc in self.loops[item.head]]
        if pc not in self.loops:
            return None
        passage = next((item for item in found.open if item.head == pc), None)
        if passage is None:
            passage = Passage(pc, len(found.all))
            found.all.append(passage)
            found.open.append(passage)
        passage.visits += 1
        return passage

    def counts(self) -> dict[Lanes, list[tuple[int, int]]]:
        """Heads and visits of all passages, in order."""
        return {key: [(p.head, p.visits) for p in item.all] for key, item in self.of.items()}


def lanes_at(fragment: Fragment) -> Lanes:
    """Which lanes a fragment has."""
    return fragment.warp.cta.number, fragment.warp.index, fragment.mask


def step_between(then: int, now: int) -> int:
    """How far a register has gone; one of 32 bits may have wrapped."""
    step = now - then
    wrapped = then < WORD and now < WORD and abs(step) >= WORD // 2
    return (step + WORD // 2) % WORD - WORD // 2 if wrapped else step


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
        self.counter = RoundCounter(code)
        self.first = first
        self.watched = watched or {}
        self.steps_between: dict[tuple[Lanes, int], Steps] = {}
        self._registers: dict[tuple[Lanes, int], list[Value]] = {}

    def step(self, fragment: Fragment) -> bool:
        """Execute one instruction."""
        passage = self.counter.arrive(fragment)
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
