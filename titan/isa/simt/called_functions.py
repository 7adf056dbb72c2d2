"""Functions that the arms of a branch on unknown data call, as `sin` of binary64 does for large
numbers.

Such arms are executed as a loop on data is: each block of theirs once, and each block of what they
call, with unknown numbers in all registers that these write. So a function may be called there if
all it does may stand in a loop on data, and if it returns at its ends alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from titan.isa.simt.control_flow import FlowGraph
from titan.isa.simt.operations import DecodedStep, Op

Block = tuple[int, int]  # the first instruction, and the one behind the last


class CalledFunctions:
    """The functions of a program, by their first instruction."""

    def __init__(self, steps: Sequence[DecodedStep], functions: Iterable[Block]) -> None:
        self._steps, self._ends = steps, dict(functions)
        self._graphs: dict[int, FlowGraph] = {}

    def graphs(self, blocks: Iterable[Block]) -> list[FlowGraph]:
        """The graphs of what is called in these blocks, by way of others too."""
        found: dict[int, FlowGraph] = {}
        waiting = list(blocks)
        while waiting:
            low, high = waiting.pop()
            for step in self._steps[low:high]:
                start = step.flags[0] if step.op is Op.CALL else -1
                if start in self._ends and start not in found:
                    found[start] = graph = self._graph(start)
                    waiting += graph.blocks
        return list(found.values())

    def refused(self, graphs: Sequence[FlowGraph], allowed: Callable[[DecodedStep], bool]) -> int:
        """An instruction of these functions that may not stand in an arm; -1 if there is none."""
        for graph in graphs:
            if any(other is graph for other in self.graphs(graph.blocks)):
                return graph.start  # it calls itself
            for index in range(graph.start, graph.end):
                step = graph.steps[index]
                leaves = step.op is Op.RETURN and step.guard < 0
                if not (leaves or self.is_call(step) or allowed(step)):
                    return index
        return -1

    def is_call(self, step: DecodedStep) -> bool:
        """Whether a step calls a function of the program, with all lanes that come to it."""
        return step.op is Op.CALL and step.guard < 0 and step.flags[0] in self._ends

    def _graph(self, start: int) -> FlowGraph:
        if start not in self._graphs:
            self._graphs[start] = FlowGraph(self._steps, start, self._ends[start])
        return self._graphs[start]


def loops(graph: FlowGraph) -> bool:
    """Whether some block of a function may be executed again."""
    return any(block in graph.leading_to([block]) for block in range(len(graph.blocks)))
