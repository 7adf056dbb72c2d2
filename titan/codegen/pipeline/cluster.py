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
from titan.codegen.pipeline.hopper import THREADS
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.pipeline.on_barriers import OnBarriers
from titan.codegen.pipeline.rings import PipelineRing
from titan.codegen.pipeline.tile_layout import tile_bytes
from titan.codegen.tile.model import TileProgram

CTAS = 2
WARP = 32
SCOPE = "cluster"
ORDER = "relaxed"  # of the release of a stage
BUFFER_KEYS = ("parts", "stages", "tile", "dtype", "swizzle")


class Clustered(OnBarriers):
    """A pair of CTAs that share tiles. Raises FormRefused."""

    what = "pairs of CTAs"

    def __init__(self, tile: TileProgram, shape: Shape, starts: dict[str, int], ii: int) -> None:
        super().__init__(tile, shape, starts, ii)
        if tile.cluster != CTAS:
            raise FormRefused(f"clusters of {tile.cluster} CTAs; pairs have a form")
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

    def _named(self) -> list[doc.NamedBarrierDeclaration]:
        threads = CTAS * (WARP + THREADS * self.computing)
        return [*super()._named(), doc.NamedBarrierDeclaration(SCOPE, threads, scope=SCOPE)]

    def _readers(self, ring: PipelineRing) -> int:
        return super()._readers(ring) * (CTAS if self._shared(ring) else 1)

    def _shared(self, ring: PipelineRing) -> bool:
        return any(load.name in self.common for load in ring.loads)

    # ------------------------------------------------------------------------------- roles

    def _until_empty(self, empty: doc.Slot, place: str) -> doc.WaitStatement:
        return doc.WaitStatement(empty, f"{place} // depth - 1", SCOPE, ORDER)

    def _copy(self, name: str, stage: str, place: str, full: doc.Slot) -> doc.BulkLoadStatement:
        if name not in self.common:
            return super()._copy(name, stage, place, full)
        half = slot(name, stage, "cta", content=place)
        copied = tile_bytes(self.tile.operation(name).value) // CTAS
        return doc.BulkLoadStatement(half, full, copied, multicast=True)

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
