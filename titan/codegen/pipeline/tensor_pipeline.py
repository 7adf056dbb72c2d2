"""What pipelines with several products in tensor memory share: rings, commits, stores.

A ring is a full barrier, completed by copies, and an empty one, at which `tcgen05.commit` arrives
when the products that read the stage are over. A left operand that threads put into tensor memory
and a result that they fetch have barriers for each sub-tile of 128 rows.

Decides no correctness: what is printed of it is verified like anybody's. Source: PTX, tcgen05.
"""

from __future__ import annotations

from dataclasses import replace

from titan.codegen.pipeline import document as doc
from titan.codegen.pipeline.document import slot
from titan.codegen.pipeline.indices import inner
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.pipeline.rings import PipelineRing, rings_of
from titan.codegen.pipeline.tile_layout import staged_buffer, tile_bytes
from titan.codegen.tile.alignment import unaligned
from titan.codegen.tile.model import TileOperation, TileProgram, Value, ValuePlace

LANES = 128
COLUMNS_MAX = 512  # of tensor memory, 32 bits each
COLUMNS_STEP = 16  # of a product with 128 rows


class TensorPipeline:
    """Names, rings and stores of one pipeline. Raises FormRefused where there is none."""

    def __init__(self, tile: TileProgram, shape: Shape) -> None:
        self.tile, self.shape, self.groups = tile, shape, tile.groups
        self.rings = rings_of(tile)
        # The work item, and the counter of iterations over all items where there are several.
        self.item, self.position = "0", ""
        self.once = [ring for ring in self.rings if ring.once]
        self.taken = {operation.name for operation in tile.operations}
        self.taken |= {item.value.name for item in tile.carried}
        self.full: dict[str, str] = {}
        self.empty: dict[str, str] = {}
        self.stores = [op for op in tile.after if self._staged(op)]

    def _name(self, *names: str) -> None:
        """Barriers for what is filled and freed under these names."""
        for name in names:
            self.full[name] = self._fresh(f"{name}_full")
            self.empty[name] = self._fresh(f"{name}_empty")

    def _fresh(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def _staged(self, operation: TileOperation) -> bool:
        """Whether a store goes from registers through shared memory."""
        if operation.kind != "store" or operation.view is None:
            return False
        if operation.view.tensor in unaligned(self.tile):
            return False
        return self._value(operation.operands[0]).place is ValuePlace.FRAGMENT

    def _value(self, name: str) -> Value:
        for item in self.tile.carried:
            if item.value.name == name:
                return item.value
        return result_of(self.tile.operation(name))

    # ------------------------------------------------------------------------ places and waits

    def _stage(self, ring: PipelineRing, place: str) -> str:
        return "0" if ring.once or place == "0" else f"{inner(place)} % depth"

    def _round(self, ring: PipelineRing, place: str) -> str:
        """How often the stage of iteration `place` has been filled before."""
        return place if ring.once or place == "0" else f"{inner(place)} // depth"

    def _filled(self, ring: PipelineRing, place: str) -> doc.DocumentStatement:
        """The wait for a stage of a ring."""
        full = slot(self.full[ring.loads[0].name], self._stage(ring, place))
        return doc.WaitStatement(full, self._round(ring, place))

    def _empty_slot(self, ring: PipelineRing, place: str) -> doc.Slot:
        """The barrier of a stage that nobody reads any more."""
        return slot(self.empty[ring.loads[0].name], self._stage(ring, place))

    def _fill(self, ring: PipelineRing, place: str) -> doc.Block:
        """All loads of a stage, once nobody reads it any more."""
        full = slot(self.full[ring.loads[0].name], self._stage(ring, place))
        made: list[doc.DocumentStatement] = []
        if self._again(ring):
            phase = f"{self._round(ring, place)} - 1"
            made.append(doc.WaitStatement(self._empty_slot(ring, place), phase))
        made.append(doc.ArriveStatement(full, sum(tile_bytes(value) for value in ring.values)))
        stage = self._stage(ring, place)
        for value in ring.values:
            made.append(doc.BulkLoadStatement(slot(value.name, stage, content=place), full))
        return tuple(made)

    def _again(self, ring: PipelineRing) -> bool:
        """Whether a stage of the ring is filled more than once."""
        return not ring.once or bool(self.position)

    def _operand(self, load: str, place: str) -> doc.Slot:
        """The stage of a loaded tile that a product of iteration `place` reads."""
        for ring in self.rings:
            if load in {item.name for item in ring.loads}:
                content = self.item if ring.once else place
                return slot(load, self._stage(ring, place), content=content)
        raise FormRefused(f"{load} is multiplied, but not loaded")

    def _ring_buffers(self) -> list[doc.BufferDeclaration]:
        return [
            replace(staged_buffer(value), stages="1" if ring.once else "depth")
            for ring in self.rings
            for value in ring.values
        ]

    def _ring_barriers(self, frees: int = 1) -> list[doc.BarrierDeclaration]:
        """`frees`: how many agents free a stage."""
        found: list[doc.BarrierDeclaration] = []
        for ring in self.rings:
            name, stages = ring.loads[0].name, "" if ring.once else "depth"
            found.append(doc.BarrierDeclaration(self.full[name], 1, stages))
            if self._again(ring):
                found.append(doc.BarrierDeclaration(self.empty[name], frees, stages))
        return found


def result_of(operation: TileOperation) -> Value:
    """The tile that an operation computes. Raises FormRefused where it computes none."""
    if operation.result is None:
        raise FormRefused(f"{operation.name} has no result")
    return operation.result
