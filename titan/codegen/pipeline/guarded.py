"""The Hopper form for tensors that no tensor map describes: threads copy their tiles.

Where the rows of a tensor begin at any element, the loading role is a warpgroup instead of a warp.
It fills a stage by ordinary loads and stores that are guarded by the extents of the tensor, so that
what lies outside reads as zero, as with a tensor map; it fences, because tensor cores read through
another proxy; and it arrives. Everything else is the pipeline of the schedule: depth, turns and
releases. Rings whose tensors all have maps are still filled by bulk copies. Results go from
registers to global memory, guarded as well, where their tensor has no map.

Decides no correctness. Source: seed formulation, section 3.1 (fall back to a non-TMA path).
"""

from __future__ import annotations

from titan.codegen.pipeline.hopper import Hopper
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.pipeline.rings import PipelineRing
from titan.codegen.pipeline.text import Block
from titan.codegen.tile.alignment import unaligned
from titan.codegen.tile.model import TileOperation, TileProgram


def refuse_unaligned(tile: TileProgram) -> None:
    """Raises FormRefused where the engine cannot copy every tile, or is not to."""
    for reason in unaligned(tile).values():
        raise FormRefused(f"{reason}: no tensor map describes it")
    if tile.tail == "threads":
        raise FormRefused("the tile program asks for a last iteration that threads copy")


def widened(roles: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The roles with a warpgroup that loads instead of a warp."""
    (loads, said), *others = roles
    return [(loads, said.replace("{warps: 1", "{warpgroups: 1", 1)), *others]


class Guarded(Hopper):
    def __init__(self, tile: TileProgram, shape: Shape, starts: dict[str, int], ii: int) -> None:
        self.unmapped = frozenset(unaligned(tile))
        if not self.unmapped:
            raise FormRefused("every tensor has a tensor map")
        if tile.cluster != 1:
            raise FormRefused("CTAs of a cluster share tiles by copies of a tensor map")
        if not shape.specialised:
            raise FormRefused("threads that copy are a role of their own in this form")
        super().__init__(tile, shape, starts, ii)
        for store in self.straight:
            if self._without_map(store):
                raise FormRefused(
                    f"{store.name} sends a tile from shared memory, which needs a tensor map: "
                    "`read` it first"
                )
        self.filled = {
            ring.name for ring in self.rings if any(self._without_map(load) for load in ring.loads)
        }
        if any(set(store.operands) & self._by_threads() for store in self.straight):
            raise FormRefused(
                "what threads have copied is not sent from shared memory: `read` it first"
            )

    def _without_map(self, operation: TileOperation) -> bool:
        return operation.view is not None and operation.view.tensor in self.unmapped

    def _by_threads(self) -> set[str]:
        return {load.name for ring in self.rings if ring.name in self.filled for load in ring.loads}

    def _staged(self, operation: TileOperation) -> bool:
        return not self._without_map(operation) and super()._staged(operation)

    def _rings(self) -> list[tuple[str, str]]:
        return [
            (name, f"{text[:-1]}, transport: store}}" if name in self.filled else text)
            for name, text in super()._rings()
        ]

    def _roles(self) -> list[tuple[str, str]]:
        roles = super()._roles()
        return widened(roles) if self.filled else roles

    def _fill(self, ring: PipelineRing, place: str) -> Block:
        """One tile after the other, the stage handed over with the last of them."""
        if ring.name not in self.filled:
            return super()._fill(ring, place)
        made: Block = [f"acquire: {ring.name}[{place}]"]
        for number, load in enumerate(ring.loads, start=1):
            more = "" if number == len(ring.loads) else "\nlast: false"
            made.append(f"produce: {ring.name}[{place}]\nbuffers: [{load.name}]{more}")
        return made

    def _release(self, name: str, place: str) -> Block:
        """Threads that overwrite what threads have read need no fence in between."""
        if name in self.filled:
            return [f"release: {name}[{place}]"]
        return super()._release(name, place)
