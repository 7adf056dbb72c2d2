"""What an iteration of a shape takes at least on CDNA, by cause; ranked by `ranking.py`.

Besides its busiest resource: the latency of loads over those in flight, of all work-groups that
LDS and the sums of products have room for on one compute unit; the instructions that its waves
issue, as the model of machine code predicts them (`instructions.py`): by 4 bytes a lane straight to
LDS, gfx942 issues four times the copies of 16 bytes through registers; and, where one wave is alone
on a SIMD, a read of LDS for its products behind the barrier, which nothing overlaps. Where its sums
leave no room for another wave, what it issues stands between its products, but for copies straight
to LDS, which come in a run behind the barrier. Other registers than those of sums are not known
here; where they do not suffice, the toolchain refuses the shape.
"""

from __future__ import annotations

from titan.codegen.pipeline.cdna import copied_directly, shared_bytes_of
from titan.codegen.pipeline.instructions import terms
from titan.codegen.pipeline.model import Shape
from titan.codegen.tile.instruction_costs import instruction_costs
from titan.codegen.tile.model import TileProgram
from titan.codegen.tile.rates import rates
from titan.codegen.tile.wave_split import accumulators, alone_on_simd
from titan.target.description import target_of

IN_FLIGHT = "loads in flight"
ALONE = "reads of LDS by a wave alone on its SIMD"
COPIES = "copies that a wave alone on its SIMD issues ahead of its products"
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
        if alone_on_simd(tile) and not staged:
            found[COPIES] = found[ALONE] + _copying(tile, shape) * known.issue_cycles
    return found


def _copying(tile: TileProgram, shape: Shape) -> float:
    """Instructions by which a wave copies straight to LDS in an iteration."""
    known, amounts = instruction_costs(tile.target), terms(tile, shape)
    if known is None or amounts is None:
        return 0.0
    return sum(known.costs.get(name, 0.0) * amounts[name] for name in ("asked", "guarded"))


def resident(tile: TileProgram, shape: Shape) -> int:
    """Work-groups that one compute unit has LDS for, and registers for their sums beside as many
    others at least, as far as they count."""
    used = shared_bytes_of(tile, shape.depth)
    of_groups = rates(tile.target).groups
    waves = -(-tile.groups // of_groups.together)  # of a work-group on a SIMD
    held = waves * 2 * accumulators(tile)
    by_registers = of_groups.registers // held if held else TOGETHER_MAX
    by_lds = target_of(tile.target).shared_bytes // max(1, used)
    return max(1, min(TOGETHER_MAX, by_lds, by_registers))
