"""Memory along one run: every two conflicting accesses are ordered, and fenced where they must be.

Of each cell the accesses are kept that a later one has to be compared with. A write that is ordered
behind all of them takes their place, since whatever comes behind it comes behind them. Reductions
of one kind, and what a pipelined queue itself keeps in order, need no order and stay.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field

from titan.proof.run_order import Moment, Work
from titan.sync import program as ir
from titan.sync.fence_rules import covers
from titan.sync.memory_rules import cells_of
from titan.sync.open_numbers import NotCoveredError
from titan.sync.reductions import Reduction, commute, reduction_of
from titan.sync.state import Cell

Extent = tuple[Cell, int] | None


@dataclass(slots=True)
class RecordedUse:
    """An access of a cell: by a step (`work` None) or by an operation in flight."""

    moment: Moment
    write: bool
    work: Work | None
    extent: Extent
    reduction: Reduction | None

    def over(self, later: Moment) -> bool:
        """Whether it is over before a later step begins."""
        if self.work is None:
            return later.knows(self.moment.mark)
        return self.work.over(later, self.write)


@dataclass(slots=True)
class CellUses:
    """What was done to a cell, as far as it has to be compared with what comes."""

    uses: dict[object, RecordedUse] = field(default_factory=dict)
    # Accesses through the generic proxy that an asynchronous one must find fenced.
    generic: dict[tuple[int, bool], int] = field(default_factory=dict)  # (agent, write) -> step
    engines: dict[object, RecordedUse] = field(default_factory=dict)


class MemoryOrder:
    """The accesses of a program, in the order of the run. Raises NotCoveredError."""

    def __init__(self, program: ir.SyncProgram, ctas: tuple[int, ...]) -> None:
        self.buffers = {buffer.name: buffer for buffer in program.buffers}
        self.pipelined = {queue.name for queue in program.queues if queue.pipelined}
        self.ordered = {queue.name for queue in program.queues if queue.ordered}
        self.war_fence = program.policies.war_fence
        self.ctas = ctas
        self.cells: dict[Cell, CellUses] = defaultdict(CellUses)
        # of each agent: fences of the asynchronous proxy, as numbers of steps and moments
        self.fences: dict[int, list[tuple[int, Moment, ir.Fence]]] = defaultdict(list)
        self.marked = {
            effect.buffer
            for role in program.roles
            for operation in role.body
            if isinstance(operation, ir.Asynchronous)
            for effect in operation.effects
            if effect.proxy is ir.Proxy.ASYNC
        }
        self.marked = {self.buffers[n].storage or n for n in self.marked}

    def fence(self, agent: int, moment: Moment, operation: ir.Fence) -> None:
        """A proxy fence is executed."""
        if operation.kind is ir.FenceKind.ASYNC:
            self.fences[agent].append((moment.mark[1], moment, operation))

    def access(
        self,
        agent: int,
        moment: Moment,
        effects: tuple[ir.Effect, ...],
        places: list[tuple[int, int | None]],
        work: Work | None,
    ) -> None:
        """The effects of a step, or of the operation that it starts, with stages and parts."""
        made: list[tuple[Cell, ir.Effect, RecordedUse]] = []
        for effect, (stage, part) in zip(effects, places, strict=True):
            buffer = self.buffers[effect.buffer]
            if not 0 <= stage < buffer.stages or not 0 <= (part or 0) < buffer.parts:
                raise NotCoveredError(f"{buffer.name} has no such stage")
            cells = cells_of(buffer, stage, part)
            extent = (cells[0], len(cells)) if effect.accumulates else None
            kind = reduction_of(effect, self.ctas[agent])
            for cell in cells:
                made.append((cell, effect, RecordedUse(moment, effect.write, work, extent, kind)))
        for cell, effect, use in made:
            self._conflicts(cell, use)
            if work is not None and effect.proxy is ir.Proxy.ASYNC:
                self._fenced(cell, effect, moment)
        for cell, effect, use in made:
            self._keep(cell, agent, use, effect)

    def _conflicts(self, cell: Cell, use: RecordedUse) -> None:
        """Every earlier access that conflicts is over."""
        found = self.cells[cell].uses
        for name, other in list(found.items()):
            if not (use.write or other.write) or self._exempt(other, use):
                continue
            if not other.over(use.moment):
                raise NotCoveredError(f"two accesses of {cell[0]}[{cell[1]}] are not ordered")
            if use.write:
                del found[name]

    def _exempt(self, other: RecordedUse, use: RecordedUse) -> bool:
        """Whether the two need no order: reductions, or the data path keeps it."""
        if use.write and commute(use.reduction, other.reduction):
            return True
        if use.work is None or other.work is None or use.work.queue is None:
            return False
        if use.work.queue != other.work.queue or use.work.queue[1] not in self.pipelined:
            return False
        if not use.write:
            return other.write and other.extent is None
        return use.extent is not None and (not other.write or other.extent == use.extent)

    def _keep(self, cell: Cell, agent: int, use: RecordedUse, effect: ir.Effect) -> None:
        own = self.cells[cell]
        kind = (use.write, use.extent, use.reduction)
        queue = use.work.queue if use.work is not None else None
        if use.work is None:
            name: object = (agent, *kind)
        elif queue is not None and queue[1] in self.ordered:
            name = (queue, *kind)  # whose later operations end later
        else:
            name = (use.moment.mark, *kind)
        own.uses[name] = use
        if cell[0] not in self.marked:
            return
        if use.work is None:
            own.generic[(agent, use.write)] = use.moment.mark[1]
        elif effect.proxy is ir.Proxy.GENERIC:
            own.engines[name] = use

    def _fenced(self, cell: Cell, effect: ir.Effect, moment: Moment) -> None:
        """What the generic proxy wrote (and read, by policy) is fenced before this access."""
        own, buffer = self.cells[cell], self.buffers[effect.buffer]
        for (agent, wrote), step in own.generic.items():
            if not wrote and not (effect.write and self.war_fence):
                continue
            fences = self.fences[agent]
            at = bisect_right(fences, step, key=lambda item: item[0])
            covering = (f for f in fences[at:] if covers(f[2], buffer, self.ctas[agent]))
            first = next(covering, None)
            if first is None or not moment.knows(first[1].mark):
                raise NotCoveredError(f"no proxy fence orders an access of {cell[0]}[{cell[1]}]")
        for use in own.engines.values():
            if not use.write and not (effect.write and self.war_fence):
                continue
            if not any(self._cleared(agent, use, moment, buffer) for agent in list(self.fences)):
                raise NotCoveredError(f"no proxy fence orders an access of {cell[0]}[{cell[1]}]")

    def _cleared(self, agent: int, use: RecordedUse, moment: Moment, buffer: ir.Buffer) -> bool:
        """Whether a fence of the agent is behind the end of an operation and before a step."""
        assert use.work is not None
        for _, fence, operation in reversed(self.fences[agent]):
            if moment.knows(fence.mark) and covers(operation, buffer, self.ctas[agent]):
                return use.work.over(fence, True)
        return False
