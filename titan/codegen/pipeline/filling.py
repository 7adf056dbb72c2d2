"""Who fills the rings of a pipeline: the copy engine, or threads where it cannot.

Where the rows of a tensor begin at any element, no tensor map describes it, and the loading role is
a warpgroup instead of a warp. It fills a stage by ordinary loads and stores that are guarded by the
extents of the tensor, so that what lies outside reads as zero, as with a tensor map; it fences,
because tensor cores read through another proxy; and it arrives. Everything else is the pipeline of
the schedule: depth, order and releases. Rings whose tensors all have maps are still filled by bulk
copies. Results go from registers to global memory, guarded as well, where their tensor has no map.

With a tail by threads the engine copies all iterations but the last; after the loop the same role
fills one more stage of the same rings. For loops whose last, ragged iteration no box may reach for;
the tile file asks for it (`tail: threads`). With `tail: poison` nobody fills that stage
(`poison.py`).

Decides no correctness. Source: seed formulation, sections 2 (partial tiles, tail fallback) and 3.1
(fall back to a non-TMA path).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from titan.codegen.pipeline.document import (
    AcquireStatement,
    Block,
    ProduceStatement,
    slot,
)
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.pipeline.rings import PipelineRing
from titan.codegen.tile.alignment import unaligned, unaligned_loads
from titan.codegen.tile.model import TileOperation, TileProgram


@dataclass(frozen=True, slots=True)
class Filling:
    """`unmapped`: tensors whose tiles threads copy; `tail`: threads copy the last iteration;
    `poison`: the condition, on its index, under which a stage of the loop is left unfilled."""

    unmapped: frozenset[str] = frozenset()
    tail: bool = False
    poison: Callable[[str], str] | None = None

    def without_map(self, operation: TileOperation) -> bool:
        """Whether a load or store is of a tensor that no tensor map describes."""
        return operation.view is not None and operation.view.tensor in self.unmapped

    def by_threads(self, ring: PipelineRing) -> bool:
        """Whether threads fill every stage of a ring."""
        return any(self.without_map(load) for load in ring.loads)

    def has_loading_threads(self, rings: Iterable[PipelineRing]) -> bool:
        """Whether the loading role is a warpgroup that copies, and not a warp that asks for it."""
        return self.tail or any(self.by_threads(ring) for ring in rings)

    def stage(self, ring: PipelineRing, place: str) -> Block:
        """One stage of a ring: acquired, filled and handed over."""
        if self.by_threads(ring):
            return _one_tile_after_another(ring, place, stored=False)
        filled = slot(ring.name, place)
        poison = self.poison(place) if self.poison is not None and not ring.once else ""
        return (AcquireStatement(filled), ProduceStatement(filled, poison=poison))

    def last_stage(self, ring: PipelineRing, place: str) -> Block:
        """The stage of the last iteration where it is a tail by threads."""
        return _one_tile_after_another(ring, place, stored=True)

    def refuse_straight(
        self, stores: Iterable[TileOperation], rings: Iterable[PipelineRing]
    ) -> None:
        """Raises FormRefused for stores from shared memory that need a map or the engine's fill."""
        for store in stores:
            if self.without_map(store):
                raise FormRefused(
                    f"{store.name} sends a tile from shared memory, which needs a tensor map: "
                    "`read` it first"
                )
        copied = {load.name for ring in rings if self.by_threads(ring) for load in ring.loads}
        if any(set(store.operands) & copied for store in stores):
            raise FormRefused(
                "what threads have copied is not sent from shared memory: `read` it first"
            )


BULK_COPIES = Filling()


def _one_tile_after_another(ring: PipelineRing, place: str, stored: bool) -> Block:
    """The stage is handed over with the last of its tiles."""
    filled = slot(ring.name, place)
    produced = tuple(
        ProduceStatement(filled, (load.name,), last=load is ring.loads[-1], stored=stored)
        for load in ring.loads
    )
    return (AcquireStatement(filled), *produced)


def refuse_unaligned(tile: TileProgram) -> None:
    """Raises FormRefused where the engine cannot copy every tile, or is not to."""
    refuse_unmapped(tile)
    refuse_unloaded(tile)


def refuse_unloaded(tile: TileProgram) -> None:
    """Raises FormRefused where the engine cannot load every tile, or is not to."""
    for reason in unaligned_loads(tile).values():
        raise FormRefused(f"{reason}: no tensor map describes it")
    if tile.tail == "threads":
        raise FormRefused("the tile program asks for a last iteration that threads copy")
    if tile.tail == "poison":
        raise FormRefused("the tile program asks for a last iteration that is poison")


def guarded_filling(tile: TileProgram) -> Filling:
    """Threads copy the tiles of all tensors without a tensor map. Raises FormRefused."""
    unmapped = frozenset(unaligned(tile))
    if not unmapped:
        raise FormRefused("every tensor has a tensor map")
    refuse_cluster(tile)
    return Filling(unmapped)


def tail_filling(tile: TileProgram, shape: Shape) -> Filling:
    """Threads copy the last iteration. Raises FormRefused."""
    refuse_unmapped(tile)
    refuse_cluster(tile)
    if not shape.specialised:
        raise FormRefused("threads that copy the last iteration are a role of their own")
    return Filling(tail=True)


def refuse_unmapped(tile: TileProgram) -> None:
    """Raises FormRefused where a tensor has no tensor map."""
    for reason in unaligned(tile).values():
        raise FormRefused(f"{reason}: no tensor map describes it")


def refuse_cluster(tile: TileProgram) -> None:
    """Raises FormRefused for a cluster of CTAs."""
    if tile.cluster != 1:
        raise FormRefused("CTAs of a cluster share tiles by copies of a tensor map")
