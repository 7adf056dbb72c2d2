"""Runs a program once and writes down its proxy-effect graph.

The run is that of the happens-before engine (`titan/engines/happens_before`), with its checks of
proxy fences and of the publication of barriers taken out, so that it continues past a missing
fence. All other checks stay: they say whether one run represents all (`Recording.reason` empty),
which is what makes a path in this graph an order in every interleaving.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from titan.engines.fences.graph import EdgeKind, EffectGraph, MemoryEffect, NodeKind, ProxyEdge
from titan.engines.happens_before.clocks import Timestamp
from titan.engines.happens_before.execution import OrderedRun
from titan.engines.happens_before.findings import Weight
from titan.engines.happens_before.memory import MemoryObserver
from titan.engines.happens_before.steering import run_to_end
from titan.engines.happens_before.tables import (
    CellTable,
    IssuedOperation,
    Mbarrier,
    NamedTrack,
    QueueTable,
    RunLayout,
)
from titan.engines.happens_before.tracker import Tracker
from titan.engines.happens_before.unfolding import (
    Instance,
    Key,
    Touch,
    Unfolder,
    UnfoldingRefused,
)
from titan.sync import program as ir
from titan.sync.parts import order_of

OPERATIONS_MAX = 8_000  # reach is kept as one bit for each pair of nodes


@dataclass(frozen=True, slots=True)
class BarrierUse:
    """A use of an initialised barrier by an engine or from another CTA; needs publication."""

    key: Key
    initialised: int
    node: int


@dataclass(slots=True)
class Recording:
    """One run. `reason` says why it does not represent all runs; empty where it does."""

    graph: EffectGraph
    layout: RunLayout | None
    reason: str = ""
    fences: list[int] = field(default_factory=list)
    uses: list[BarrierUse] = field(default_factory=list)
    flights: dict[int, IssuedOperation] = field(default_factory=dict)


class _Unfenced(OrderedRun):
    """A run that does not stop at what the graph is to decide."""

    def _check_proxy(self, agent: int, instance: Instance, touch: Touch, cell: CellTable) -> None:
        return

    def _check_cached(self, agent: int, instance: Instance, touch: Touch, cell: CellTable) -> None:
        return

    def _check_status(self, barrier: Mbarrier, agent: int, instance: Instance, far: bool) -> None:
        super()._check_status(barrier, agent, instance, False)


class _OrderOnly(MemoryObserver):
    """Races and the operations in flight, without the fences."""

    def _check_proxy(self, at: Timestamp, flight: IssuedOperation, touch: Touch) -> None:
        return

    def _check_cached(
        self, at: Timestamp, instance: Instance, touch: Touch, flight: IssuedOperation | None
    ) -> None:
        return


@dataclass(slots=True)
class _Point:
    """What a phase in the making waits for: nodes, with CTA, scope and order of each."""

    parts: list[tuple[int, int, ir.Scope, ir.Order]] = field(default_factory=list)
    flat: int = -1
    near: dict[int, int] = field(default_factory=dict)
    cluster: int = -1


class _Recorder(Tracker):
    """Hears the run twice: as the engine does, and to draw the graph."""

    def __init__(self, layout: RunLayout) -> None:
        super().__init__(layout)
        self._memory = _OrderOnly(self.clocks, layout, self.findings)
        self._phases._publishing = False
        names = tuple(agent.name for agent in layout.agents)
        self.graph = EffectGraph(names, tuple(layout.ctas))
        self.recording = Recording(self.graph, layout)
        self._last: list[int | None] = [None] * len(names)
        self._made: list[int] = [-1] * len(names)
        self._joins: list[list[ProxyEdge]] = [[] for _ in names]
        self._points: dict[_Place, _Point] = {}
        self._inits: dict[Key, int] = {}
        self._tokens: dict[tuple[Key, int], int] = {}
        self._arrived: dict[tuple[Key, int], int] = {}
        self._issues: dict[IssuedOperation, int] = {}
        self._ready: dict[IssuedOperation, int] = {}
        self._ends: dict[IssuedOperation, int] = {}
        self._reads: dict[IssuedOperation, int] = {}
        self._queued: dict[int, list[IssuedOperation]] = {}
        self._windows: list[tuple[IssuedOperation, int]] = []

    # ------------------------------------------------------------------------- nodes

    def _node(self, agent: int, joins: list[ProxyEdge] | None = None) -> int:
        """The node of the agent's present operation."""
        assert self.execution is not None
        index = self.execution.next[agent]
        last = self._last[agent]
        if self._made[agent] == index and last is not None:
            return last
        edges = [*self._joins[agent], *(joins or [])]
        if last is not None:
            edges.insert(0, ProxyEdge(last, EdgeKind.PROGRAM))
        self._joins[agent] = []
        instance = self._layout.agents[agent].instances[index]
        number = self.graph.add(NodeKind.OPERATION, edges, agent, index, instance)
        self._last[agent], self._made[agent] = number, index
        return number

    def _end(self, flight: IssuedOperation) -> int:
        """The node of the flight's end; in an ordered queue after those of earlier flights."""
        if flight in self._ends:
            return self._ends[flight]
        queue = flight.queue
        ordered = queue is not None and queue.declaration.ordered
        line = self._queued[id(queue)][: flight.position + 1] if ordered else [flight]
        for other in line:
            if other in self._ends:
                continue
            edges = [ProxyEdge(self._ready[other], EdgeKind.ISSUE)]
            read = self._read(other)
            if read != self._ready[other]:
                edges.append(ProxyEdge(read, EdgeKind.QUEUE))
            if ordered and other.position:
                before = self._queued[id(queue)][other.position - 1]
                edges.append(ProxyEdge(self._ends[before], EdgeKind.QUEUE))
            self._ends[other] = self._engine_node(NodeKind.END, other, edges)
        return self._ends[flight]

    def _read(self, flight: IssuedOperation) -> int:
        """The node at which the flight has read its sources; its start where nobody waits so."""
        queue = flight.queue
        if queue is None or not queue.split:
            return self._ready[flight]
        ordered = queue.declaration.ordered
        line = self._queued[id(queue)][: flight.position + 1] if ordered else [flight]
        for other in line:
            if other in self._reads:
                continue
            edges = [ProxyEdge(self._ready[other], EdgeKind.ISSUE)]
            if ordered and other.position:
                before = self._queued[id(queue)][other.position - 1]
                edges.append(ProxyEdge(self._reads[before], EdgeKind.QUEUE))
            self._reads[other] = self._engine_node(NodeKind.READS_END, other, edges)
        return self._reads[flight]

    def _engine_node(self, kind: NodeKind, flight: IssuedOperation, edges: list[ProxyEdge]) -> int:
        number = self.graph.add(kind, edges, -1, flight.ordinal, flight.instance)
        self.recording.flights[number] = flight
        return number

    # ------------------------------------------------------------------------ memory

    def access(self, agent: int, instance: Instance) -> None:
        node = self._node(agent)
        for touch in instance.touches:
            self._effect(node, agent, touch, instance)
        super().access(agent, instance)

    def _effect(self, node: int, agent: int, touch: Touch, instance: Instance) -> None:
        self.graph.effects.append(
            MemoryEffect(
                node,
                agent,
                touch.cell,
                touch.write,
                touch.tile,
                touch.proxy,
                instance,
                reduces=touch.reduction is not None,
            )
        )

    def fenced(self, agent: int, instance: Instance) -> None:
        self.recording.fences.append(self._node(agent))
        super().fenced(agent, instance)

    # ----------------------------------------------------------------------- flights

    def issued(self, flight: IssuedOperation) -> None:
        node = self._node(flight.agent)
        self._issues[flight] = self._ready[flight] = node
        if flight.queue is not None:
            self._queued.setdefault(id(flight.queue), []).append(flight)
        if isinstance(flight.instance.operation, ir.Asynchronous):
            for touch in flight.instance.touches:
                self._windows.append((flight, len(self.graph.effects)))
                self._effect(node, flight.agent, touch, flight.instance)
        super().issued(flight)

    def committed(self, agent: int, queue: QueueTable, flights: list[IssuedOperation]) -> None:
        node = self._node(agent)
        for flight in flights:
            self._ready[flight] = node
        super().committed(agent, queue, flights)

    def queue_waited(
        self, agent: int, queue: QueueTable, reads: bool, covered: int, exact: bool
    ) -> None:
        joins: list[ProxyEdge] = []
        if exact and covered:
            line = self._queued[id(queue)][:covered]
            wanted = line[-1:] if queue.declaration.ordered else line
            joins = [
                ProxyEdge(self._read(flight) if reads else self._end(flight), EdgeKind.GROUP)
                for flight in wanted
            ]
        self._node(agent, joins)
        super().queue_waited(agent, queue, reads, covered, exact)

    # ------------------------------------------------------------------------ phases

    def _use(self, barrier: Mbarrier, agent: int, node: int, engine: bool) -> None:
        start = self._inits.get(barrier.key)
        far = engine or barrier.cta != self._layout.ctas[agent]
        if start is not None and far:
            self.recording.uses.append(BarrierUse(barrier.key, start, node))

    def _contribute(
        self, place: _Place, node: int, cta: int, scope: ir.Scope, order: ir.Order
    ) -> None:
        self._points.setdefault(place, _Point()).parts.append((node, cta, scope, order))

    def _complete(self, place: _Place, name: str, kind: EdgeKind) -> None:
        """Draw the node of a completed phase; with weak synchronisation one more for each reach."""
        point = self._points.setdefault(place, _Point())
        node_kind = NodeKind.PHASE if place[0] == "mbarrier" else NodeKind.GENERATION
        weak = self.clocks.weak
        edges = [ProxyEdge(node, kind, not weak) for node, _, _, _ in point.parts]
        point.flat = self.graph.add(node_kind, edges, -1, place[3], name=name)
        if not weak:
            return
        strong = [part for part in point.parts if part[3] is not ir.Order.RELAXED]
        for cta in {part[1] for part in strong}:
            edges = [ProxyEdge(part[0], kind) for part in strong if part[1] == cta]
            point.near[cta] = self.graph.add(node_kind, edges, -1, place[3], name=name)
        edges = [ProxyEdge(part[0], kind) for part in strong if part[2] is ir.Scope.CLUSTER]
        if edges:
            point.cluster = self.graph.add(node_kind, edges, -1, place[3], name=name)

    def _learnt(
        self, place: _Place, cta: int, scope: ir.Scope, order: ir.Order, kind: EdgeKind
    ) -> list[ProxyEdge]:
        """The edges to whoever observes the completion."""
        point = self._points.get(place)
        if point is None or point.flat < 0:
            return []
        edges = [ProxyEdge(point.flat, kind, not self.clocks.weak)]
        if order is not ir.Order.RELAXED and self.clocks.weak:
            if cta in point.near:
                edges.append(ProxyEdge(point.near[cta], kind))
            if scope is ir.Scope.CLUSTER and point.cluster >= 0:
                edges.append(ProxyEdge(point.cluster, kind))
        return edges

    def arriving(
        self, barrier: Mbarrier, agent: int, instance: Instance, flight: IssuedOperation | None
    ) -> None:
        node = self._node(agent) if flight is None else self._end(flight)
        self._use(barrier, agent, node, flight is not None)
        operation = instance.operation
        place = _of(barrier, barrier.phase)
        if isinstance(operation, ir.Arrive):
            if operation.token:
                self._tokens[(barrier.key, agent)] = barrier.phase
            if instance.amount or instance.size or operation.token:
                cta = self._layout.ctas[agent]
                self._contribute(place, node, cta, operation.scope, operation.order)
        elif instance.completes[0][1]:
            home = self._layout.barrier_ctas[barrier.key[0]]
            self._contribute(place, node, home, ir.Scope.CLUSTER, ir.Order.SYNCHRONISING)
        super().arriving(barrier, agent, instance, flight)

    def transacting(self, barrier: Mbarrier, flight: IssuedOperation, amount: int) -> None:
        node = self._end(flight) if flight.chunks == 1 else self._ready[flight]
        self._use(barrier, flight.agent, node, True)
        if amount:
            place = _of(barrier, barrier.phase)
            home = self._layout.barrier_ctas[barrier.key[0]]
            self._contribute(place, node, home, ir.Scope.CLUSTER, ir.Order.SYNCHRONISING)
        super().transacting(barrier, flight, amount)

    def expecting(self, barrier: Mbarrier, agent: int, instance: Instance) -> None:
        node = self._node(agent)
        self._use(barrier, agent, node, False)
        cta = self._layout.ctas[agent]
        # An expectation counts, and carries nothing (PTX expect-tx is relaxed).
        self._contribute(_of(barrier, barrier.phase), node, cta, ir.Scope.CTA, ir.Order.RELAXED)
        super().expecting(barrier, agent, instance)

    def mbarrier_completed(self, barrier: Mbarrier) -> None:
        phase = barrier.phase - 1
        self._complete(_of(barrier, phase), f"phase {phase} of {barrier.text}", EdgeKind.PHASE)
        super().mbarrier_completed(barrier)

    def waited(self, barrier: Mbarrier, agent: int, instance: Instance) -> None:
        operation = instance.operation
        assert isinstance(operation, ir.Wait)
        self._observe(barrier, barrier.phase - 1, agent, operation)
        super().waited(barrier, agent, instance)

    def token_waited(self, barrier: Mbarrier, agent: int, instance: Instance) -> None:
        operation = instance.operation
        assert isinstance(operation, ir.TokenWait)
        self._observe(barrier, self._tokens.get((barrier.key, agent), -1), agent, operation)
        super().token_waited(barrier, agent, instance)

    def _observe(
        self, barrier: Mbarrier, phase: int, agent: int, operation: ir.Wait | ir.TokenWait
    ) -> None:
        cta = self._layout.ctas[agent]
        place = _of(barrier, phase)
        edges = self._learnt(place, cta, operation.scope, operation.order, EdgeKind.PHASE)
        self._use(barrier, agent, self._node(agent, edges), False)

    def initialised(self, barrier: Mbarrier, agent: int, instance: Instance) -> None:
        self._inits[barrier.key] = self._node(agent)
        super().initialised(barrier, agent, instance)

    def invalidated(self, barrier: Mbarrier, agent: int, instance: Instance) -> None:
        self._node(agent)
        super().invalidated(barrier, agent, instance)

    # ---------------------------------------------------------------- named barriers

    def named_arriving(self, named: NamedTrack, agent: int, instance: Instance, sync: bool) -> None:
        node = self._node(agent)
        operation = instance.operation
        assert isinstance(operation, ir.BarrierSync | ir.BarrierArrive)
        place = _of(named, named.generation)
        cta, scope = self._layout.ctas[agent], named.declaration.scope
        self._contribute(place, node, cta, scope, operation.order)
        self._arrived[(named.key, agent)] = named.generation
        super().named_arriving(named, agent, instance, sync)

    def named_completed(self, named: NamedTrack, released: list[int]) -> None:
        generation = named.generation - 1
        place = _of(named, generation)
        name = f"generation {generation} of {named.text}"
        self._complete(place, name, _named_kind(named))
        assert self.execution is not None
        for agent in released:
            instance = self.execution.instance_of(agent)
            assert instance is not None
            order = order_of(instance.operation)
            cta, scope = self._layout.ctas[agent], named.declaration.scope
            self._joins[agent] += self._learnt(place, cta, scope, order, _named_kind(named))
        super().named_completed(named, released)

    def named_waited(self, named: NamedTrack, agent: int) -> None:
        assert self.execution is not None
        instance = self.execution.instance_of(agent)
        assert instance is not None and isinstance(instance.operation, ir.BarrierWait)
        place = _of(named, self._arrived.get((named.key, agent), -1))
        cta, scope = self._layout.ctas[agent], named.declaration.scope
        order = instance.operation.order
        self._node(agent, self._learnt(place, cta, scope, order, _named_kind(named)))
        super().named_waited(named, agent)

    # ------------------------------------------------------------------------- pools

    def pool_taken(self, agent: int, instance: Instance) -> None:
        self._node(agent)
        super().pool_taken(agent, instance)

    def pool_given(self, agent: int, instance: Instance) -> None:
        self._node(agent)
        super().pool_given(agent, instance)

    # --------------------------------------------------------------------------- end

    def finish(self) -> None:
        """Give every asynchronous effect the end of its window."""
        for flight, place in self._windows:
            if flight.queue is None or flight.group:
                end = self._end(flight)
                self.graph.effects[place] = replace(self.graph.effects[place], end=end)


