"""Persistent pipelines of a tile a warpgroup: two of them take turns at the tensor cores.

Work items go to the warpgroups in turn. Each computes the whole tile of its items, from one ring
that the loading warp fills in the order of the items: a stage is read, and given back, by one
warpgroup. Who has issued the last product of an item hands the tensor cores over, then ends its
item (conversion, staging, bulk store) while the other's products run. Whose item it is not counts
its iterations, so that both know where in the ring the next item begins, and then waits for its
turn; in that count stands a wait for products, of which it has none in flight: it makes the count
a series of steps, with which the search for any number of iterations keeps the two together.

Each warpgroup has its own staging buffers and its own queue of bulk stores: nothing else orders the
two ends of items. Decides no correctness: what it prints is verified like any kernel file.
Source: CUTLASS, sm90 TMA warp-specialised ping-pong (order of the two main loops).
"""

from __future__ import annotations

from dataclasses import replace

from titan.codegen.pipeline import document as doc
from titan.codegen.pipeline.document import slot
from titan.codegen.pipeline.hopper import THREADS
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.pipeline.on_barriers import TENSOR_CORE, OnBarriers
from titan.codegen.tile.alternation import WARPGROUPS
from titan.codegen.tile.model import TileOperation, TileProgram
from titan.codegen.tile.staging import STAGES

TURN = "turn"


class Alternating(OnBarriers):
    """Two warpgroups with tiles of their own, taking turns. Raises FormRefused."""

    what = "warpgroups with tiles of their own"

    def __init__(self, tile: TileProgram, shape: Shape, starts: dict[str, int], ii: int) -> None:
        super().__init__(tile, shape, starts, ii)
        if not self.position or tile.groups != 1 or tile.cluster != 1:
            raise FormRefused(f"{self.what} are persistent, of one group and one CTA a tile")
        self.computing, self.readers = WARPGROUPS, 1

    # ------------------------------------------------------------------------- declarations

    def _buffers(self) -> list[doc.BufferDeclaration]:
        own = {store.name for store in self.stores}
        return [
            replace(buffer, stages=str(WARPGROUPS * int(buffer.stages or 1)), parts=0)
            if buffer.name in own
            else buffer
            for buffer in super()._buffers()
        ]

    def _named(self) -> list[doc.NamedBarrierDeclaration]:
        turn = doc.NamedBarrierDeclaration(TURN, WARPGROUPS * THREADS, WARPGROUPS)
        return [turn, *super()._named()]

    # ------------------------------------------------------------------------------- roles

    def _consumer(self) -> doc.Block:
        mine = (*self._before("w"), *self._loop(), *self._ends("w"))
        counted = (doc.DrainStatement(TENSOR_CORE), doc.CountStatement("n"))
        other = (
            doc.ForStatement("t", "0", "tiles", counted),
            doc.SyncStatement(slot(TURN, "self")),
        )
        item = (doc.IfStatement(f"w % {WARPGROUPS} == self", mine, other),)
        return (*self._over_work(item), *self._sent(), *self._last())

    def _last_items(self) -> doc.Block:
        return (doc.ArriveStatement(slot(TURN, "1 - self")), *super()._last_items())

    def _staging(self, operation: TileOperation, stage: str, content: str) -> doc.Slot:
        mine = "self" if self._slices(operation) == 1 else f"self * {STAGES} + {stage}"
        return slot(operation.name, mine, content=content)
