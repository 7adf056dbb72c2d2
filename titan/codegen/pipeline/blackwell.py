"""The pipeline of a tile program on Blackwell: loads, matrix multiplications and the rest apart.

A warp loads, one thread issues `tcgen05.mma` into tensor memory, and a warpgroup reads the finished
accumulator and does all that follows. Stages and accumulators are handed over by `tcgen05.commit`.
A persistent kernel has two accumulators, so that what follows a work item overlaps the loop of the
next one. Tile programs without a multiplication take the Hopper form, in the same primitives.

Loops of two products with arithmetic in between (attention) have a form of their own,
`blackwell_attention.py`. Decides no correctness. Source: PTX, tcgen05; seed formulation, sections 1
and 2.
"""

from __future__ import annotations

from titan.codegen.pipeline.blackwell_attention import COLUMNS_MAX, LANES
from titan.codegen.pipeline.hopper import Hopper
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.pipeline.text import Block
from titan.codegen.tile.model import Carried, TileOperation, TileProgram


class Blackwell(Hopper):
    def __init__(self, tile: TileProgram, shape: Shape, starts: dict[str, int], ii: int) -> None:
        super().__init__(tile, shape, starts, ii)
        if not shape.specialised:
            raise FormRefused("tensor memory is read by others than who fills it")
        self.mma, self.carried = _only_multiplication(tile)
        value = self.carried.value
        if tile.groups != 1 or value.rows != LANES:
            raise FormRefused(f"the accumulator has {LANES} rows, one for each lane of a warpgroup")
        self.accumulators = 2 if self.position else 1
        if value.columns * self.accumulators > COLUMNS_MAX:
            raise FormRefused(
                f"{self.accumulators} accumulators of {value.columns} columns exceed the "
                f"{COLUMNS_MAX} of tensor memory"
            )
        self.ring = next(ring for ring in self.rings if self.mma.name in ring.readers)
        if {load.name for load in self.ring.loads} != set(self.mma.operands[:2]):
            raise FormRefused("both operands of the multiplication must come from one ring")
        self.results = f"ring_{value.name}"
        taken = {operation.name for operation in tile.operations}
        taken |= {ring.name for ring in self.rings}
        while self.results in taken:
            self.results += "_"

    def _program(self) -> list[tuple[str, Block]]:
        return [
            ("producer", self._producer()),
            ("issuer", self._issuer()),
            ("consumer", self._consumer()),
        ]

    def _buffers(self) -> list[tuple[str, str]]:
        value = self.carried.value
        stages, tile = self.accumulators, f"[{value.rows}, {value.columns}]"
        text = f"{{space: tensor, stages: {stages}, tile: {tile}, dtype: f32}}"
        return [*super()._buffers(), (value.name, text)]

    def _rings(self) -> list[tuple[str, str]]:
        text = (
            f"{{buffers: [{self.carried.value.name}], depth: {self.accumulators}, transport: mma}}"
        )
        return [*super()._rings(), (self.results, text)]

    def _roles(self) -> list[tuple[str, str]]:
        counter = ", counters: {n: 0}" if self.position else ""
        return [
            ("producer", f"{{warps: 1{counter}}}"),
            ("issuer", f"{{warps: 1{counter}}}"),
            ("consumer", "{warpgroups: 1}"),
        ]

    def _issuer(self) -> Block:
        """The one who multiplies: nobody waits for a multiplication but through the barriers."""
        index = "w" if self.position else "0"
        place = self.position or "t"
        a, b = self.mma.operands[:2]
        operands = f"{a}[{place}], {b}[{place}]"
        turn: Block = [
            f"wait: {self.ring.name}[{place}]",
            f"issue: {{mma: [{operands}], as: {self.mma.name}, "
            f"accumulates: {self.results}[{index}]}}",
            f"release: {{{self.ring.name}[{place}], after: {self.mma.name}}}",
        ]
        if self.position:
            turn.append("count: {n: n + 1}")
        work: Block = [
            f"acquire: {self.results}[{index}]",
            ("for: t in 0..tiles", turn),
            f"produce: {self.results}[{index}]",
        ]
        return [*self._over_work(work), "finalize"]

    def _consumer(self) -> Block:
        index = "w" if self.position else "0"
        work: Block = [
            f"wait: {self.results}[{index}]",
            f"read: {self.results}[{index}]",
            f"compute: {self.carried.value.name}",
            f"release: {self.results}[{index}]",
        ]
        for operation in self.tile.before:
            if operation.kind != "load":
                work.append(f"compute: {operation.name}")
        for operation in self.tile.after:
            work += self._after(operation, index)
        made = self._over_work(work)
        if self.stores:
            made.append("drain: output")
        return [*made, "finalize"]


def _only_multiplication(tile: TileProgram) -> tuple[TileOperation, Carried]:
    """The multiplication that is all of the loop, and the accumulator that it goes on with."""
    inside = [operation for operation in tile.body if operation.kind != "load"]
    if len(inside) != 1 or inside[0].kind != "mma" or len(inside[0].operands) < 3:
        raise FormRefused("the loop does more than one multiplication that goes on with its result")
    mma = inside[0]
    for carried in tile.carried:
        if carried.value.name == mma.operands[2] and carried.next == mma.name:
            if len(tile.carried) != 1 or carried.initial != 0:
                break
            return mma, carried
    raise FormRefused("the accumulator must be the one carried value, and begin with 0")
