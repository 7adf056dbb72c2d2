"""Interleavings that try to go wrong, and the rules of the interpreter that runs computations."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from titan.sync import program as ir
from titan.sync.fault import Actor, Step
from titan.sync.interpreter import Rules
from titan.sync.lifetime import CtaLifetime
from titan.sync.mbarrier_rules import MbarrierRules
from titan.sync.memory_rules import MemoryRules
from titan.sync.reductions import Reduction
from titan.sync.state import Cell, Draft, ExecutionContext, Extent, Key, MbarrierState

ENGINES = ("late", "early", "random", "fickle")
REDRAW = 0.03  # how often a fickle run changes who goes first


@dataclass(frozen=True, slots=True)
class Interleaving:
    """How one run goes: `engines` finish as late or early as they can, at random, or by turns of
    favour that change (`fickle`, agents included)."""

    seed: int = 0
    engines: str = "random"
    torn: bool = False
    lenient: bool = False


def interleavings(count: int, seed: int = 0) -> list[Interleaving]:
    """`count` runs, all ways of going in turn, every second round torn."""
    return [
        Interleaving(seed + i, ENGINES[i % len(ENGINES)], torn=i // len(ENGINES) % 2 == 0)
        for i in range(count)
    ]


@dataclass(slots=True)
class Chooser:
    """Which of the possible steps is next; `queue_of` names the queue that an engine serves."""

    interleaving: Interleaving
    queue_of: Callable[[Step], str | None]
    random: random.Random = field(init=False)
    favour: dict[tuple[object, ...], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.interleaving.seed)

    def choice(self, steps: list[Step]) -> Step:
        """The next of `steps`, which must not be empty; engines late, early, random or favoured."""
        engines = [step for step in steps if step.actor is not Actor.AGENT]
        agents = [step for step in steps if step.actor is Actor.AGENT]
        match self.interleaving.engines:
            case "late":
                return self.random.choice(agents or engines)
            case "early":
                return self.random.choice(engines or agents)
            case "random":
                return self.random.choice(steps)
        if self.random.random() < REDRAW:
            self.favour.clear()
        return max(steps, key=self._favour_of)

    def _favour_of(self, step: Step) -> float:
        key: tuple[object, ...] = (step.actor is Actor.AGENT, step.agent)
        if step.actor is not Actor.AGENT:
            key = (*key, self.queue_of(step))
        return self.favour.setdefault(key, self.random.random())


class LenientLifetime(CtaLifetime):
    """An end of a CTA that nobody minds: operations then in flight do not affect the numbers."""

    def check_exit(self, draft: Draft) -> None:
        """Accepts every end."""


class LenientMemory(MemoryRules):
    """Stops for nothing that the numbers should show."""

    def check_read(
        self,
        draft: Draft,
        context: ExecutionContext,
        cell: Cell,
        tile: int,
        queue: str | None = None,
    ) -> None:
        """Accepts every read: a read of the wrong tile shows in the computed numbers."""

    def check_write(
        self,
        draft: Draft,
        context: ExecutionContext,
        cell: Cell,
        queue: str | None = None,
        extent: Extent | None = None,
        reduction: Reduction | None = None,
    ) -> None:
        """Accepts every write: an early overwrite shows in the computed numbers."""

    def check_proxy(
        self, draft: Draft, context: ExecutionContext, cell: Cell, effect: ir.Effect
    ) -> None:
        """Accepts every proxy: a missing proxy fence is not judged by numbers."""


class LenientMbarriers(MbarrierRules):
    """mbarriers as hardware has them."""

    def count_down(
        self,
        draft: Draft,
        context: ExecutionContext,
        key: Key,
        barrier: MbarrierState,
        *amounts: int,
    ) -> None:
        """A phase that nobody has waited for may be followed by the next, as on hardware."""
        super().count_down(draft, context, key, barrier._replace(observed=True), *amounts)


# The reference interpreter on programs with computations, and one that stops for fewer faults.
COMPUTING = Rules(computes=True)
LENIENT = Rules(LenientLifetime, LenientMemory, LenientMbarriers, computes=True)


def without_phases(program: ir.SyncProgram) -> ir.SyncProgram:
    """Waits by parity alone, as hardware does them."""

    def block(operations: ir.Block) -> ir.Block:
        return tuple(one(operation) for operation in operations)

    def one(operation: ir.Operation) -> ir.Operation:
        if isinstance(operation, ir.Wait):
            return replace(operation, phase=None)
        if isinstance(operation, ir.Loop):
            return replace(operation, body=block(operation.body))
        if isinstance(operation, ir.Branch):
            then, otherwise = block(operation.then), block(operation.otherwise)
            return replace(operation, then=then, otherwise=otherwise)
        return operation

    roles = tuple(replace(role, body=block(role.body)) for role in program.roles)
    return replace(program, roles=roles)
