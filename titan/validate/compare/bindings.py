"""Which address is which barrier, and where the regions of buffers lie: found while comparing.

The emitter may put things where it likes, but every address must represent one thing everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from titan.isa.simt.footprints import merged
from titan.sync.program import SyncProgram
from titan.validate.compare.expected import BufferRegion, Place

Range = tuple[int, int]  # first byte, and the one after the last
Touch = tuple[tuple[Range, ...], int, tuple[BufferRegion, ...], int]  # of a CTA, at a line


@dataclass(slots=True)
class Bindings:
    """One for all threads of a CTA, and for all launches: addresses do not depend on the launch."""

    program: SyncProgram
    barriers: dict[int, Place] = field(default_factory=dict)
    addresses: dict[Place, int] = field(default_factory=dict)
    ids: dict[int, Place] = field(default_factory=dict)
    named: dict[Place, int] = field(default_factory=dict)
    extents: dict[BufferRegion, frozenset[Range]] = field(default_factory=dict)
    accesses: set[tuple[Range, tuple[BufferRegion, ...], int]] = field(default_factory=set)
    touched: set[Touch] = field(default_factory=set)

    def barrier(self, address: int, place: Place) -> bool:
        """Whether the address represents this barrier; its first use binds it."""
        return _bind(self.barriers, self.addresses, address, place)

    def name(self, number: int, place: Place) -> bool:
        """Whether the number represents this named barrier; its first use binds it."""
        return _bind(self.ids, self.named, number, place)

    def extent(self, region: BufferRegion, ranges: frozenset[Range]) -> bool:
        """Whether a transfer of the whole region touches the same bytes as every other one."""
        return self.extents.setdefault(region, ranges) == ranges

    def access(self, span: Range, regions: tuple[BufferRegion, ...], line: int) -> None:
        """Bytes that must lie within the regions; checked in the end."""
        self.accesses.add((span, regions, line))

    def fresh(self, touch: Touch) -> bool:
        """Whether these bytes were not yet given to `access` for the same regions and line."""
        before = len(self.touched)
        self.touched.add(touch)
        return len(self.touched) > before

    def faults(self) -> list[str]:
        """Distinct regions that overlap, and accesses outside of theirs."""
        return [*self._overlaps(), *self._outside()]

    def _overlaps(self) -> list[str]:
        """Every CTA of a cluster has a shared memory of its own."""
        ctas = {buffer.name: buffer.cta for buffer in self.program.buffers}
        spans: dict[int, list[tuple[int, int, BufferRegion]]] = {}
        for region, ranges in self.extents.items():
            mine = spans.setdefault(ctas.get(region[0], 0), [])
            mine += ((first, end, region) for first, end in ranges)
        found = []
        for mine in spans.values():
            for (_, end, region), (first, _, other) in pairwise(sorted(mine)):
                if first < end and not self._may_overlap(region, other):
                    found.append(f"{_text(region)} and {_text(other)} overlap in shared memory")
        return found

    def _may_overlap(self, one: BufferRegion, other: BufferRegion) -> bool:
        if one[:2] == other[:2] and (one[2] is None or other[2] is None or one == other):
            return True
        storages = {item.name: item.storage or item.name for item in self.program.buffers}
        return one[0] != other[0] and storages.get(one[0]) == storages.get(other[0])

    def _outside(self) -> list[str]:
        found = []
        known: dict[object, tuple[Range, ...]] = {}  # accesses are many, what they name is little
        for (low, high), regions, line in sorted(self.accesses, key=lambda item: item[::2]):
            if regions not in known:
                spans = (span for region in regions for span in self._ranges(region))
                known[regions] = merged(spans)
            ranges = known[regions]
            if ranges and not any(first <= low and high <= end for first, end in ranges):
                names = " or ".join(_text(region) for region in regions)
                found.append(f"line {line}: address {low} is not in {names}")
        return found

    def _ranges(self, region: BufferRegion) -> list[Range]:
        """What is known of a region's place: its own, that of its parts, or that of the whole."""
        name, stage, part = region
        return [
            span
            for (other, at, number), ranges in self.extents.items()
            if other == name and at == stage and (None in (part, number) or part == number)
            for span in ranges
        ]


def _bind(forward: dict[int, Place], backward: dict[Place, int], key: int, place: Place) -> bool:
    if key not in forward and place not in backward:
        forward[key], backward[place] = place, key
    return forward.get(key) == place and backward.get(place) == key


def _text(region: BufferRegion) -> str:
    name, stage, part = region
    return f"{name}[{stage}]" if part is None else f"{name}[{stage}, {part}]"
