"""`titan build --explain`: why a shape was taken, and what bounds the kernel.

Shapes are tried by the cycles that a model predicts for an iteration
(`titan/codegen/pipeline/ranking.py`); the first that is verified and that the target can write is
taken. The model counts the busiest resource (`titan/codegen/tile/roofline.py`), the latency of a
load spread over the stages, and what the order of operations leaves one behind the other. Issue
slots are predicted for each shape by a model that was fitted to machine code
(`titan/codegen/pipeline/instructions.py`), and counted for the one that was taken. Not
measurements.
"""

from __future__ import annotations

from dataclasses import dataclass

from titan.codegen.pipeline.instructions import predicted
from titan.codegen.pipeline.model import Built, RankedShape, Shape
from titan.codegen.pipeline.ranking import least_cycles
from titan.codegen.tile.rates import rate_sources, rates
from titan.codegen.tile.roofline import (
    PROCESSORS,
    TENSOR_CORES,
    Roofline,
    iteration_cycles,
)
from titan.package.produce import Produced
from titan.sync.expression import Constant

RANKED_SHOWN = 4  # shapes beside the one that was taken


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a shape was taken, in words; `roofline` at so many iterations a work item.

    `least_cycles`: by cause, what an iteration of the shape that was taken takes at least;
    `refused`: the shapes before it, with the cycles that they would have taken at least. `ranking`:
    all shapes as they were ranked; `sources`: of the rates, by section of their file; `predicted`
    and `counted`: instructions of an iteration for a warp.
    """

    why: str
    roofline: Roofline
    least_cycles: dict[str, float]
    refused: tuple[tuple[str, float], ...]
    ranking: tuple[RankedShape, ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    taken: Shape | None = None
    predicted: float | None = None
    counted: int | None = None


def explain(produced: Produced, trips: int) -> Explanation:
    """The explanation of a package, for work items of `trips` iterations if the program does not
    fix them."""
    built = produced.built
    tile = built.shape.of(built.tile)
    fixed = tile.trip_count
    trips = fixed.value if isinstance(fixed, Constant) else trips
    by_warps = rates(tile.target).matrix.result == "registers"
    counted = produced.instructions if by_warps else None
    issued = predicted(tile, built.shape)
    cycles = iteration_cycles(tile, issued if counted is None else counted)
    roofline = Roofline(
        cycles,
        trips,
        processors=PROCESSORS[tile.target],
        persistent=tile.persistent,
        cluster=tile.cluster,
    )
    before = [step.shape for step in built.steps if not step.taken]

    def least(shape: Shape, instructions: int | None = None) -> dict[str, float]:
        return least_cycles(tile, built.result.loop, built.result, shape, instructions)

    return Explanation(
        _why(built, len(before)),
        roofline,
        least(built.shape, counted),
        tuple((shape.name, max(least(shape).values())) for shape in before),
        built.ranking,
        rate_sources(tile.target),
        built.shape,
        issued,
        counted,
    )


def _why(built: Built, refused: int) -> str:
    shape = built.shape
    place = "the first shape by predicted cycles"
    if any(one.by_rule and one.shape == shape for one in built.ranking):
        place = "the first shape by rule: the order of FlashAttention-3 where groups take turns"
    elif refused:
        place = f"the first shape that can be verified and written, behind {refused} refused"
    stages = f"{shape.depth} stage{'s' if shape.depth > 1 else ''}"
    ways = [
        (shape.overlapped, "operations of neighbouring iterations in the order of the schedule"),
        (shape.behind, "the last product one iteration late, so that it runs beside the others"),
        (not shape.overlapped and not shape.behind, "one iteration at a time"),
        (shape.ping_pong, "groups take turns at the tensor cores"),
        (shape.alternating, "a tile a warpgroup, whose end the products of the other overlap"),
        (shape.pair, "pairs of CTAs multiply together"),
        (shape.persistent, "CTAs stay for several work items"),
        (shape.sliced, "stores in slices of their columns, through a ring of staging buffers"),
        (shape.overlaid, "stores in the place of tiles that the loop has read"),
        (shape.staged, "tiles pass through registers, whose loads are two tiles ahead"),
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
    words = [] if found.predicted is None else [f"{found.predicted:.0f} predicted"]
    words += [] if found.counted is None else [f"{found.counted} counted in the machine code"]
    instructions = [("issues", f"{', '.join(words)}, a warp an iteration")] if words else []
    made = [("why", found.why), ("cycles", f"an iteration, by resource: {each or 'none'}")]
    made += instructions
    made.append(("bound by", f"{cause}: {least:.0f} cycles an iteration at least"))
    made += [
        ("before it", f"{name}: {cycles:.0f} cycles at least") for name, cycles in found.refused
    ]
    made += ranking_rows(found)
    if roofline.cycles[TENSOR_CORES]:
        share = f"at most {100 * roofline.share:.0f} % of the tensor cores' peak"
        made.append(("roofline", f"{share}, at {roofline.trips} iterations a work item"))
    return made


def ranking_rows(found: Explanation) -> list[tuple[str, str]]:
    """What the other shapes would take by the model, the best first, and whose rates those are."""
    own = next((one for one in found.ranking if one.shape == found.taken), None)
    if own is None:
        return []
    peak = found.roofline.cycles[TENSOR_CORES]
    made = []
    for one in (own, *[one for one in found.ranking if one is not own][:RANKED_SHOWN]):
        words = f"{one.shape.name}: {one.cycles:.0f} cycles by the model, {one.cause}"
        if peak:
            words += f", {100 * peak / one.cycles:.0f} % of the tensor cores' peak"
        if one is not own:
            words += f" ({100 * (one.cycles / own.cycles - 1):+.0f} %)"
        made.append(("ranked", words))
    made += [("rates", f"{section}: {source}") for section, source in found.sources]
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
        "instructions": {"predicted": found.predicted, "counted": found.counted},
        "ranking": [
            {
                "shape": one.shape.name,
                "cycles": one.cycles,
                "bound_by": one.cause,
                "by_rule": one.by_rule,
                "taken": one.shape == found.taken,
            }
            for one in found.ranking
        ],
        "sources": dict(found.sources),
    }
