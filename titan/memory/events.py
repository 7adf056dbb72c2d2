"""Unrolls a litmus test into events with symbolic guards and values.

Threads are executed symbolically, loops unrolled `unroll` times; a loop that only polls memory
needs no second copy, since dropping its failed rounds leaves a consistent execution with the same
final state. An asynchronous operation becomes an issue event in program order, memory events of its
own, and where it completes on an mbarrier an arrival that is in no program order. Its memory events
are entered from the issue and left through `exits`: a completion carries the operation's own
accesses and nothing that the issuing thread did before (PTX, Asynchronous Operations).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from pysmt.fnode import FNode
from pysmt.shortcuts import BOOL, INT, Int, Symbol

from titan.memory import ast
from titan.memory.ast import Direction, GroupKind, LitmusTest, Placement, Proxy, Scope, Semantics
from titan.memory.terms import (
    NO,
    YES,
    UnsupportedTest,
    all_of,
    any_of,
    arithmetic,
    both,
    choose,
    compare,
    negation,
)


class Kind(StrEnum):
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


MEMORY = (Kind.READ, Kind.WRITE)
MBARRIER_USE = (Kind.ARRIVE, Kind.EXPECT, Kind.WAIT)


@dataclass(slots=True, eq=False)
class Event:
    """One event; `key` names it across engines: thread, instruction, loop copy, part."""

    index: int
    kind: Kind
    thread: int
    key: tuple[str, int, int, str]
    guard: FNode
    placement: Placement
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
    instruction: ast.Instruction | None = None
    identifier: FNode | None = None
    count: FNode | None = None
    expect: int = 0
    reduction: bool = False

    @property
    def asynchronous(self) -> bool:
        """A memory event of an asynchronous operation: entered by its issue, left by its exits."""
        return self.entry is not None

    @property
    def strong(self) -> bool:
        return self.semantics is not Semantics.WEAK and self.scope is not None


@dataclass(slots=True)
class _State:
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
    events: list[Event] = field(default_factory=list)
    rmw: list[tuple[int, int]] = field(default_factory=list)
    registers: dict[tuple[str, str], FNode] = field(default_factory=dict)
    undetermined: dict[tuple[str, str], FNode] = field(default_factory=dict)
    polling: list[FNode] = field(default_factory=list)
    cut: list[FNode] = field(default_factory=list)
    prefix: list[tuple[int, int]] = field(default_factory=list)

    def po(self, first: Event, second: Event) -> bool:
        """Program order; asynchronous parts are in none."""
        return (
            first.thread == second.thread
            and first.position is not None
            and second.position is not None
            and first.position < second.position
        )

    def memory(self, event: Event) -> str:
        assert event.location is not None
        return self.test.memory(event.location)

    def address(self, event: Event) -> str:
        assert event.location is not None
        return self.test.address(event.location)

    def of_kind(self, *kinds: Kind) -> list[Event]:
        return [event for event in self.events if event.kind in kinds]


def build_events(test: LitmusTest, unroll: int = 2) -> EventGraph:
    """All events of the test; raises `UnsupportedTest` for what cannot be decided exactly."""
    graph = EventGraph(test)
    for location in test.locations:
        if location.alias_of is None and not location.is_mbarrier:
            _add(
                graph,
                Kind.WRITE,
                -1,
                ("init", 0, 0, location.name),
                YES,
                location.home or Placement(),
                location=location.name,
                value=Int(location.initial),
            )
    for number in range(len(test.threads)):
        _ThreadBuilder(graph, number, unroll).run()
    return graph


def _add(
    graph: EventGraph,
    kind: Kind,
    thread: int,
    key: tuple[str, int, int, str],
    guard: FNode,
    placement: Placement,
    **rest: object,
) -> Event:
    event = Event(len(graph.events), kind, thread, key, guard, placement, **rest)  # type: ignore[arg-type]
    graph.events.append(event)
    return event


class _ThreadBuilder:
    """Symbolic execution of one thread."""

    def __init__(self, graph: EventGraph, number: int, unroll: int) -> None:
        self.graph = graph
        self.number = number
        self.thread = graph.test.threads[number]
        self.code = self.thread.instructions
        self.labels = {i.name: n for n, i in enumerate(self.code) if isinstance(i, ast.Label)}
        self.unroll = unroll
        self.pending: dict[tuple[int, int], list[_State]] = {}
        self.finished: list[_State] = []
        self.blocked: list[tuple[_State, set[str]]] = []
        self.groups: dict[GroupKind, list[list[Event]]] = {k: [[]] for k in GroupKind}
        self.matrix: list[Event] = []
        self.copies: list[Event] = []
        self.at = (0, 0)

    # Control ------------------------------------------------------------------------------

    def run(self) -> None:
        start = {n: (Int(v), frozenset[int]()) for n, v in self.thread.registers}
        self.pending[(0, 0)] = [_State(YES, start, frozenset())]
        for copy in range(self.unroll + 1):
            for index in range(len(self.code)):
                states = self.pending.pop((copy, index), [])
                if states:
                    self.at = (copy, index)
                    self._step(self._merge(states), self.code[index])
            self.finished += self.pending.pop((copy, len(self.code)), [])
        self._finish()

    def _merge(self, states: list[_State]) -> _State:
        if len(states) == 1:
            return states[0]
        guard = any_of(state.guard for state in states)
        names = {name for state in states for name in state.registers}
        registers = {}
        for name in names:
            value, taint = states[-1].registers.get(name, (Int(0), frozenset()))
            for state in states[:-1]:
                other, more = state.registers.get(name, (Int(0), frozenset[int]()))
                value, taint = choose(state.guard, other, value), taint | more
            registers[name] = (value, taint | frozenset().union(*(s.control for s in states)))
        control = frozenset[int]().union(*(state.control for state in states))
        return _State(guard, registers, control)

    def _go(self, state: _State, target: int) -> None:
        copy, index = self.at
        if state.guard.is_false():
            return
        if target <= index:
            polls = self._polls(target, index)
            if polls or copy == self.unroll:
                (self.graph.polling if polls else self.graph.cut).append(state.guard)
                return
            copy += 1
        self.pending.setdefault((copy, target), []).append(state)

    def _polls(self, start: int, end: int) -> bool:
        """Whether the loop only reads memory and carries no register from round to round."""
        body = self.code[start : end + 1]
        defined: set[str] = set()
        for instruction in body:
            if isinstance(instruction, ast.Branch):
                used = {
                    o.name
                    for o in (instruction.left, instruction.right)
                    if isinstance(o, ast.Register)
                }
                assigned = {i.destination for i in body if isinstance(i, ast.Load)}
                if (used & assigned) - defined:
                    return False
            elif isinstance(instruction, ast.Load):
                defined.add(instruction.destination)
            elif not isinstance(instruction, ast.Label):
                return False
        return True

    def _finish(self) -> None:
        ends = self.finished + [state for state, _ in self.blocked]
        if not ends:
            ends = [_State(NO, {}, frozenset())]
        final = self._merge(ends)
        from titan.memory.text import defined_registers

        for name in defined_registers(self.thread):
            key = (self.thread.name, name)
            self.graph.registers[key] = final.registers.get(name, (Int(0), frozenset()))[0]
            self.graph.undetermined[key] = any_of(
                s.guard for s, later in self.blocked if name in later
            )

    # Steps --------------------------------------------------------------------------------

    def _step(self, state: _State, instruction: ast.Instruction) -> None:
        copy, index = self.at
        if isinstance(instruction, ast.Branch):
            self._branch(state, instruction)
            return
        if isinstance(instruction, ast.Assign):
            parts = [self._value(state, operand) for operand in instruction.operands]
            value = arithmetic(instruction.operation, [part for part, _ in parts])
            taint = frozenset[int]().union(*(t for _, t in parts))
            state.registers = {**state.registers, instruction.destination: (value, taint)}
        elif not isinstance(instruction, ast.Label | ast.NoEffect):
            state = self._effect(state, instruction)
        self.pending.setdefault((copy, index + 1), []).append(state)

    def _branch(self, state: _State, branch: ast.Branch) -> None:
        copy, index = self.at
        target = self.labels[branch.target]
        if branch.relation is None:
            self._go(state, target)
            return
        (left, first), (right, second) = (
            self._value(state, branch.left),
            self._value(state, branch.right),
        )
        taken = compare(left, branch.relation, right)
        control = state.control | first | second
        self._go(_State(both(state.guard, taken), dict(state.registers), control), target)
        stays = both(state.guard, negation(taken))
        if not stays.is_false():
            rest = _State(stays, dict(state.registers), control)
            self.pending.setdefault((copy, index + 1), []).append(rest)

    def _value(self, state: _State, operand: ast.Operand) -> tuple[FNode, frozenset[int]]:
        if isinstance(operand, int):
            return Int(operand), frozenset()
        return state.registers.get(operand.name, (Int(0), frozenset()))

    def _event(self, state: _State, kind: Kind, part: str = "", **rest: object) -> Event:
        copy, index = self.at
        placement = rest.pop("placement", self.thread.placement)
        rest.setdefault("instruction", self.code[index])
        rest.setdefault("depends", state.control)
        event = _add(
            self.graph,
            kind,
            self.number,
            (self.thread.name, index, copy, part),
            state.guard,
            placement,  # type: ignore[arg-type]
            **rest,
        )
        return event

    def _here(self, part: int = 0) -> int:
        copy, index = self.at
        return (copy * len(self.code) + index) * 4 + part

    def _set(
        self, state: _State, register: str | None, value: FNode, taint: frozenset[int]
    ) -> None:
        if register is not None:
            state.registers = {**state.registers, register: (value, taint)}

    def _effect(self, state: _State, instruction: ast.Instruction) -> _State:
        match instruction:
            case ast.Load():
                self._load(state, instruction)
            case ast.Store():
                value, taint = self._value(state, instruction.value)
                self._event(
                    state,
                    Kind.WRITE,
                    position=self._here(),
                    location=instruction.location,
                    proxy=instruction.proxy,
                    semantics=instruction.semantics,
                    scope=instruction.scope,
                    value=value,
                    depends=state.control | taint,
                )
            case ast.Atomic():
                self._atomic(state, instruction)
            case ast.Fence():
                self._event(
                    state,
                    Kind.FENCE,
                    position=self._here(),
                    semantics=instruction.semantics,
                    scope=instruction.scope,
                )
            case ast.ProxyFence():
                self._event(
                    state,
                    Kind.PROXY_FENCE,
                    position=self._here(),
                    proxy=instruction.proxy,
                    scope=instruction.scope,
                    location=instruction.location,
                )
            case ast.AliasFence():
                self._event(state, Kind.ALIAS_FENCE, position=self._here())
            case ast.MbarrierInitFence():
                self._event(state, Kind.INIT_FENCE, position=self._here())
            case ast.Barrier():
                return self._barrier(state, instruction)
            case ast.ClusterBarrier():
                return self._cluster(state, instruction)
            case _:
                return self._asynchronous(state, instruction)
        return state

    def _load(self, state: _State, load: ast.Load) -> None:
        event = self._event(
            state,
            Kind.READ,
            position=self._here(),
            location=load.location,
            proxy=load.proxy,
            semantics=load.semantics,
            scope=load.scope,
        )
        event.value = Symbol(f"value_{event.index}", INT)
        self._set(state, load.destination, event.value, frozenset({event.index}))

    def _atomic(self, state: _State, atomic: ast.Atomic) -> None:
        acquires, releases = atomic.semantics.acquires, atomic.semantics.releases
        reduction = atomic.destination is None
        read = self._event(
            state,
            Kind.READ,
            "read",
            position=self._here(),
            location=atomic.location,
            semantics=Semantics.ACQUIRE if acquires and not reduction else Semantics.RELAXED,
            scope=atomic.scope,
            reduction=reduction,
        )
        read.value = Symbol(f"value_{read.index}", INT)
        operands = [self._value(state, operand) for operand in atomic.operands]
        taint = frozenset({read.index}).union(*(part for _, part in operands))
        before = state.guard
        if atomic.operation == "cas":
            new = operands[1][0]
            state.guard = both(before, compare(read.value, "==", operands[0][0]))
        else:
            new = arithmetic(atomic.operation, [read.value, operands[0][0]])
        write = self._event(
            state,
            Kind.WRITE,
            "write",
            position=self._here(1),
            location=atomic.location,
            semantics=Semantics.RELEASE if releases else Semantics.RELAXED,
            scope=atomic.scope,
            value=new,
            depends=state.control | taint,
        )
        state.guard = before
        self.graph.rmw.append((read.index, write.index))
        self._set(state, atomic.destination, read.value, frozenset({read.index}))

    def _pass(self, state: _State, event: Event) -> _State:
        """The state behind a blocking event; the executions that stay there are kept as ends."""
        event.passes = Symbol(f"pass_{event.index}", BOOL)
        event.blocking = True
        stuck = _State(both(state.guard, negation(event.passes)), state.registers, state.control)
        self.blocked.append((stuck, self._assigned_later()))
        control = state.control | {event.index}
        return _State(both(state.guard, event.passes), state.registers, control)

    def _assigned_later(self) -> set[str]:
        index = self.at[1]
        starts = [
            self.labels[b.target]
            for n, b in enumerate(self.code)
            if isinstance(b, ast.Branch) and self.labels[b.target] <= index < n
        ]
        rest = self.code[min([index + 1, *starts]) :]
        from titan.memory.text import defined_registers

        return set(defined_registers(ast.Thread("", self.thread.placement, rest)))

    def _barrier(self, state: _State, barrier: ast.Barrier) -> _State:
        identifier, taint = self._value(state, barrier.identifier)
        count = None
        if barrier.count is not None:
            count, more = self._value(state, barrier.count)
            taint |= more
        event = self._event(
            state,
            Kind.BARRIER,
            position=self._here(),
            identifier=identifier,
            count=count,
            depends=state.control | taint,
        )
        return self._pass(state, event) if barrier.waits else state

    def _cluster(self, state: _State, barrier: ast.ClusterBarrier) -> _State:
        kind = Kind.CLUSTER_WAIT if barrier.waits else Kind.CLUSTER_ARRIVE
        event = self._event(
            state,
            kind,
            position=self._here(),
            semantics=barrier.semantics,
            scope=Scope.CLUSTER,
        )
        return self._pass(state, event) if barrier.waits else state

    # Asynchronous operations and mbarriers ------------------------------------------------

    def _asynchronous(self, state: _State, instruction: ast.Instruction) -> _State:
        match instruction:
            case ast.MbarrierInit():
                self._event(
                    state,
                    Kind.MBARRIER_INIT,
                    position=self._here(),
                    location=instruction.location,
                    count=Int(instruction.count),
                )
            case ast.MbarrierArrive():
                self._event(
                    state,
                    Kind.ARRIVE,
                    position=self._here(),
                    location=instruction.location,
                    semantics=instruction.semantics,
                    scope=instruction.scope,
                    count=Int(instruction.count),
                    expect=instruction.expect,
                )
            case ast.MbarrierExpect():
                self._event(
                    state,
                    Kind.EXPECT,
                    position=self._here(),
                    location=instruction.location,
                    count=Int(0),
                    expect=instruction.expect,
                )
            case ast.MbarrierWait():
                return self._wait(state, instruction)
            case ast.BulkCopy():
                self._bulk(state, instruction)
            case ast.AsyncCopy():
                self._copy(state, instruction)
            case ast.MatrixRead():
                self._matrix(state, instruction)
            case ast.AsyncCopyArrive():
                self._copy_arrive(state, instruction)
            case ast.TensorCommit():
                arrive = self._completion(state, instruction.location, Scope.CLUSTER, "arrive", 0)
                arrive.count = Int(1)
                for part in self.matrix:
                    part.exits.append(arrive.index)
            case ast.CommitGroup():
                self._straight(state, instruction)
                self.groups[instruction.kind].append([])
            case ast.WaitGroup():
                self._group_wait(state, instruction)
            case _:
                raise UnsupportedTest(f"{type(instruction).__name__} is not decided")
        return state

    def _wait(self, state: _State, wait: ast.MbarrierWait) -> _State:
        event = self._event(
            state,
            Kind.WAIT,
            position=self._here(),
            location=wait.location,
            semantics=wait.semantics,
            scope=wait.scope,
        )
        if wait.destination is None:
            return self._pass(state, event)
        event.passes = Symbol(f"pass_{event.index}", BOOL)
        seen = choose(event.passes, Int(1), Int(0))
        self._set(state, wait.destination, seen, frozenset({event.index}))
        return state

    def _copy_arrive(self, state: _State, arrive: ast.AsyncCopyArrive) -> None:
        """Without `.noinc` one more arrival is awaited from the moment of issue (PTX)."""
        if not arrive.noinc:
            self._event(
                state,
                Kind.EXPECT,
                "increment",
                position=self._here(-1),
                location=arrive.location,
                count=Int(-1),
            )
        done = self._completion(state, arrive.location, Scope.CTA, "arrive", 0)
        done.count = Int(1)
        for part in self.copies:
            part.exits.append(done.index)

    def _straight(self, state: _State, instruction: ast.Instruction) -> None:
        """Group counting is static: a group operation behind a jump is refused, not guessed."""
        jumps = any(isinstance(i, ast.Branch) for i in self.code)
        if jumps:
            name = type(instruction).__name__
            raise UnsupportedTest(f"{name} in a thread with jumps is not decided")

    def _part(
        self,
        state: _State,
        kind: Kind,
        issue: Event,
        name: str,
        location: str,
        proxy: Proxy,
        value: FNode | None,
        depends: frozenset[int],
    ) -> Event:
        spot = self.graph.test.location(location)
        event = self._event(
            state,
            kind,
            name,
            location=location,
            proxy=proxy,
            entry=issue.index,
            placement=spot.home or self.thread.placement,
            depends=state.control | depends,
        )
        event.value = value if value is not None else Symbol(f"value_{event.index}", INT)
        return event

    def _completion(
        self, state: _State, location: str, scope: Scope, name: str, size: int
    ) -> Event:
        """An asynchronous arrival; it is performed at the CTA that holds the mbarrier."""
        home = self.graph.test.location(location).home or self.thread.placement
        event = self._event(
            state,
            Kind.ARRIVE,
            name,
            location=location,
            semantics=Semantics.RELEASE,
            scope=scope,
            placement=home,
            count=Int(0),
            expect=-size,
        )
        issue = self._issue(state, name)
        self.graph.prefix.append((issue.index, event.index))
        return event

    def _issue(self, state: _State, name: str = "issue") -> Event:
        copy, index = self.at
        key = (self.thread.name, index, copy, "issue")
        for event in reversed(self.graph.events):
            if event.key == key:
                return event
        return self._event(state, Kind.ISSUE, "issue", position=self._here())

    def _bulk(self, state: _State, bulk: ast.BulkCopy) -> None:
        issue = self._issue(state)
        parts: list[Event] = []
        chain = frozenset[int]()
        value: FNode | None = None
        for name, location, proxy in (
            ("map", bulk.tensormap, Proxy.TENSORMAP),
            ("read", bulk.source, Proxy.ASYNC),
        ):
            if location is not None:
                part = self._part(state, Kind.READ, issue, name, location, proxy, None, chain)
                chain = frozenset({part.index})
                value = part.value
                parts.append(part)
        for number, location in enumerate(bulk.destinations):
            write = self._part(
                state, Kind.WRITE, issue, f"write{number}", location, Proxy.ASYNC, value, chain
            )
            parts.append(write)
        for part in parts:
            part.implicit_fence = True
        if not bulk.barriers:
            self._straight(state, bulk)
            self.groups[GroupKind.BULK][-1] += parts
            return
        reads = [part for part in parts if part.kind is Kind.READ]
        for number, barrier in enumerate(bulk.barriers):
            name = f"complete{number}"
            done = self._completion(state, barrier, Scope.CLUSTER, name, bulk.size)
            own = next(p for p in parts if p.key[3] == f"write{number}")
            done.depends = done.depends | {part.index for part in (*reads, own)}
            for part in (*reads, own):
                part.exits.append(done.index)

    def _copy(self, state: _State, copy: ast.AsyncCopy) -> None:
        issue = self._issue(state)
        generic = Proxy.GENERIC
        read = self._part(state, Kind.READ, issue, "read", copy.source, generic, None, frozenset())
        write = self._part(
            state,
            Kind.WRITE,
            issue,
            "write0",
            copy.destination,
            generic,
            read.value,
            frozenset({read.index}),
        )
        self.copies += [read, write]
        if not any(isinstance(i, ast.Branch) for i in self.code):
            self.groups[GroupKind.COPY][-1] += [read, write]

    def _matrix(self, state: _State, matrix: ast.MatrixRead) -> None:
        issue = self._issue(state)
        read = self._part(
            state, Kind.READ, issue, "read", matrix.location, Proxy.ASYNC, None, frozenset()
        )
        assert read.value is not None
        self._set(state, matrix.destination, read.value, frozenset({read.index}))
        if matrix.tensor_memory:
            self.matrix.append(read)
            return
        read.implicit_fence = True
        self._straight(state, matrix)
        self.groups[GroupKind.WGMMA][-1].append(read)

    def _group_wait(self, state: _State, wait: ast.WaitGroup) -> None:
        self._straight(state, wait)
        event = self._event(state, Kind.GROUP_WAIT, position=self._here())
        committed = self.groups[wait.kind][:-1]
        done = committed[: len(committed) - wait.pending] if wait.pending else committed
        for part in (part for group in done for part in group):
            if part.kind is Kind.READ or not wait.read:
                part.exits.append(event.index)


__all__ = [
    "MBARRIER_USE",
    "MEMORY",
    "Direction",
    "Event",
    "EventGraph",
    "Kind",
    "all_of",
    "build_events",
]
