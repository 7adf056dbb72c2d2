"""The pipeline of a tile program on a pair of Blackwell CTAs that multiply together.

The two CTAs of a cluster work on neighbouring items: they differ in the last work coordinate only.
The right operand must not depend on it: each CTA loads one half of what becomes columns of the
product (of its rows, or of its columns where it is not transposed), and one thread of the first CTA
issues products of 256 rows (`cta_group::2`) that read both halves and leave the rows of
each CTA in its own tensor memory. So an SM loads and reads half of the right operand.

All copies complete at the barrier of the first CTA, where its issuer waits; stages and accumulators
are handed over by commits that arrive in both CTAs. The accumulator is free again when the
consumers of both have read it, so both arrive at the first CTA. Every producer waits for each of
its stages once more before it ends: only that says that the peer's commits have arrived (PTX,
tcgen05.commit; the producer tail of CUTLASS).

A persistent kernel has two accumulators. Written with the primitives themselves, since a ring of
the protocol level belongs to one CTA. Decides no correctness. Source: PTX, tcgen05.mma with
cta_group::2, cp.async.bulk.tensor with cta_group::2.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from titan.codegen.pipeline import document as doc
from titan.codegen.pipeline.blackwell import Blackwell
from titan.codegen.pipeline.document import slot
from titan.codegen.pipeline.filling import refuse_unloaded
from titan.codegen.pipeline.hopper import THREADS
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.pipeline.tile_layout import BITS, staged_buffer, tile_bytes
from titan.codegen.tile.block_scales import scales_of
from titan.codegen.tile.clusters import alike, differing
from titan.codegen.tile.model import TileProgram, Value

CTAS = 2
WARP = 32
LEADER = "0"  # the CTA that multiplies for both
SCOPE = "cluster"
ORDER = "relaxed"  # of the release of an accumulator: tensor memory is handed over by execution
TENSOR_CORE = "tensor_core"  # the queue of multiplications
ROWS_STEP = 8  # of a swizzled operand
SWIZZLE_BYTES = 32  # of a row, the narrowest that units of 16 bytes change places within
TAIL = "s"  # the loop over stages that nobody fills any more


class BlackwellPair(Blackwell):
    """A pair of CTAs that multiply together. Raises FormRefused."""

    def __init__(self, tile: TileProgram, shape: Shape, starts: dict[str, int], ii: int) -> None:
        if tile.cluster != CTAS:
            raise FormRefused(f"clusters of {tile.cluster} CTAs; pairs have a form")
        if not shape.specialised or shape.unified or shape.poison or shape.guarded or shape.tail:
            raise FormRefused("pairs of CTAs load by a warp of its own, and by bulk copies alone")
        refuse_unloaded(tile)
        super().__init__(tile, shape, starts, ii)
        if len(self.rings) != 1:
            raise FormRefused("pairs of CTAs have a form for the operands of one product alone")
        left, right = self.mma.operands[:2]
        last = tile.work[-1].name
        if differing(tile) != {left, *scales_of(self.mma)[:1]} or not alike(
            tile, tile.trip_count, CTAS
        ):
            scaled = " and its scales" if scales_of(self.mma) else ""
            text = f"a pair multiplies where {left}{scaled} alone differs with {last}"
            raise FormRefused(text)
        half = self._held(right)
        if self.mma.transpose[1] and half.rows % ROWS_STEP:
            raise FormRefused(f"half of {right} is not a multiple of {ROWS_STEP} rows")
        if not self.mma.transpose[1] and half.columns * BITS[half.dtype] // 8 % SWIZZLE_BYTES:
            raise FormRefused(
                f"half of the columns of {right} are no rows of {SWIZZLE_BYTES} bytes"
            )
        if TAIL in {operation.name for operation in tile.operations}:
            raise FormRefused(f"a tile is called {TAIL}")

    def _held(self, name: str) -> Value:
        """What a CTA holds of a loaded tile: of the right operand half of the product's columns."""
        value = next(value for value in self.ring.values if value.name == name)
        if name != self.mma.operands[1]:
            return value
        extent = value.rows if self.mma.transpose[1] else value.columns
        if extent % CTAS:
            raise FormRefused(f"the columns that {name} gives the product have no halves")
        if self.mma.transpose[1]:
            return replace(value, rows=extent // CTAS)
        return replace(value, columns=extent // CTAS)

    def document(self) -> doc.PipelineDocument:
        """The kernel file. Raises FormRefused."""
        return replace(super().document(), ctas=CTAS)

    # ------------------------------------------------------------------------- declarations

    def _buffers(self) -> list[doc.BufferDeclaration]:
        return [
            replace(staged_buffer(self._held(buffer.name)), stages=buffer.stages)
            if buffer.name in self._loads()
            else buffer
            for buffer in super()._buffers()
        ]

    def _rings(self) -> list[doc.RingDeclaration]:
        return []

    def _named(self) -> list[doc.NamedBarrierDeclaration]:
        threads = CTAS * (WARP + THREADS) + WARP
        return [*super()._named(), doc.NamedBarrierDeclaration(SCOPE, threads, scope=SCOPE)]

    def _barriers(self) -> list[doc.BarrierDeclaration]:
        stages = str(self.accumulators)
        found = [
            doc.BarrierDeclaration(f"{self.ring.name}_full", 1, "depth", LEADER),
            doc.BarrierDeclaration(f"{self.ring.name}_empty", 1, "depth"),
            doc.BarrierDeclaration(f"{self.results}_full", 1, stages),
        ]
        if self.position:
            found.append(doc.BarrierDeclaration(f"{self.results}_empty", CTAS, stages, LEADER))
        return found

    def _queues(self) -> list[doc.QueueDeclaration]:
        return [doc.QueueDeclaration(TENSOR_CORE, "tcgen05"), *super()._queues()]

    def _roles(self) -> list[doc.RoleDeclaration]:
        return [
            replace(role, cta=LEADER) if role.name == "issuer" else role
            for role in super()._roles()
        ]

    # ------------------------------------------------------------------------------- roles

    def _producer(self) -> doc.Block:
        place = self.position or "t"
        full = slot(f"{self.ring.name}_full", f"{place} % depth")
        total = CTAS * sum(tile_bytes(self._held(value.name)) for value in self.ring.values)
        fill: list[doc.DocumentStatement] = [
            self._free(place),
            doc.ArriveStatement(full, total, when=f"cta == {LEADER}"),
        ]
        for value in self.ring.values:
            fill.append(
                doc.BulkLoadStatement(slot(value.name, f"{place} % depth", content=place), full)
            )
        if self.position:
            fill.append(doc.CountStatement(self.position))
        loop = doc.ForStatement("t", "0", "tiles", tuple(fill))
        filled = self.position or "tiles"
        tail = self._free(f"({filled} + {TAIL})")
        again = doc.ForStatement(TAIL, "0", "depth", (tail,))
        return (*self._over_work((loop,)), again, *self._last())

    def _free(self, place: str) -> doc.DocumentStatement:
        """The wait for a stage that the products have read."""
        empty = slot(f"{self.ring.name}_empty", f"{place} % depth")
        return doc.WaitStatement(empty, f"{place} // depth - 1")

    def _issuer(self) -> doc.Block:
        place = self.position or "t"
        stage = f"{place} % depth"
        index, turn = self._accumulator()
        into, *peers = (
            slot(self.carried.value.name, index, content=turn, cta=str(cta)) for cta in range(CTAS)
        )
        body: list[doc.DocumentStatement] = [
            doc.WaitStatement(slot(f"{self.ring.name}_full", stage), f"{place} // depth"),
            *self._before_product(stage, place),
            doc.MultiplyStatement(self._operands(stage, place), TENSOR_CORE, into, tuple(peers)),
            *self._commits(f"{self.ring.name}_empty", stage),
        ]
        if self.position:
            body.append(doc.CountStatement(self.position))
        work: list[doc.DocumentStatement] = []
        if self.position:
            empty = slot(f"{self.results}_empty", index)
            phase = f"w // {self.accumulators} - 1"
            work.append(doc.WaitStatement(empty, phase, SCOPE, ORDER))
        work.append(doc.ForStatement("t", "0", "tiles", tuple(body)))
        work += self._commits(f"{self.results}_full", index)
        return (*self._over_work(tuple(work)), *self._last())

    def _operands(self, stage: str, place: str) -> tuple[doc.Slot, ...]:
        """What the product of an iteration reads."""
        return self._of_pair(self.mma.operands[:2], stage, place)

    def _of_pair(self, names: Iterable[str], stage: str, place: str) -> tuple[doc.Slot, ...]:
        """A stage of each of the buffers, in the one CTA and in the other."""
        return tuple(
            slot(name, stage, content=place, cta=str(cta)) for name in names for cta in range(CTAS)
        )

    def _before_product(self, stage: str, place: str) -> doc.Block:
        """What the issuing thread does when a stage is full, before it multiplies."""
        return ()

    def _accumulator(self) -> tuple[str, str]:
        """The stage of a work item's accumulator, and its number."""
        return (f"w % {self.accumulators}", "w") if self.position else ("0", "0")

    def _commits(self, barrier: str, stage: str) -> doc.Block:
        """The end of all products so far arrives in both CTAs."""
        return tuple(
            doc.CommitStatement(TENSOR_CORE, slot(barrier, stage, cta=str(cta)))
            for cta in range(CTAS)
        )

    def _consumer(self) -> doc.Block:
        """Narrows what it fetches before it gives the accumulator back: a block of rows at a time,
        so that the registers of one block are enough."""
        index, turn = self._accumulator()
        name = self.carried.value.name
        before = [op for op in self.tile.before if op.kind != "load"]
        after = list(self.tile.after)
        work: list[doc.DocumentStatement] = [doc.ComputeStatement(op.name) for op in before]
        phase = f"w // {self.accumulators}" if self.position else "0"
        work.append(doc.WaitStatement(slot(f"{self.results}_full", index), phase))
        work.append(doc.LoadStatement(slot(name, index, content=turn)))
        work.append(doc.ComputeStatement(name))
        while after and not self._staged(after[0]):
            work += self._after(after.pop(0), turn)
        if self.position:
            empty = slot(f"{self.results}_empty", index)
            work.append(doc.ArriveStatement(empty, scope=SCOPE, order=ORDER))
        for operation in after:
            work += self._after(operation, turn)
        return (*self._over_work(tuple(work)), *self._sent(), *self._last())

    def _last(self) -> doc.Block:
        return (doc.SyncStatement(slot(SCOPE)),)
