"""Which shape comes first: cycles of an iteration as the model of the machine predicts them.

A shape takes at least what its busiest resource takes, issue slots among them as the model of
machine code predicts its instructions (`instructions.py`), the latency of a load over the stages
that are in flight, and what its order of operations leaves one behind the other: the interval of
the schedule; the longest chain of an iteration, without its last product where that runs one
iteration late. Shapes are tried by the largest of these; what is within `NEAR` of each other keeps
the order of the list (`candidates.py`). Two rules come before the model, which knows neither what
stands in a turn nor registers: FlashAttention-3's order, where groups take turns at attention, and
bulk copies where no tensor map exists, which say why not. Rates are those of
`backends/<target>/rates.yaml`; nothing has been measured on a device.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import takewhile

from titan.codegen.pipeline.cdna_ranking import IN_FLIGHT, least_of_waves
from titan.codegen.pipeline.instructions import predicted
from titan.codegen.pipeline.model import RankedShape, Shape
from titan.codegen.tile.alignment import unaligned
from titan.codegen.tile.loops import origins
from titan.codegen.tile.model import TileProgram
from titan.codegen.tile.rates import rates
from titan.codegen.tile.roofline import iteration_cycles, value_bytes
from titan.scheduling.loop.bounds import longest_paths
from titan.scheduling.loop.model import Loop
from titan.scheduling.run import ScheduleRun
from titan.target.description import target_of

NEAR = 1.05  # of the best, and less: the model is no finer
MANY = 1.25  # of the fewest instructions
CHAIN = "dependences of one iteration"
INTERVAL, TURN = "interval of the schedule", "dependences but for the last product"


def ranked(
    tile: TileProgram, loop: Loop, result: ScheduleRun, listed: Iterable[Shape]
) -> tuple[RankedShape, ...]:
    """The shapes in the order in which they are tried."""
    left = [RankedShape(shape, least_cycles(tile, loop, result, shape)) for shape in listed]
    rules = list(takewhile(lambda one: _by_rule(tile, one.shape), left))
    left = left[len(rules) :]
    found = [replace(one, by_rule=True) for one in rules]
    issued = {one.shape: predicted(tile, one.shape) or 0.0 for one in left}
    while left:
        best = min(one.cycles for one in left)
        near = [one for one in left if one.cycles < NEAR * best or one.cycles == best]
        fewest = min(issued[one.shape] for one in near)
        taken = next(one for one in near if issued[one.shape] <= MANY * fewest)
        left.remove(taken)
        found.append(taken)
    return tuple(found)


def _by_rule(tile: TileProgram, shape: Shape) -> bool:
    """What begins the list for reasons that the model does not know."""
    copies = bool(unaligned(tile)) or tile.tail == "threads"
    in_turns = shape.behind and shape.ping_pong
    return in_turns or (copies and not shape.guarded and not shape.tail)


def least_cycles(
    tile: TileProgram,
    loop: Loop,
    result: ScheduleRun,
    shape: Shape,
    instructions: float | None = None,
) -> dict[str, float]:
    """What an iteration takes at least in a shape, by cause; `instructions` where they are counted,
    else as they are predicted."""
    tile = shape.of(tile)
    issued = predicted(tile, shape) if instructions is None else instructions
    resources = iteration_cycles(tile, issued)
    busiest = max(resources.values())
    found = {next(name for name, cycles in resources.items() if cycles == busiest): busiest}
    latency, ahead = load_latency(tile), shape.depth - (not shape.specialised)
    if target_of(tile.target).amd:  # what else overlaps within a wave is the same in all shapes
        waves = least_of_waves(tile, shape, latency, chain_cycles(loop), busiest)
        return {**found, **waves}
    if not ahead:
        found[IN_FLIGHT] = latency + chain_cycles(loop)  # one after the other
    else:
        found[IN_FLIGHT] = latency / ahead
    if shape.behind:
        found[TURN] = float(turn_cycles(tile, loop))
    elif not shape.overlapped:
        found[CHAIN] = float(chain_cycles(loop))
    elif result.schedule is not None:
        found[INTERVAL] = float(result.schedule.ii)
    return found


def load_latency(tile: TileProgram) -> int:
    """Cycles from the issue of the largest load of the loop until its stage may be read."""
    transfer = rates(tile.target).transfer
    loads = [item.name for item in tile.body if item.kind == "load"]
    amount = max((value_bytes(tile, name) for name in loads), default=0)
    return transfer.latency_cycles + transfer.cycles(amount) if loads else 0


def chain_cycles(loop: Loop, without: frozenset[int] = frozenset()) -> int:
    """The longest chain of dependences within one iteration, behind the loads; `without` some
    operations, which take no part in it."""
    apart = {place for place, item in enumerate(loop.operations) if item.streaming} | without
    kept = tuple(item for item in loop.dependences if not {item.source, item.sink} & apart)
    issued = longest_paths(replace(loop, dependences=kept))
    return max(
        (
            cycle + max(operation.cycles, operation.latency_cycles)
            for place, (cycle, operation) in enumerate(zip(issued, loop.operations, strict=True))
            if place not in apart
        ),
        default=0,
    )


def turn_cycles(tile: TileProgram, loop: Loop) -> int:
    """One group with its last product an iteration late: the chain of an iteration without that
    product, which runs beside it on the tensor cores; or their time for all products of the group,
    if that is longer."""
    products = [item.name for item in tile.body if item.kind == "mma"]
    of = origins(tile, loop.machine)
    late = frozenset(
        place
        for place, item in enumerate(loop.operations)
        if of[item.name].operation == products[-1]
    )
    unit = rates(tile.target).matrix.unit
    together: dict[int | None, int] = {}
    for item in loop.operations:
        origin = of[item.name]
        if origin.operation in products:
            used = sum(use.cycles for use in item.uses if use.unit == unit)
            together[origin.group] = together.get(origin.group, 0) + used
    return max(chain_cycles(loop, late), *together.values())
