"""What an iteration of a shape takes at least on CDNA, by cause; ranked by `ranking.py`.

Besides its busiest resource: the latency of loads over those in flight, of all work-groups that
LDS has room for on one compute unit; the instructions that its waves issue, as the model of machine
code predicts them (`instructions.py`): by 4 bytes a lane straight to LDS, gfx942 issues four times
the copies of 16 bytes through registers; and, where one wave is alone on a SIMD, a read of LDS for
its products behind the barrier, which nothing overlaps. Registers are not known here; where they do
not suffice, the toolchain refuses the shape.
"""

from __future__ import annotations

from titan.codegen.pipeline.cdna import copied_directly, shared_bytes_of
from titan.codegen.pipeline.model import Shape
from titan.codegen.tile.model import TileProgram
from titan.codegen.tile.rates import rates
from titan.target.description import target_of

IN_FLIGHT = "loads in flight"
ALONE = "reads of LDS by a wave alone on its SIMD"
TOGETHER_MAX = 2  # work-groups on a compute unit: accumulators leave registers for no more


def least_of_waves(
    tile: TileProgram, shape: Shape, latency: int, chain: int, busiest: float
) -> dict[str, float]:
    """Cycles of an iteration by cause; `busiest` are those of its busiest resource, issue slots
    among them."""
    together = resident(tile, shape)
    staged = shape.staged or not copied_directly(tile)
    ahead = 1 if staged else shape.depth - 1
    found = {IN_FLIGHT: latency / (ahead * together)}
    if not shape.overlapped and not staged:
        found[IN_FLIGHT] = latency + chain  # one after the other
    known = rates(tile.target)
    products = any(item.kind == "mma" for item in tile.body)
    if products and together == 1 and tile.groups <= known.groups.together:
        found[ALONE] = busiest + known.shared.latency_cycles
    return found


def resident(tile: TileProgram, shape: Shape) -> int:
    """Work-groups that one compute unit has LDS for, as far as they count."""
    used = shared_bytes_of(tile, shape.depth)
    return max(1, min(TOGETHER_MAX, target_of(tile.target).shared_bytes // max(1, used)))
