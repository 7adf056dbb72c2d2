"""Branches on unknown data whose arms do nothing but compute, as the slow path of `cosf`.

What such a branch leaves in registers is a function of what its arms may read: two lanes in which
these registers are equal have equal results, whichever way the data send them. Arms may also load,
and store in memory of the thread, as for an array whose index data choose: what they load, and
what a lane has in its own memory before, is then part of what the results are made of.
"""

from __future__ import annotations

from collections.abc import Sequence

from titan.isa.simt.control_flow import NO_JOIN, FunctionGraphs, successors
from titan.isa.simt.events import AccessSemantics
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.operations import PURE, DecodedCode, DecodedStep, Op, SkippedRegion

_COMPUTING = PURE | {Op.BRANCH, Op.BRANCH_INDEXED}


class PureRegions:
    """The branches of a program; `memory`: whether arms may load, and store in their own memory."""

    def __init__(self, code: DecodedCode, *, memory: bool) -> None:
        self._code, self._memory = code, memory
        self._graphs = FunctionGraphs(code)
        self._inputs: dict[int, tuple[int, ...]] = {}
        self._touching: set[int] = set()
        self._concerned: dict[int, tuple[int, ...]] = {}

    def inputs(self, branch: int) -> tuple[int, ...]:
        """The registers of which the results are made; empty where the arms do something else."""
        if branch not in self._inputs:
            self._inputs[branch] = self._found(branch)
        return self._inputs[branch]

    def touches(self, branch: int) -> bool:
        """Whether the arms of such a branch load or store."""
        return branch in self._touching

    def concerned(self, branch: int) -> tuple[int, ...]:
        """The registers that arms of a branch on data may read, or may write or leave as they are,
        as long as something may read them then. Where arms call functions: all registers.
        """
        if branch not in self._concerned:
            join, region = self._code.joins[branch], self._code.regions.get(branch)
            inside = [] if join == NO_JOIN else self._inside(branch, join)
            calls = any(self._code.steps[at].op is Op.CALL for at in inside)
            if region is None or join == NO_JOIN or calls:
                self._concerned[branch] = tuple(range(self._code.registers))
            else:
                self._concerned[branch] = self._read_or_written(branch, region, inside)
        return self._concerned[branch]

    def _inside(self, branch: int, join: int) -> list[int]:
        blocks, _ = self._graphs.around(branch).region(branch, join)
        return [at for low, high in blocks for at in range(low, high)]

    def _read_or_written(
        self, branch: int, region: SkippedRegion, inside: Sequence[int]
    ) -> tuple[int, ...]:
        """What the instructions inside of a region read or write, and that is live at an arm."""
        steps, graph = self._code.steps, self._graphs.around(branch)
        found = set(region.written).union(
            *((*steps[at].args, steps[at].guard) for at in inside)
        ) - {-1}
        live = 0
        for start in successors(steps, branch, graph.end):
            live |= graph.live_at(start) if start < graph.end else 0
        return tuple(sorted(register for register in found if live >> register & 1))

    def _found(self, branch: int) -> tuple[int, ...]:
        steps, join = self._code.steps, self._code.joins[branch]
        region = self._code.regions.get(branch)
        if region is None or join == NO_JOIN or region.refused >= 0:
            return ()
        inside = self._inside(branch, join)
        if not all(self._computes(steps[at]) for at in inside):
            return ()
        if any(steps[at].op in (Op.LOAD, Op.STORE) for at in inside):
            self._touching.add(branch)
        own = {r for r in (steps[branch].guard, *steps[branch].args) if r >= 0}
        return tuple(sorted(own.union(self._read_or_written(branch, region, inside))))

    def _computes(self, step: DecodedStep) -> bool:
        """Whether the results are a function of the operands, and of memory where that is asked
        for: an unknown one of nothing is a clock.
        """
        if step.op is Op.LOAD:
            return self._memory and step.flags[2] == AccessSemantics.WEAK
        if step.op is Op.STORE:
            return self._memory and step.flags[0] == MemorySpace.LOCAL
        return step.op in _COMPUTING and (step.op is not Op.OPAQUE or bool(step.args))
