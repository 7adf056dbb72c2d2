"""The pipeline of attention on a pair of Blackwell CTAs that multiply together.

As `blackwell_attention.py`, with products of 256 rows (`cta_group::2`) that one thread of the first
CTA issues: sub-tile g of both CTAs is one product. The CTAs differ in the last work coordinate,
which moves the queries alone. Each loads its own queries, half of the keys of a tile (rows of the
first right operand, which enters transposed) and half of the columns of the values: so an SM loads
and holds half of both. Scores and probabilities of its own rows lie in its own tensor memory.

All copies complete at barriers of the first CTA, and commits arrive in both, as in
`blackwell_pair.py`. The second product waits until the softmax and the correction of both CTAs have
arrived at the first one. Decides no correctness. Source: PTX, tcgen05.mma with cta_group::2.
"""

from __future__ import annotations

from dataclasses import replace

from titan.codegen.pipeline import document as doc
from titan.codegen.pipeline.blackwell_attention import BlackwellAttention
from titan.codegen.pipeline.blackwell_pair import (
    CTAS,
    LEADER,
    ORDER,
    ROWS_STEP,
    SCOPE,
    SWIZZLE_BYTES,
    WARP,
)
from titan.codegen.pipeline.document import slot
from titan.codegen.pipeline.hopper import THREADS
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.pipeline.rings import PipelineRing
from titan.codegen.pipeline.tile_layout import BITS, staged_buffer, tile_bytes
from titan.codegen.tile.clusters import alike, differing
from titan.codegen.tile.model import TileProgram, Value

TAIL = "again"  # the loop over stages that nobody fills any more


class BlackwellAttentionPair(BlackwellAttention):
    """Attention by pairs of CTAs. Raises FormRefused."""

    ctas = CTAS

    def __init__(self, tile: TileProgram, shape: Shape, starts: dict[str, int]) -> None:
        if tile.persistent or shape.poison or shape.guarded or shape.tail:
            raise FormRefused("attention in pairs has one work item a CTA, and bulk copies alone")
        super().__init__(tile, shape, starts)
        self.tail = self._fresh(TAIL)
        last, left = tile.work[-1].name, self.parts.first.operands[0]
        if differing(tile) != {left} or not alike(tile, tile.trip_count, CTAS):
            raise FormRefused(f"a pair multiplies where {left} alone differs with {last}")
        self.halved = {
            product.operands[1]: product.transpose[1]
            for product in (self.parts.first, self.parts.second)
        }
        for ring in self.rings:
            for value in ring.values:
                self._held(value)

    def _held(self, value: Value) -> Value:
        """What a CTA holds of a loaded tile: of a right operand half of the product's columns."""
        by_rows = self.halved.get(value.name)
        if by_rows is None:
            return value
        half = (value.rows if by_rows else value.columns) // CTAS
        step = ROWS_STEP if by_rows else SWIZZLE_BYTES * 8 // BITS[value.dtype]
        if (value.rows if by_rows else value.columns) % (CTAS * step):
            raise FormRefused(f"half of {value.name} is not a multiple of {step}")
        return replace(value, rows=half) if by_rows else replace(value, columns=half)

    # ------------------------------------------------------------------------- declarations

    def document(self) -> doc.PipelineDocument:
        """The kernel file."""
        return replace(super().document(), ctas=CTAS)

    def _end(self) -> doc.Block:
        return (doc.SyncStatement(slot(SCOPE)),)

    def _meetings(self) -> tuple[doc.NamedBarrierDeclaration, ...]:
        threads = CTAS * (WARP + THREADS * (self.groups + 1)) + WARP
        return (doc.NamedBarrierDeclaration(SCOPE, threads, scope=SCOPE),)

    def _roles(self) -> tuple[doc.RoleDeclaration, ...]:
        loading, issuing, *others = super()._roles()
        return (loading, replace(issuing, cta=LEADER), *others)

    def _ring_buffers(self) -> list[doc.BufferDeclaration]:
        held = {value.name: self._held(value) for ring in self.rings for value in ring.values}
        return [
            replace(staged_buffer(held[one.name]), stages=one.stages)
            for one in super()._ring_buffers()
        ]

    def _barriers(self) -> list[doc.BarrierDeclaration]:
        """What the issuer waits for stands in its CTA, where both CTAs arrive."""
        filled = {self.full[ring.loads[0].name] for ring in self.rings}
        ready = self.full[self.parts.left.name]
        return [
            replace(one, cta=LEADER, count=one.count * (CTAS if one.name == ready else 1))
            if one.name in filled | {ready}
            else one
            for one in super()._barriers()
        ]

    # ------------------------------------------------------------------------ places and waits

    def _fill(self, ring: PipelineRing, place: str) -> doc.Block:
        total = CTAS * sum(tile_bytes(self._held(value)) for value in ring.values)
        return tuple(
            replace(one, bytes_expected=total, when=f"cta == {LEADER}")
            if isinstance(one, doc.ArriveStatement)
            else one
            for one in super()._fill(ring, place)
        )

    def _producer(self) -> doc.Block:
        """Waits for every stage once more: only that says that all commits have arrived."""
        rings = (*self.early, *self.late)
        place = f"(tiles + {self.tail})"
        again = (
            doc.WaitStatement(slot(self.empty[ring.loads[0].name], f"{place} % depth"),
                              f"{place} // depth - 1") for ring in rings
        )  # fmt: skip
        return (*super()._producer(), doc.ForStatement(self.tail, "0", "depth", tuple(again)))

    def _commit(self, barrier: doc.Slot) -> doc.Block:
        return tuple(
            doc.CommitStatement(self.queue, replace(barrier, cta=str(cta))) for cta in range(CTAS)
        )

    def _multiplied(self, operands: tuple[doc.Slot, ...], into: doc.Slot) -> doc.DocumentStatement:
        both = tuple(replace(one, cta=str(cta)) for one in operands for cta in range(CTAS))
        first, *peers = (replace(into, cta=str(cta)) for cta in range(CTAS))
        return doc.MultiplyStatement(both, self.queue, first, tuple(peers))

    def _left_full(self, sub: str) -> doc.DocumentStatement:
        barrier = slot(self.full[self.parts.left.name], sub)
        return doc.ArriveStatement(barrier, scope=SCOPE, order=ORDER)

    def _left_waited(self, place: str) -> doc.DocumentStatement:
        barrier = slot(self.full[self.parts.left.name], self.g)
        return doc.WaitStatement(barrier, place, SCOPE, ORDER)
