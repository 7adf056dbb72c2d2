"""Which accesses of a warp its lanes have fenced.

A warp is one agent, whose fence covers all that the warp has accessed; a proxy fence of some lanes
fences their accesses alone. So a fence counts for the spaces in which each lane that has accessed
memory since its own last fence has executed one: with the last of these lanes, if they fence one
after the other, and for shared and global memory apart, as a fence may name one of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from titan.isa.simt.footprints import MemorySpace
from titan.sync.program import Space

SPACES = (Space.SHARED, Space.GLOBAL)
_OF_MEMORY = {MemorySpace.SHARED: (Space.SHARED,), MemorySpace.GLOBAL: (Space.GLOBAL,)}


class LaneFences:
    """The lanes of one warp with accesses that they have not fenced, by space."""

    def __init__(self) -> None:
        self._open = dict.fromkeys(SPACES, 0)

    def access(self, lanes: int, memory: MemorySpace) -> None:
        """The lanes have accessed bytes of a memory; one that is not known counts as each."""
        for space in _OF_MEMORY.get(memory, SPACES):
            self._open[space] |= lanes

    def fence(self, lanes: int, spaces: Iterable[Space]) -> tuple[Space, ...]:
        """The lanes fence some spaces: those in which no lane has anything open any more."""
        over = []
        for space in spaces:
            self._open[space] &= ~lanes
            if not self._open[space]:
                over.append(space)
        return tuple(over)
