"""Asynchronous operations and mbarriers in the symbolic execution of a thread.

A bulk copy, a non-bulk copy or a matrix read becomes an issue event, memory events of its own, and
perhaps an arrival that is in no program order; commits and group waits decide which completions a
memory event has.
"""

from __future__ import annotations

from typing import Any

from pysmt.fnode import FNode
from pysmt.shortcuts import BOOL, INT, Int, Symbol

from titan.litmus.language import ast
from titan.litmus.language.ast import GroupKind, Proxy, Scope, Semantics
from titan.litmus.smt.event import EventGraph, EventKind, LitmusEvent, SymbolicState
from titan.litmus.smt.terms import UnsupportedTest, arithmetic, choose


class AsynchronousSteps:
    """The part of the thread builder that unfolds asynchronous instructions."""

    graph: EventGraph
    thread: ast.LitmusThread
    code: tuple[ast.LitmusInstruction, ...]
    at: tuple[int, int]
    groups: dict[GroupKind, list[list[LitmusEvent]]]
    loose: set[GroupKind]
    matrix: list[LitmusEvent]
    copies: list[LitmusEvent]

    def _event(
        self, state: SymbolicState, kind: EventKind, part: str = "", **rest: Any
    ) -> LitmusEvent:
        raise NotImplementedError

    def _value(self, state: SymbolicState, operand: ast.Operand) -> tuple[FNode, frozenset[int]]:
        raise NotImplementedError

    def _polls(self, start: int, end: int) -> bool:
        raise NotImplementedError

    def _here(self, part: int = 0) -> int:
        raise NotImplementedError

    def _set(
        self, state: SymbolicState, register: str | None, value: FNode, taint: frozenset[int]
    ) -> None:
        raise NotImplementedError

    def _pass(self, state: SymbolicState, event: LitmusEvent) -> SymbolicState:
        raise NotImplementedError

    def _asynchronous(
        self, state: SymbolicState, instruction: ast.LitmusInstruction
    ) -> SymbolicState:
        match instruction:
            case ast.MbarrierInit():
                self._event(
                    state,
                    EventKind.MBARRIER_INIT,
                    position=self._here(),
                    location=instruction.location,
                    count=Int(instruction.count),
                )
            case ast.MbarrierArrive():
                self._event(
                    state,
                    EventKind.ARRIVE,
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
                    EventKind.EXPECT,
                    position=self._here(),
                    location=instruction.location,
                    count=Int(0),
                    expect=instruction.expect,
                )
            case ast.MbarrierWait():
                return self._wait(state, instruction)
            case ast.BulkCopy():
                self._bulk(state, instruction)
            case ast.AsyncStore():
                self._async_store(state, instruction)
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
                self._counted(instruction, instruction.kind)
                self.groups[instruction.kind].append([])
            case ast.WaitGroup():
                self._group_wait(state, instruction)
            case _:
                raise UnsupportedTest(f"{type(instruction).__name__} is not decided")
        return state

    def _wait(self, state: SymbolicState, wait: ast.MbarrierWait) -> SymbolicState:
        event = self._event(
            state,
            EventKind.WAIT,
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

    def _copy_arrive(self, state: SymbolicState, arrive: ast.AsyncCopyArrive) -> None:
        """Without `.noinc` one more arrival is awaited from the moment of issue (PTX)."""
        if not arrive.noinc:
            self._event(
                state,
                EventKind.EXPECT,
                "increment",
                position=self._here(-1),
                location=arrive.location,
                count=Int(-1),
            )
        done = self._completion(state, arrive.location, Scope.CTA, "arrive", 0)
        done.count = Int(1)
        for part in self.copies:
            part.exits.append(done.index)

    def _straight(self) -> bool:
        """Whether the instruction is executed once, and in the first copy, if at all.

        Group counting is static. A loop that only polls is left behind without a further copy; a
        jump over the instruction, or any other loop before or around it, makes the count depend on
        the path.
        """
        index = self.at[1]
        labels = {i.name: n for n, i in enumerate(self.code) if isinstance(i, ast.Label)}
        for number, branch in enumerate(self.code):
            if isinstance(branch, ast.Branch):
                target = labels[branch.target]
                back = target <= number
                if (back and not self._polls(target, number)) or number < index < target:
                    return False
        return True

    def _counted(self, instruction: ast.LitmusInstruction, kind: GroupKind) -> None:
        """A group operation behind a jump is refused, not guessed."""
        if not self._straight() or kind in self.loose:
            name = type(instruction).__name__
            raise UnsupportedTest(f"{name} after a jump that may skip or repeat it is not decided")

    def _part(
        self,
        state: SymbolicState,
        kind: EventKind,
        issue: LitmusEvent,
        name: str,
        location: str,
        proxy: Proxy,
        value: FNode | None,
        depends: frozenset[int],
    ) -> LitmusEvent:
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
        self, state: SymbolicState, location: str, scope: Scope, name: str, size: int
    ) -> LitmusEvent:
        """An asynchronous arrival; it is performed at the CTA that holds the mbarrier."""
        home = self.graph.test.location(location).home or self.thread.placement
        event = self._event(
            state,
            EventKind.ARRIVE,
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

    def _issue(self, state: SymbolicState, name: str = "issue") -> LitmusEvent:
        copy, index = self.at
        key = (self.thread.name, index, copy, "issue")
        for event in reversed(self.graph.events):
            if event.key == key:
                return event
        return self._event(state, EventKind.ISSUE, "issue", position=self._here())

    def _bulk(self, state: SymbolicState, bulk: ast.BulkCopy) -> None:
        issue = self._issue(state)
        parts: list[LitmusEvent] = []
        chain = frozenset[int]()
        value: FNode | None = None
        for name, location, proxy in (
            ("map", bulk.tensormap, Proxy.TENSORMAP),
            ("read", bulk.source, Proxy.ASYNC),
        ):
            if location is not None:
                part = self._part(state, EventKind.READ, issue, name, location, proxy, None, chain)
                chain = frozenset({part.index})
                value = part.value
                parts.append(part)
        if bulk.reduction is not None:
            assert value is not None
            target = bulk.destinations[0]
            old = self._reduced(state, issue, target, Proxy.ASYNC, Scope.GPU)
            assert old.value is not None
            value = arithmetic(bulk.reduction, [old.value, value])
            chain |= {old.index}
            parts.append(old)
        for number, location in enumerate(bulk.destinations):
            write = self._part(
                state, EventKind.WRITE, issue, f"write{number}", location, Proxy.ASYNC, value, chain
            )
            parts.append(write)
            if bulk.reduction is not None:
                write.semantics, write.scope = Semantics.RELAXED, Scope.GPU
                self.graph.rmw.append((parts[-2].index, write.index))
        for part in parts:
            part.implicit_fence = True
        if not bulk.barriers:
            self._counted(bulk, GroupKind.BULK)
            self.groups[GroupKind.BULK][-1] += parts
            return
        reads = [part for part in parts if part.kind is EventKind.READ]
        for number, barrier in enumerate(bulk.barriers):
            name = f"complete{number}"
            done = self._completion(state, barrier, Scope.CLUSTER, name, bulk.size)
            own = next(p for p in parts if p.key[3] == f"write{number}")
            done.depends = done.depends | {part.index for part in (*reads, own)}
            for part in (*reads, own):
                part.exits.append(done.index)

    def _reduced(
        self, state: SymbolicState, issue: LitmusEvent, location: str, proxy: Proxy, scope: Scope
    ) -> LitmusEvent:
        """The read of the destination's element: relaxed, as its write (PTX)."""
        old = self._part(state, EventKind.READ, issue, "old", location, proxy, None, frozenset())
        if proxy is Proxy.GENERIC:
            old.placement = self.thread.placement
        old.semantics, old.scope = Semantics.RELAXED, scope
        old.reduction = True
        return old

    def _async_store(self, state: SymbolicState, store: ast.AsyncStore) -> None:
        """A generic write or update that completes on the mbarrier (PTX st.async, red.async).

        It is the issuing thread's, wherever the data lies: scopes of others have to include that
        thread's place, and its own cluster scope theirs.
        """
        issue = self._issue(state)
        value, taint = self._value(state, store.value)
        parts: list[LitmusEvent] = []
        if store.reduction is not None:
            old = self._reduced(state, issue, store.location, Proxy.GENERIC, Scope.CLUSTER)
            assert old.value is not None
            value = arithmetic(store.reduction, [old.value, value])
            taint |= {old.index}
            parts.append(old)
        write = self._part(
            state, EventKind.WRITE, issue, "write0", store.location, Proxy.GENERIC, value, taint
        )
        write.placement = self.thread.placement
        if parts:
            write.semantics, write.scope = Semantics.RELAXED, Scope.CLUSTER
            self.graph.rmw.append((parts[0].index, write.index))
        done = self._completion(state, store.barrier, Scope.CLUSTER, "complete0", store.size)
        for part in (*parts, write):
            done.depends = done.depends | {part.index}
            part.exits.append(done.index)

    def _copy(self, state: SymbolicState, copy: ast.AsyncCopy) -> None:
        issue = self._issue(state)
        generic = Proxy.GENERIC
        read = self._part(
            state, EventKind.READ, issue, "read", copy.source, generic, None, frozenset()
        )
        write = self._part(
            state,
            EventKind.WRITE,
            issue,
            "write0",
            copy.destination,
            generic,
            read.value,
            frozenset({read.index}),
        )
        self.copies += [read, write]
        if self._straight():
            self.groups[GroupKind.COPY][-1] += [read, write]
        else:
            self.loose.add(GroupKind.COPY)

    def _matrix(self, state: SymbolicState, matrix: ast.MatrixRead) -> None:
        issue = self._issue(state)
        read = self._part(
            state, EventKind.READ, issue, "read", matrix.location, Proxy.ASYNC, None, frozenset()
        )
        assert read.value is not None
        self._set(state, matrix.destination, read.value, frozenset({read.index}))
        if matrix.tensor_memory:
            read.tensor = True
            self.matrix.append(read)
            return
        read.implicit_fence = True
        self._counted(matrix, GroupKind.WGMMA)
        self.groups[GroupKind.WGMMA][-1].append(read)

    def _group_wait(self, state: SymbolicState, wait: ast.WaitGroup) -> None:
        self._counted(wait, wait.kind)
        event = self._event(state, EventKind.GROUP_WAIT, position=self._here())
        committed = self.groups[wait.kind][:-1]
        done = committed[: len(committed) - wait.pending] if wait.pending else committed
        for part in (part for group in done for part in group):
            if part.kind is EventKind.READ or not wait.read:
                part.exits.append(event.index)
