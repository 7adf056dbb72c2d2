"""The protocol level: roles that acquire, produce, wait, issue, drain and release ring stages.

Iteration `index` of a ring of depth D uses stage `index mod D` in epoch `index div D`; nothing here
refers to a stage without its epoch. Data only: `titan/language/protocol/typestate.py` checks it for
every number of tiles, `titan/language/lower/` turns it into a sync program for one target.
Source: seed formulation, sections 1 and 2 (two-semaphore handshake, unified time loop).
"""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum

from titan.foundation.records import dataclass
from titan.foundation.source.span import Span
from titan.sync.expression import ZERO, Expression
from titan.sync.program import (
    DEFAULT_POLICIES,
    Barrier,
    Buffer,
    Effect,
    NamedBarrier,
    Operation,
    Parameter,
    Policies,
    Pool,
    Queue,
)


class ReleaseMode(StrEnum):
    """How the readers give a stage back."""

    PER_AGENT = "per_agent"  # every consumer agent releases its own share
    COLLECTIVE = "collective"  # one agent releases for all, after a barrier among the readers


class PartialTile(StrEnum):
    """What a producer does for a tile that is not there or not whole."""

    ZERO_BYTES = "zero_bytes"  # it arrives all the same, with the bytes that there are
    POISON = "poison"  # it hands on ReadyPoison, which every consumer must branch on
    FALLBACK = "fallback"  # a non-pipelined tail deals with it outside the ring


class Transport(StrEnum):
    """How `Produce` fills the stage."""

    BULK = "bulk"  # TMA, completes on the full barrier by bytes
    ASYNC_COPY = "async_copy"  # cp.async of the producer's threads
    STORE = "store"  # ordinary stores (register-staged)
    MMA = "mma"  # tensor core writes tensor memory; its commit completes the stage
    LDS_DMA = "lds_dma"  # AMD direct-to-LDS


@dataclass(frozen=True, slots=True)
class Ring:
    """`buffers` share the stages of one ring; `bytes` is what one full stage transfers.

    `ready_count` and `free_count` are the arrivals that fill and that free a stage; 0: as many as
    there are agents that produce, and that wait for, one index.
    """

    name: str
    buffers: tuple[str, ...]
    depth: int
    bytes: int = 0
    release: ReleaseMode = ReleaseMode.PER_AGENT
    partial: PartialTile = PartialTile.ZERO_BYTES
    transport: Transport = Transport.BULK
    ready_count: int = 0
    free_count: int = 0
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Base of all statements; `span` is where it stands, ignored in comparisons."""

    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Acquire(Statement):
    """Free(s, e) -> Slot(s, e); blocks until the stage is free."""

    ring: str
    index: Expression


@dataclass(frozen=True, slots=True)
class Produce(Statement):
    """Slot(s, e) -> in flight -> ReadyTok(s, e), or ReadyPoison where `poison` holds.

    `bytes` overrides what the ring transfers (0: arrive without data). `buffers` empty: all of the
    ring; several `Produce` of one slot then fill disjoint buffers, and only the last one (`last`)
    completes the stage. `stored`: the agent fills it by stores, whatever the ring's transport.
    """

    ring: str
    index: Expression
    bytes: Expression | None = None
    poison: Expression | None = None
    buffers: tuple[str, ...] = ()
    last: bool = True
    stored: bool = False


@dataclass(frozen=True, slots=True)
class WaitReady(Statement):
    """Blocks until ReadyTok(s, e) (or ReadyPoison) is there; gives the agent its ReadPerm share."""

    ring: str
    index: Expression


@dataclass(frozen=True, slots=True)
class ReadStage(Statement):
    """Synchronous reads (ld.shared, ldmatrix, tcgen05.ld with its wait) under ReadPerm."""

    ring: str
    index: Expression
    buffers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Operand:
    """A stage that an asynchronous computation reads."""

    ring: str
    index: Expression
    buffers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Issue(Statement):
    """ReadPerm -> ReadPerm + ComputeTok for every operand; the reads end with the group.

    `produces` (ring, index): the computation fills that slot as well (tensor memory), and its
    completion is the ready token. `accumulates`: it writes that slot without completing it; a later
    `Produce` of the slot, or an `Issue` that `produces` it, does. `beside`: what it reads of
    buffers that belong to no ring; the sync program alone says whether that is right.
    """

    operands: tuple[Operand, ...]
    group: str
    produces: tuple[Operand, ...] = ()
    accumulates: tuple[Operand, ...] = ()
    beside: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class Drain(Statement):
    """compute.wait: at most `leaving` issued groups are unfinished afterwards."""

    group: str
    leaving: Expression = ZERO


@dataclass(frozen=True, slots=True)
class Release(Statement):
    """All shares rejoined -> ConsumedTok(s, e) -> Free(s, e + 1).

    `after` names a group: the release happens when what was issued to it so far is done
    (tcgen05.commit to the empty barrier), which is a drain of its own.
    """

    ring: str
    index: Expression
    after: str | None = None


@dataclass(frozen=True, slots=True)
class WhenPoisoned(Statement):
    """Branch on the kind of the token that the last wait on (ring, index) gave."""

    ring: str
    index: Expression
    then: Body = ()
    otherwise: Body = ()


def ring_of(statement: Statement) -> str | None:
    """The ring that a statement names; None where it names none, or several."""
    match statement:
        case Acquire() | Produce() | WaitReady() | ReadStage() | Release() | WhenPoisoned():
            return statement.ring
    return None


@dataclass(frozen=True, slots=True)
class Finalize(Statement):
    """The end that every role must reach."""


@dataclass(frozen=True, slots=True)
class For(Statement):
    """A loop: `variable` counts from `start` up to but without `stop`."""

    variable: str
    start: Expression
    stop: Expression
    body: Body


@dataclass(frozen=True, slots=True)
class When(Statement):
    """A branch on a condition that does not depend on poison; `otherwise` may be empty."""

    condition: Expression
    then: Body
    otherwise: Body = ()


@dataclass(frozen=True, slots=True)
class Count(Statement):
    """A running counter of the role takes a new value (ring position over nested loops)."""

    variable: str
    value: Expression


@dataclass(frozen=True, slots=True)
class Primitive(Statement):
    """An operation of the sync level inside a protocol: named barrier, store, fence, registers."""

    operation: Operation


Body = tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class ProtocolRole:
    """`agents` agents of `threads` threads each run `body`; `elected`: one thread of each acts.

    `registers` is the budget after setmaxnreg, 0 where none is asked for.
    """

    name: str
    body: Body
    agents: int = 1
    threads: int = 32
    registers: int = 0
    cta: int = 0
    agent_constant: str = "self"
    variables: tuple[tuple[str, int], ...] = ()
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Protocol:
    """Roles that work on ring stages, with all declarations; sizes are open parameters."""

    name: str
    target: str
    rings: tuple[Ring, ...]
    roles: tuple[ProtocolRole, ...]
    parameters: tuple[Parameter, ...] = ()
    buffers: tuple[Buffer, ...] = ()
    named_barriers: tuple[NamedBarrier, ...] = ()
    queues: tuple[Queue, ...] = ()
    pools: tuple[Pool, ...] = ()
    policies: Policies = DEFAULT_POLICIES
    span: Span | None = field(default=None, compare=False)
    barriers: tuple[Barrier, ...] = ()  # of primitives; those of rings are made by lowering
    queue_kinds: tuple[tuple[str, str], ...] = ()  # of declared queues: the counters they represent
