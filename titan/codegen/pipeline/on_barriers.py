"""Rings of a Hopper pipeline written with the primitives themselves: barriers, waits and copies.

A ring of the protocol level belongs to one CTA and is given back by every agent of the roles that
read it. Where that is not so (pairs of CTAs, warpgroups with tiles of their own) the two barriers
of a ring are declared, waited for and arrived at here. Has a form for programs with one
multiplication whose tiles threads do not read. Decides no correctness.
"""

from __future__ import annotations

from titan.codegen.pipeline import document as doc
from titan.codegen.pipeline.document import slot
from titan.codegen.pipeline.hopper import Hopper
from titan.codegen.pipeline.indices import earlier, inner
from titan.codegen.pipeline.loop_body import BodyItem, ItemKind
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.pipeline.rings import PipelineRing
from titan.codegen.pipeline.tile_layout import tile_bytes
from titan.codegen.tile.model import TileProgram

TENSOR_CORE = "tensor_core"  # the queue of multiplications


class OnBarriers(Hopper):
    """A ring is two barriers, `NAME_full` and `NAME_empty`. Raises FormRefused.

    `what` names those that have the form, in reasons why they do not.
    """

    what = "rings that are barriers"

    def __init__(self, tile: TileProgram, shape: Shape, starts: dict[str, int], ii: int) -> None:
        super().__init__(tile, shape, starts, ii)
        self.readers = self.computing  # warpgroups of a CTA that give each stage back
        multiplications = [operation for operation in tile.body if operation.kind == "mma"]
        if len(multiplications) != 1 or any(ring.once for ring in self.rings):
            raise FormRefused(f"{self.what} have a form for one multiplication alone")
        if not shape.specialised or self.peeled or self.takes_turns or self.straight:
            raise FormRefused(f"{self.what} load by a warp of its own")
        if self.shares:
            raise FormRefused(f"{self.what} have no form for fragments that groups share")
        if any(item.kind is ItemKind.READ for item in self.items):
            raise FormRefused(f"{self.what} have no form for tiles that are read to registers")

    # ------------------------------------------------------------------------- declarations

    def _rings(self) -> list[doc.RingDeclaration]:
        return []

    def _readers(self, ring: PipelineRing) -> int:
        """How many arrivals give a stage of the ring back."""
        return self.readers

    def _barriers(self) -> list[doc.BarrierDeclaration]:
        found = []
        for ring in self.rings:
            found.append(doc.BarrierDeclaration(f"{ring.name}_full", 1, "depth"))
            found.append(doc.BarrierDeclaration(f"{ring.name}_empty", self._readers(ring), "depth"))
        return found

    def _queues(self) -> list[doc.QueueDeclaration]:
        return [doc.QueueDeclaration(TENSOR_CORE, "wgmma"), *super()._queues()]

    # ------------------------------------------------------------------------------- roles

    def _fill(self, ring: PipelineRing, place: str) -> doc.Block:
        stage = f"{place} % depth"
        full, empty = slot(f"{ring.name}_full", stage), slot(f"{ring.name}_empty", stage)
        total = sum(tile_bytes(value) for value in ring.values)
        return (
            self._until_empty(empty, place),
            doc.ArriveStatement(full, total),
            *(self._copy(value.name, stage, place, full) for value in ring.values),
        )

    def _until_empty(self, empty: doc.Slot, place: str) -> doc.WaitStatement:
        return doc.WaitStatement(empty, f"{place} // depth - 1")

    def _copy(self, name: str, stage: str, place: str, full: doc.Slot) -> doc.BulkLoadStatement:
        return doc.BulkLoadStatement(slot(name, stage, content=place), full)

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
        """A stage of the ring of this name is given back."""
        return (doc.ArriveStatement(slot(f"{name}_empty", stage)),)
