"""The pipeline of a tile program on Blackwell: loads, matrix multiplications and the rest apart.

A warp loads, one thread issues `tcgen05.mma` into tensor memory, and a warpgroup reads the finished
accumulator and does all that follows. Stages and accumulators are handed over by `tcgen05.commit`.
A persistent kernel has two accumulators, so that what follows a work item overlaps the loop of the
next one. Tile programs without a multiplication take the Hopper form, in the same primitives.

Where threads copy tiles, the ring of the operands is filled by their stores, wholly or in the last
iteration, and fenced, since tcgen05.mma reads shared memory as the copy engine writes it. Three
warpgroups then share the registers, so that the one that reads the accumulator asks for more.
Where the last iteration is poison, the issuing thread only gives its stage back, and the warpgroup
adds the product of that iteration to the sum it has read: there are two iterations at least, so
that there is a sum.

Loops of two products with arithmetic in between (attention) have a form of their own,
`blackwell_attention.py`. Decides no correctness. Source: PTX, tcgen05; seed formulation, sections 1
and 2.
"""

from __future__ import annotations

from dataclasses import replace

from titan.codegen.pipeline import document as doc
from titan.codegen.pipeline.blackwell_attention import COLUMNS_MAX, LANES
from titan.codegen.pipeline.document import slot
from titan.codegen.pipeline.filling import BULK_COPIES, Filling
from titan.codegen.pipeline.hopper import OUTPUT, Hopper
from titan.codegen.pipeline.indices import earlier
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.pipeline.rings import PipelineRing
from titan.codegen.tile.model import Carried, TileOperation, TileProgram

REGISTERS_OF_THREE = {"producer": 64, "issuer": 64, "consumer": 248}  # setmaxnreg, of 504
ROLE_KEYS = ("warps", "warpgroups", "cta", "counters", "registers")


