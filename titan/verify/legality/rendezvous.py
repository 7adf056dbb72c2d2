"""Where the threads of an agent have met at an mbarrier: waits that hold until its own arrival.

An arrival of all threads of an agent and a later wait of all of them bring the threads together
only if the wait cannot pass before that arrival is counted: it is at the same stage, and for the
phase of the arrival or a later one, or for its token. The agents of a role are run alone, with a
few sizes, the last beyond the period of the indices, and a wait counts as a meeting for an arrival
if it is one wherever these runs come to it: for what was done before the arrival was executed last.

Assumption: an agent arrives once in a phase, unless it is the only one that arrives there; then its
arrivals are counted against those that the barrier expects. Source: PTX ISA, mbarrier.test_wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from titan.foundation.records import dataclass
from titan.sync.control import ControlFlow
from titan.sync.expression import evaluate
from titan.sync.program import (
    Arrive,
    BarrierArrive,
    BarrierWait,
    Init,
    QueueArrive,
    Role,
    SyncProgram,
    TokenWait,
    Wait,
    walk,
)
from titan.sync.state import Environment, Key, key_of
from titan.verify.legality.alone import executed, rounds_of

SIZES = (1, 2, 5)  # of every open size, at least its minimum
STEPS_MAX = 20_000  # of one agent for one choice of sizes


@dataclass(frozen=True, slots=True)
class _Arrival:
    """The latest execution of one arrival: where it was counted, and in which phase."""

    key: Key
    phase: int
    token: bool


class _Run:
    """One agent alone: what it has arrived at, and which waits hold until that is counted."""

    def __init__(self, counts: dict[str, int], alone: frozenset[str]) -> None:
        self.counts = counts
        self.alone = alone
        self.amounts: dict[Key, int] = {}
        self.latest: dict[int, _Arrival] = {}

    def arrive(self, operation: Arrive | BarrierArrive, environment: Environment) -> None:
        key, amount, counted, token = key_of(operation.barrier, environment), 1, 1, True
        if isinstance(operation, Arrive):
            token = operation.token
            if key[0] in self.alone:
                amount, counted = evaluate(operation.count, environment), self.counts[key[0]]
        self.amounts[key] = self.amounts.get(key, 0) + amount
        phase = (self.amounts[key] - 1) // counted
        if token:  # a token is that of the last arrival which took one
            for site, arrival in self.latest.items():
                if arrival.key == key:
                    self.latest[site] = replace(arrival, token=False)
        self.latest[id(operation)] = _Arrival(key, phase, token)

    def held(
        self, operation: Wait | TokenWait | BarrierWait, environment: Environment
    ) -> Iterator[tuple[int, bool]]:
        """Each arrival at the barrier so far, and whether the wait passes only behind it."""
        key = key_of(operation.barrier, environment)
        for site, arrival in self.latest.items():
            if arrival.key[0] == key[0]:
                yield site, arrival.key == key and _behind(operation, arrival, environment)


def _behind(
    operation: Wait | TokenWait | BarrierWait, arrival: _Arrival, environment: Environment
) -> bool:
    if not isinstance(operation, Wait):
        return arrival.token
    if operation.phase is not None:
        return evaluate(operation.phase, environment) >= arrival.phase
    return evaluate(operation.parity, environment) & 1 == arrival.phase & 1


def meetings(program: SyncProgram, role: Role) -> frozenset[tuple[int, int]]:
    """The `id`s of a wait of the role and an arrival of it behind which its threads have met."""
    held: set[tuple[int, int]] = set()
    passed: set[tuple[int, int]] = set()
    counts = {barrier.name: barrier.count for barrier in program.barriers}
    alone = _arrived_at_by_one(program)
    for size in (*SIZES, rounds_of(program)):
        chosen = {item.name: max(size, item.minimum) for item in program.parameters}
        control = ControlFlow(program, chosen)
        for agent in control.agents:
            if agent.role.name != role.name:
                continue
            run = _Run(counts, alone)
            for operation, environment in executed(control, agent, STEPS_MAX):
                if isinstance(operation, Arrive | BarrierArrive):
                    run.arrive(operation, environment)
                elif isinstance(operation, Init):
                    run.amounts.pop(key_of(operation.barrier, environment), None)
                elif isinstance(operation, Wait | TokenWait | BarrierWait):
                    for site, holds in run.held(operation, environment):
                        (held if holds else passed).add((id(operation), site))
    return frozenset(held - passed)


def _arrived_at_by_one(program: SyncProgram) -> frozenset[str]:
    """The mbarriers at which a single agent arrives, and no engine by a commit."""
    who: dict[str, int] = {}
    for role in program.roles:
        names = {
            operation.barrier.name
            for operation in walk(role.body)
            if isinstance(operation, Arrive | QueueArrive)
        }
        engines = {op.barrier.name for op in walk(role.body) if isinstance(op, QueueArrive)}
        for name in names:
            who[name] = who.get(name, 0) + (2 if name in engines else role.agents)
    return frozenset(name for name, number in who.items() if number == 1)
