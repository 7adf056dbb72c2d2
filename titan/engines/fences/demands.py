"""Which pairs of accesses need a fence between them, and which fences would do.

The rules (PTX "Async Proxy", "fence"; the reading of `titan/sync/fence_rules.py`):

- generic write, then asynchronous access: the writer fences between the two (writer rule), or any
  agent of the memory's CTA does on the path from one to the other (path rule). What an engine has
  written through the generic proxy is fenced by any agent after the engine's end;
- generic read, then asynchronous write: the same, by the policy `war_fence`;
- a write of a tensor map, then its use: a release after the write, by who wrote (path rule and
  engines: by any agent), then an acquire by any agent, then the use;
- an initialised mbarrier, then its use by an engine or another CTA: the initialiser's own fence;
- asynchronous access, then generic access: nothing but the completion, which has its own fence;
- two accesses of which one goes through a cached proxy: `titan/engines/fences/cached.py`.

A generic access before an asynchronous one is let in by the two halves of a one-way fence, too: a
release in the place of the fence, then an acquire by the agent that issues.

A demand is a pair with its alternatives. An alternative is a set of fences that must be there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import dataclass, field

from titan.engines.fences.cached import CachedHistory, Stage
from titan.engines.fences.graph import EffectGraph, MemoryEffect, NodeKind
from titan.engines.fences.recording import Recording
from titan.engines.happens_before.tables import IssuedOperation, RunLayout
from titan.engines.happens_before.unfolding import Cell
from titan.sync import program as ir
from titan.sync.fault import FaultKind

Spaces = tuple[ir.Space, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One fence instruction of the program text: where, of which kind, for which spaces."""

    point: Hashable
    kind: ir.FenceKind
    spaces: Spaces


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to justify a pair: all fences in `needed` together."""

    needed: frozenset[Choice]


@dataclass(frozen=True, slots=True)
class Demand:
    """The pair of nodes `first` and `second`, what breaks without a fence, and what repairs it."""

    kind: FaultKind
    first: int
    second: int
    place: Cell
    agent: int
    alternatives: frozenset[Alternative] = field(compare=False)


@dataclass(slots=True)
class _CellHistory:
    """The last generic accesses of each agent, and those of engines that are not fenced for all."""

    writes: dict[int, int] = field(default_factory=dict)
    reads: dict[int, int] = field(default_factory=dict)
    engine_writes: list[tuple[IssuedOperation, int]] = field(default_factory=list)
    map_writes: list[int] = field(default_factory=list)
    engine_reads: list[tuple[IssuedOperation, int]] = field(default_factory=list)


class Demands:
    """Enumerates the demands of a recording.

    `choices_of` gives, for one executed fence, every instruction that it represents: itself, or
    with narrower spaces too where fences are being chosen.
    """

    def __init__(
        self,
        recording: Recording,
        choices_of: Callable[[ir.Fence], tuple[Choice, ...]],
    ) -> None:
        assert recording.layout is not None
        self._recording = recording
        self._graph: EffectGraph = recording.graph
        self._layout: RunLayout = recording.layout
        self._choices_of = choices_of
        policies = self._layout.program.policies
        self._path_rule = policies.fence_rule == "path"
        self._war = policies.war_fence
        self._publishing = policies.barrier_init != "assumed"
        self._lines: dict[tuple[int, ir.FenceKind], list[int]] = {}
        for number in recording.fences:
            node = self._graph.nodes[number]
            self._lines.setdefault((node.agent, self._fence(number).kind), []).append(number)
        self._cells: dict[Cell, _CellHistory] = {}
        self._cached = CachedHistory(recording)
        self._covering: dict[tuple[int, Cell, int], tuple[tuple[Choice, bool], ...]] = {}
        self._flight_ends = {flight: n for n, flight in recording.flights.items()}

    def _fence(self, number: int) -> ir.Fence:
        instance = self._graph.nodes[number].instance
        assert instance is not None and isinstance(instance.operation, ir.Fence)
        return instance.operation

    # ------------------------------------------------------------------- enumeration

    def all(self) -> Iterator[Demand]:
        """Every demand of the run, in the order of the later access."""
        at = 0
        effects = self._graph.effects
        while at < len(effects):
            group = [effects[at]]
            while at + len(group) < len(effects) and effects[at + len(group)].node == group[0].node:
                group.append(effects[at + len(group)])
            at += len(group)
            for effect in group:
                yield from self._cached_demands(effect)
                yield from self._demands_of(effect)
            for effect in group:
                self._cached.note(effect)
                self._note(effect)
        if self._publishing:
            yield from self._publication()

    def _note(self, effect: MemoryEffect) -> None:
        asynchronous = isinstance(effect.instance.operation, ir.Asynchronous)
        if effect.proxy in ir.CACHED:
            return
        cell = self._cells.setdefault(effect.cell, _CellHistory())
        if asynchronous and effect.write and effect.end is not None:
            cell.map_writes = [*(cell.map_writes if effect.reduces else ()), effect.end]
        if asynchronous and effect.proxy is not ir.Proxy.GENERIC:
            return
        if not asynchronous:
            (cell.writes if effect.write else cell.reads)[effect.agent] = effect.node
            return
        if effect.end is None:
            return  # never committed: it has no end
        flight = self._recording.flights[effect.end]
        if effect.write:
            before = cell.engine_writes if effect.reduces else ()
            cell.engine_writes = [*before, (flight, effect.end)]
        else:
            cell.engine_reads.append((flight, effect.end))

    def _demands_of(self, effect: MemoryEffect) -> Iterator[Demand]:
        cell = self._cells.get(effect.cell)
        if cell is None or not isinstance(effect.instance.operation, ir.Asynchronous):
            return
        if effect.proxy is ir.Proxy.TENSORMAP:
            yield from self._map_demands(effect, cell)
        elif effect.proxy is ir.Proxy.ASYNC:
            kind = FaultKind.MISSING_FENCE
            yield from self._marks(kind, effect, cell.writes, cell.engine_writes)
            if effect.write and self._war:
                kind = FaultKind.MISSING_FENCE_WAR
                yield from self._marks(kind, effect, cell.reads, cell.engine_reads)
                cell.engine_reads = cell.engine_reads if effect.reduces else []

    def _marks(
        self,
        kind: FaultKind,
        effect: MemoryEffect,
        marks: dict[int, int],
        engines: list[tuple[IssuedOperation, int]],
    ) -> Iterator[Demand]:
        for agent, mark in marks.items():
            found = self._between(agent, mark, effect)
            yield Demand(kind, mark, effect.node, effect.cell, effect.agent, found)
        for flight, end in engines:
            own = flight.agent == effect.agent and flight.queue is not None
            if own and self._open_at(flight, effect.node):
                continue  # its group is still open: it cannot end before this issue
            found = self._after_engine(end, effect)
            yield Demand(kind, end, effect.node, effect.cell, effect.agent, found)

    def _open_at(self, flight: IssuedOperation, node: int) -> bool:
        """Whether the flight is committed only after the (same agent's) node."""
        end = self._flight_ends[flight]
        return any(
            self._graph.nodes[edge.source].agent == flight.agent and edge.source >= node
            for edge in self._graph.incoming[end]
        )

    # ------------------------------------------------------------------ alternatives

    def _covers(self, number: int, cell: Cell) -> tuple[tuple[Choice, bool], ...]:
        """The choices of an executed fence that cover the cell, each with whether it is near."""
        fence = self._fence(number)
        cta = self._graph.ctas[self._graph.nodes[number].agent]
        key = (id(fence), cell, cta)
        if key not in self._covering:
            found = []
            for choice in self._choices_of(fence):
                trial = ir.Fence(choice.kind, choice.spaces)
                covered, near = self._layout.fence_covers(trial, cell, cta)
                if covered:
                    found.append((choice, near))
            self._covering[key] = tuple(found)
        return self._covering[key]

    def _own(
        self, agent: int, mark: int, kind: ir.FenceKind, before: int, visible: bool
    ) -> Iterator[int]:
        """The agent's executed fences after node `mark` that are before node `before`."""
        line = self._lines.get((agent, kind), [])
        for number in line[bisect_right(line, mark) :]:
            if number >= before or not self._graph.before(number, before, visible):
                break
            yield number

    def _between(self, agent: int, mark: int, effect: MemoryEffect) -> frozenset[Alternative]:
        kind = ir.FenceKind.ASYNC
        found = {
            choice
            for number in self._own(agent, mark, kind, effect.node, True)
            for choice, _ in self._covers(number, effect.cell)
        }
        if self._path_rule:
            found |= self._by_anyone(kind, mark, effect, True)
        alone = frozenset(Alternative(frozenset({choice})) for choice in found)
        who = None if self._path_rule else (agent,)
        return alone | self._handed_on(mark, effect, who)

    def _handed_on(
        self, mark: int, effect: MemoryEffect, who: Collection[int] | None
    ) -> frozenset[Alternative]:
        """A release half by one of the agents (None: any), an acquire half by who issues."""
        release = (ir.FenceKind.ASYNC_RELEASE, who)
        acquire = (ir.FenceKind.ASYNC_ACQUIRE, (effect.agent,))
        return self._ways(mark, effect, (release, acquire))

    def _ways(
        self, first: int, effect: MemoryEffect, stages: tuple[Stage, ...]
    ) -> frozenset[Alternative]:
        """All ways from a node to the access through executed fences of these stages, in order.

        Who waits for an engine's end sees what it did.
        """
        ways: set[tuple[int, frozenset[Choice]]] = {(first, frozenset())}
        for kind, agents in stages:
            ways = {
                (number, choices | {choice})
                for node, choices in ways
                for number in self._of_all(kind, node, effect.node, True)
                if agents is None or self._graph.nodes[number].agent in agents
                for choice, _ in self._covers(number, effect.cell)
            }
        return frozenset(Alternative(choices) for _, choices in ways)

    def _cached_demands(self, effect: MemoryEffect) -> Iterator[Demand]:
        """Pairs with an access through a cached proxy."""
        for asked in self._cached.asked(effect, self._path_rule):
            found: frozenset[Alternative] = frozenset()
            for way in asked.ways:
                found |= self._ways(asked.first, effect, way)
            yield Demand(asked.kind, asked.first, effect.node, effect.cell, effect.agent, found)

    def _by_anyone(
        self, kind: ir.FenceKind, mark: int, effect: MemoryEffect, near_only: bool
    ) -> set[Choice]:
        """Fences of all agents on a path from the mark to the access."""
        return {
            choice
            for number in self._of_all(kind, mark, effect.node, near_only)
            for choice, near in self._covers(number, effect.cell)
            if near or not near_only
        }

    def _of_all(self, kind: ir.FenceKind, mark: int, before: int, visible: bool) -> Iterator[int]:
        """The fences of all agents on a path from one node to another."""
        for (_, found), line in self._lines.items():
            for number in line if found is kind else ():
                if number >= before:
                    break
                seen = visible and self._graph.nodes[mark].kind is NodeKind.OPERATION
                if self._graph.before(mark, number, seen) and self._graph.before(
                    number, before, visible
                ):
                    yield number

    def _after_engine(self, end: int, effect: MemoryEffect) -> frozenset[Alternative]:
        found = self._by_anyone(ir.FenceKind.ASYNC, end, effect, False)
        alone = frozenset(Alternative(frozenset({choice})) for choice in found)
        return alone | self._handed_on(end, effect, None)

    def _map_demands(self, effect: MemoryEffect, cell: _CellHistory) -> Iterator[Demand]:
        """Each who wrote the map releases it; whoever does so last, an acquire follows."""
        kind = ir.FenceKind.TENSORMAP_RELEASE
        for agent, mark in cell.writes.items():
            yield self._map_demand(effect, mark, self._own(agent, mark, kind, effect.node, False))
        for end in cell.map_writes:
            yield self._map_demand(effect, end, self._of_all(kind, end, effect.node, False), True)

    def _map_demand(
        self, effect: MemoryEffect, mark: int, releases: Iterator[int], engine: bool = False
    ) -> Demand:
        """The alternatives: one of the releases, and an acquire after it."""
        release, acquire = ir.FenceKind.TENSORMAP_RELEASE, ir.FenceKind.TENSORMAP_ACQUIRE
        firsts = [
            (number, choice)
            for number in releases
            for choice, _ in self._covers(number, effect.cell)
        ]
        if self._path_rule and not engine:
            firsts += [
                (number, choice)
                for number in self._of_all(release, mark, effect.node, False)
                for choice, near in self._covers(number, effect.cell)
                if near
            ]
        found = {
            Alternative(frozenset({first, second}))
            for number, first in firsts
            for later in self._of_all(acquire, number, effect.node, False)
            for second, _ in self._covers(later, effect.cell)
        }
        return Demand(
            FaultKind.MISSING_TENSORMAP_FENCE,
            mark, effect.node, effect.cell, effect.agent, frozenset(found),
        )  # fmt: skip

    def _publication(self) -> Iterator[Demand]:
        for use in self._recording.uses:
            agent = self._graph.nodes[use.initialised].agent
            kind = ir.FenceKind.BARRIER_INIT
            found = {
                choice
                for number in self._own(agent, use.initialised, kind, use.node, False)
                for choice in self._choices_of(self._fence(number))
            }
            yield Demand(
                FaultKind.UNPUBLISHED_INIT,
                use.initialised,
                use.node,
                use.key,
                self._graph.nodes[use.node].agent,
                frozenset(Alternative(frozenset({choice})) for choice in found),
            )
