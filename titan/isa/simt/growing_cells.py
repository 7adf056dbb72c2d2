"""What memory depends on in a run that represents many: parameters, the grid, and known cells.

A cell in local memory has what was stored there. Of one in shared or global memory that depends on
the round, the run itself alone is known, and so it is of one that an atomic changes in rounds that
are put in, since each further round changes it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.growth import FIXED, Growth, centred, unknown
from titan.isa.simt.launch import Dimensions
from titan.isa.simt.passages import TripGrid, TripWord

Owner = tuple[int, int]  # the CTA and the lane of a memory, or -1
OwnedMemory = tuple[int, Owner]  # by its space


def grid_slopes(grid: TripGrid | None, cluster: Dimensions) -> dict[str, int]:
    """How far special registers go for each k, of those that do."""
    if grid is None:
        return {}
    size = cluster[grid.axis]
    slopes = {
        "ctaid": grid.place,
        "nctaid": grid.extent,
        "clusterid": grid.place // size,
        "nclusterid": grid.extent // size,
    }
    return {f"{stem}.{'xyz'[grid.axis]}": slope for stem, slope in slopes.items() if slope}


def parameter_growth(words: Sequence[TripWord], at: int, size: int, pc: int) -> Growth:
    """What bytes of the parameters depend on."""
    slope = 0
    for word in words:
        low, high = word.offset, word.offset + word.size_bytes
        if at + size <= low or high <= at:
            continue
        if not (at <= low and high <= at + size) and at != low:
            return unknown(pc)  # another part than the low one of a wide integer
        slope += word.slope << 8 * (low - at)
    return Growth(0, centred(slope, 8 * size))


@dataclass(slots=True)
class GrowingCells:
    """`cells` by memory and place, with their sizes; `moved`: places that depend on the trips, and
    `seen`: those of which rounds have read something known."""

    cells: dict[OwnedMemory, dict[int, tuple[int, Growth]]] = field(default_factory=dict)
    moved: dict[OwnedMemory, list[tuple[int, int]]] = field(default_factory=dict)
    seen: dict[OwnedMemory, set[tuple[int, int]]] = field(default_factory=dict)

    def load(self, memory: OwnedMemory, at: int, size: int, pc: int) -> Growth:
        """What a cell depends on."""
        for low, (count, growth) in self.cells.get(memory, {}).items():
            if low < at + size and at < low + count:
                return growth if (low, count) == (at, size) else unknown(pc)
        return FIXED

    def store(self, pc: int, memory: OwnedMemory, at: int, size: int, growth: Growth) -> None:
        """Something is stored in a cell."""
        cells = self.cells.setdefault(memory, {})
        for low in [n for n, (count, _) in cells.items() if n < at + size and at < n + count]:
            del cells[low]
        if growth == FIXED:
            return
        if growth.a and memory[0] != MemorySpace.LOCAL:
            growth = unknown(pc)
        cells[at] = size, growth
        if memory[0] != MemorySpace.LOCAL:
            self.moved.setdefault(memory, []).append((at, size))

    def change(
        self, pc: int, memory: OwnedMemory, at: int, size: int, operands: Sequence[Growth],
        again: bool,
    ) -> Growth:  # fmt: skip
        """An atomic changes a cell, and perhaps `again` with more trips; what it finds there."""
        found = self.load(memory, at, size, pc)
        if again:
            found = unknown(pc)
        same = found == FIXED and all(item == FIXED for item in operands)
        self.store(pc, memory, at, size, FIXED if same else unknown(pc))
        return found

    def in_local(self, lane: Owner) -> dict[int, tuple[int, Growth]]:
        """The cells of a lane in its local memory."""
        return self.cells.get((MemorySpace.LOCAL, lane), {})

    def any_in_local(self, warp: int) -> bool:
        """Whether a warp has cells in local memory."""
        memories = ((space, owner[0]) for (space, owner), cells in self.cells.items() if cells)
        return (int(MemorySpace.LOCAL), warp) in memories

    def change_where_seen(self) -> bool:
        """Whether rounds have read something that depends on the trips."""
        return any(
            at < low + size and low < at + count
            for memory, places in self.seen.items()
            for low, size in self.moved.get(memory, ())
            for at, count in places
        )
