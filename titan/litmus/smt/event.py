"""Events of a litmus test and what relates them statically: the data that the axioms refer to."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pysmt.fnode import FNode

from titan.litmus.language import ast
from titan.litmus.language.ast import LitmusTest, Proxy, Scope, Semantics, ThreadPlacement
from titan.litmus.smt.terms import YES


class EventKind(StrEnum):
    """What an event does."""

    READ = "read"
    WRITE = "write"
    FENCE = "fence"
    PROXY_FENCE = "proxy fence"
    ALIAS_FENCE = "alias fence"
    INIT_FENCE = "mbarrier init fence"
    BARRIER = "barrier"
    CLUSTER_ARRIVE = "cluster arrive"
    CLUSTER_WAIT = "cluster wait"
    ISSUE = "issue"
    GROUP_WAIT = "group wait"
    MBARRIER_INIT = "mbarrier init"
    ARRIVE = "mbarrier arrive"
    EXPECT = "mbarrier expect"
    WAIT = "mbarrier wait"


MEMORY = (EventKind.READ, EventKind.WRITE)
MBARRIER_USE = (EventKind.ARRIVE, EventKind.EXPECT, EventKind.WAIT)


@dataclass(slots=True, eq=False)
class LitmusEvent:
    """One event; `key` names it across engines: thread, instruction, loop copy, part."""

    index: int
    kind: EventKind
    thread: int
    key: tuple[str, int, int, str]
    guard: FNode
    placement: ThreadPlacement
    position: int | None = None
    location: str | None = None
    proxy: Proxy = Proxy.GENERIC
    semantics: Semantics = Semantics.WEAK
    scope: Scope | None = None
    value: FNode | None = None
    depends: frozenset[int] = frozenset()
    passes: FNode = YES
    blocking: bool = False
    entry: int | None = None
    exits: list[int] = field(default_factory=list)
    implicit_fence: bool = False
    instruction: ast.LitmusInstruction | None = None
    identifier: FNode | None = None
    count: FNode | None = None
    expect: int = 0
    reduction: bool = False
    tensor: bool = False  # an operand of tcgen05.mma

    @property
    def asynchronous(self) -> bool:
        """A memory event of an asynchronous operation: entered by its issue, left by its exits."""
        return self.entry is not None

    @property
    def strong(self) -> bool:
        """Whether the access has semantics and a scope (PTX, strong operations)."""
        return self.semantics is not Semantics.WEAK and self.scope is not None


@dataclass(slots=True)
class SymbolicState:
    """One symbolic state of a thread: path condition, registers with taint, control taint."""

    guard: FNode
    registers: dict[str, tuple[FNode, frozenset[int]]]
    control: frozenset[int]


@dataclass(slots=True)
class EventGraph:
    """All events of a test and what relates them statically.

    `polling` and `cut` are guards of jumps back that are not followed: the former lose nothing,
    the latter make the answer hold up to the unrolling bound only.
    """

    test: LitmusTest
    events: list[LitmusEvent] = field(default_factory=list)
    rmw: list[tuple[int, int]] = field(default_factory=list)
    registers: dict[tuple[str, str], FNode] = field(default_factory=dict)
    undetermined: dict[tuple[str, str], FNode] = field(default_factory=dict)
    polling: list[FNode] = field(default_factory=list)
    cut: list[FNode] = field(default_factory=list)
    prefix: list[tuple[int, int]] = field(default_factory=list)

    def po(self, first: LitmusEvent, second: LitmusEvent) -> bool:
        """Program order; asynchronous parts are in none."""
        return (
            first.thread == second.thread
            and first.position is not None
            and second.position is not None
            and first.position < second.position
        )

    def memory(self, event: LitmusEvent) -> str:
        """The memory that an access concerns, whatever its name."""
        assert event.location is not None
        return self.test.memory(event.location)

    def address(self, event: LitmusEvent) -> str:
        """The virtual address that an access concerns."""
        assert event.location is not None
        return self.test.address(event.location)

    def of_kind(self, *kinds: EventKind) -> list[LitmusEvent]:
        """The events of these kinds, in order."""
        return [event for event in self.events if event.kind in kinds]


def add_event(
    graph: EventGraph,
    kind: EventKind,
    thread: int,
    key: tuple[str, int, int, str],
    guard: FNode,
    placement: ThreadPlacement,
    **rest: Any,
) -> LitmusEvent:
    """Append an event that happens where `guard` holds, and return it."""
    event = LitmusEvent(len(graph.events), kind, thread, key, guard, placement, **rest)
    graph.events.append(event)
    return event
