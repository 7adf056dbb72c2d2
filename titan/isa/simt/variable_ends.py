"""Up to which further trip accesses stay in a variable of the module that they are in.

Tensors grow with the launches of more trips, and their ends are not known. A variable of the module
has the same end in every launch: of loads, stores, atomics, and copies by threads and by engines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.growth import Growth, centred, reach
from titan.isa.simt.operations import DecodedStep, Op
from titan.isa.simt.values import Opaque, Value, lane

_ONE_PLACE = frozenset({Op.LOAD_MATRIX, Op.STORE_MATRIX, Op.PREFETCH})


def global_places(
    step: DecodedStep, values: Sequence[Value], index: int
) -> Iterator[tuple[int, int, int]]:
    """The operand with an address that may be in global memory, what is added, and the bytes, of
    each access by one lane. `values` are of the operands that are there."""
    flags = step.flags
    match step.op:
        case Op.LOAD:
            yield 0, flags[1], flags[4] // 8 * len(step.out)
        case Op.STORE:
            yield 0, flags[1], flags[4] // 8 * (len(step.args) - 1)
        case Op.ATOMIC:
            yield 0, flags[1], flags[4] // 8
        case Op.COPY:
            given = lane(values[2], index) if len(values) > 2 else 1
            if given != 0:  # else zeros are written and nothing is read
                yield 1, flags[1], 1 if len(values) > 2 else flags[2]
        case Op.BULK_COPY:
            count = lane(values[2], index)
            for number in (0, 1):
                if flags[1 + number] == MemorySpace.GLOBAL:
                    yield number, flags[3 + number], 1 if isinstance(count, Opaque) else count
        case op if op in _ONE_PLACE:
            yield 0, flags[1], 1


def last_inside(
    address: int, count: int, growth: Growth, variables: Sequence[tuple[int, int, bytes]]
) -> int | None:
    """The last k for which `count` bytes stay in the variable that they begin in; None where they
    begin in none."""
    a, b = centred(growth.a, 64), centred(growth.b, 64)
    for start, size, _ in variables:
        if start <= address < start + size:
            return reach(address, a, b, start, start + size - max(count, 1))
    return None