_Place = tuple[str, Key, int, int]


def _of(barrier: Mbarrier | NamedTrack, phase: int) -> _Place:
    if isinstance(barrier, NamedTrack):
        return ("named", barrier.key, 0, phase)
    return ("mbarrier", barrier.key, barrier.generation, phase)


def _named_kind(named: NamedTrack) -> EdgeKind:
    return EdgeKind.CLUSTER if named.declaration.scope is ir.Scope.CLUSTER else EdgeKind.NAMED


def record(
    program: ir.SyncProgram,
    sizes: Mapping[str, int | tuple[int, ...]] | None = None,
    operations_max: int = OPERATIONS_MAX,
) -> Recording:
    """The graph of one run. Raises ValueError when a parameter has no size."""
    unfolder = Unfolder(program, sizes, operations_max)
    try:
        layout = RunLayout(unfolder)
    except UnfoldingRefused as refused:
        return Recording(EffectGraph((), ()), None, str(refused))
    recorder = _Recorder(layout)
    execution = _Unfenced(layout, recorder)
    recorder.execution = execution
    fault = run_to_end(execution, range(len(layout.agents)))
    recording = recorder.recording
    if fault is not None:
        recording.reason = fault.message
        return recording
    recorder.ended()
    recorder.finish()
    findings = recorder.findings
    for weight in (Weight.FAULT, Weight.DEVIATION, Weight.INEXACT, Weight.WEAK):
        for finding in findings.of(weight):
            recording.reason = recording.reason or finding.fault.message
    return recording
