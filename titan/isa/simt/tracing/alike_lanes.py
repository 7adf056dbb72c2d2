"""Whether lanes of one store that write to the same bytes are shown to write the same.

Which lane's value stays is open (PTX leaves it so), so what they write has to be equal: known
values by their bytes, others by their numbers (`traced.py`). Where those differ, they may be equal
but for rounding (`real_values.py`), as each lane of a reduction adds in an order of its own; or, if
lanes compare and select, equal as far as has been tried (`sampled_values.py`). Lanes whose bytes
overlap without being the same are not shown to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from titan.isa.simt.accesses import place
from titan.isa.simt.machine import SimtMachine
from titan.isa.simt.operations import DecodedStep
from titan.isa.simt.outcome import Alike
from titan.isa.simt.state import Warp
from titan.isa.simt.tracing.real_values import RealValues
from titan.isa.simt.tracing.sampled_values import SampledValues
from titan.isa.simt.tracing.traced_memory import Traced, ValueNumbers
from titan.isa.simt.values import Scalar, Value, lane, lanes_of

ADDRESS_MASK = (1 << 64) - 1
Place = tuple[int, int]  # a memory and an offset
MATRIX_ROWS, ROW_LANES = 8, 4  # of a matrix of b16, in registers of two elements
Keys = tuple[int, ...]  # of the values of a lane: numbers, and known bits as ~bits


class AlikeLanes:
    """Compares values that have been numbered."""

    def __init__(self, numbers: ValueNumbers) -> None:
        self._real = RealValues(numbers)
        self._sampled = SampledValues(numbers)

    def compared(self, one: Keys | None, other: Keys | None) -> Alike:
        """How far two lanes' values are equal; those that are not traced are not."""
        if one is None or other is None:
            return Alike.NOT_SHOWN
        if one == other:
            return Alike.EXACTLY
        apart = any(map(self._real.differ, one, other))
        if not apart and [*map(self._real.of, one)] == [*map(self._real.of, other)]:
            return Alike.ROUNDED
        if [*map(self._sampled.of, one)] == [*map(self._sampled.of, other)]:
            return Alike.TRIED
        return Alike.NOT_SHOWN

    def stored(
        self, machine: SimtMachine, warp: Warp, step: DecodedStep, operands: Sequence[Value],
        lanes: int,
    ) -> Alike:  # fmt: skip
        """How far `lanes` of a store write the same where they write the same bytes."""
        space, offset, _, _, bits, _ = step.flags
        if len(operands) != len(step.args):
            return Alike.NOT_SHOWN
        found = Alike.EXACTLY
        kept: dict[Place, Keys] = {}
        for index in lanes_of(lanes):
            address = lane(operands[0], index)
            keys = tuple(_key(lane(value, index), bits) for value in operands[1:])
            if not isinstance(address, int) or 0 in keys:
                return Alike.NOT_SHOWN
            memory, cta, at = place(machine, warp, space, (address + offset) & ADDRESS_MASK)
            first = kept.setdefault((memory if cta is None else ~cta.number, at), keys)
            found = min(found, self.compared(first, keys))
            if found is Alike.NOT_SHOWN:
                return found
        return found if apart(kept, bits // 8 * (len(operands) - 1)) else Alike.NOT_SHOWN


def apart(places: Iterable[Place], count: int) -> bool:
    """Whether no two places of `count` bytes overlap."""
    return all(
        one[0] != other[0] or other[1] - one[1] >= count for one, other in pairwise(sorted(places))
    )


def keys_of(values: Iterable[Scalar]) -> tuple[int, ...] | None:
    """The numbers of values, and what is known as negative ones; None where one is not traced."""
    found = []
    for value in values:
        if isinstance(value, Traced):
            found.append(value.number)
        elif isinstance(value, int):
            found.append(~value)
        else:
            return None
    return tuple(found)


def parts_of(numbers: ValueNumbers, values: Iterable[Scalar]) -> tuple[int, ...]:
    """The same of operands; one that is not traced, as a register that nothing has written, has a
    number that no other value has.
    """
    found = []
    for value in values:
        if isinstance(value, Traced):
            found.append(value.number)
        else:
            found.append(~value if isinstance(value, int) else numbers.fresh())
    return tuple(found)


def row_keys(values: list[Value], index: int) -> tuple[int, ...] | None:
    """The numbers of a row of b16 matrices: four lanes hold it, a register each matrix."""
    matrix, row = divmod(index, MATRIX_ROWS)
    return keys_of(lane(values[matrix], row * ROW_LANES + at) for at in range(ROW_LANES))


def _key(value: Scalar, bits: int) -> int:
    """The number of a value, or its bits as a negative one; 0 where it is not traced."""
    if isinstance(value, Traced):
        return value.number
    return ~(value & ((1 << bits) - 1)) if isinstance(value, int) else 0
