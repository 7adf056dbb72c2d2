"""What an iteration of a shape takes at least on CDNA, by cause; ranked by `ranking.py`.

Besides its busiest resource: the latency of loads over those in flight, of all work-groups that
LDS has room for on one compute unit; the instructions that its waves issue for products, reads of
LDS, arithmetic and copies; and, where one wave is alone on a SIMD, a read of LDS for its products
behind the barrier, which nothing overlaps. What a copy takes is counted in machine code (`copies`
of the rates): by 4 bytes a lane straight to LDS, gfx942 issues four times the copies of 16 bytes
through registers. Registers are not known here; where they do not suffice, the toolchain refuses
the shape.
"""

from __future__ import annotations

from titan.codegen.pipeline.cdna import LANES, copied_directly, lane_bytes, shared_bytes_of
from titan.codegen.pipeline.model import Shape
from titan.codegen.tile.model import TileProgram
from titan.codegen.tile.rates import Rates, rates
from titan.codegen.tile.roofline import operand_bytes, product_cycles, value_bytes, value_of
from titan.target.description import target_of

IN_FLIGHT, ISSUE = "loads in flight", "issue of instructions"
ALONE = "reads of LDS by a wave alone on its SIMD"
TOGETHER_MAX = 2  # work-groups on a compute unit: accumulators leave registers for no more
REGISTER_BYTES = 16  # of a lane, by one load or read


def least_of_waves(
    tile: TileProgram, shape: Shape, latency: int, chain: int, busiest: float
) -> dict[str, float]:
    """Cycles of an iteration by cause; `busiest` are those of its busiest resource."""
    together = resident(tile, shape)
    staged = shape.staged or not copied_directly(tile)
    ahead = 1 if staged else shape.depth - 1
    found = {IN_FLIGHT: latency / (ahead * together)}
    if not shape.overlapped and not staged:
        found[IN_FLIGHT] = latency + chain  # one after the other
    known = rates(tile.target)
    if known.copies is not None:
        found[ISSUE] = issue_cycles(tile, known, staged)
    products = any(item.kind == "mma" for item in tile.body)
    if products and together == 1 and tile.groups <= known.groups.together:
        found[ALONE] = max(busiest, found.get(ISSUE, 0)) + known.shared.latency_cycles
    return found


def resident(tile: TileProgram, shape: Shape) -> int:
    """Work-groups that one compute unit has LDS for, as far as they count."""
    used = shared_bytes_of(tile, shape.depth)
    return max(1, min(TOGETHER_MAX, target_of(tile.target).shared_bytes // max(1, used)))


def issue_cycles(tile: TileProgram, known: Rates, staged: bool) -> float:
    """Cycles in which a SIMD issues the products, reads, arithmetic and copies of its waves; an
    operation on fragments is an instruction for each element of a lane."""
    assert known.copies is not None
    instructions = float(known.copies.loop)
    for item in tile.body:
        if item.kind == "mma":
            instructions += product_cycles(tile, item, known) / known.matrix.latency_cycles
            read = operand_bytes(tile, item, known) / (LANES * REGISTER_BYTES)
            instructions += read / known.groups.together
        elif item.kind != "load":
            values = (value_of(tile, name) for name in (item.name, *item.operands)
                      if item.result is not None)  # fmt: skip
            most = max((one.rows * one.columns for one in values), default=0)
            instructions += most / LANES / known.groups.together
        else:
            width = REGISTER_BYTES if staged else lane_bytes(tile, item.value)
            copies = value_bytes(tile, item.name) / (LANES * width) / known.groups.together
            instructions += copies * (known.copies.registers if staged else known.copies.direct)
    return instructions * known.copies.issue_cycles
