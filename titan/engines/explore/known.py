"""Events that the explorer follows where completed copies may have to tell of more than themselves.

native/visible.c says what happens to them. An event is the last write of a cell, or the last
synchronous read of a cell by one agent; only those are numbered that another agent's access may
rest on. Programs in which every completion is accompanied by an arrival (titan/sync/relays.py) need
none.
"""

from __future__ import annotations

from titan.engines.explore.tables import EVENTS_MAX, Flat, TooLargeError
from titan.sync import program as ir
from titan.sync.relays import relays


def follows(flat: Flat) -> bool:
    """Whether to follow events. For chosen sizes the happens-before engine is there."""
    chosen = any(p.value is None and p.name in flat.sizes for p in flat.parameters)
    return relays(flat.program) and not chosen


def number_events(flat: Flat) -> None:
    """Fill in the events of the tables. Raises TooLargeError."""
    agents, cells = len(flat.agents), len(flat.cells)
    flat.follows = follows(flat)
    flat.write_events, flat.read_events = [-1] * cells, [-1] * (cells * agents)
    flat.concerned = [0] * agents
    if not flat.follows:
        return
    users, writers, readers = _users(flat)
    number = 0
    for cell, owners in enumerate(flat.cell_buffers):
        using, writing, reading = (
            {agent for name in owners for agent in table.get(name, ())}
            for table in (users, writers, readers)
        )
        if writing and len(using) > 1:
            flat.write_events[cell] = number
            number = _concern(flat, number, using)
        for agent in sorted(reading):
            others = writing - {agent}
            if others:
                flat.read_events[cell * agents + agent] = number
                number = _concern(flat, number, others)
    if number > EVENTS_MAX:
        raise TooLargeError("too many accesses to follow who knows of them")


def _concern(flat: Flat, number: int, agents: set[int]) -> int:
    for agent in agents:
        flat.concerned[agent] |= 1 << number
    return number + 1


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
