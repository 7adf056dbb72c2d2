"""The pipeline of a tile program on a pair of Hopper CTAs that share what both would load.

The two CTAs of a cluster work on neighbouring items: they differ in the last work coordinate only.
What does not depend on it is loaded once for both: each CTA loads one half of the rows and
multicasts it. A stage is then free when the consumers of both CTAs have read it, so every consumer
arrives at the barrier of both; and nobody leaves while the peer may still arrive or write here.

Written with the primitives themselves, since a ring of the protocol level belongs to one CTA. Has a
form for programs with one multiplication. Decides no correctness.
Source: PTX, cp.async.bulk.tensor with multicast; barrier.cluster.
"""

from __future__ import annotations

from titan.codegen.pipeline.hopper import BITS, THREADS, Hopper
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.pipeline.rings import PipelineRing
from titan.codegen.pipeline.text import Block, behind, inner
from titan.codegen.pipeline.turn import TurnItem, TurnKind
from titan.codegen.tile.model import TileOperation, TileProgram
from titan.sync.expression import names_of

CTAS = 2
WARP = 32


class Clustered(Hopper):
    def __init__(self, tile: TileProgram, shape: Shape, starts: dict[str, int], ii: int) -> None:
        super().__init__(tile, shape, starts, ii)
        if tile.cluster != CTAS:
            raise FormRefused(f"clusters of {tile.cluster} CTAs; pairs have a form")
        multiplications = [operation for operation in tile.body if operation.kind == "mma"]
        if len(multiplications) != 1 or any(ring.once for ring in self.rings):
            raise FormRefused("pairs of CTAs have a form for one multiplication alone")
        if not shape.specialised or self.peeled or self.turns or self.straight:
            raise FormRefused("pairs of CTAs load by a warp of its own")
        if any(item.kind is TurnKind.READ for item in self.items):
            raise FormRefused("pairs of CTAs have no form for tiles that are read to registers")
        last = tile.work[-1].name
        self.common = {
            load.name
            for ring in self.rings
            for load in ring.loads
            if load.view is not None
            and not any(last in names_of(offset) for offset in load.view.offsets)
        }
        if not self.common:
            raise FormRefused(f"all tiles differ with {last}: there is nothing to share in a pair")

    def text(self) -> str:
        lines = super().text().splitlines()
        place = next(i for i, line in enumerate(lines) if line.startswith("target:"))
        lines.insert(place + 1, f"ctas: {CTAS}")
        return "\n".join(lines) + "\n"

    # ------------------------------------------------------------------------- declarations

    def _buffers(self) -> list[tuple[str, str]]:
        return [
            (name, text.replace("{stages", f"{{parts: {CTAS}, stages", 1))
            if name in self.common
            else (name, text)
            for name, text in super()._buffers()
        ]

    def _rings(self) -> list[tuple[str, str]]:
        return []

    def _named(self) -> list[tuple[str, str]]:
        threads = CTAS * (WARP + THREADS * self.tile.groups)
        return [*super()._named(), ("cluster", f"{{scope: cluster, threads: {threads}}}")]

    def _barriers(self) -> list[tuple[str, str]]:
        found = []
        for ring in self.rings:
            readers = self.tile.groups * (CTAS if self._shared(ring) else 1)
            found.append((f"{ring.name}_full", "{stages: depth, count: 1}"))
            found.append((f"{ring.name}_empty", f"{{stages: depth, count: {readers}}}"))
        return found

    def _queues(self) -> list[tuple[str, str]]:
        return [("tensor_core", "wgmma"), *super()._queues()]

    def _shared(self, ring: PipelineRing) -> bool:
        return any(load.name in self.common for load in ring.loads)

    # ------------------------------------------------------------------------------- roles

    def _fill(self, ring: PipelineRing, place: str) -> Block:
        stage = f"{place} % depth"
        total = sum(_bytes(load) for load in ring.loads)
        made: Block = [
            f"wait: {ring.name}_empty[{stage}]\nphase: {place} // depth - 1\nscope: cluster",
            f"arrive: {ring.name}_full[{stage}]\nbytes: {total}",
        ]
        for load in ring.loads:
            full = f"completes: {ring.name}_full[{stage}]"
            if load.name in self.common:
                half = _bytes(load) // CTAS
                made.append(
                    f"bulk_load: {load.name}[{stage}, cta] = {place}\n{full}\n"
                    f"bytes: {half}\nmulticast: all"
                )
            else:
                made.append(f"bulk_load: {load.name}[{stage}] = {place}\n{full}")
        return made

    def _item(self, item: TurnItem, t: str, leaving: int, ahead: int = 0) -> Block:
        place = behind("n" if self.position else t, item.lag - ahead)
        match item.kind:
            case TurnKind.WAIT:
                full = f"{item.name}_full[{inner(place)} % depth]"
                return [f"wait: {full}\nphase: {inner(place)} // depth"]
            case TurnKind.RELEASE:
                return self._arrivals(item.name, place)
            case TurnKind.DRAIN:
                left = f"{{tensor_core, leaving: {leaving}}}" if leaving else "tensor_core"
                return [f"drain: {left}"]
            case TurnKind.ISSUE:
                operands = ", ".join(
                    f"{name}[{inner(place)} % depth] = {place}"
                    for name in self.tile.operation(item.name).operands[:2]
                    if name in self._loads()
                )
                return [f"mma: [{operands}]\nqueue: tensor_core", "commit: tensor_core"]
        return super()._item(item, t, leaving, ahead)

    def _arrivals(self, name: str, place: str) -> Block:
        ring = next(ring for ring in self.rings if ring.name == name)
        empty = f"{name}_empty[{inner(place)} % depth]"
        if not self._shared(ring):
            return [f"arrive: {empty}\nscope: cluster"]
        return [f"arrive: {empty}@{cta}\nscope: cluster" for cta in range(CTAS)]

    def _last(self) -> Block:
        return ["sync: cluster"]


def _bytes(load: TileOperation) -> int:
    assert load.result is not None
    return load.result.rows * load.result.columns * BITS[load.result.dtype] // 8
