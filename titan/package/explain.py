"""`titan build --explain`: why a shape was taken, and what bounds the kernel.

The list of shapes is fixed and goes from the best to the plainest; the first that is verified and
that the target can write is taken. What the shape is good for is stated in cycles of the machine
model: an iteration cannot be shorter than its busiest resource (`titan/codegen/tile/roofline.py`),
than the latency of a load spread over the stages, and, where one iteration runs after the other,
than its own chain of dependences. Bounds of a model, not measurements.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from titan.codegen.pipeline.model import Built, Shape
from titan.codegen.tile.model import TileProgram
from titan.codegen.tile.rates import rates
from titan.codegen.tile.roofline import (
    PROCESSORS,
    TENSOR_CORES,
    Roofline,
    iteration_cycles,
    value_bytes,
)
from titan.package.produce import Produced
from titan.scheduling.loop.bounds import longest_paths
from titan.scheduling.loop.model import Loop
from titan.sync.expression import Constant


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a shape was taken, in words; `roofline` at so many iterations a work item.

    `least_cycles`: by cause, what an iteration of the shape that was taken takes at least;
    `refused`: the shapes before it, with the cycles that they would have taken at least.
    """

    why: str
    roofline: Roofline
    least_cycles: dict[str, float]
    refused: tuple[tuple[str, float], ...]


def explain(produced: Produced, trips: int) -> Explanation:
    """The explanation of a package, for work items of `trips` iterations if the program does not
    fix them."""
    built = produced.built
    tile = built.tile
    fixed = tile.trip_count
    trips = fixed.value if isinstance(fixed, Constant) else trips
    by_warps = rates(tile.target).matrix.result == "registers"
    cycles = iteration_cycles(tile, produced.instructions if by_warps else None)
    roofline = Roofline(
        cycles,
        trips,
        processors=PROCESSORS[tile.target],
        persistent=tile.persistent,
        cluster=tile.cluster,
    )
    before = [step.shape for step in built.steps if not step.taken]
    return Explanation(
        _why(built, len(before)),
        roofline,
        least_cycles(built, built.shape, roofline),
        tuple((shape.name, max(least_cycles(built, shape, roofline).values())) for shape in before),
    )


def least_cycles(built: Built, shape: Shape, roofline: Roofline) -> dict[str, float]:
    """What an iteration takes at least in a shape, by cause."""
    found = {roofline.limit: roofline.busiest}
    found["loads in flight"] = load_latency(built.tile) / shape.depth
    if not shape.overlapped and not shape.behind:
        found["dependences of one iteration"] = float(chain_cycles(built.loop))
    return found


def load_latency(tile: TileProgram) -> int:
    """Cycles from the issue of the largest load of the loop until its stage may be read."""
    transfer = rates(tile.target).transfer
    loads = [item.name for item in tile.body if item.kind == "load"]
    amount = max((value_bytes(tile, name) for name in loads), default=0)
    return transfer.latency_cycles + transfer.cycles(amount) if loads else 0


def chain_cycles(loop: Loop) -> int:
    """The longest chain of dependences within one iteration, behind the loads."""
    loads = {place for place, item in enumerate(loop.operations) if item.streaming}
    behind = tuple(item for item in loop.dependences if item.source not in loads)
    issued = longest_paths(replace(loop, dependences=behind))
    return max(
        (
            cycle + max(operation.cycles, operation.latency_cycles)
            for place, (cycle, operation) in enumerate(zip(issued, loop.operations, strict=True))
            if place not in loads
        ),
        default=0,
    )


def _why(built: Built, refused: int) -> str:
    shape = built.shape
    place = "the first shape of the list"
    if refused:
        place = f"the first shape that can be verified and written, behind {refused} refused"
    stages = f"{shape.depth} stage{'s' if shape.depth > 1 else ''}"
    ways = [
        (shape.overlapped, "operations of neighbouring iterations in the order of the schedule"),
        (shape.behind, "the last product one iteration late, so that it runs beside the others"),
        (not shape.overlapped and not shape.behind, "one iteration at a time"),
        (shape.ping_pong, "groups take turns at the tensor cores"),
        (shape.alternating, "a tile a warpgroup, whose end the products of the other overlap"),
        (shape.persistent, "CTAs stay for several work items"),
        (not shape.specialised, "no warp that only loads"),
        (shape.guarded or shape.tail, "threads copy what no tensor map gives"),
        (shape.poison, "the last iteration as poison"),
    ]
    return "; ".join([place, stages, *(words for holds, words in ways if holds)])


def rows(found: Explanation) -> list[tuple[str, str]]:
    """The explanation as lines of a report."""
    roofline = found.roofline
    busy = roofline.busiest
    each = ", ".join(
        f"{name} {cycles:.0f} ({100 * cycles / busy:.0f} %)"
        for name, cycles in sorted(roofline.cycles.items(), key=lambda item: -item[1])
        if cycles
    )
    cause, least = max(found.least_cycles.items(), key=lambda item: item[1])
    made = [("why", found.why), ("cycles", f"an iteration, by resource: {each or 'none'}")]
    made.append(("bound by", f"{cause}: {least:.0f} cycles an iteration at least"))
    made += [
        ("before it", f"{name}: {cycles:.0f} cycles at least") for name, cycles in found.refused
    ]
    if roofline.cycles[TENSOR_CORES]:
        share = f"at most {100 * roofline.share:.0f} % of the tensor cores' peak"
        made.append(("roofline", f"{share}, at {roofline.trips} iterations a work item"))
    return made


def as_data(found: Explanation) -> dict[str, object]:
    """The explanation as data."""
    roofline = found.roofline
    return {
        "why": found.why,
        "cycles": dict(roofline.cycles),
        "least_cycles": found.least_cycles,
        "bound_by": max(found.least_cycles, key=lambda cause: found.least_cycles[cause]),
        "refused_cycles": dict(found.refused),
        "peak_share": round(roofline.share, 4),
        "trips": roofline.trips,
    }
