"""The faults of a run, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from titan.engines.happens_before.tables import IssuedOperation, Mbarrier, RunLayout
from titan.engines.happens_before.unfolding import AgentProgram, Cell, Instance, Key
from titan.foundation.errors import TitanError
from titan.sync.fault import Fault, FaultKind


class FaultError(TitanError):
    """Carries the fault out of a step."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


def fail(kind: FaultKind, message: str, agent: int, instance: Instance, name: str = "") -> NoReturn:
    """End the run with a fault of one agent's operation."""
    raise FaultError(Fault(kind, message, (agent,), (instance.operation,), name))


def race_fault(
    first: AgentProgram, one: Instance, second: AgentProgram, two: Instance, cell: Cell
) -> Fault:
    """DATA_RACE: two instances of two agents that access `cell` and that nothing orders."""
    return Fault(
        FaultKind.DATA_RACE,
        f"{first.name} and {second.name} access {cell_text(cell)} and nothing orders them",
        (first.number, second.number),
        (one.operation, two.operation),
        cell[0],
    )


def in_flight_fault(
    agent: int,
    instance: Instance,
    cell: Cell,
    write: bool,
    flight: IssuedOperation,
    flight_writes: bool,
) -> Fault:
    """An access that meets an operation in flight: an overwrite, or a read too early."""
    if write:
        kind = FaultKind.OVERWRITE_IN_FLIGHT
        what = "writes" if flight_writes else "reads"
        message = f"{cell_text(cell)} is overwritten while an operation in flight still {what} it"
    else:
        kind = FaultKind.READ_BEFORE_ARRIVAL
        message = f"{cell_text(cell)} is read while a write to it is in flight"
    operations = (instance.operation, flight.instance.operation)
    return Fault(kind, message, (agent, flight.agent), operations, cell[0])


def fence_fault(kind: FaultKind, agent: int, instance: Instance, cell: Cell) -> Fault:
    """A missing fence before an access to `cell`; raises KeyError for kinds of other faults."""
    text = cell_text(cell)
    messages = {
        FaultKind.MISSING_FENCE: f"{text} was written through the generic proxy without a proxy "
        "fence before this asynchronous access",
        FaultKind.MISSING_FENCE_WAR: f"{text} was read through the generic proxy without a proxy "
        "fence before this asynchronous write",
        FaultKind.MISSING_TENSORMAP_FENCE: f"the tensor map in {text} was written and is used "
        "without a tensormap fence",
        FaultKind.MISSING_CACHED_FENCE: f"{text} was accessed through another proxy without the "
        "fences of both proxies before this access",
    }
    return Fault(kind, messages[kind], (agent,), (instance.operation,), cell[0])


def unobserved_fault(barrier: Mbarrier, agent: int, instance: Instance) -> Fault:
    """UNOBSERVED_PHASE: an arrival before any wait has passed for the phase before."""
    message = (
        f"an arrival at {barrier.text} for phase {barrier.phase}, and no wait has passed for phase "
        f"{barrier.phase - 1}"
    )
    operations = (instance.operation,)
    return Fault(FaultKind.UNOBSERVED_PHASE, message, (agent,), operations, barrier.key[0])


def unwaited_commit_fault(key: Key, layout: RunLayout) -> Fault:
    """LEAK_AT_EXIT: a CTA has not waited for what engines of another one do at its barrier."""
    role, operation = layout.peer_commits[key[0]]
    agent = next(item.number for item in layout.agents if item.role.name == role.name)
    message = f"the CTA of {key[0]}[{key[1]}] ends before it waits for a peer's commit"
    return Fault(FaultKind.LEAK_AT_EXIT, message, (agent,), (operation,), key[0])


def cell_text(cell: Cell) -> str:
    """The buffer and the stage as reports show them, `buffer[stage]`."""
    return f"{cell[0]}[{cell[1]}]"


def stale_text(layout: RunLayout, cell: Cell, held: int | str, meant: int) -> str:
    """What a read finds and what it means."""
    names = layout.covering[cell][0].contents
    found, expected = content_text(held, names), content_text(meant, names)
    return f"{cell_text(cell)} holds {found} where {expected} is expected"


def content_text(tile: int | str, names: Sequence[str] = ()) -> str:
    """A tile number as `tile N`; what is a string already stays as it is.

    `names`: the buffers that share the storage, by which its tiles are numbered in turn.
    """
    if isinstance(tile, str):
        return tile
    if not names:
        return f"tile {tile}"
    number, name = divmod(tile, len(names))
    return f"tile {number} of {names[name]}"
