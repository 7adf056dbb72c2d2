"""The pipeline of a block-scaled product on Blackwell: scales pass through tensor memory.

As `blackwell.py`, a warp loads, one thread issues and a warpgroup reads the finished accumulator.
The scales of a stage are copied into its shared memory together with the operands. The issuing
thread copies them on to tensor memory (`tcgen05.cp`) before it multiplies: such a copy and a
product behind it of the same thread are executed in this order (PTX, "Pipelined tcgen05
instructions"), so nothing waits between them. Every stage has columns of its own for its scales:
the commit behind the product frees shared memory and columns together, and no copy overwrites
scales that a product still reads.

A persistent kernel has two accumulators. Written with the primitives themselves, since a ring of
the protocol level has no copies within a stage.

A pair of CTAs multiplies as in `blackwell_pair.py`. Each holds the scales of its own rows of the
left operand, and those of all columns of the right one, of which it holds half: so the tensor core
of each reads them (PTX, tcgen05.mma with block scaling and cta_group::2). One copy of the issuing
thread takes the tile of each CTA on to the tensor memory of that CTA.

Decides no correctness. Source: PTX, tcgen05.cp and tcgen05.mma with block scaling.
"""

from __future__ import annotations

from titan.codegen.pipeline import document as doc
from titan.codegen.pipeline.blackwell import Blackwell
from titan.codegen.pipeline.blackwell_attention import COLUMNS_MAX, LANES
from titan.codegen.pipeline.blackwell_pair import BlackwellPair
from titan.codegen.pipeline.document import slot
from titan.codegen.pipeline.filling import refuse_unloaded
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.pipeline.tile_layout import BITS, tile_bytes
from titan.codegen.tile.block_scales import ATOM_ROWS, in_tensor_memory, scales_of
from titan.codegen.tile.model import TileProgram, Value

TENSOR_CORE = "tensor_core"  # the queue of copies of scales and of multiplications


class _Scales(Blackwell):
    """What CTAs of a product with scales hold of these. Raises FormRefused."""

    def __init__(self, tile: TileProgram, shape: Shape, starts: dict[str, int], ii: int) -> None:
        if tile.launch_control:
            raise FormRefused("products with scales do not ask the hardware for work items")
        if not shape.specialised or shape.unified or shape.poison or shape.guarded or shape.tail:
            raise FormRefused("scales are loaded by a warp of its own, and by bulk copies alone")
        refuse_unloaded(tile)
        super().__init__(tile, shape, starts, ii)
        if len(self.rings) != 1:
            raise FormRefused("products with scales have a form for one ring alone")
        self.scales = scales_of(self.mma)
        taken = {operation.name for operation in tile.operations}
        if taken & {in_tensor_memory(name) for name in self.scales}:
            raise FormRefused("an operation is called as the scales in tensor memory are")
        used = self.carried.value.columns * self.accumulators
        used += shape.depth * sum(self._columns(name) for name in self.scales)
        if used > COLUMNS_MAX:
            raise FormRefused(f"{used} columns of tensor memory exceed its {COLUMNS_MAX}")

    def _loaded(self, name: str) -> Value:
        return next(value for value in self.ring.values if value.name == name)

    def _columns(self, name: str) -> int:
        """Columns of tensor memory, of 32 bits, that hold a tile of scales."""
        value = self._loaded(name)
        return value.rows // ATOM_ROWS * value.columns * BITS[value.dtype] // 32

    def _buffers(self) -> list[doc.BufferDeclaration]:
        found = super()._buffers()
        for name in self.scales:
            value = self._loaded(name)
            columns = value.rows // ATOM_ROWS * value.columns
            found.append(
                doc.BufferDeclaration(
                    in_tensor_memory(name), LANES, columns, value.dtype, "tensor", "depth"
                )
            )
        return found


