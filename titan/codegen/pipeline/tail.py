"""The Hopper form whose last iteration is not copied by the engine.

The loading role, a warpgroup, copies all iterations but the last one by bulk copies; behind its
loop, out of the pipeline, it fills one more stage of the same rings by guarded accesses of its
threads, fences and arrives. The computing roles see one ring and the same outer bounds. For loops
whose last, ragged iteration no box may reach for; the tile file asks for it (`tail: threads`).

Decides no correctness. Source: seed formulation, section 2 (partial tiles, tail fallback).
"""

from __future__ import annotations

from titan.codegen.pipeline.guarded import widened
from titan.codegen.pipeline.hopper import Hopper
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.pipeline.rings import PipelineRing
from titan.codegen.pipeline.text import Block
from titan.codegen.tile.alignment import unaligned
from titan.codegen.tile.model import TileProgram


class Tail(Hopper):
    def __init__(self, tile: TileProgram, shape: Shape, starts: dict[str, int], ii: int) -> None:
        for reason in unaligned(tile).values():
            raise FormRefused(f"{reason}: no tensor map describes it")
        if tile.cluster != 1:
            raise FormRefused("CTAs of a cluster share tiles by copies of a tensor map")
        if not shape.specialised:
            raise FormRefused("threads that copy are a role of their own in this form")
        super().__init__(tile, shape, starts, ii)

    def _roles(self) -> list[tuple[str, str]]:
        return widened(super()._roles())

    def _producer(self) -> Block:
        """The loop ends one iteration early; the last one follows it."""
        again: Block = ["count: {n: n + 1}"] if self.position else []
        fill: Block = []
        last: Block = []
        work: Block = []
        for ring in self.rings:
            if ring.once:
                work += self._fill(ring, "w" if self.position else "0")
            else:
                fill += self._fill(ring, self.position or "t")
                last += self._stored(ring, self.position or "tiles - 1")
        work += [("for: t in 0..tiles - 1", fill + again), *last, *again]
        return [*self._over_work(work), *self._last()]

    def _stored(self, ring: PipelineRing, place: str) -> Block:
        """One tile after the other, the stage handed over with the last of them."""
        made: Block = [f"acquire: {ring.name}[{place}]"]
        for number, load in enumerate(ring.loads, start=1):
            more = "" if number == len(ring.loads) else "\nlast: false"
            made.append(
                f"produce: {ring.name}[{place}]\nstored: true\nbuffers: [{load.name}]{more}"
            )
        return made
