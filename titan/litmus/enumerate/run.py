"""Second engine: one run of one thread as data. Imports no solver and none of the first engine."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypedDict

from titan.litmus.language import ast
from titan.litmus.language.ast import Proxy, ThreadPlacement

Key = tuple[str, int, int, str]


class StepKind(Enum):
    """What one event of a run does; this engine's own, so that the two engines share no code."""

    READ = "R"
    WRITE = "W"
    FENCE = "fence"
    PROXY_FENCE = "fence.proxy"
    ALIAS_FENCE = "fence.proxy.alias"
    INIT_FENCE = "fence.mbarrier_init"
    BARRIER = "barrier"
    CLUSTER_ARRIVE = "barrier.cluster.arrive"
    CLUSTER_WAIT = "barrier.cluster.wait"
    INIT = "mbarrier.init"
    ARRIVE = "mbarrier.arrive"
    EXPECT = "mbarrier.expect_tx"
    WAIT = "mbarrier.wait"
    ISSUE = "issue of an asynchronous operation"
    GROUP_WAIT = "wait_group"


@dataclass(slots=True, eq=False)
class RunEvent:
    """One event of one run.

    `step` is its position in program order, None for what an asynchronous operation does later;
    `needs` are the events whose values it depends on, `issue` the event that issued it, `exits`
    those at which its completion may be observed.
    """

    key: Key
    kind: StepKind
    thread: int
    place: ThreadPlacement
    step: int | None = None
    spot: str | None = None
    proxy: Proxy = Proxy.GENERIC
    sem: str = "weak"
    scope: ast.Scope | None = None
    value: int | None = None
    needs: tuple[Key, ...] = ()
    issue: Key | None = None
    exits: tuple[Key, ...] = ()
    implicit: bool = False
    tensor: bool = False  # an operand of tcgen05.mma
    code: ast.LitmusInstruction | None = None
    ident: int = 0
    count: int = 0
    expect: int = 0
    passed: bool = True
    blocks: bool = False
    reduction: bool = False

    @property
    def accesses(self) -> bool:
        """Whether it reads or writes memory."""
        return self.kind is StepKind.READ or self.kind is StepKind.WRITE


class EventFields(TypedDict, total=False):
    """The fields of a `RunEvent` that most events leave at their defaults."""

    step: int | None
    spot: str
    proxy: Proxy
    sem: str
    scope: ast.Scope | None
    value: int | None
    issue: Key | None
    implicit: bool
    tensor: bool
    ident: int
    count: int
    expect: int
    reduction: bool


@dataclass(slots=True)
class ThreadRun:
    """One complete (or blocked) run of a thread."""

    acts: tuple[RunEvent, ...]
    registers: dict[str, int]
    unfinished: frozenset[str]
    pairs: tuple[tuple[Key, Key], ...]


@dataclass(slots=True)
class ThreadState:
    """State of the interpreter of one thread; copied at every choice."""

    pc: int = 0
    round: int = 0
    registers: dict[str, tuple[int, frozenset[Key]]] = field(default_factory=dict)
    control: frozenset[Key] = frozenset()
    acts: list[RunEvent] = field(default_factory=list)
    pairs: list[tuple[Key, Key]] = field(default_factory=list)
    groups: dict[str, list[list[Key]]] = field(default_factory=dict)
    copies: list[Key] = field(default_factory=list)
    matrix: list[Key] = field(default_factory=list)
    exits: dict[Key, list[Key]] = field(default_factory=dict)

    def copy(self) -> ThreadState:
        """A state that shares nothing that changes."""
        return replace(
            self,
            registers=dict(self.registers),
            acts=list(self.acts),
            pairs=list(self.pairs),
            groups={k: [list(g) for g in v] for k, v in self.groups.items()},
            copies=list(self.copies),
            matrix=list(self.matrix),
            exits={k: list(v) for k, v in self.exits.items()},
        )


def holds(left: int, relation: str, right: int) -> bool:
    """Whether `left relation right`, for the six relations of a branch or a condition."""
    return {
        "==": left == right,
        "!=": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[relation]


def compute(operation: str, values: list[int]) -> int:
    """The result of an arithmetic instruction or atomic; `mov` and `exch` return the last value."""
    if operation in ("mov", "exch"):
        return values[-1]
    a, b = values
    return {
        "add": a + b,
        "sub": a - b,
        "mul": a * b,
        "min": min(a, b),
        "max": max(a, b),
        "and": a & b,
        "or": a | b,
        "xor": a ^ b,
    }[operation]
