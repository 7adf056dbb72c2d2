"""How the lanes of a register grow with the trips: one growth for all of them, or one for each."""

from __future__ import annotations

from titan.isa.simt.growth import FIXED, Growth
from titan.isa.simt.values import lanes_of

Growths = Growth | list[Growth]  # of all lanes alike, or of each


def of_lane(growths: Growths | None, index: int) -> Growth:
    """That of one lane."""
    if growths is None:
        return FIXED
    return growths[index] if isinstance(growths, list) else growths


def distinct(growths: Growths, mask: int) -> set[Growth]:
    """Those of the lanes of a mask, each once."""
    return {growths[n] for n in lanes_of(mask)} if isinstance(growths, list) else {growths}


def fixed_as(item: Growth) -> Growth:
    """FIXED itself for what is equal to it."""
    return FIXED if item == FIXED else item


def compact(items: list[Growth], live: int) -> Growths:
    """One for all lanes that live, where they are alike."""
    first, *others = {items[index] for index in lanes_of(live)}
    return items if others else fixed_as(first)


def keep(table: dict[int, Growths], register: int, found: Growths) -> None:
    """Write it down; FIXED is not."""
    if found == FIXED:
        table.pop(register, None)
    else:
        table[register] = found
