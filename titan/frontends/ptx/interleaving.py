"""A found interleaving in terms of the machine: warps that continue, operations that complete.

The engines refer to operations of the sync program; each was made of events of a warp. A warp's
events come in the same order in every interleaving, so a step of the trace is "this warp runs until
it has recorded its n-th event", and an engine's step "what this warp issued as its n-th operation
completes".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from titan.frontends.ptx.agents import Member
from titan.isa.simt.outcome import Run
from titan.isa.simt.steered import ISSUING, OWN, WarpName
from titan.sync import program as ir
from titan.sync.fault import Actor
from titan.sync.state import Position
from titan.verify.replay import Replay

WARP, COMPLETES = "warp", "completes"


@dataclass(frozen=True, slots=True)
class MachineStep:
    """`kind` "warp": it runs until it has recorded `count` events; "completes": its operation."""

    kind: str
    cta: int
    warp: int
    count: int


@dataclass(frozen=True, slots=True)
class MachineInterleaving:
    """The steps that lead to a fault; `code` and `message` are those of the fault.

    `accesses`: for each operation that the fault concerns, the events that it was made of, each as
    warp and number among its events.
    """

    code: str
    message: str
    steps: tuple[MachineStep, ...]
    accesses: tuple[tuple[tuple[WarpName, int], ...], ...]


def interleaving_of(
    run: Run, played: Replay, members: Mapping[int, list[Member]]
) -> MachineInterleaving:
    """The steps of a replayed trace; `members` by the identity of the program's operations."""
    numbers: dict[int, int] = {}  # of each event among its warp's, by sequence
    issued: dict[int, int] = {}
    counts: dict[tuple[WarpName, bool], int] = {}
    for event in run.events:
        name = event.cta, event.warp
        for found, kinds, key in ((numbers, OWN, False), (issued, ISSUING, True)):
            if isinstance(event, kinds):
                found[event.sequence] = counts.get((name, key), 0)
                counts[(name, key)] = found[event.sequence] + 1
    return _Translation(run, played, members, numbers, issued).interleaving()


@dataclass(slots=True)
class _Translation:
    run: Run
    played: Replay
    members: Mapping[int, list[Member]]
    numbers: Mapping[int, int]
    issued: Mapping[int, int]

    def interleaving(self) -> MachineInterleaving:
        """All steps, those that change nothing left out."""
        bodies = [role.body for role in self.played.machine.program.roles]
        launched = [_launched(body) for body in bodies]
        done = [0] * len(bodies)  # events of each agent so far
        made: list[MachineStep] = []
        for item in self.played.steps:
            agent = item.step.agent
            if item.step.actor is Actor.FINISH:
                operation = launched[agent][item.step.ordinal]
                made += self._completions(operation)
            elif item.step.actor is Actor.AGENT:
                before = item.before.positions[agent]
                after = None if item.after is None else item.after.positions[agent]
                reached = _reached(bodies[agent], before, after)
                events = self._events(reached)
                wanted = max((number for _, number in events), default=-1) + 1
                if wanted > done[agent]:
                    done[agent] = wanted
                    cta, warp = events[0][0]
                    made.append(MachineStep(WARP, cta, warp, wanted))
        fault = self.played.fault
        accesses = tuple(tuple(self._events([item])) for item in fault.operations)
        return MachineInterleaving(fault.kind.value, fault.message, tuple(made), accesses)

    def _events(self, operations: Sequence[ir.Operation]) -> list[tuple[WarpName, int]]:
        return [
            ((event.cta, event.warp), self.numbers[event.sequence])
            for operation in operations
            for event, _ in self.members.get(id(operation), ())
            if event.sequence in self.numbers
        ]

    def _completions(self, operation: ir.Operation) -> list[MachineStep]:
        return [
            MachineStep(COMPLETES, event.cta, event.warp, self.issued[event.sequence])
            for event, _ in self.members.get(id(operation), ())
            if event.sequence in self.issued
        ]


def _launched(body: ir.Block) -> list[ir.Operation]:
    """What an agent issues, as steps of engines number it."""
    return [item for item in body if isinstance(item, ir.Asynchronous | ir.QueueArrive)]


def _reached(body: ir.Block, before: Position, after: Position | None) -> list[ir.Operation]:
    """The operations that a step has executed, or has arrived for."""
    first = _index(body, before)
    last = first + 1 if after is None else max(_index(body, after), first + 1)
    return list(body[first:last])


def _index(body: ir.Block, position: Position) -> int:
    return position.frames[0][1] if position.frames else len(body)
