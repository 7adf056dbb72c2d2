"""The fences of a run by agent, kind and spaces: which of them act on a cell before a timestamp."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import field

from titan.engines.happens_before.clocks import Clocks, Timestamp
from titan.engines.happens_before.tables import RunLayout
from titan.engines.happens_before.unfolding import Cell
from titan.foundation.records import dataclass
from titan.sync import program as ir

# A stage of a way through fences: of this kind, by one of these agents (None: any).
Stage = tuple[ir.FenceKind, Collection[int] | None]


@dataclass(slots=True)
class FenceSequence:
    """The fences of one agent, one kind and one choice of spaces, in order."""

    operation: ir.Fence
    cta: int
    indices: list[int] = field(default_factory=list)
    timestamps: list[Timestamp] = field(default_factory=list)


class Fences:
    """Hears the fences of a run, and answers for the past of a timestamp."""

    def __init__(self, clocks: Clocks, layout: RunLayout) -> None:
        self._clocks = clocks
        self._layout = layout
        self._lines: dict[tuple[int, ir.FenceKind], dict[tuple[ir.Space, ...], FenceSequence]] = {}
        self._covers: dict[tuple[ir.Fence, Cell, int], tuple[bool, bool]] = {}

    def add(self, at: Timestamp, operation: ir.Fence) -> None:
        """A proxy fence at its instant."""
        lines = self._lines.setdefault((at.agent, operation.kind), {})
        line = lines.get(operation.spaces)
        if line is None:
            line = FenceSequence(operation, self._layout.ctas[at.agent])
            lines[operation.spaces] = line
        line.indices.append(at.index)
        line.timestamps.append(at)

    def _covered(self, line: FenceSequence, cell: Cell) -> tuple[bool, bool]:
        key = (line.operation, cell, line.cta)
        answer = self._covers.get(key)
        if answer is None:
            answer = self._layout.fence_covers(line.operation, cell, line.cta)
            self._covers[key] = answer
        return answer

    def own(
        self, kind: ir.FenceKind, agent: int, index: int, cell: Cell, at: Timestamp, seen: bool
    ) -> bool:
        """Whether the agent fenced the cell after its event `index` and before the timestamp."""
        for line in self._lines.get((agent, kind), {}).values():
            place = bisect_right(line.indices, index)
            if (
                place < len(line.indices)
                and self._covered(line, cell)[0]
                and self._clocks.before(agent, line.indices[place], at, seen)
            ):
                return True
        return False

    def last(
        self,
        kind: ir.FenceKind,
        cell: Cell,
        at: Timestamp,
        near_only: bool,
        seen: bool = False,
        agents: Collection[int] | None = None,
    ) -> list[Timestamp]:
        """For each agent its last covering fence before the timestamp."""
        result = []
        for agent in range(self._clocks.count) if agents is None else agents:
            for line in self._lines.get((agent, kind), {}).values():
                covered, near = self._covered(line, cell)
                if not covered or (near_only and not near):
                    continue
                known = at.index if agent == at.agent else (at.seen if seen else at.clock)[agent]
                place = bisect_left(line.indices, known)
                if place:
                    result.append(line.timestamps[place - 1])
        return result

    def lead(
        self,
        stages: Sequence[Stage],
        cell: Cell,
        at: Timestamp,
        start: Callable[[Timestamp], bool],
        seen: bool = False,
    ) -> bool:
        """Whether fences of all stages, in this order, stand between `start` and the timestamp.

        The last fence of each agent is enough: whatever is before an earlier one is before it.
        """
        if not stages:
            return start(at)
        kind, agents = stages[-1]
        return any(
            self.lead(stages[:-1], cell, fence, start, seen)
            for fence in self.last(kind, cell, at, False, seen, agents)
        )
