"""Which accesses to one cell are ordered, and whether fences lie between them.

For every cell the accesses that no later one covers are kept; each new access is compared with
those. Two synchronous accesses must be ordered; an asynchronous one must be over before a
conflicting access executes or is issued, and not issued before an earlier one is over, except in
one pipelined queue. As all conflicting accesses of a cell are then ordered, the content that a read
meets is the same in every run, so that the run itself decides stale reads.

Proxy fences: agent n's unfenced mark on a cell is absent at an asynchronous access x in every run
exactly if n's first covering fence after its last generic access is before x. The engines' mark is
cleared by any agent's fence, so some fence must be after the engine's end and before x. Under the
path rule that is enough for every mark. Tensor maps: some effective release is after the last write
and some acquire after that release, before x.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from titan.engines.happens_before.cached import CachedRules
from titan.engines.happens_before.clocks import Clocks, Timestamp
from titan.engines.happens_before.faults import fence_fault, in_flight_fault, race_fault
from titan.engines.happens_before.fences import Fences, Stage
from titan.engines.happens_before.findings import (
    Plan,
    SuspicionCollector,
    Weight,
    bounds_of,
    name_of,
    up_to,
    with_event,
)
from titan.engines.happens_before.tables import IssuedOperation, RunLayout
from titan.engines.happens_before.unfolding import Cell, Instance, Touch, keeps_order
from titan.foundation.records import dataclass
from titan.sync import program as ir
from titan.sync.fault import Fault, FaultKind
from titan.sync.reductions import Reduction, commute


@dataclass(slots=True, eq=False)
class Past:
    """An earlier access to a cell: an agent's, or (with `flight`) an engine's."""

    timestamp: Timestamp
    instance: Instance
    write: bool
    flight: IssuedOperation | None = None
    touch: Touch | None = None

    @property
    def reduction(self) -> Reduction | None:
        """The kind of reduction that the access is, if any."""
        return None if self.touch is None else self.touch.reduction


@dataclass(slots=True, eq=False)
class CellTrack:
    """What is known of one cell: each agent's last generic access, and who wrote a tensor map."""

    writers: list[Past] = field(default_factory=list)
    readers: list[Past] = field(default_factory=list)
    generic_writes: dict[int, Timestamp] = field(default_factory=dict)
    generic_reads: dict[int, Timestamp] = field(default_factory=dict)
    authors: dict[int, Timestamp] = field(default_factory=dict)
    engine_writes: list[IssuedOperation] = field(default_factory=list)
    map_writes: list[IssuedOperation] = field(default_factory=list)
    engine_reads: list[IssuedOperation] = field(default_factory=list)


