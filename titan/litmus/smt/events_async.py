"""Asynchronous operations and mbarriers in the symbolic execution of a thread.

A bulk copy, a non-bulk copy or a matrix read becomes an issue event, memory events of its own, and
perhaps an arrival that is in no program order; commits and group waits decide which completions a
memory event has.
"""

from __future__ import annotations

from dataclasses import dataclass

from pysmt.fnode import FNode
from pysmt.shortcuts import BOOL, INT, Int, Symbol

from titan.litmus.language import ast
from titan.litmus.language.ast import GroupKind, Proxy, Scope, Semantics
from titan.litmus.model.unsupported import UnsupportedTest
from titan.litmus.smt.event import EventKind, LitmusEvent, SymbolicState
from titan.litmus.smt.terms import arithmetic, choose
from titan.litmus.smt.thread_events import ThreadEvents


@dataclass(frozen=True, slots=True)
class _MemoryPart:
    """An access that an asynchronous operation makes; its value is open where None is given."""

    kind: EventKind
    name: str
    location: str
    proxy: Proxy
    value: FNode | None = None
    depends: frozenset[int] = frozenset()


class AsynchronousSteps:
    """Unfolds the asynchronous instructions of one thread into its events.

    `_groups` of each kind: the committed ones and the open one at the end. A kind is `_loose` where
    jumps make the groups of its copies depend on the path.
    """

    def __init__(self, events: ThreadEvents) -> None:
        self._events = events
        self._groups: dict[GroupKind, list[list[LitmusEvent]]] = {k: [[]] for k in GroupKind}
        self._loose: set[GroupKind] = set()
        self._matrix: list[LitmusEvent] = []
        self._copies: list[LitmusEvent] = []

    def step(self, state: SymbolicState, instruction: ast.LitmusInstruction) -> SymbolicState:
        """Unfold one instruction; the state behind it. Raises UnsupportedTest."""
        match instruction:
            case ast.MbarrierInit():
                self._events.event(
                    state,
                    EventKind.MBARRIER_INIT,
                    position=self._events.position(),
                    location=instruction.location,
                    count=Int(instruction.count),
                )
            case ast.MbarrierArrive():
                self._events.event(
                    state,
                    EventKind.ARRIVE,
                    position=self._events.position(),
                    location=instruction.location,
                    semantics=instruction.semantics,
                    scope=instruction.scope,
                    count=Int(instruction.count),
                    expect=instruction.expect,
                )
            case ast.MbarrierExpect():
                self._events.event(
                    state,
                    EventKind.EXPECT,
                    position=self._events.position(),
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
                self._read_matrix(state, instruction)
            case ast.AsyncCopyArrive():
                self._copy_arrive(state, instruction)
            case ast.TensorCommit():
                arrive = self._completion(state, instruction.location, Scope.CLUSTER, "arrive", 0)
                arrive.count = Int(1)
                for part in self._matrix:
                    part.exits.append(arrive.index)
            case ast.CommitGroup():
                self._counted(instruction, instruction.kind)
                self._groups[instruction.kind].append([])
            case ast.WaitGroup():
                self._group_wait(state, instruction)
            case _:
                raise UnsupportedTest(f"{type(instruction).__name__} is not decided")
        return state

    def _wait(self, state: SymbolicState, wait: ast.MbarrierWait) -> SymbolicState:
        event = self._events.event(
            state,
            EventKind.WAIT,
            position=self._events.position(),
            location=wait.location,
            semantics=wait.semantics,
            scope=wait.scope,
        )
        if wait.destination is None:
            return self._events.block(state, event)
        event.passes = Symbol(f"pass_{event.index}", BOOL)
        seen = choose(event.passes, Int(1), Int(0))
        self._events.assign(state, wait.destination, seen, frozenset({event.index}))
        return state

    def _copy_arrive(self, state: SymbolicState, arrive: ast.AsyncCopyArrive) -> None:
        """Without `.noinc` one more arrival is awaited from the moment of issue (PTX)."""
        if not arrive.noinc:
            self._events.event(
                state,
                EventKind.EXPECT,
                "increment",
                position=self._events.position(-1),
                location=arrive.location,
                count=Int(-1),
            )
        done = self._completion(state, arrive.location, Scope.CTA, "arrive", 0)
        done.count = Int(1)
        for part in self._copies:
            part.exits.append(done.index)

    def _counted(self, instruction: ast.LitmusInstruction, kind: GroupKind) -> None:
        """A group operation behind a jump is refused, not guessed."""
        if not self._events.straight() or kind in self._loose:
            name = type(instruction).__name__
            raise UnsupportedTest(f"{name} after a jump that may skip or repeat it is not decided")

    def _part(self, state: SymbolicState, issue: LitmusEvent, access: _MemoryPart) -> LitmusEvent:
        """One memory event of an operation that was issued."""
        spot = self._events.graph.test.location(access.location)
        event = self._events.event(
            state,
            access.kind,
            access.name,
            location=access.location,
            proxy=access.proxy,
            entry=issue.index,
            placement=spot.home or self._events.thread.placement,
            depends=state.control | access.depends,
        )
        made = Symbol(f"value_{event.index}", INT)
        event.value = made if access.value is None else access.value
        return event

    def _completion(
        self, state: SymbolicState, location: str, scope: Scope, name: str, size: int
    ) -> LitmusEvent:
        """An asynchronous arrival; it is performed at the CTA that holds the mbarrier."""
        home = self._events.graph.test.location(location).home or self._events.thread.placement
        event = self._events.event(
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
        self._events.graph.prefix.append((issue.index, event.index))
        return event

    def _issue(self, state: SymbolicState, name: str = "issue") -> LitmusEvent:
        copy, index = self._events.at
        key = (self._events.thread.name, index, copy, "issue")
        for event in reversed(self._events.graph.events):
            if event.key == key:
                return event
        return self._events.event(state, EventKind.ISSUE, "issue", position=self._events.position())

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
                access = _MemoryPart(EventKind.READ, name, location, proxy, None, chain)
                part = self._part(state, issue, access)
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
            access = _MemoryPart(
                EventKind.WRITE, f"write{number}", location, Proxy.ASYNC, value, chain
            )
            write = self._part(state, issue, access)
            parts.append(write)
            if bulk.reduction is not None:
                write.semantics, write.scope = Semantics.RELAXED, Scope.GPU
                self._events.graph.rmw.append((parts[-2].index, write.index))
        for part in parts:
            part.implicit_fence = True
        if not bulk.barriers:
            self._counted(bulk, GroupKind.BULK)
            self._groups[GroupKind.BULK][-1] += parts
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
        old = self._part(state, issue, _MemoryPart(EventKind.READ, "old", location, proxy))
        if proxy is Proxy.GENERIC:
            old.placement = self._events.thread.placement
        old.semantics, old.scope = Semantics.RELAXED, scope
        old.reduction = True
        return old

    def _async_store(self, state: SymbolicState, store: ast.AsyncStore) -> None:
        """A generic write or update that completes on the mbarrier (PTX st.async, red.async).

        It is the issuing thread's, wherever the data lies: scopes of others have to include that
        thread's place, and its own cluster scope theirs.
        """
        issue = self._issue(state)
        value, taint = self._events.value(state, store.value)
        parts: list[LitmusEvent] = []
        if store.reduction is not None:
            old = self._reduced(state, issue, store.location, Proxy.GENERIC, Scope.CLUSTER)
            assert old.value is not None
            value = arithmetic(store.reduction, [old.value, value])
            taint |= {old.index}
            parts.append(old)
        access = _MemoryPart(EventKind.WRITE, "write0", store.location, Proxy.GENERIC, value, taint)
        write = self._part(state, issue, access)
        write.placement = self._events.thread.placement
        if parts:
            write.semantics, write.scope = Semantics.RELAXED, Scope.CLUSTER
            self._events.graph.rmw.append((parts[0].index, write.index))
        done = self._completion(state, store.barrier, Scope.CLUSTER, "complete0", store.size)
        for part in (*parts, write):
            done.depends = done.depends | {part.index}
            part.exits.append(done.index)

    def _copy(self, state: SymbolicState, copy: ast.AsyncCopy) -> None:
        issue = self._issue(state)
        source = _MemoryPart(EventKind.READ, "read", copy.source, Proxy.GENERIC)
        read = self._part(state, issue, source)
        target = _MemoryPart(
            EventKind.WRITE,
            "write0",
            copy.destination,
            Proxy.GENERIC,
            read.value,
            frozenset({read.index}),
        )
        write = self._part(state, issue, target)
        self._copies += [read, write]
        if self._events.straight():
            self._groups[GroupKind.COPY][-1] += [read, write]
        else:
            self._loose.add(GroupKind.COPY)

    def _read_matrix(self, state: SymbolicState, matrix: ast.MatrixRead) -> None:
        issue = self._issue(state)
        access = _MemoryPart(EventKind.READ, "read", matrix.location, Proxy.ASYNC)
        read = self._part(state, issue, access)
        assert read.value is not None
        self._events.assign(state, matrix.destination, read.value, frozenset({read.index}))
        if matrix.tensor_memory:
            read.tensor = True
            self._matrix.append(read)
            return
        read.implicit_fence = True
        self._counted(matrix, GroupKind.WGMMA)
        self._groups[GroupKind.WGMMA][-1].append(read)

    def _group_wait(self, state: SymbolicState, wait: ast.WaitGroup) -> None:
        self._counted(wait, wait.kind)
        event = self._events.event(state, EventKind.GROUP_WAIT, position=self._events.position())
        if wait.commits:
            self._groups[wait.kind].append([])
        committed = self._groups[wait.kind][:-1]
        done = committed[: max(0, len(committed) - wait.pending)]
        for part in (part for group in done for part in group):
            if part.kind is EventKind.READ or not wait.read:
                part.exits.append(event.index)