class Blackwell(Hopper):
    """One product in tensor memory. Raises FormRefused."""

    def __init__(
        self,
        tile: TileProgram,
        shape: Shape,
        starts: dict[str, int],
        ii: int,
        filling: Filling = BULK_COPIES,
    ) -> None:
        super().__init__(tile, shape, starts, ii, filling)
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
        if {load.name for load in self.ring.loads} != {*self.mma.operands} - {value.name}:
            raise FormRefused("all operands of the multiplication must come from one ring")
        self.results = f"ring_{value.name}"
        taken = {operation.name for operation in tile.operations}
        taken |= {ring.name for ring in self.rings}
        while self.results in taken:
            self.results += "_"

    def document(self) -> doc.PipelineDocument:
        """The kernel file. Raises FormRefused."""
        made = replace(super().document(), order=doc.KeyOrder(role=ROLE_KEYS))
        if not self.shape.poison:
            return made
        return replace(made, sizes=replace(made.sizes, tiles_min=2))

    def _program(self) -> list[tuple[str, doc.Block]]:
        return [
            ("producer", self._producer()),
            ("issuer", self._issuer()),
            ("consumer", self._consumer()),
        ]

    def _buffers(self) -> list[doc.BufferDeclaration]:
        value = self.carried.value
        accumulator = doc.BufferDeclaration(
            value.name, value.rows, value.columns, "f32", "tensor", str(self.accumulators)
        )
        return [*super()._buffers(), accumulator]

    def _rings(self) -> list[doc.RingDeclaration]:
        accumulators = (self.carried.value.name,)
        results = doc.RingDeclaration(self.results, accumulators, str(self.accumulators), "mma")
        return [*super()._rings(), results]

    def _roles(self) -> list[doc.RoleDeclaration]:
        counters = ("n",) if self.position else ()
        roles = [
            self._loading(0, counters),
            doc.RoleDeclaration("issuer", warps=1, counters=counters),
            doc.RoleDeclaration("consumer", warpgroups=1),
        ]
        if not self.filling.has_loading_threads(self.rings):
            return roles
        return [replace(role, registers=REGISTERS_OF_THREE[role.name]) for role in roles]

    def _issuer(self) -> doc.Block:
        """The issuing thread: multiplications are waited for through barriers alone."""
        place = self.position or "t"
        if self.shape.unified:
            place = earlier("t", self.ahead)
        operands = tuple(slot(name, place) for name in self.mma.operands[:2])
        stage = slot(self.ring.name, place)
        product: doc.Block = (
            doc.IssueStatement(operands, self.mma.name, accumulates=self._result()),
            doc.ReleaseStatement(stage, after=self.mma.name),
        )
        if self.shape.poison:
            given_back = (doc.ReleaseStatement(stage),)
            product = (doc.WhenPoisonedStatement(slot=stage, then=given_back, otherwise=product),)
        body: list[doc.DocumentStatement] = [doc.WaitStatement(stage), *product]
        if self.position:
            body.append(doc.CountStatement("n"))
        loop = doc.ForStatement("t", "0", "tiles", tuple(body))
        if self.shape.unified:
            guarded = doc.IfStatement(f"t >= {self.ahead}" if self.ahead else "true", tuple(body))
            loop = doc.ForStatement("t", "0", self._steps(), (guarded,))
        work = (
            doc.AcquireStatement(self._result()),
            loop,
            doc.ProduceStatement(self._result()),
        )
        return (*self._over_work(work), doc.FinalizeStatement())

    def _result(self) -> doc.Slot:
        """The accumulator of a work item."""
        return slot(self.results, "w" if self.position else "0")

    def _consumer(self) -> doc.Block:
        index = "w" if self.position else "0"
        tiles = [doc.WaitStatement(slot(ring.name, index)) for ring in self._tiles_behind()]
        work: list[doc.DocumentStatement] = [
            *tiles,
            doc.WaitStatement(self._result()),
            doc.ReadStatement(self._result()),
            doc.ComputeStatement(self.carried.value.name),
            doc.ReleaseStatement(self._result()),
        ]
        before = [
            doc.ComputeStatement(operation.name)
            for operation in (*self.tile.before, *self._numbers_behind())
            if operation.kind != "load"
        ]
        if self.shape.poison or self._tiles_behind():
            # Given back at the end: a block of rows is then fetched, computed on and narrowed by
            # itself, and the registers of one block are enough.
            *fetched, given_back = work
            if self.shape.poison:
                fetched.append(doc.ComputeStatement(self.mma.name, "tiles - 1"))
            work = [*before, *fetched, *self._afterwards(index), given_back]
        else:
            work += [*before, *self._afterwards(index)]
        sent: doc.Block = (doc.DrainStatement(OUTPUT),) if self.stores else ()
        return (*self._over_work(tuple(work)), *sent, doc.FinalizeStatement())

    def _tiles_behind(self) -> list[PipelineRing]:
        """Rings of tiles that are read behind the loop."""
        return [ring for ring in self.rings if ring.after]

    def _numbers_behind(self) -> list[TileOperation]:
        """Rows and columns of numbers for what is computed on such tiles: they come first, so that
        nothing stands between the fetch and the arithmetic."""
        numbers = [item for item in self.tile.after if item.kind in ("vector", "element")]
        return numbers if self._tiles_behind() else []

    def _afterwards(self, index: str) -> list[doc.DocumentStatement]:
        """What follows the loop; tiles are given back behind all that is computed."""
        made: list[doc.DocumentStatement] = []
        rings = self._tiles_behind()
        numbers = self._numbers_behind()
        for operation in (item for item in self.tile.after if item not in numbers):
            if operation.kind == "store":
                made += [one for ring in rings for one in self._release(ring.name, index)]
                rings = []
            made += self._after(operation, index)
        return made

    def _read_after(self, operation: TileOperation, ring: PipelineRing, index: str) -> doc.Block:
        """Nothing stands between a fetch and its arithmetic: the tile has been waited for."""
        read = self._read(operation.operands[0], index)
        return (read, doc.ComputeStatement(operation.name))


def _only_multiplication(tile: TileProgram) -> tuple[TileOperation, Carried]:
    """The multiplication that is all of the loop, and the accumulator that it adds to."""
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
