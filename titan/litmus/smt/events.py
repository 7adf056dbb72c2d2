"""Unrolls a litmus test into events with symbolic guards and values.

Threads are executed symbolically, loops unrolled `unroll` times; a loop that only polls memory
needs no second copy, since dropping its failed rounds leaves a consistent execution with the same
final state. An asynchronous operation becomes an issue event in program order, memory events of its
own, and where it completes on an mbarrier an arrival that is in no program order. Its memory events
are entered from the issue and left through `exits`: a completion carries the operation's own
accesses and nothing that the issuing thread did before (PTX, Asynchronous Operations).
"""

from __future__ import annotations

from pysmt.shortcuts import INT, Int, Symbol

from titan.litmus.language import ast
from titan.litmus.language.ast import LitmusTest, Scope, Semantics, ThreadPlacement
from titan.litmus.language.text import defined_registers
from titan.litmus.smt.event import (
    MBARRIER_USE,
    MEMORY,
    EventGraph,
    EventKind,
    LitmusEvent,
    SymbolicState,
    add_event,
)
from titan.litmus.smt.events_async import AsynchronousSteps
from titan.litmus.smt.terms import (
    NO,
    YES,
    any_of,
    arithmetic,
    both,
    choose,
    compare,
    negation,
)
from titan.litmus.smt.thread_events import ThreadEvents


def build_events(test: LitmusTest, unroll: int = 2) -> EventGraph:
    """All events of the test; raises `UnsupportedTest` for what cannot be decided exactly."""
    graph = EventGraph(test)
    for location in test.locations:
        if location.alias_of is None and not location.is_mbarrier:
            add_event(
                graph,
                EventKind.WRITE,
                -1,
                ("init", 0, 0, location.name),
                YES,
                location.home or ThreadPlacement(),
                location=location.name,
                value=Int(location.initial),
            )
    for number in range(len(test.threads)):
        _ThreadBuilder(graph, number, unroll).run()
    return graph


