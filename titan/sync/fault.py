"""What can go wrong in a sync program: the fault kinds with their rule codes, and traces."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import NamedTuple

from titan.foundation.records import dataclass
from titan.sync.program import Operation


class FaultKind(StrEnum):
    """The value is the rule code (titan/foundation/diagnostics/codes.py holds name and
    explanation)."""

    DATA_RACE = "TTN201"
    OVERWRITE_IN_FLIGHT = "TTN202"
    READ_BEFORE_ARRIVAL = "TTN203"
    STALE_READ = "TTN204"
    DEADLOCK = "TTN205"
    OVER_ARRIVAL = "TTN206"
    TRANSACTION_MISMATCH = "TTN207"
    BARRIER_UNINITIALISED = "TTN208"
    BARRIER_LIFECYCLE = "TTN209"
    NAMED_BARRIER_MISUSE = "TTN210"
    LEAK_AT_EXIT = "TTN211"
    LAPPED_WAIT = "TTN212"
    POOL_MISUSE = "TTN213"
    INDEX_OUT_OF_RANGE = "TTN214"
    UNOBSERVED_PHASE = "TTN216"
    MISSING_FENCE = "TTN301"
    MISSING_FENCE_WAR = "TTN302"
    UNPUBLISHED_INIT = "TTN303"
    MISSING_TENSORMAP_FENCE = "TTN304"
    WEAK_SYNCHRONISATION = "TTN305"
    MISSING_CACHED_FENCE = "TTN307"


class Actor(StrEnum):
    """Who takes a step of a trace: an agent, or an engine that reads or finishes."""

    AGENT = "agent"  # an agent executes its next operation
    READS = "reads"  # an engine has read all sources of an operation
    FINISH = "finish"  # an engine finishes an operation, or one chunk of it


LETTERS = {Actor.AGENT: "a", Actor.READS: "r", Actor.FINISH: "f"}  # of steps in certificates


class Step(NamedTuple):
    """One step of one interleaving, meaningful to every engine.

    `agent` counts agents over all roles in program order. For an engine's step `ordinal` is the
    number of the asynchronous operation among those the agent issued (QueueArrive counts as one).
    """

    actor: Actor
    agent: int
    ordinal: int = -1

    @property
    def text(self) -> str:
        """As certificates write it: letter, agent, and of an engine's step the ordinal."""
        own = self.actor is Actor.AGENT
        return f"{LETTERS[self.actor]}{self.agent}" + ("" if own else f".{self.ordinal}")


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, the agents concerned, and the operations to point at (the first is primary)."""

    kind: FaultKind
    message: str
    agents: tuple[int, ...] = ()
    operations: tuple[Operation, ...] = field(default=(), compare=False)
    object_name: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """An interleaving from the start of the program to a fault, for given sizes."""

    parameters: tuple[tuple[str, int | tuple[int, ...]], ...]
    steps: tuple[Step, ...]
    fault: Fault
