"""Which wgmma may touch registers that no wgmma.fence has ordered.

PTX, wgmma.fence: one is needed before the first wgmma.mma_async, and "between a register access by
a thread in the warp and any wgmma.mma_async instruction that accesses the same registers", as
accumulators or as the matrix A; not between products that add to the same accumulators. Decided on
the flow graph, for every way through it (`certain`: on each of them a fence is missing) and without
regard to which ways can be gone.

A move is no access but another name of its value: compilers move constants and loop-carried sums
behind a fence of the source, and the assembler puts them where they came from. What a product has
computed is accumulated without a fence, and needs one to be the matrix A. A call counts as touching
everything, on some way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from titan.isa.simt.control_flow import FlowGraph
from titan.isa.simt.operations import DecodedStep, Op, UnfencedProduct

A_REGISTERS = 4  # of 32 bits, of every type of elements
_State = tuple[int, int]  # sets of registers as bits: touched, computed by a product


def unfenced_products(graph: FlowGraph, constants: Collection[int] = ()) -> list[UnfencedProduct]:
    """The products of a function, by instruction. `constants`: registers that hold numbers of
    the text: nothing accesses them, though others name the same number."""
    steps = graph.steps
    if not any(steps[index].op is Op.WGMMA for index in range(graph.start, graph.end)):
        return []
    analysis = _Analysis(graph, constants)
    possible, certain = analysis.unfenced(certain=False), analysis.unfenced(certain=True)
    return [UnfencedProduct(index, index in certain) for index in sorted(possible | certain)]


def matrix_registers(step: DecodedStep) -> tuple[int, ...]:
    """The registers of the matrix A of a wgmma, without the metadata of a sparse one."""
    return step.args[2 : 2 + A_REGISTERS] if step.flags[4] else ()


class _Analysis:
    """`bit`: of each register of products, and of those that are moved to them. `accessible`: those
    that are no constants, of which it matters alone whether a fence has been before the move."""

    def __init__(self, graph: FlowGraph, constants: Collection[int]) -> None:
        self.graph = graph
        steps = graph.steps[graph.start : graph.end]
        of_products = {
            register
            for step in steps
            if step.op is Op.WGMMA
            for register in (*step.out, *matrix_registers(step))
        }
        moved: dict[int, list[int]] = {}
        for step in steps:
            if _moves(step):
                moved.setdefault(step.out[0], []).append(step.args[0])
        waiting = list(of_products)
        while waiting:
            sources = set(moved.get(waiting.pop(), ())) - of_products
            of_products |= sources
            waiting += sources
        self.bit = {register: 1 << at for at, register in enumerate(sorted(of_products))}
        self.accessible = (1 << len(self.bit)) - 1 & ~self._bits(constants)

    def unfenced(self, *, certain: bool) -> set[int]:
        """The products that have no fence on some way, or on every one."""
        graph = self.graph
        before: list[_State | None] = [None] * (len(graph.blocks) + 1)
        before[0] = (1 << len(self.bit)) - 1, 0
        waiting = [0]
        while waiting:
            block = waiting.pop()
            state = self._through(block, before[block], certain, set())
            for following in graph.next[block]:
                known = before[following]
                new = state if known is None else _joined(known, state, certain)
                if new != known:
                    before[following] = new
                    if following < len(graph.blocks) and following not in waiting:
                        waiting.append(following)
        found: set[int] = set()
        for block in range(len(graph.blocks)):
            self._through(block, before[block], certain, found)
        return found

    def _through(
        self, block: int, state: _State | None, certain: bool, found: set[int]
    ) -> _State:  # fmt: skip
        """The state behind a block; the products in it that are unfenced are added to `found`."""
        if state is None:
            return 0, 0
        touched, computed = state
        low, high = self.graph.blocks[block]
        for index in range(low, high):
            step = self.graph.steps[index]
            if step.op is Op.WGMMA_FENCE:
                if step.guard < 0 or certain:
                    touched = computed = 0
            elif step.op is Op.WGMMA:
                sums, matrix = self._bits(step.out), self._bits(matrix_registers(step))
                if touched & (sums | matrix) or computed & matrix:
                    found.add(index)
                touched, computed = touched & ~sums, computed | sums
            elif _moves(step):
                touched, computed = self._moved(step, (touched, computed), certain)
            elif step.op is Op.CALL:
                touched |= 0 if certain else self.accessible
            elif step.guard < 0 or not certain:
                touched |= (self._bits(step.out) | self._bits(step.args)) & self.accessible
        return touched, computed

    def _moved(self, step: DecodedStep, state: _State, certain: bool) -> _State:
        to, source = self._bits(step.out), self._bits(step.args)
        touched, computed = (each | to if each & source else each & ~to for each in state)
        if step.guard < 0:
            return touched, computed
        return _joined(state, (touched, computed), certain)

    def _bits(self, registers: Iterable[int]) -> int:
        bits = 0
        for register in registers:
            bits |= self.bit.get(register, 0)
        return bits


def _moves(step: DecodedStep) -> bool:
    return step.op is Op.MOV and len(step.args) == len(step.out) == 1


def _joined(one: _State, other: _State, certain: bool) -> _State:
    if certain:
        return one[0] & other[0], one[1] & other[1]
    return one[0] | other[0], one[1] | other[1]
