"""An agent of which is followed where it may stand, not with which numbers: anywhere ahead of it.

It goes every way of its control flow, any number of times, with whatever values. It stops only at
named barriers that its own number names: where all arrivals counted, its own among them, do not
fill the barrier, no order of them lets it pass. Once it passes one, it passes it ever after.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator
from heapq import heapify, heappop, heappush

from titan.sync import program as ir
from titan.sync.control import Agent, ControlFlow, Frames
from titan.sync.footprints import Lasting, Signal, any_signals_of, named_key
from titan.sync.state import Key, Position, State

COMMITS_MAX = 4  # of those counted


class WidenedAgent:
    """Where one agent has been, and the named barriers that it stands at.

    `arrivals` counts those of all agents, by `named_key`; the agent adds its own.
    """

    def __init__(
        self,
        control: ControlFlow,
        agent: Agent,
        places: Iterable[tuple[int, Frames]],
        now: State,
        turning: Container[str],
        queue: str | None,
        waits: Callable[[ir.QueueWait, int, int], bool],
    ) -> None:
        self._control, self._agent, self._named = control, agent, dict(now.named)
        self.fixed = Lasting(control.constants_of(agent), turning)
        self.ended = False
        self._queue, self._waits = queue, waits
        self._passed: dict[Frames, int] = {}  # behind how many commits at least
        self._arrived: set[Frames] = set()
        self._waiting = list(places)
        if any(agent.number in held.waiting for _, held in now.named):
            self._arrived.add(now.positions[agent.number].frames)

    def further(self, arrivals: defaultdict[Key, int]) -> Iterator[ir.Operation]:
        """The operations that it comes to with these arrivals, which may grow meanwhile."""
        stopped: list[tuple[int, Frames]] = []
        heapify(self._waiting)
        while self._waiting:
            commits, place = heappop(self._waiting)
            self.ended = self.ended or not place
            if not place or self._passed.get(place, COMMITS_MAX + 1) <= commits:
                continue
            operation = self._control.operation_at(Position(place, ()))
            assert operation is not None
            if isinstance(operation, ir.QueueWait) and self._waits_behind(operation, commits):
                continue
            if isinstance(operation, ir.BarrierSync) and self._stops(place, operation, arrivals):
                stopped.append((commits, place))
                continue
            self._passed[place] = commits
            yield operation
            if isinstance(operation, ir.Commit) and operation.queue == self._queue:
                commits = min(commits + 1, COMMITS_MAX)
            for further in self._control.ways_behind(place):
                heappush(self._waiting, (commits, further))
        self._waiting = stopped

    def _waits_behind(self, operation: ir.QueueWait, commits: int) -> bool:
        """Whether a wait on the queue cannot pass behind so many commits or more."""
        pending = self.fixed.value(operation.pending)
        return pending is not None and self._waits(operation, pending, commits)

    def signals(self, operation: ir.Operation, barriers: Iterable[Key]) -> list[Signal]:
        """What one of them does to barriers, any number of times."""
        return any_signals_of(operation, self.fixed, barriers, self._named)

    def _stops(
        self, place: Frames, operation: ir.BarrierSync, arrivals: defaultdict[Key, int]
    ) -> bool:
        name, threads = operation.barrier.name, self.fixed.value(operation.threads)
        index = self.fixed.place(name, operation.barrier.index)
        held = None if index is None else self._named.get((name, index))
        if index is None or held is None or threads is None:
            return False
        key = named_key((name, index))
        if place not in self._arrived:
            self._arrived.add(place)
            arrivals[key] += self._agent.role.threads
        return held.arrived_threads + arrivals[key] < threads
