"""Whether two recordings of one kernel order every two conflicting accesses in the same way.

A mutant that is verified is either not different or not caught. Here the difference is looked for
where it would have to be: both runs make the same accesses, warp by warp; for every two of them to
one piece of memory, one of which writes, the happens-before relation of both runs is asked whether
the first is over before the second. If all answers are the same, what the mutant lacks orders
nothing that conflicts: it is *equivalent* on this launch. What the sync program does not hold (the
order of lanes, register pools that are never empty) gives equal programs, which is distinguished.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from titan.engines.happens_before.clocks import Timestamp
from titan.engines.happens_before.execution import OrderedRun
from titan.engines.happens_before.steering import run_to_end
from titan.engines.happens_before.tables import IssuedOperation, RunLayout
from titan.engines.happens_before.tracker import Tracker
from titan.engines.happens_before.unfolding import Instance, Unfolder, UnfoldingRefused
from titan.frontends.ptx.record import LaunchRecording
from titan.sync.expression import Expression

OPERATIONS_MAX = 200_000
PAIRS_MAX = 4_000_000
Access = tuple[int, int]  # the agent, and which of its accesses
Cell = tuple[str, Expression, Expression | None]


class Likeness(StrEnum):
    """How two recordings are alike; DIFFERENT says that nothing is shown."""

    SAME_PROGRAM = "same program"
    SAME_ORDER = "same order of conflicts"
    DIFFERENT = "not shown"


@dataclass(frozen=True, slots=True)
class ConflictOrder:
    """The accesses of each agent by what they touch, and the ordered pairs that conflict."""

    accesses: tuple[tuple[str, ...], ...]
    conflicts: frozenset[tuple[Access, Access]]
    ordered: frozenset[tuple[Access, Access]]


@dataclass(frozen=True, slots=True)
class _Made:
    """One access as it was met in the run: an event of a warp, in an operation of the program."""

    name: Access
    flight: IssuedOperation | None
    at: Timestamp
    text: str


class _Follower(Tracker):
    """A tracker that keeps the instant of every access."""

    def __init__(self, layout: RunLayout, recording: LaunchRecording) -> None:
        super().__init__(layout)
        self.members = recording.members
        self.counts: dict[int, int] = {}
        self.made: list[_Made] = []
        self.cells: dict[Cell, list[tuple[_Made, bool]]] = {}

    def access(self, agent: int, instance: Instance) -> None:
        """An agent's own accesses; several events may be one operation."""
        self._add(agent, instance, None)
        super().access(agent, instance)

    def issued(self, flight: IssuedOperation) -> None:
        """Operations that an engine will execute."""
        self._add(flight.agent, flight.instance, flight)
        super().issued(flight)

    def _add(self, agent: int, instance: Instance, flight: IssuedOperation | None) -> None:
        at = self._at(agent)
        for event, effects in self.members.get(id(instance.operation), ()):
            if not effects:
                continue
            number = self.counts[agent] = self.counts.get(agent, -1) + 1
            writes = sorted(str((effect.write, effect.proxy)) for effect in effects)
            made = _Made((agent, number), flight, at, f"{type(event).__name__} {writes}")
            self.made.append(made)
            for effect in effects:
                cell = effect.buffer, effect.stage, effect.part
                self.cells.setdefault(cell, []).append((made, effect.write))

    def is_over(self, first: _Made, writes: bool, second: _Made) -> bool:
        """Whether the first access is over before the second begins, in every interleaving."""
        if first.flight is None:
            if first.name[0] == second.name[0]:
                return True  # a warp's own accesses are in its order
            return self.clocks.before(first.at.agent, first.at.index, second.at)
        if writes:
            return self.clocks.over(first.flight, second.at)
        return self.clocks.read(first.flight, second.at)


def conflict_order(recording: LaunchRecording) -> ConflictOrder | None:
    """The order of all conflicting accesses; None where the run does not end, or is too long."""
    try:
        layout = RunLayout(Unfolder(recording.program, None, OPERATIONS_MAX))
    except UnfoldingRefused:
        return None
    follower = _Follower(layout, recording)
    execution = OrderedRun(layout, follower)
    follower.execution = execution
    if run_to_end(execution, range(len(layout.agents))) is not None:
        return None
    if sum(len(users) ** 2 for users in follower.cells.values()) > 2 * PAIRS_MAX:
        return None
    conflicts: set[tuple[Access, Access]] = set()
    ordered: set[tuple[Access, Access]] = set()
    for users in follower.cells.values():
        for place, (first, first_writes) in enumerate(users):
            for second, second_writes in users[place + 1 :]:
                if (first_writes or second_writes) and first is not second:
                    pair = (first.name, second.name)
                    conflicts.add(pair)
                    if follower.is_over(first, first_writes, second):
                        ordered.add(pair)
    agents: list[list[str]] = [[] for _ in layout.agents]
    for one in follower.made:
        agents[one.name[0]].append(one.text)
    texts = tuple(tuple(found) for found in agents)
    return ConflictOrder(texts, frozenset(conflicts), frozenset(ordered))


def likeness(first: LaunchRecording, second: LaunchRecording) -> Likeness:
    """How two recordings of one kernel and launch are alike."""
    if first.program == second.program:
        return Likeness.SAME_PROGRAM
    left, right = conflict_order(first), conflict_order(second)
    if left is None or right is None or left.accesses != right.accesses:
        return Likeness.DIFFERENT
    # The first run meets two unordered accesses in one of the ways; what is ordered stays so.
    unordered = {frozenset(pair) for pair in left.conflicts - left.ordered}
    others = {frozenset(pair) for pair in right.conflicts - right.ordered}
    same = left.ordered == right.ordered and unordered == others
    return Likeness.SAME_ORDER if same else Likeness.DIFFERENT
