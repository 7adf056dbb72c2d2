"""Prefetches and hints that name memory: prefetch, cp.async.bulk.prefetch, applypriority."""

from __future__ import annotations

from titan.isa.simt import events as ev
from titan.isa.simt.accesses import fault, place
from titan.isa.simt.footprints import NO_CTA, MemorySpace
from titan.isa.simt.machine import SimtMachine
from titan.isa.simt.operations import DecodedStep
from titan.isa.simt.state import Fragment
from titan.isa.simt.values import Value, lane, lanes_of, uniform


def _different(value: Value, mask: int) -> list[tuple[int, int]]:
    """The known numbers of lanes, each with the lanes that have it."""
    found: dict[int, int] = {}
    for index in lanes_of(mask):
        item = lane(value, index)
        if isinstance(item, int):
            found[item] = found.get(item, 0) | 1 << index
    return [(lanes, number) for number, lanes in found.items()]


def prefetch(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Execute prefetch: its bytes are recorded only at a known uniform global address. Some have to
    be aligned, and their number of bytes with them."""
    space, offset, alignment = step.flags[:3]
    value = fragment.warp.registers[step.args[0]]
    footprint = None
    for register, first in zip(step.args, (offset, 0), strict=False) if alignment else ():
        for lanes, number in _different(fragment.warp.registers[register], mask):
            where = place(machine, fragment.warp, space, (number + first) & 0xFFFFFFFFFFFFFFFF)
            if where[2] % alignment:
                fault(machine, fragment, lanes, ev.MemoryFaultKind.MISALIGNED, where, alignment)
    common = uniform(value, mask)
    if isinstance(common, int):
        where = place(machine, fragment.warp, space, common + offset)
        if where[0] == MemorySpace.GLOBAL:
            size = 128 if step.flags[-1] else 1
            footprint = machine.footprint(
                MemorySpace.GLOBAL, NO_CTA, ((where[2], where[2] + size),)
            )
    machine.record(ev.Prefetch, fragment, mask, footprint)
    return False
