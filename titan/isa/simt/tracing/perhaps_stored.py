"""What a store writes that lanes may not do: a flag that is set in the arm of a branch on data.

Memory is unknown behind it, but whoever stores writes this, so that two such stores of the same, or
one and a store that is certain, do not race. In a loop that is executed once, values that are not
known may be others in another round, and so nothing is known of them.
"""

from __future__ import annotations

from titan.isa.simt.events import AccessEvent
from titan.isa.simt.machine import SimtMachine
from titan.isa.simt.operations import DecodedStep, Op
from titan.isa.simt.state import Warp
from titan.isa.simt.tracing.traced_memory import PLACE_BITS, Traced
from titan.isa.simt.values import Scalar, lane, lanes_of


def perhaps_stored(
    machine: SimtMachine, warp: Warp, step: DecodedStep, event: AccessEvent
) -> tuple[int, ...]:
    """What the bytes are behind the store of an event, as `TracedBytes.content` has it, if the
    lanes write one value to one place; nothing where that is not known."""
    count, registers = step.flags[4] // 8, step.args[1:]
    size_bytes = sum(high - low for low, high in event.footprint.ranges())
    if step.op is not Op.STORE or count * len(registers) != size_bytes:
        return ()
    lanes, found = lanes_of(event.lanes), list[int]()
    for register in registers:
        held = {_bytes_of(lane(warp.registers[register], index), count) for index in lanes}
        first = held.pop()
        if held or not first or (machine.looping and min(first) >= 0):
            return ()
        found += first
    return tuple(found)


def _bytes_of(value: Scalar, count: int) -> tuple[int, ...]:
    """Marks, or known bytes as negative numbers."""
    if isinstance(value, int):
        return tuple(-1 - byte for byte in (value & (1 << 8 * count) - 1).to_bytes(count, "little"))
    if isinstance(value, Traced):
        return tuple(value.number << PLACE_BITS | at for at in range(count))
    return ()