class _ThreadBuilder:
    """Symbolic execution of one thread."""

    def __init__(self, graph: EventGraph, number: int, unroll: int) -> None:
        self._events = ThreadEvents(graph, number)
        self._asynchronous = AsynchronousSteps(self._events)
        self._unroll = unroll
        self._pending: dict[tuple[int, int], list[SymbolicState]] = {}
        self._finished: list[SymbolicState] = []

    # Control ------------------------------------------------------------------------------

    def run(self) -> None:
        start = {n: (Int(v), frozenset[int]()) for n, v in self._events.thread.registers}
        self._pending[(0, 0)] = [SymbolicState(YES, start, frozenset())]
        for copy in range(self._unroll + 1):
            for index in range(len(self._events.code)):
                states = self._pending.pop((copy, index), [])
                if states:
                    self._events.at = (copy, index)
                    self._step(self._merge(states), self._events.code[index])
            self._finished += self._pending.pop((copy, len(self._events.code)), [])
        self._finish()

    def _merge(self, states: list[SymbolicState]) -> SymbolicState:
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
        return SymbolicState(guard, registers, control)

    def _go(self, state: SymbolicState, target: int) -> None:
        copy, index = self._events.at
        if state.guard.is_false():
            return
        if target <= index:
            polls = self._events.polls(target, index)
            if polls or copy == self._unroll:
                graph = self._events.graph
                (graph.polling if polls else graph.cut).append(state.guard)
                return
            copy += 1
        self._pending.setdefault((copy, target), []).append(state)

    def _finish(self) -> None:
        ends = self._finished + [state for state, _ in self._events.blocked]
        if not ends:
            ends = [SymbolicState(NO, {}, frozenset())]
        final = self._merge(ends)
        for name in defined_registers(self._events.thread):
            key = (self._events.thread.name, name)
            self._events.graph.registers[key] = final.registers.get(name, (Int(0), frozenset()))[0]
            self._events.graph.undetermined[key] = any_of(
                s.guard for s, later in self._events.blocked if name in later
            )

    # Steps --------------------------------------------------------------------------------

    def _step(self, state: SymbolicState, instruction: ast.LitmusInstruction) -> None:
        copy, index = self._events.at
        if isinstance(instruction, ast.Branch):
            self._branch(state, instruction)
            return
        if isinstance(instruction, ast.Assign):
            parts = [self._events.value(state, operand) for operand in instruction.operands]
            value = arithmetic(instruction.operation, [part for part, _ in parts])
            taint = frozenset[int]().union(*(t for _, t in parts))
            state.registers = {**state.registers, instruction.destination: (value, taint)}
        elif not isinstance(instruction, ast.Label | ast.NoEffect):
            state = self._effect(state, instruction)
        self._pending.setdefault((copy, index + 1), []).append(state)

    def _branch(self, state: SymbolicState, branch: ast.Branch) -> None:
        copy, index = self._events.at
        target = self._events.labels[branch.target]
        if branch.relation is None:
            self._go(state, target)
            return
        (left, first), (right, second) = (
            self._events.value(state, branch.left),
            self._events.value(state, branch.right),
        )
        taken = compare(left, branch.relation, right)
        control = state.control | first | second
        self._go(SymbolicState(both(state.guard, taken), dict(state.registers), control), target)
        stays = both(state.guard, negation(taken))
        if not stays.is_false():
            rest = SymbolicState(stays, dict(state.registers), control)
            self._pending.setdefault((copy, index + 1), []).append(rest)

    def _effect(self, state: SymbolicState, instruction: ast.LitmusInstruction) -> SymbolicState:
        match instruction:
            case ast.Load():
                self._load(state, instruction)
            case ast.Store():
                value, taint = self._events.value(state, instruction.value)
                self._events.event(
                    state,
                    EventKind.WRITE,
                    position=self._events.position(),
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
                self._events.event(
                    state,
                    EventKind.FENCE,
                    position=self._events.position(),
                    semantics=instruction.semantics,
                    scope=instruction.scope,
                )
            case ast.DescriptorCopy():
                self._descriptor_copy(state, instruction)
            case ast.ProxyFence():
                self._events.event(
                    state,
                    EventKind.PROXY_FENCE,
                    position=self._events.position(),
                    proxy=instruction.proxy,
                    scope=instruction.scope,
                    location=instruction.location,
                )
            case ast.AliasFence():
                self._events.event(state, EventKind.ALIAS_FENCE, position=self._events.position())
            case ast.MbarrierInitFence():
                self._events.event(state, EventKind.INIT_FENCE, position=self._events.position())
            case ast.Barrier():
                return self._barrier(state, instruction)
            case ast.ClusterBarrier():
                return self._cluster(state, instruction)
            case _:
                return self._asynchronous.step(state, instruction)
        return state

    def _load(self, state: SymbolicState, load: ast.Load) -> None:
        event = self._events.event(
            state,
            EventKind.READ,
            position=self._events.position(),
            location=load.location,
            proxy=load.proxy,
            semantics=load.semantics,
            scope=load.scope,
        )
        event.value = Symbol(f"value_{event.index}", INT)
        self._events.assign(state, load.destination, event.value, frozenset({event.index}))

    def _descriptor_copy(self, state: SymbolicState, copy: ast.DescriptorCopy) -> None:
        """A generic read and write, then the release half of the tensormap fence."""
        read = self._events.event(
            state, EventKind.READ, "read", position=self._events.position(), location=copy.source
        )
        read.value = Symbol(f"value_{read.index}", INT)
        self._events.event(
            state,
            EventKind.WRITE,
            "write",
            position=self._events.position(1),
            location=copy.destination,
            value=read.value,
            depends=state.control | {read.index},
        )
        self._events.event(
            state,
            EventKind.PROXY_FENCE,
            "fence",
            position=self._events.position(2),
            proxy=ast.Proxy.TENSORMAP,
            scope=copy.scope,
            instruction=ast.copy_fence(copy),
        )

    def _atomic(self, state: SymbolicState, atomic: ast.Atomic) -> None:
        acquires, releases = atomic.semantics.acquires, atomic.semantics.releases
        reduction = atomic.destination is None
        read = self._events.event(
            state,
            EventKind.READ,
            "read",
            position=self._events.position(),
            location=atomic.location,
            semantics=_half(atomic, Semantics.ACQUIRE)
            if acquires and not reduction
            else Semantics.RELAXED,
            scope=atomic.scope,
            reduction=reduction,
        )
        read.value = Symbol(f"value_{read.index}", INT)
        operands = [self._events.value(state, operand) for operand in atomic.operands]
        taint = frozenset({read.index}).union(*(part for _, part in operands))
        before = state.guard
        if atomic.operation == "cas":
            new = operands[1][0]
            state.guard = both(before, compare(read.value, "==", operands[0][0]))
        else:
            new = arithmetic(atomic.operation, [read.value, operands[0][0]])
        write = self._events.event(
            state,
            EventKind.WRITE,
            "write",
            position=self._events.position(1),
            location=atomic.location,
            semantics=_half(atomic, Semantics.RELEASE) if releases else Semantics.RELAXED,
            scope=atomic.scope,
            value=new,
            depends=state.control | taint,
        )
        state.guard = before
        self._events.graph.rmw.append((read.index, write.index))
        self._events.assign(state, atomic.destination, read.value, frozenset({read.index}))

    def _barrier(self, state: SymbolicState, barrier: ast.Barrier) -> SymbolicState:
        identifier, taint = self._events.value(state, barrier.identifier)
        count = None
        if barrier.count is not None:
            count, more = self._events.value(state, barrier.count)
            taint |= more
        event = self._events.event(
            state,
            EventKind.BARRIER,
            position=self._events.position(),
            identifier=identifier,
            count=count,
            depends=state.control | taint,
        )
        return self._events.block(state, event) if barrier.waits else state

    def _cluster(self, state: SymbolicState, barrier: ast.ClusterBarrier) -> SymbolicState:
        kind = EventKind.CLUSTER_WAIT if barrier.waits else EventKind.CLUSTER_ARRIVE
        event = self._events.event(
            state,
            kind,
            position=self._events.position(),
            semantics=barrier.semantics,
            scope=Scope.CLUSTER,
        )
        return self._events.block(state, event) if barrier.waits else state


def _half(atomic: ast.Atomic, half: Semantics) -> Semantics:
    """The order of the read or the write of an atomic: both are seq_cst or neither is."""
    return Semantics.SC if atomic.semantics is Semantics.SC else half


__all__ = ["MBARRIER_USE", "MEMORY", "EventGraph", "EventKind", "LitmusEvent", "build_events"]
