"""Which wgmma of a run touch registers that no wgmma.fence has ordered, on the way that it took.

`register_fences.py` decides every way through the code, gone or not. Here the run is made once more
on the Python machine, and each warp's registers are followed through what it executes. What an
instruction or an arm does that unknown data may leave out counts as done (`possible`) and as not
done (`certain`): a product that lacks a fence in both cases is wrong in this run.
"""

from __future__ import annotations

from titan.isa.simt import events as ev
from titan.isa.simt.control_flow import FunctionGraphs
from titan.isa.simt.execution import SimtExecution
from titan.isa.simt.launch import Launch, Options
from titan.isa.simt.layout import MemoryLayout
from titan.isa.simt.operations import DecodedCode, DecodedStep, Op, PresetKind
from titan.isa.simt.outcome import INSTRUCTIONS_MAX, Run, UnfencedOnWay
from titan.isa.simt.register_fences import ProductRegisters, State
from titan.isa.simt.state import Fragment, Warp


def unfenced_on_way(run: Run) -> UnfencedOnWay | None:
    """The products of a run that lack a fence on its way; None where the run is too long."""
    made = run.prepared
    if made is None or run.instructions > INSTRUCTIONS_MAX:
        return None
    machine = _FollowedExecution.again(made)
    again = machine.run()
    if list(again.events) != list(run.events) or again.outcome != run.outcome:
        return None
    return UnfencedOnWay(tuple(sorted(machine.certain)), tuple(sorted(machine.possible)))


class _FollowedExecution(SimtExecution):
    """A run that keeps two states of each warp's registers: what is certain, what is possible."""

    def __init__(
        self, code: DecodedCode, layout: MemoryLayout, launch: Launch, options: Options
    ) -> None:
        super().__init__(code, layout, launch, options)
        constants = {p.register for p in code.presets if p.kind is PresetKind.CONSTANT}
        self.of_products = ProductRegisters(code.steps, constants)
        self.certain: set[int] = set()
        self.possible: set[int] = set()
        self._states: dict[Warp, tuple[State, State]] = {}
        self._arms: dict[int, int] = {}
        self._graphs = FunctionGraphs(code)

    def step(self, fragment: Fragment) -> bool:
        """Execute one instruction, and follow the registers of its warp."""
        at, warp = fragment.pc, fragment.warp
        step = self.steps[at]
        holds, maybe = fragment.mask, 0
        if step.guard >= 0:
            holds, maybe = self.guarded(warp, step, fragment.mask)
        first = len(self.events)
        result = super().step(fragment)
        skipped = any(isinstance(event, ev.Skipped) for event in self.events[first:])
        if skipped or ((holds or maybe) and step.op is not Op.CALL):
            self._follow(warp, at, step, open_=not holds or self.maybe, skipped=skipped)
        return result

    def _follow(
        self, warp: Warp, at: int, step: DecodedStep, *, open_: bool, skipped: bool
    ) -> None:
        registers = self.of_products
        start = registers.first()
        certain, possible = self._states.get(warp, (start, start))
        if registers.lacks_fence(step, certain):
            self.certain.add(at)
        if registers.lacks_fence(step, possible):
            self.possible.add(at)
        certain = registers.behind(step, certain, True, open_)
        possible = registers.behind(step, possible, False, open_)
        if skipped:
            possible = possible[0] | self._touched_in_arms(at), *possible[1:]
        self._states[warp] = certain, possible

    def _touched_in_arms(self, branch: int) -> int:
        """The registers, as bits, that the arms of a skipped branch touch."""
        if branch not in self._arms:
            code = self.code
            graph = self._graphs.around(branch)
            bits = 0
            for low, high in graph.region(branch, code.joins[branch])[0]:
                for inner in code.steps[low:high]:
                    bits |= self.of_products.bits((*inner.out, *inner.args))
            self._arms[branch] = bits & self.of_products.accessible
        return self._arms[branch]
