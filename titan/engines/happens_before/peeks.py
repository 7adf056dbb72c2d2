"""Tests of an mbarrier that are not waits: what each takes for granted, in every interleaving.

Code may test a barrier early, work on if the phase is incomplete, and wait for the phase later. The
program has the wait alone, which represents both results as long as the test sees the phase that
is meant: a parity means phase n only when phase n - 1 is complete. A later one than n cannot be
complete: that is the lapping rule of the wait that follows (`phases`). So the completion of phase
n - 1 and the initialisation have to be before the test in the order of the run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from titan.engines.happens_before.clocks import Timestamp
from titan.engines.happens_before.execution import OrderedRun
from titan.engines.happens_before.findings import Weight
from titan.engines.happens_before.precedences import Mark
from titan.engines.happens_before.tables import RunLayout
from titan.engines.happens_before.tracker import Tracker
from titan.engines.happens_before.unfolding import Key
from titan.foundation.records import dataclass
from titan.sync import program as ir
from titan.sync.fault import Fault, FaultKind


@dataclass(frozen=True, slots=True)
class Peek:
    """A test of phase `phase` of a barrier, between two operations of an agent.

    `position` counts the agent's operations before it, but for plain accesses: those change nothing
    of what an agent knows.
    """

    agent: int
    position: int
    barrier: Key
    phase: int


class PeekingRun(OrderedRun):
    """A run in which each peek is judged when its agent comes to the operation after it.

    `instants`: what was before each of the marks.
    """

    def __init__(
        self,
        layout: RunLayout,
        tracker: Tracker,
        *,
        peeks: Iterable[Peek],
        marks: Collection[Mark] = (),
    ) -> None:
        super().__init__(layout, tracker)
        self._tracker = tracker
        self._marks = marks
        self.instants: dict[Mark, Timestamp] = {}
        self._passed = [0] * len(layout.agents)
        self._open: dict[tuple[int, int], list[Peek]] = {}
        for peek in peeks:
            self._open.setdefault((peek.agent, peek.position), []).append(peek)

    def step_agent(self, agent: int) -> None:
        """Execute the agent's next operation. Raises FaultError."""
        instance = self.instance_of(agent)
        assert instance is not None
        if not isinstance(instance.operation, ir.Access):
            self._judge(agent)
            self._passed[agent] += 1
        super().step_agent(agent)

    def ended(self) -> None:
        """Judge the peeks after which their agents do nothing else."""
        for agent in range(len(self.agents)):
            self._judge(agent)

    def _judge(self, agent: int) -> None:
        mark = agent, self._passed[agent]
        if mark in self._marks:
            self.instants[mark] = self._tracker.clocks.timestamp(self, agent)
        for peek in self._open.pop(mark, ()):
            if not self._sees_its_phase(peek, self._tracker.clocks.timestamp(self, agent)):
                name = self.agents[agent].name
                what = f"{peek.barrier[0]}[{peek.barrier[1]}]"
                text = (
                    f"{name} may test {what} for phase {peek.phase} before phase "
                    f"{peek.phase - 1} is complete"
                    if peek.phase > 0
                    else f"{name} may test {what} before it is initialised"
                )
                fault = Fault(FaultKind.LAPPED_WAIT, text, (agent,), (), peek.barrier[0])
                self._tracker.findings.add(Weight.DEVIATION, fault)

    def _sees_its_phase(self, peek: Peek, at: Timestamp) -> bool:
        barrier = self.barriers.get(peek.barrier)
        if barrier is None or not barrier.status or barrier.phase < peek.phase:
            return False
        clocks, track = self._tracker.clocks, self._tracker.track(barrier)
        known = track.initialised is None or clocks.before(*track.initialised, at)
        return known and clocks.complete(track, peek.phase, at)