class MemoryObserver:
    """Hears accesses, issues and fences; adds findings."""

    def __init__(self, clocks: Clocks, layout: RunLayout, findings: SuspicionCollector) -> None:
        self._clocks = clocks
        self._layout = layout
        self._findings = findings
        self._cells: dict[Cell, CellTrack] = {cell: CellTrack() for cell in layout.tiles}
        self._fences = Fences(clocks, layout)
        self._cached = CachedRules(clocks, layout, self._fences)
        policies = layout.program.policies
        self._path_rule = policies.fence_rule == "path"
        self._war_fence = policies.war_fence
        self._tensor_fence = policies.tensor == "fence"
        self._tensor = {
            buffer.storage or buffer.name
            for buffer in layout.program.buffers
            if buffer.space is ir.Space.TENSOR
        }

    # ------------------------------------------------------------------------ accesses

    def access(self, at: Timestamp, instance: Instance) -> None:
        """A synchronous access at its instant."""
        for touch in instance.touches:
            self._check_cached(at, instance, touch, None)
            self._compare(at, instance, touch, None)
            self._check_operand(at, instance, touch)
        for touch in instance.touches:
            cell = self._cells[touch.cell]
            past = Past(at, instance, touch.write, None, touch)
            generic = touch.proxy not in ir.CACHED
            self._cached.note(at, touch, None)
            if touch.write:
                self._record_write(cell, past, at)
                if generic:
                    cell.generic_writes[at.agent] = cell.authors[at.agent] = at
            else:
                self._record_read(cell, past)
                if generic:
                    cell.generic_reads[at.agent] = at

    def issue(self, at: Timestamp, flight: IssuedOperation) -> None:
        """An asynchronous operation at the instant of its issue."""
        instance = flight.instance
        for touch in instance.touches:
            self._check_cached(at, instance, touch, flight)
            self._check_proxy(at, flight, touch)
            self._compare(at, instance, touch, flight)
            self._check_operand(at, instance, touch)
        for touch in instance.touches:
            cell = self._cells[touch.cell]
            past = Past(at, instance, touch.write, flight, touch)
            generic = touch.proxy is ir.Proxy.GENERIC
            self._cached.note(at, touch, flight)
            if touch.write:
                self._record_write(cell, past, at)
                # What comes after a plain write comes after all that was done before it.
                cell.map_writes = [*(cell.map_writes if touch.reduction else ()), flight]
                if generic:
                    before = cell.engine_writes if touch.reduction else ()
                    cell.engine_writes = [*before, flight]
            else:
                self._record_read(cell, past)
                if generic:
                    cell.engine_reads.append(flight)

    def _record_write(self, cell: CellTrack, past: Past, at: Timestamp) -> None:
        """A write covers all that is over before it; what shares its pipeline stays.

        A reduction covers its own line of reductions alone: others of its kind may come before it,
        and what it came after has not been compared with them.
        """
        cell.writers = [old for old in cell.writers if self._stays(old, past, at)]
        cell.readers = [old for old in cell.readers if self._stays(old, past, at)]
        cell.writers.append(past)

    @staticmethod
    def _record_read(cell: CellTrack, past: Past) -> None:
        """A later read of the same agent or ordered queue is over later."""
        for place, old in enumerate(cell.readers):
            if _same_line(old, past):
                cell.readers[place] = past
                return
        cell.readers.append(past)

    @staticmethod
    def _stays(old: Past, new: Past, at: Timestamp) -> bool:
        if new.reduction is not None:
            return not (commute(old.reduction, new.reduction) and _same_line(old, new))
        return _piped(old, new.flight) and not (old.write and _same_line(old, new))

    def _compare(
        self, at: Timestamp, instance: Instance, touch: Touch, flight: IssuedOperation | None
    ) -> None:
        """The new access must come after all kept ones that it conflicts with."""
        cell = self._cells[touch.cell]
        for old in [*cell.writers, *cell.readers] if touch.write else cell.writers:
            if commute(old.reduction, touch.reduction):
                continue
            queue = flight.queue if flight else None
            kept = old.touch is None or (queue and keeps_order(queue.pairs, old.touch, touch))
            if _piped(old, flight) and kept:
                if queue is not None and not queue.declaration.ordered:
                    self._unordered_pipeline(instance, touch)
                continue
            if not self._ordered(old, at):
                self._conflict(old, at, instance, touch, flight)
            elif self._clocks.weak and not self._visible(old, at, touch, flight):
                blind = touch.write and touch.reduction is None
                own = not old.write and old.flight is None
                weight = Weight.READ if own and blind else Weight.WEAK
                self._weak(old, at, instance, touch.cell, weight)

    def _ordered(self, old: Past, at: Timestamp, seen: bool = False) -> bool:
        if old.flight is None:
            return self._clocks.before(old.timestamp.agent, old.timestamp.index, at, seen)
        if old.write:
            return self._clocks.over(old.flight, at, seen)
        return self._clocks.read(old.flight, at, seen)

    def _visible(
        self, old: Past, at: Timestamp, touch: Touch, flight: IssuedOperation | None
    ) -> bool:
        """Whether the order carries visibility, where the pair needs it.

        What an engine has read or overwrites needs execution order only (PTX: completion). What one
        engine has written and another reads was made visible to who waited for the completion, and
        comes to others only through synchronisation that carries it. In tensor memory the order of
        execution is enough (PTX, tcgen05 canonical patterns: relaxed arrivals between the fences).
        """
        if touch.cell[0] in self._tensor:
            return True
        blind = touch.write and touch.reduction is None  # it loses what was there
        if old.flight is not None and (not old.write or (flight is not None and blind)):
            return True
        if self._ordered(old, at, seen=True):
            return True
        return blind and any(
            self._ordered(old, reader.timestamp, seen=True)
            for reader in self._have_read(touch.cell, at)
        )

    def _have_read(self, cell: Cell, at: Timestamp) -> Iterator[Past]:
        """Reads of engines that are over: what their issuers knew of the cell was there to be read.

        It may be overwritten, like all that an engine has read.
        """
        for reader in self._cells[cell].readers:
            if reader.flight is not None and self._clocks.read(reader.flight, at):
                yield reader

    def _conflict(
        self,
        old: Past,
        at: Timestamp,
        instance: Instance,
        touch: Touch,
        flight: IssuedOperation | None,
    ) -> None:
        bounds = bounds_of(self._clocks, old.timestamp, at)
        agents = self._layout.agents
        if old.flight is None and flight is None:
            first, second = old.timestamp.agent, at.agent
            fault = race_fault(agents[first], old.instance, agents[second], instance, touch.cell)
            plan = Plan(up_to(bounds, first, old.timestamp.index), race=(first, second))
            self._findings.add(Weight.FAULT, fault, plan)
            return
        if old.flight is not None:
            fault = in_flight_fault(
                at.agent, instance, touch.cell, touch.write, old.flight, old.write
            )
            reached = with_event(bounds, old.timestamp.agent, old.timestamp.index)
            hold = {name_of(old.flight): not old.write}
            plan = Plan(up_to(reached, at.agent, at.index), hold, last=at.agent)
            self._findings.add(Weight.FAULT, fault, plan)
            return
        # The synchronous access came first here; elsewhere it meets the operation in flight.
        assert flight is not None
        fault = in_flight_fault(
            old.timestamp.agent, old.instance, touch.cell, old.write, flight, touch.write
        )
        reached = with_event(bounds, at.agent, at.index)
        plan = Plan(
            up_to(reached, old.timestamp.agent, old.timestamp.index),
            {name_of(flight): not touch.write},
            last=old.timestamp.agent,
        )
        self._findings.add(Weight.FAULT, fault, plan)

    def _unordered_pipeline(self, instance: Instance, touch: Touch) -> None:
        message = (
            f"{touch.cell[0]}[{touch.cell[1]}] is used twice in a pipelined queue without order"
        )
        fault = Fault(FaultKind.STALE_READ, message, (), (instance.operation,), touch.cell[0])
        self._findings.add(Weight.INEXACT, fault)

    def _weak(
        self, old: Past, at: Timestamp, instance: Instance, cell: Cell,
        weight: Weight = Weight.WEAK,
    ) -> None:  # fmt: skip
        names = self._layout.agents[old.timestamp.agent].name, self._layout.agents[at.agent].name
        fault = Fault(
            FaultKind.WEAK_SYNCHRONISATION,
            f"the order of two accesses to {cell[0]}[{cell[1]}] by {names[0]} and {names[1]} rests "
            "on synchronisation that carries no visibility",
            (old.timestamp.agent, at.agent),
            (old.instance.operation, instance.operation),
            cell[0],
        )
        self._findings.add(weight, fault, Plan(bounds_of(self._clocks, at), last=at.agent))

    # -------------------------------------------------------------------------- fences

    def fence(self, at: Timestamp, operation: ir.Fence) -> None:
        """A proxy fence at its instant."""
        self._fences.add(at, operation)

    def _agent_mark_cleared(
        self,
        kind: ir.FenceKind,
        agent: int,
        index: int,
        cell: Cell,
        at: Timestamp,
        seen: bool = False,
    ) -> bool:
        if self._fences.own(kind, agent, index, cell, at, seen):
            return True
        return self._path_rule and any(
            self._clocks.before(agent, index, fence, seen)
            for fence in self._fences.last(kind, cell, at, True, seen)
        )

    def _engine_mark_cleared(
        self, kind: ir.FenceKind, flight: IssuedOperation, cell: Cell, at: Timestamp
    ) -> bool:
        return any(
            self._clocks.over(flight, fence) for fence in self._fences.last(kind, cell, at, False)
        )

    def _check_proxy(self, at: Timestamp, flight: IssuedOperation, touch: Touch) -> None:
        """No interleaving may reach the issue with a generic access unfenced."""
        cell = self._cells[touch.cell]
        if touch.proxy is ir.Proxy.TENSORMAP:
            if not self._map_published(cell, touch.cell, at):
                kind = FaultKind.MISSING_TENSORMAP_FENCE
                self._unfenced(kind, at, flight, touch, next(iter(cell.map_writes), None))
            elif self._clocks.weak and not self._map_published(cell, touch.cell, at, seen=True):
                agent, mark = next(iter(cell.authors.items()), (at.agent, at))
                instance = self._layout.agents[agent].instances[mark.index]
                self._weak(Past(mark, instance, True), at, flight.instance, touch.cell)
            return
        if touch.proxy is not ir.Proxy.ASYNC:
            return
        self._check_marks(
            FaultKind.MISSING_FENCE, at, flight, touch, cell.generic_writes, cell.engine_writes
        )
        if touch.write and self._war_fence:
            kind = FaultKind.MISSING_FENCE_WAR
            self._check_marks(kind, at, flight, touch, cell.generic_reads, cell.engine_reads)
            cell.engine_reads = cell.engine_reads if touch.reduction else []
        if touch.write and touch.reduction is None:
            # Whatever comes after this write comes after the fences that let it in.
            cell.generic_writes, cell.generic_reads = {}, {}

    def _check_operand(self, at: Timestamp, instance: Instance, touch: Touch) -> None:
        """By the policy: a proxy fence between a tcgen05 product and who overwrites its operand."""
        if not self._tensor_fence or not touch.write or touch.proxy is not ir.Proxy.GENERIC:
            return
        for reader in self._have_read(touch.cell, at):
            assert reader.flight is not None
            queue, read = reader.flight.queue, reader.touch
            if queue is None or queue.declaration.grouped or not queue.declaration.pipelined:
                continue
            if read is None or read.proxy is not ir.Proxy.ASYNC:
                continue
            if not self._engine_mark_cleared(ir.FenceKind.ASYNC, reader.flight, touch.cell, at):
                self._weak(reader, at, instance, touch.cell)

    def _check_marks(
        self,
        kind: FaultKind,
        at: Timestamp,
        flight: IssuedOperation,
        touch: Touch,
        marks: dict[int, Timestamp],
        engines: list[IssuedOperation],
    ) -> None:
        fence = ir.FenceKind.ASYNC
        for agent, mark in marks.items():
            if not self._let_in(agent, mark, touch.cell, at, False):
                self._unfenced(kind, at, flight, touch, None)
            elif self._clocks.weak and not self._let_in_visibly(agent, mark, touch, at):
                instance = self._layout.agents[agent].instances[mark.index]
                self._weak(Past(mark, instance, True), at, flight.instance, touch.cell)
        for engine in engines:
            if engine.agent == at.agent and engine.group == 0 and engine.queue is not None:
                continue  # its group is still open: it cannot end before this issue
            if not self._engine_mark_cleared(fence, engine, touch.cell, at) and not (
                self._handed_on(None, engine, touch.cell, at)
            ):
                self._unfenced(kind, at, flight, touch, engine)

    def _let_in_visibly(self, agent: int, mark: Timestamp, touch: Touch, at: Timestamp) -> bool:
        """Whether who issues knows of the fence; for a write, or an engine that has read there."""
        if self._let_in(agent, mark, touch.cell, at, True):
            return True
        return (
            touch.write
            and touch.reduction is None
            and any(
                self._let_in(agent, mark, touch.cell, reader.timestamp, True)
                for reader in self._have_read(touch.cell, at)
            )
        )

    def _let_in(self, agent: int, mark: Timestamp, cell: Cell, at: Timestamp, seen: bool) -> bool:
        """Whether an agent's generic access is fenced for an asynchronous one of agent `at`."""
        fence = ir.FenceKind.ASYNC
        return self._agent_mark_cleared(
            fence, agent, mark.index, cell, at, seen
        ) or self._handed_on(mark, None, cell, at, seen)

    def _handed_on(
        self,
        mark: Timestamp | None,
        engine: IssuedOperation | None,
        cell: Cell,
        at: Timestamp,
        seen: bool = False,
    ) -> bool:
        """Whether it was released one way, and acquired by the agent that issues."""
        who = None if mark is None or self._path_rule else (mark.agent,)
        stages: list[Stage] = [
            (ir.FenceKind.ASYNC_RELEASE, who),
            (ir.FenceKind.ASYNC_ACQUIRE, (at.agent,)),
        ]

        def after(timestamp: Timestamp) -> bool:
            if mark is not None:
                return self._clocks.before(mark.agent, mark.index, timestamp, seen)
            return engine is not None and self._clocks.over(engine, timestamp)

        return self._fences.lead(stages, cell, at, after, seen)

    def _check_cached(
        self, at: Timestamp, instance: Instance, touch: Touch, flight: IssuedOperation | None
    ) -> None:
        """Accesses of which one goes through a cached proxy."""
        for kind, old, unordered in self._cached.unseen(at, touch, flight):
            if unordered:
                fault = fence_fault(kind, at.agent, instance, touch.cell)
                plan = Plan(bounds_of(self._clocks, at), last=at.agent)
                late = [] if old.flight is None else [self._late(at, old.flight)]
                self._findings.add(Weight.FAULT, fault, plan, *late)
            else:
                other = self._layout.agents[old.timestamp.agent].instances[old.timestamp.index]
                past = Past(old.timestamp, other, old.write, old.flight)
                self._weak(past, at, instance, touch.cell)

    def _late(self, at: Timestamp, engine: IssuedOperation) -> Plan:
        """The engine ends at the last timestamp before the access."""
        issue = self._clocks.flights[engine].issue
        bounds = with_event(bounds_of(self._clocks, at, issue), issue.agent, issue.index)
        return Plan(up_to(bounds, at.agent, at.index), land=[name_of(engine)], last=at.agent)

    def _map_published(
        self, cell: CellTrack, name: Cell, at: Timestamp, seen: bool = False
    ) -> bool:
        """Whether each who wrote has released, and an acquire after that is before the timestamp.

        One acquire each suffices: whichever release is the last of a run, one follows it.
        """
        release = ir.FenceKind.TENSORMAP_RELEASE
        acquires = self._fences.last(ir.FenceKind.TENSORMAP_ACQUIRE, name, at, False, seen)
        if not all(
            any(self._engine_mark_cleared(release, written, name, acquire) for acquire in acquires)
            for written in cell.map_writes
        ):
            return False
        return all(
            any(
                self._agent_mark_cleared(release, agent, write.index, name, acquire, seen)
                for acquire in acquires
            )
            for agent, write in cell.authors.items()
        )

    def _unfenced(
        self,
        kind: FaultKind,
        at: Timestamp,
        flight: IssuedOperation,
        touch: Touch,
        engine: IssuedOperation | None,
    ) -> None:
        fault = fence_fault(kind, at.agent, flight.instance, touch.cell)
        plan = Plan(bounds_of(self._clocks, at), last=at.agent)
        if engine is not None:
            self._findings.add(Weight.FAULT, fault, plan, self._late(at, engine))
            return
        self._findings.add(Weight.FAULT, fault, plan)


def _piped(old: Past, flight: IssuedOperation | None) -> bool:
    """Whether the data path itself orders the two."""
    return (
        flight is not None
        and old.flight is not None
        and flight.queue is not None
        and old.flight.queue is flight.queue
        and flight.queue.declaration.pipelined
    )


def _same_line(old: Past, new: Past) -> bool:
    """Whether the newer access is over later than the older one in every run."""
    if old.flight is None or new.flight is None:
        return (
            old.flight is None and new.flight is None and old.timestamp.agent == new.timestamp.agent
        )
    queue = new.flight.queue
    return queue is not None and old.flight.queue is queue and queue.declaration.ordered
