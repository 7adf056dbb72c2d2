"""Rings found in a recording: names that come round in a fixed order become one array.

A cycle is the shortest period of a sequence of names. Barriers (or regions of memory) of one cycle
are the stages of one array, in the order of the cycle that is found first; another cycle of the
same names may begin elsewhere. A name that is in two cycles of different names, or in two orders,
has no index that both can use: the sequences are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from titan.foundation.errors import Refusal
from titan.sync.expression import Constant, Expression, Name, binary


class NotFoldedError(Refusal):
    """The recording has no loop of the form that is looked for; the message says where."""


@dataclass(slots=True)
class Rings:
    """Arrays by the name of their first element; `places` gives each name its array and stage."""

    arrays: dict[str, tuple[str, ...]] = field(default_factory=dict)
    places: dict[str, tuple[str, int]] = field(default_factory=dict)

    def add(self, cycle: tuple[str, ...]) -> None:
        """A cycle of names. Raises NotFoldedError where it contradicts an earlier one."""
        if len(cycle) < 2:
            return
        known = {self.places[name][0] for name in cycle if name in self.places}
        if not known:
            if len(set(cycle)) != len(cycle):
                raise NotFoldedError(f"{cycle[0]} comes twice in one round")
            self.arrays[cycle[0]] = cycle
            self.places |= {name: (cycle[0], stage) for stage, name in enumerate(cycle)}
            return
        array = self.arrays[next(iter(known))]
        start = self.places[cycle[0]][1] if cycle[0] in self.places else 0
        turned = array[start:] + array[:start]
        if len(known) > 1 or turned != cycle:
            raise NotFoldedError(f"{cycle[0]} belongs to two rounds of different order")

    def place(self, name: str) -> tuple[str, int]:
        """The array of a name and its stage; the name itself where it is in no ring."""
        return self.places.get(name, (name, 0))

    def stages(self, array: str) -> int:
        """How many elements an array has."""
        return len(self.arrays.get(array, (array,)))


def cycle_of(names: Sequence[str]) -> tuple[str, ...]:
    """The shortest cycle of a sequence that it goes through twice, or NotFoldedError."""
    for period in range(1, len(names) // 2 + 1):
        if all(names[at] == names[at - period] for at in range(period, len(names))):
            return tuple(names[:period])
    raise NotFoldedError(f"{names[0]} and what follows it come round less than twice")


def stage_index(offset: int, stages: int, variable: str) -> Expression:
    """`(variable + offset) % stages`."""
    if stages == 1:
        return Constant(0)
    return binary("%", binary("+", Name(variable), Constant(offset % stages)), Constant(stages))


def affine_in(
    values: Sequence[tuple[int, int]], stages: Sequence[int], variable: str
) -> Expression:
    """`(variable + p) // d + c` or `variable + c` through all points (variable, value).

    `stages` are the divisors to try. Raises NotFoldedError where none fits.
    """
    first_at, first = values[0]
    if all(value == first for _, value in values):
        return Constant(first)
    for divisor in stages:
        for shift in range(divisor):
            constant = first - (first_at + shift) // divisor
            if all((at + shift) // divisor + constant == value for at, value in values):
                inner = binary("+", Name(variable), Constant(shift))
                whole = binary("//", inner, Constant(divisor))
                return binary("+", whole, Constant(constant))
    numbers = ", ".join(str(value) for _, value in values[:6])
    raise NotFoldedError(f"{numbers} ... do not follow {variable}")
