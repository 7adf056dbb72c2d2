"""What the arms of a branch read and write of registers, whatever way goes through them."""

from __future__ import annotations

from typing import NamedTuple

from titan.isa.simt.control_flow import NO_JOIN, FlowGraph, FunctionGraphs, successors
from titan.isa.simt.operations import DecodedCode, Op


class ArmRegisters(NamedTuple):
    """Of a branch with a guard: the instructions of each arm (not taken, taken), the registers that
    every way through it writes, and those that any instruction of the arms reads, the branch too.
    """

    instructions: tuple[frozenset[int], frozenset[int]]
    written: tuple[frozenset[int], frozenset[int]]
    read: frozenset[int]


NOTHING: frozenset[int] = frozenset()
NO_ARMS = ArmRegisters((NOTHING, NOTHING), (NOTHING, NOTHING), NOTHING)


class Arms:
    """The branches of a program, each analysed when it is asked for."""

    def __init__(self, code: DecodedCode) -> None:
        self._code = code
        self._graphs = FunctionGraphs(code)
        self._found: dict[int, ArmRegisters] = {}

    def of(self, branch: int) -> ArmRegisters:
        """The arms of a branch; nothing of one that has other than two, or a loop."""
        if branch not in self._found:
            self._found[branch] = self._of(branch)
        return self._found[branch]

    def within(self, branch: int) -> list[int]:
        """The branches in its arms, in the order of the text."""
        steps = self._code.steps
        inside = sorted(frozenset().union(*self.of(branch).instructions))
        return [at for at in inside if steps[at].op is Op.BRANCH and steps[at].guard >= 0]

    def _of(self, branch: int) -> ArmRegisters:
        code, step, join = self._code, self._code.steps[branch], self._code.joins[branch]
        region = code.regions.get(branch)
        if step.op is not Op.BRANCH or step.guard < 0 or join == NO_JOIN:
            return NO_ARMS
        if region is None or region.cyclic:
            return NO_ARMS
        graph = self._graphs.around(branch)
        starts = successors(code.steps, branch, graph.end)
        arms = [_Arm(graph, start, join) for start in (starts[0], starts[-1])]
        read = {step.guard}
        for at in arms[0].instructions | arms[1].instructions:
            read |= {r for r in (*code.steps[at].args, code.steps[at].guard) if r >= 0}
        return ArmRegisters(
            (frozenset(arms[0].instructions), frozenset(arms[1].instructions)),
            (frozenset(arms[0].written), frozenset(arms[1].written)),
            frozenset(read),
        )


class _Arm:
    """One arm, from its first instruction to the join."""

    def __init__(self, graph: FlowGraph, start: int, join: int) -> None:
        self.instructions: set[int] = set()
        self._graph = graph
        stop, first = graph.block_at[join], graph.block_at[start]
        before: dict[int, set[int]] = {first: set()}  # what every way to a block has written
        waiting = [first]
        while waiting:
            number = waiting.pop()
            if number in (stop, graph.exit):
                continue
            low, high = graph.blocks[number]
            self.instructions |= set(range(low, high))
            left = before[number] | self._writes(low, high)
            for other in graph.next[number]:
                known = before.get(other)
                if known is None or known - left:
                    before[other] = set(left) if known is None else known & left
                    waiting.append(other)
        self.written = before.get(stop, set())

    def _writes(self, low: int, high: int) -> set[int]:
        steps = [step for step in self._graph.steps[low:high] if step.guard < 0]
        return {register for step in steps for register in step.out if register >= 0}
