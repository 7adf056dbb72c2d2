"""An agent of which is followed where it may stand, not with which numbers: anywhere ahead of it.

It goes every way of its control flow, any number of times, with whatever values. It stops only at
named barriers that its own number names: where all arrivals counted, its own among them, do not
fill the barrier, no order of them lets it pass. Once it passes one, it passes it ever after.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator

from titan.sync import program as ir
from titan.sync.control import Agent, ControlFlow, Frames
from titan.sync.footprints import Lasting, Signal, any_signals_of, named_key
from titan.sync.state import Key, Position, State


class WidenedAgent:
    """Where one agent has been, and the named barriers that it stands at.

    `arrivals` counts those of all agents, by `named_key`; the agent adds its own.
    """

    def __init__(
        self,
        control: ControlFlow,
        agent: Agent,
        places: Iterable[Frames],
        now: State,
        turning: Container[str],
    ) -> None:
        self._control, self._agent, self._named = control, agent, dict(now.named)
        self.fixed = Lasting(control.constants_of(agent), turning)
        self._passed: set[Frames] = set()
        self._arrived: set[Frames] = set()
        self._waiting = list(places)
        if any(agent.number in held.waiting for _, held in now.named):
            self._arrived.add(now.positions[agent.number].frames)

    def further(self, arrivals: Counter[Key]) -> Iterator[ir.Operation]:
        """The operations that it comes to with these arrivals, which may grow meanwhile."""
        stopped: list[Frames] = []
        while self._waiting:
            place = self._waiting.pop()
            if not place or place in self._passed:
                continue
            operation = self._control.operation_at(Position(place, ()))
            assert operation is not None
            if isinstance(operation, ir.BarrierSync) and self._stops(place, operation, arrivals):
                stopped.append(place)
                continue
            self._passed.add(place)
            yield operation
            self._waiting += self._control.ways_behind(place)
        self._waiting = stopped

    def signals(self, operation: ir.Operation, barriers: Iterable[Key]) -> list[Signal]:
        """What one of them does to barriers, any number of times."""
        return any_signals_of(operation, self.fixed, barriers, self._named)

    def _stops(self, place: Frames, operation: ir.BarrierSync, arrivals: Counter[Key]) -> bool:
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
