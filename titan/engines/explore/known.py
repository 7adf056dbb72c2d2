"""Events that the explorer follows where engines may have to publish more than what they have done.

native/visible.c says what happens to them. An event is the last write of a cell, or the last
synchronous read of a cell by one agent; only those are numbered that another agent's access may
rest on. A write has a second event for those who overwrite it, where an engine reads the cell: that
the engine has read what was written publishes enough to them. What engines alone write, they
overwrite on the order of execution alone, and so is all of tensor memory: neither has such events.
Programs in which every completion is accompanied by an arrival (titan/sync/relays.py), and all
synchronisation carries visibility (titan/sync/weak.py), need none at all.

There is room for `EVENTS_MAX` events in one search; where there are more, each batch of them has a
search of its own. Nothing that happens to an event depends on another event, so an access that
rests on an unknown one is met by the search of its batch.
"""

from __future__ import annotations

from collections.abc import Collection

from titan.engines.explore.tables import EVENTS_MAX, Flat
from titan.sync import program as ir
from titan.sync.parts import effects_of
from titan.sync.relays import relays
from titan.sync.weak import may_be_weak


def follows(flat: Flat) -> bool:
    """Whether to follow events. For chosen sizes the happens-before engine is there."""
    chosen = any(p.value is None and p.name in flat.sizes for p in flat.parameters)
    return (relays(flat.program) or may_be_weak(flat.program)) and not chosen


def number_events(flat: Flat, batch: int = 0) -> None:
    """Fill in one batch of the events, and how many batches there are."""
    agents, cells = len(flat.agents), len(flat.cells)
    flat.follows = follows(flat)
    flat.write_events, flat.overwrite_events = [-1] * cells, [-1] * cells
    flat.read_events = [-1] * (cells * agents)
    flat.concerned = [0] * agents
    if not flat.follows:
        return
    users = _Users(flat)
    numbering = _Numbering(flat, batch)
    for cell, owners in enumerate(flat.cell_buffers):
        if set(owners) & users.tensor:
            continue
        write, read = users.of(owners, write=True), users.of(owners, write=False)
        storing, loading = write[False], read[False]
        writing, reading = storing | write[True], loading | read[True]
        if writing and len(writing | reading) > 1:
            if storing and not read[True]:
                both = numbering.of_next(writing | reading)
                flat.write_events[cell] = flat.overwrite_events[cell] = both
            elif reading:
                flat.write_events[cell] = numbering.of_next(reading)
            if storing and read[True]:
                flat.overwrite_events[cell] = numbering.of_next(writing)
        for agent in sorted(loading):
            others = writing - {agent}
            if others:
                flat.read_events[cell * agents + agent] = numbering.of_next(others)
    flat.event_batches = max(1, -(-numbering.count // EVENTS_MAX))


class _Numbering:
    """Numbers for the events of one batch; those of the others have none (-1)."""

    def __init__(self, flat: Flat, batch: int) -> None:
        self.flat, self.first = flat, batch * EVENTS_MAX
        self.count = 0

    def of_next(self, concerned: set[int]) -> int:
        """The number of the next event, on which accesses of the agents given may rest."""
        number = self.count - self.first
        self.count += 1
        if not 0 <= number < EVENTS_MAX:
            return -1
        for agent in concerned:
            self.flat.concerned[agent] |= 1 << number
        return number


class _Users:
    """Who reads and writes each buffer: itself, or (True) by an engine."""

    def __init__(self, flat: Flat) -> None:
        self.tensor = {
            buffer.name for buffer in flat.program.buffers if buffer.space is ir.Space.TENSOR
        }
        self._agents: dict[tuple[str, bool, bool], set[int]] = {}
        self._filled: set[str] = set()  # buffers that are not only added to
        self._reducers: dict[tuple[str, bool], set[int]] = {}
        for agent in flat.agents:
            for operation in ir.walk(agent.role.body):
                engine = isinstance(operation, ir.Asynchronous)
                for effect in effects_of(operation):
                    key = (effect.buffer, effect.write, engine)
                    self._agents.setdefault(key, set()).add(agent.number)
                    if effect.write and not effect.reduction:
                        self._filled.add(effect.buffer)
                    elif effect.write:
                        adding = self._reducers.setdefault((effect.buffer, engine), set())
                        adding.add(agent.number)

    def of(self, owners: Collection[str], *, write: bool) -> dict[bool, set[int]]:
        """The agents whose own accesses, or those of their engines, touch one of the buffers."""
        found: dict[bool, set[int]] = {}
        for engine in (False, True):
            sets = [self._agents.get((name, write, engine), set()) for name in owners]
            if not write and self._filled & set(owners):
                # What adds to a plain write reads it.
                sets += [self._reducers.get((name, engine), set()) for name in owners]
            found[engine] = set().union(*sets)
        return found