class BlackwellScaled(_Scales):
    """One block-scaled product of a single CTA. Raises FormRefused."""

    def __init__(self, tile: TileProgram, shape: Shape, starts: dict[str, int], ii: int) -> None:
        if tile.cluster != 1:
            raise FormRefused(f"a cluster of {tile.cluster} CTAs; this is the form of one")
        super().__init__(tile, shape, starts, ii)

    # ------------------------------------------------------------------------- declarations

    def _rings(self) -> list[doc.RingDeclaration]:
        return []

    def _barriers(self) -> list[doc.BarrierDeclaration]:
        stages = str(self.accumulators)
        found = [
            doc.BarrierDeclaration(f"{self.ring.name}_full", 1, "depth"),
            doc.BarrierDeclaration(f"{self.ring.name}_empty", 1, "depth"),
            doc.BarrierDeclaration(f"{self.results}_full", 1, stages),
        ]
        if self.position:
            found.append(doc.BarrierDeclaration(f"{self.results}_empty", 1, stages))
        return found

    def _queues(self) -> list[doc.QueueDeclaration]:
        return [doc.QueueDeclaration(TENSOR_CORE, "tcgen05"), *super()._queues()]

    # ------------------------------------------------------------------------------- roles

    def _producer(self) -> doc.Block:
        place = self.position or "t"
        stage = f"{place} % depth"
        full = slot(f"{self.ring.name}_full", stage)
        fill: list[doc.DocumentStatement] = [
            doc.WaitStatement(slot(f"{self.ring.name}_empty", stage), f"{place} // depth - 1"),
            doc.ArriveStatement(full, sum(tile_bytes(value) for value in self.ring.values)),
        ]
        for value in self.ring.values:
            fill.append(doc.BulkLoadStatement(slot(value.name, stage, content=place), full))
        if self.position:
            fill.append(doc.CountStatement(self.position))
        return self._over_work((doc.ForStatement("t", "0", "tiles", tuple(fill)),))

    def _issuer(self) -> doc.Block:
        place = self.position or "t"
        stage = f"{place} % depth"

        def held(name: str) -> doc.Slot:
            return slot(name, stage, content=place)

        columns = tuple(held(in_tensor_memory(name)) for name in self.scales)
        operands = (*(held(name) for name in self.mma.operands[:2]), *columns)
        index, turn = self._turn()
        into = slot(self.carried.value.name, index, content=turn)
        body: list[doc.DocumentStatement] = [
            doc.WaitStatement(slot(f"{self.ring.name}_full", stage), f"{place} // depth"),
            *(
                doc.AsynchronousStatement(TENSOR_CORE, (held(name),), (column,), engine=True)
                for name, column in zip(self.scales, columns, strict=True)
            ),
            doc.MultiplyStatement(operands, TENSOR_CORE, into),
            doc.CommitStatement(TENSOR_CORE, slot(f"{self.ring.name}_empty", stage)),
        ]
        if self.position:
            body.append(doc.CountStatement(self.position))
        work: list[doc.DocumentStatement] = []
        if self.position:
            empty = slot(f"{self.results}_empty", index)
            work.append(doc.WaitStatement(empty, f"w // {self.accumulators} - 1"))
        work.append(doc.ForStatement("t", "0", "tiles", tuple(body)))
        work.append(doc.CommitStatement(TENSOR_CORE, slot(f"{self.results}_full", index)))
        return self._over_work(tuple(work))

    def _turn(self) -> tuple[str, str]:
        """The stage of a work item's accumulator, and its number."""
        return (f"w % {self.accumulators}", "w") if self.position else ("0", "0")

    def _consumer(self) -> doc.Block:
        """Gives the accumulator back once it is in registers."""
        index, turn = self._turn()
        name = self.carried.value.name
        work: list[doc.DocumentStatement] = [
            doc.ComputeStatement(op.name) for op in self.tile.before if op.kind != "load"
        ]
        phase = f"w // {self.accumulators}" if self.position else "0"
        work.append(doc.WaitStatement(slot(f"{self.results}_full", index), phase))
        work.append(doc.LoadStatement(slot(name, index, content=turn)))
        work.append(doc.ComputeStatement(name))
        if self.position:
            work.append(doc.ArriveStatement(slot(f"{self.results}_empty", index)))
        work += self._afterwards(turn)
        return (*self._over_work(tuple(work)), *self._sent())


class BlackwellScaledPair(_Scales, BlackwellPair):
    """One block-scaled product of a pair of CTAs. Raises FormRefused."""

    def _operands(self, stage: str, place: str) -> tuple[doc.Slot, ...]:
        held = self._of_pair(self.mma.operands[:2], stage, place)
        return (*held, *self._of_pair(map(in_tensor_memory, self.scales), stage, place))

    def _before_product(self, stage: str, place: str) -> doc.Block:
        """The scales of the stage go on to tensor memory, in both CTAs by one copy."""
        return tuple(
            doc.AsynchronousStatement(
                TENSOR_CORE,
                self._of_pair((name,), stage, place),
                self._of_pair((in_tensor_memory(name),), stage, place),
                engine=True,
            )
            for name in self.scales
        )
