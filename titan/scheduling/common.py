"""The same loop without warp specialisation: one group of warps does everything.

This is an unspecialised kernel of the same tile: the warps of the wide groups together, registers
divided evenly (in steps of 8 a thread, as the hardware allocates them), no group for variable
latency, no transfers. An operation that waits then delays all the others. The comparison with the
loop as it is shows what specialisation is worth.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from titan.scheduling.loop.model import Loop
from titan.target.model import WarpGroup

if TYPE_CHECKING:
    from titan.scheduling.run import ScheduleRun

REGISTER_STEP = 8


def common_group(loop: Loop) -> Loop:
    """`loop` on one group; itself where it has no groups."""
    if not loop.groups:
        return loop
    machine = loop.machine
    widest = max(group.warps for group in loop.groups)
    warps = sum(group.warps for group in loop.groups if group.warps == widest)
    registers = None
    if any(group.registers_per_thread is not None for group in loop.groups):
        even = machine.registers_total // (warps * machine.threads_per_warp)
        even -= even % REGISTER_STEP
        registers = min(even, machine.registers_per_thread_max)
    operations = tuple(replace(op, variable_latency=False) for op in loop.operations)
    return replace(loop, operations=operations, groups=(WarpGroup("all", warps, registers),))


def faster(special: ScheduleRun, common: ScheduleRun, tiles: int) -> ScheduleRun:
    """The run with fewer cycles for `tiles` iterations; if equal, that with warp groups."""
    cycles = [
        (tiles - 1) * r.schedule.ii + r.schedule.length(r.loop) if r.schedule else None
        for r in (special, common)
    ]
    first, second = cycles
    better = second is not None and (first is None or second < first)
    found_cycles = " and ".join("none" if c is None else str(c) for c in cycles)
    text = f"cycles for {tiles} tiles with warp groups and with one group: {found_cycles}; "
    note = text + ("one group is used" if better else "warp groups are used")
    chosen = common if better else special
    return replace(chosen, notes=(*chosen.notes, note))
