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
from titan.isa.simt.operations import PURE, DecodedCode, DecodedStep, Op

_COMPUTING = PURE | {Op.BRANCH, Op.BRANCH_INDEXED}


class PureRegions:
    """The branches of a program; `memory`: whether arms may load, and store in their own memory."""

    def __init__(self, code: DecodedCode, *, memory: bool) -> None:
        self._code, self._memory = code, memory
        self._graphs = FunctionGraphs(code)
        self._inputs: dict[int, tuple[int, ...]] = {}
        self._touching: set[int] = set()
        self._read: dict[int, Sequence[int]] = {}

    def inputs(self, branch: int) -> tuple[int, ...]:
        """The registers of which the results are made; empty where the arms do something else."""
        if branch not in self._inputs:
            self._inputs[branch] = self._found(branch)
        return self._inputs[branch]

    def touches(self, branch: int) -> bool:
        """Whether the arms of such a branch load or store."""
        return branch in self._touching

    def read_behind(self, branch: int) -> Sequence[int]:
        """The registers that an arm, or what comes behind it, may read. In a function all: its
        callers go on with theirs."""
        graph = self._graphs.around(branch)
        if graph.start != self._code.start:
            return range(self._code.registers)
        if branch not in self._read:
            live = 0
            for start in successors(self._code.steps, branch, graph.end):
                live |= graph.live_at(start) if start < graph.end else 0
            self._read[branch] = [at for at in range(live.bit_length()) if live >> at & 1]
        return self._read[branch]

    def _found(self, branch: int) -> tuple[int, ...]:
        steps, join = self._code.steps, self._code.joins[branch]
        region = self._code.regions.get(branch)
        if region is None or join == NO_JOIN or region.refused >= 0:
            return ()
        graph = self._graphs.around(branch)
        inside = [at for low, high in graph.region(branch, join)[0] for at in range(low, high)]
        if not all(self._computes(steps[at]) for at in inside):
            return ()
        if any(steps[at].op in (Op.LOAD, Op.STORE) for at in inside):
            self._touching.add(branch)
        concerned = set(region.written).union(
            *((*steps[at].args, steps[at].guard) for at in inside)
        )
        live = 0
        for start in successors(steps, branch, graph.end):
            live |= graph.live_at(start)
        found = {register for register in concerned if register >= 0 and live >> register & 1}
        return tuple(
            sorted(found | {r for r in (steps[branch].guard, *steps[branch].args) if r >= 0})
        )

    def _computes(self, step: DecodedStep) -> bool:
        """Whether the results are a function of the operands, and of memory where that is asked
        for: an unknown one of nothing is a clock.
        """
        if step.op is Op.LOAD:
            return self._memory and step.flags[2] == AccessSemantics.WEAK
        if step.op is Op.STORE:
            return self._memory and step.flags[0] == MemorySpace.LOCAL
        return step.op in _COMPUTING and (step.op is not Op.OPAQUE or bool(step.args))
