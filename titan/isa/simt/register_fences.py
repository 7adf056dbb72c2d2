"""Which wgmma may touch registers that no wgmma.fence has ordered.

PTX, wgmma.fence: one is needed before the first wgmma.mma_async, and "between a register access by
a thread in the warp and any wgmma.mma_async instruction that accesses the same registers", as
accumulators or as the matrix A; not between products "of the same shape" that add to the same
accumulators. Decided on the flow graph, for every way through it (`certain`: on each of them a
fence is missing) and without regard to which ways can be gone; on the way of a run by
`fences_on_way.py`.

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
# Sets of registers as bits: touched, then computed by a product, a set for each shape.
State = tuple[int, ...]


def unfenced_products(graph: FlowGraph, constants: Collection[int] = ()) -> list[UnfencedProduct]:
    """The products of a function, by instruction. `constants`: registers that hold numbers of
    the text: nothing accesses them, though others name the same number."""
    steps = graph.steps[graph.start : graph.end]
    if not any(step.op is Op.WGMMA for step in steps):
        return []
    analysis = _Analysis(graph, ProductRegisters(steps, constants))
    possible, certain = analysis.unfenced(certain=False), analysis.unfenced(certain=True)
    return [UnfencedProduct(index, index in certain) for index in sorted(possible | certain)]


def matrix_registers(step: DecodedStep) -> tuple[int, ...]:
    """The registers of the matrix A of a wgmma, without the metadata of a sparse one."""
    return step.args[2 : 2 + A_REGISTERS] if step.flags[4] else ()


def shape_of(step: DecodedStep) -> tuple[int, int]:
    """N and K of a wgmma, in elements; M is 64."""
    return step.flags[0], step.flags[1] * 8 // step.flags[5]


class ProductRegisters:
    """The registers of the products of some steps, and of what is moved to them, as bits: what a
    step does to the state of them. `accessible`: those that are no constants, of which it matters
    alone whether a fence has been before the move. `shapes`: of the products, with the place of
    each in a state."""

    def __init__(self, steps: Iterable[DecodedStep], constants: Collection[int] = ()) -> None:
        of_products: set[int] = set()
        shapes: set[tuple[int, int]] = set()
        moved: dict[int, list[int]] = {}
        for step in steps:
            if step.op is Op.WGMMA:
                of_products.update((*step.out, *matrix_registers(step)))
                shapes.add(shape_of(step))
            elif _moves(step):
                moved.setdefault(step.out[0], []).append(step.args[0])
        waiting = list(of_products)
        while waiting:
            sources = set(moved.get(waiting.pop(), ())) - of_products
            of_products |= sources
            waiting += sources
        self.shapes = {shape: at for at, shape in enumerate(sorted(shapes), start=1)}
        self.nothing: State = (0,) * (1 + len(shapes))
        self.bit = {register: 1 << at for at, register in enumerate(sorted(of_products))}
        self.accessible = (1 << len(self.bit)) - 1 & ~self.bits(constants)

    def first(self) -> State:
        """The state before anything: no fence has been."""
        return ((1 << len(self.bit)) - 1, *self.nothing[1:])

    def lacks_fence(self, step: DecodedStep, state: State) -> bool:
        """Whether a step is a product that touches registers which no fence has ordered."""
        if step.op is not Op.WGMMA:
            return False
        sums, matrix = self.bits(step.out), self.bits(matrix_registers(step))
        own = self.shapes[shape_of(step)]
        return any(each & (matrix if at == own else sums | matrix) for at, each in enumerate(state))

    def behind(self, step: DecodedStep, state: State, certain: bool, guarded: bool) -> State:
        """The state behind a step. `guarded`: it may also not be executed."""
        touched, *computed = state
        if step.op is Op.WGMMA_FENCE:
            return self.nothing if certain or not guarded else state
        if step.op is Op.WGMMA:
            sums, own = self.bits(step.out), self.shapes[shape_of(step)]
            return tuple(
                each | sums if at == own else each & ~sums for at, each in enumerate(state)
            )
        if _moves(step):
            return self._moved(step, state, certain, guarded)
        if step.op is Op.CALL:
            return touched | (0 if certain else self.accessible), *computed
        if certain and guarded:
            return state
        accessed = self.bits(step.out) | self.bits(step.args)
        return touched | accessed & self.accessible, *computed

    def _moved(self, step: DecodedStep, state: State, certain: bool, guarded: bool) -> State:
        to, source = self.bits(step.out), self.bits(step.args)
        moved = tuple(each | to if each & source else each & ~to for each in state)
        return joined(state, moved, certain) if guarded else moved

    def bits(self, registers: Iterable[int]) -> int:
        """Some registers as bits."""
        bits = 0
        for register in registers:
            bits |= self.bit.get(register, 0)
        return bits


class _Analysis:
    """Every way through a function."""

    def __init__(self, graph: FlowGraph, registers: ProductRegisters) -> None:
        self.graph, self.registers = graph, registers

    def unfenced(self, *, certain: bool) -> set[int]:
        """The products that have no fence on some way, or on every one."""
        graph = self.graph
        before: list[State | None] = [None] * (len(graph.blocks) + 1)
        before[0] = self.registers.first()
        waiting = [0]
        while waiting:
            block = waiting.pop()
            state = self._through(block, before[block], certain, set())
            for following in graph.next[block]:
                known = before[following]
                new = state if known is None else joined(known, state, certain)
                if new != known:
                    before[following] = new
                    if following < len(graph.blocks) and following not in waiting:
                        waiting.append(following)
        found: set[int] = set()
        for block in range(len(graph.blocks)):
            self._through(block, before[block], certain, found)
        return found

    def _through(self, block: int, state: State | None, certain: bool, found: set[int]) -> State:
        """The state behind a block; the products in it that are unfenced are added to `found`."""
        if state is None:
            return self.registers.nothing
        low, high = self.graph.blocks[block]
        for index in range(low, high):
            step = self.graph.steps[index]
            if self.registers.lacks_fence(step, state):
                found.add(index)
            state = self.registers.behind(step, state, certain, step.guard >= 0)
        return state


def _moves(step: DecodedStep) -> bool:
    return step.op is Op.MOV and len(step.args) == len(step.out) == 1


def joined(one: State, other: State, certain: bool) -> State:
    """What holds behind either of two states: on each way, or on one of them."""
    return tuple(a & b if certain else a | b for a, b in zip(one, other, strict=True))
