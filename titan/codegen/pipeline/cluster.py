"""The pipeline of a tile program on a pair of Hopper CTAs that share common loads.

The two CTAs of a cluster work on neighbouring items: they differ in the last work coordinate only.
What does not depend on it is loaded once for both: each CTA loads one half of the rows and
multicasts it. A stage is then free when the consumers of both CTAs have read it, so every consumer
arrives at the barrier of both; and nobody leaves while the peer may still arrive or write here.

What these arrivals have to carry is the order of execution alone: a stage is read by products that
were waited for, and written by copies. They are relaxed, and so is the wait for them: an arrival
that releases to the cluster waits for all memory of the GPU (MEMBAR, ERRBAR), and one that acquires
empties the L1 cache. A pipeline whose stages threads read would not verify so.

Written with the primitives themselves, since a ring of the protocol level belongs to one CTA. Has a
form for programs with one multiplication. Decides no correctness.
Source: PTX, cp.async.bulk.tensor with multicast; barrier.cluster.
"""

from __future__ import annotations

from dataclasses import replace

from titan.codegen.pipeline import document as doc
from titan.codegen.pipeline.document import slot
from titan.codegen.pipeline.hopper import THREADS, Hopper, tile_bytes
from titan.codegen.pipeline.indices import earlier, inner
from titan.codegen.pipeline.loop_body import BodyItem, ItemKind
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.pipeline.rings import PipelineRing
from titan.codegen.tile.model import TileProgram

CTAS = 2
WARP = 32
SCOPE = "cluster"
ORDER = "relaxed"  # of the release of a stage
TENSOR_CORE = "tensor_core"  # the queue of multiplications
BUFFER_KEYS = ("parts", "stages", "tile", "dtype", "swizzle")


class Clustered(Hopper):
    """A pair of CTAs that share tiles. Raises FormRefused."""

    def __init__(self, tile: TileProgram, shape: Shape, starts: dict[str, int], ii: int) -> None:
        super().__init__(tile, shape, starts, ii)
        if tile.cluster != CTAS:
            raise FormRefused(f"clusters of {tile.cluster} CTAs; pairs have a form")
        multiplications = [operation for operation in tile.body if operation.kind == "mma"]
        if len(multiplications) != 1 or any(ring.once for ring in self.rings):
            raise FormRefused("pairs of CTAs have a form for one multiplication alone")
        if not shape.specialised or self.peeled or self.takes_turns or self.straight:
            raise FormRefused("pairs of CTAs load by a warp of its own")
        if any(item.kind is ItemKind.READ for item in self.items):
            raise FormRefused("pairs of CTAs have no form for tiles that are read to registers")
        last = tile.work[-1].name
        self.common = {
            load.name
            for ring in self.rings
            for load in ring.loads
            if load.view is not None and last not in tile.names_in(*load.view.offsets)
        }
        if not self.common:
            raise FormRefused(f"all tiles differ with {last}: there is nothing to share in a pair")

    def document(self) -> doc.PipelineDocument:
        """The kernel file. Raises FormRefused."""
        return replace(super().document(), ctas=CTAS, order=doc.KeyOrder(buffer=BUFFER_KEYS))

    # ------------------------------------------------------------------------- declarations

    def _buffers(self) -> list[doc.BufferDeclaration]:
        return [
            replace(buffer, parts=CTAS) if buffer.name in self.common else buffer
            for buffer in super()._buffers()
        ]

    def _rings(self) -> list[doc.RingDeclaration]:
        return []

    def _named(self) -> list[doc.NamedBarrierDeclaration]:
        threads = CTAS * (WARP + THREADS * self.tile.groups)
        return [*super()._named(), doc.NamedBarrierDeclaration(SCOPE, threads, scope=SCOPE)]

    def _barriers(self) -> list[doc.BarrierDeclaration]:
        found = []
        for ring in self.rings:
            readers = self.tile.groups * (CTAS if self._shared(ring) else 1)
            found.append(doc.BarrierDeclaration(f"{ring.name}_full", 1, "depth"))
            found.append(doc.BarrierDeclaration(f"{ring.name}_empty", readers, "depth"))
        return found

    def _queues(self) -> list[doc.QueueDeclaration]:
        return [doc.QueueDeclaration(TENSOR_CORE, "wgmma"), *super()._queues()]

    def _shared(self, ring: PipelineRing) -> bool:
        return any(load.name in self.common for load in ring.loads)

    # ------------------------------------------------------------------------------- roles

    def _fill(self, ring: PipelineRing, place: str) -> doc.Block:
        stage = f"{place} % depth"
        full, empty = slot(f"{ring.name}_full", stage), slot(f"{ring.name}_empty", stage)
        total = sum(tile_bytes(value) for value in ring.values)
        made: list[doc.DocumentStatement] = [
            doc.WaitStatement(empty, f"{place} // depth - 1", SCOPE, ORDER),
            doc.ArriveStatement(full, total),
        ]
        for value in ring.values:
            if value.name in self.common:
                half = slot(value.name, stage, "cta", content=place)
                made.append(
                    doc.BulkLoadStatement(half, full, tile_bytes(value) // CTAS, multicast=True)
                )
            else:
                made.append(doc.BulkLoadStatement(slot(value.name, stage, content=place), full))
        return tuple(made)

    def _item(self, item: BodyItem, t: str, leaving: int, ahead: int = 0) -> doc.Block:
        place = earlier("n" if self.position else t, item.lag - ahead)
        stage = f"{inner(place)} % depth"
        match item.kind:
            case ItemKind.WAIT:
                full = slot(f"{item.name}_full", stage)
                return (doc.WaitStatement(full, f"{inner(place)} // depth"),)
            case ItemKind.RELEASE:
                return self._arrivals(item.name, stage)
            case ItemKind.DRAIN:
                return (doc.DrainStatement(TENSOR_CORE, str(leaving or "")),)
            case ItemKind.ISSUE:
                operands = tuple(
                    slot(name, stage, content=place)
                    for name in self.tile.operation(item.name).operands[:2]
                    if name in self._loads()
                )
                issue = doc.MultiplyStatement(operands, TENSOR_CORE)
                return (issue, doc.CommitStatement(TENSOR_CORE))
        return super()._item(item, t, leaving, ahead)

    def _arrivals(self, name: str, stage: str) -> doc.Block:
        ring = next(ring for ring in self.rings if ring.name == name)
        empty = slot(f"{name}_empty", stage)
        if not self._shared(ring):
            return (doc.ArriveStatement(empty, scope=SCOPE, order=ORDER),)
        return tuple(
            doc.ArriveStatement(replace(empty, cta=str(cta)), scope=SCOPE, order=ORDER)
            for cta in range(CTAS)
        )

    def _last(self) -> doc.Block:
        return (doc.SyncStatement(slot(SCOPE)),)
