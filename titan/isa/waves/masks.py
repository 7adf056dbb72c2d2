"""Masks of lanes that data choose: a mask of 64 bits for each choice of the symbols.

Bit k of a place in the tuple is that of symbol k; a shorter tuple does not depend on the others. A
symbol is chosen for each lane apart.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

Mask = tuple[int, ...]
_EVERY = (1 << 64) - 1


def combined(function: Callable[[int, int], int], left: Mask, right: Mask) -> Mask:
    """A function of two masks, for each choice of the symbols."""
    count = max(len(left), len(right))
    return tuple(
        function(left[at % len(left)], right[at % len(right)]) & _EVERY for at in range(count)
    )


def joined(function: Callable[[int, int], int], mask: Mask) -> int:
    """The masks of all choices as one: `or` gives the lanes that may be there, `and` those that
    are there whatever data choose."""
    return reduce(function, mask)
