"""Variables of a module that a run reads while they hold what the text gives them.

A launch begins with the initial values of the module (zeros where there are none) unless another
kernel, the host (cudaMemcpyToSymbol) or an earlier launch has written there. What is read so may
steer the run. The verdict says that it rests on them, and whether the launch itself changes them,
after which the next one begins with something else.
"""

from __future__ import annotations

from collections.abc import Iterator

from titan.isa.simt import events as ev
from titan.isa.simt.footprints import Footprint, MemorySpace
from titan.isa.simt.outcome import Run

HELD, CHANGED = "module-values", "module-changes"


def started_with(run: Run) -> dict[str, tuple[int, int]]:
    """By name of the assumption: how often, and at which instruction first."""
    variables = () if run.prepared is None else run.prepared.layout.module_globals
    if not variables:
        return {}
    read: list[tuple[int, int, int]] = []  # event, instruction, which variable
    for steering in run.confluence.steering:
        access = run.events[steering.sequence]
        if not isinstance(access, ev.AccessEvent) or access.footprint.space != MemorySpace.GLOBAL:
            continue
        start = access.footprint.bounds[0]
        read += [
            (steering.sequence, access.instruction, number)
            for number, (at, size, _) in enumerate(variables)
            if at <= start < at + size
        ]
    writes = list(_global_writes(run)) if read else []
    found: dict[str, tuple[int, int]] = {}
    for sequence, instruction, number in read:
        at, size, _ = variables[number]
        written = [n for n, low, high in writes if low < at + size and high > at]
        if any(n < sequence for n in written):
            continue  # what the run has made of it decides
        times, first = found.get(HELD, (0, instruction))
        found[HELD] = (times + 1, first)
        if written:
            found.setdefault(CHANGED, (1, run.events[written[0]].instruction))
    return found


def _global_writes(run: Run) -> Iterator[tuple[int, int, int]]:
    """Event, first byte and end of what is written to global memory."""
    for sequence, event in enumerate(run.events):
        for footprint in _written(event):
            if footprint.space == MemorySpace.GLOBAL:
                yield sequence, *footprint.bounds


def _written(event: ev.Event) -> list[Footprint]:
    if isinstance(event, ev.AccessEvent):
        return [event.footprint] if event.mode is not ev.Mode.READ else []
    if isinstance(event, ev.AsynchronousEvent):
        return [item.footprint for item in event.effects if item.mode is not ev.Mode.READ]
    return []
