"""Events that the explorer follows where completed copies may have to tell of more than themselves.

native/visible.c says what happens to them. An event is the last write of a cell, or the last
synchronous read of a cell by one agent; only those are numbered that another agent's access may
rest on. Programs in which every completion is accompanied by an arrival (titan/sync/relays.py) need
none. There is room for `EVENTS_MAX` events in one search; where there are more, each batch of them
has a search of its own. Nothing that happens to an event depends on another event, so an access
that rests on an unknown one is met by the search of its batch.
"""

from __future__ import annotations

from titan.engines.explore.tables import EVENTS_MAX, Flat
from titan.sync import program as ir
from titan.sync.relays import relays


def follows(flat: Flat) -> bool:
    """Whether to follow events. For chosen sizes the happens-before engine is there."""
    chosen = any(p.value is None and p.name in flat.sizes for p in flat.parameters)
    return relays(flat.program) and not chosen


def number_events(flat: Flat, batch: int = 0) -> None:
    """Fill in one batch of the events, and how many batches there are."""
    agents, cells = len(flat.agents), len(flat.cells)
    flat.follows = follows(flat)
    flat.write_events, flat.read_events = [-1] * cells, [-1] * (cells * agents)
    flat.concerned = [0] * agents
    if not flat.follows:
        return
    users, writers, readers = _users(flat)
    numbering = _Numbering(flat, batch)
    for cell, owners in enumerate(flat.cell_buffers):
        using, writing, reading = (
            {agent for name in owners for agent in table.get(name, ())}
            for table in (users, writers, readers)
        )
        if writing and len(using) > 1:
            flat.write_events[cell] = numbering.of_next(using)
        for agent in sorted(reading):
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


def _users(flat: Flat) -> tuple[dict[str, set[int]], dict[str, set[int]], dict[str, set[int]]]:
    """Of each buffer: who uses it, who writes it, and who reads it in synchronous accesses."""
    users: dict[str, set[int]] = {}
    writers: dict[str, set[int]] = {}
    readers: dict[str, set[int]] = {}
    for agent in flat.agents:
        for operation in ir.walk(agent.role.body):
            if not isinstance(operation, ir.Access | ir.Asynchronous):
                continue
            for effect in operation.effects:
                users.setdefault(effect.buffer, set()).add(agent.number)
                if effect.write:
                    writers.setdefault(effect.buffer, set()).add(agent.number)
                elif isinstance(operation, ir.Access):
                    readers.setdefault(effect.buffer, set()).add(agent.number)
    return users, writers, readers
