"""Other trip counts: launches made from one by changing the integer that drives its loops.

Which parameter that is, is measured and not guessed: a parameter drives a loop if the first CTA
runs more instructions when its value is doubled. How much of it makes one more trip is measured
downwards from the value given: the smallest power of two that takes instructions away. Extents of
tensor maps that are equal to the parameter change with it. The depth of the pipeline is taken from
the run: barriers that copies complete, or groups that may be left in flight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from titan.frontends.machine import Runner
from titan.isa.ptx.module import Function, Variable
from titan.isa.simt import events as ev
from titan.isa.simt.launch import Launch, LaunchParameter, LaunchTensorMap
from titan.isa.simt.outcome import Ending, Run

VALUE_MAX = 1 << 20
DEPTH_MAX = 16
DRIVERS_MAX = 3
_INTEGERS = ("u32", "s32", "b32", "u64", "s64", "b64")


def sweep(
    runner: Runner, function: Function, launch: Launch
) -> tuple[list[tuple[str, Launch]], list[str]]:
    """The launches of a sweep with what is changed in each, and notes on what drives the loops."""

    def run(one: Launch) -> Run | None:
        return runner.run(one, 0)[0]

    base = run(launch)
    if base is None or base.outcome.ending is not Ending.FINISHED:
        return [("as given", launch)], ["the launch does not run to its end; nothing is swept"]
    drivers = []
    for number, variable in enumerate(function.parameters):
        value = _integer(launch, number, variable)
        if value is not None and _cost(run(changed(launch, number, 2 * value))) > _cost(base):
            drivers.append((number, value))
    if not drivers:
        return [("as given", launch)], ["no integer parameter drives a loop; nothing is swept"]
    depth = _depth(base)
    launches, notes = [("as given", launch)], []
    for number, value in drivers[:DRIVERS_MAX]:
        unit = _unit(launch, number, value, _cost(base), run)
        if unit is None:
            notes.append(f"what parameter {number} counts in was not found; it is not swept")
            continue
        notes.append(f"parameter {number} drives a loop, {unit} a trip; depth taken as {depth}")
        for trips in _trip_counts(depth, value // unit):
            if trips * unit != value:
                label = f"parameter {number} = {trips * unit} ({trips} trips)"
                launches.append((label, changed(launch, number, trips * unit)))
    return launches, notes


def _trip_counts(depth: int, given: int) -> list[int]:
    """0, 1, around the depth, twice through and one more, and a long one."""
    longest = max(4 * depth + 3, given)
    return sorted({0, 1, depth - 1, depth, depth + 1, 2 * depth + 1, longest})


def changed(launch: Launch, number: int, value: int) -> Launch:
    """The launch with another value of an integer parameter, and of the extents equal to it."""
    parameters = list(launch.parameters)
    size = len(parameters[number].data)
    old = int.from_bytes(parameters[number].data, "little")
    parameters[number] = LaunchParameter(value.to_bytes(size, "little"))
    maps = {key: _resized(item, old, value) for key, item in launch.tensor_maps.items()}
    return replace(launch, parameters=tuple(parameters), tensor_maps=maps)


def _resized(item: LaunchTensorMap, old: int, value: int) -> LaunchTensorMap:
    extents = tuple(max(1, value) if extent == old else extent for extent in item.dimensions)
    return replace(item, dimensions=extents)


def _integer(launch: Launch, number: int, variable: Variable) -> int | None:
    """The value of a parameter that may count something."""
    if number >= len(launch.parameters) or variable.type not in _INTEGERS:
        return None
    parameter = launch.parameters[number]
    if parameter.known is not None or len(parameter.data) not in (4, 8):
        return None
    value = int.from_bytes(parameter.data, "little")
    return value if 1 < value <= VALUE_MAX else None


def _cost(run: Run | None) -> int:
    """Warp instructions of a run that came to its end; 0 for others."""
    if run is None or run.outcome.ending is not Ending.FINISHED:
        return 0
    return run.instructions


def _unit(
    launch: Launch, number: int, value: int, cost: int, run: Callable[[Launch], Run | None]
) -> int | None:
    """How much of the parameter makes one trip."""
    unit = 1
    while unit <= value:
        less = _cost(run(changed(launch, number, value - unit)))
        if 0 < less < cost:
            return unit
        unit *= 2
    return None


def _depth(run: Run) -> int:
    """Stages of the deepest ring that the run shows."""
    completed = {
        completion.barrier
        for event in run.events
        if isinstance(event, ev.AsynchronousEvent)
        for completion in event.completes
    }
    pending = max(
        (event.pending + 1 for event in run.events if isinstance(event, ev.QueueWaitEvent)),
        default=1,
    )
    return max(1, min(DEPTH_MAX, max(len(completed), pending)))
