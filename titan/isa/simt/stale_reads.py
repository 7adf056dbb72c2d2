"""Which reads come round a ring to a stage that has not been filled again.

Code does not say which tile a read means, so this finds a pattern. A *place* is the bytes of one
read of shared memory. The places of an agent that are filled from one *source* (a tensor map, a
region of global memory, or one instruction that stores) belong together, and so do those that one
instruction reads. Of an instruction that reads several matrices, as `wgmma`, each operand counts
for itself: A may stay while B turns. A read finds its place new (written since the agent's last
read of it) or as it was. It is stale where

- the place is as it was, and no place of its group was last read longer ago: the agent has been to
  all the others since;
- it has found some of them new there, which it had read before: the ring turns;
- and it is an exception: more than two thirds of the tiles of the group are never read so, this one
  is read at least twice as often as any of those, and its place is not found so more often than
  new. Else it is a window that slides, an array that stays, or a tile that stays while others turn.

What is loaded ahead and used nowhere, as by the last trip of a loop that loads the next stage, is
left out, if it is given which loads are (`tracing/traced.py`).

Not found: rings of one stage, a source that is not read from at all after the first round, and what
is stale in a third of all rounds. An atomic operation, and a write at an address that is not known,
make new what they may touch.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from titan.isa.simt import events as ev
from titan.isa.simt.footprints import Footprint, MemorySpace
from titan.isa.simt.outcome import Run
from titan.isa.simt.unwritten_reads import touched
from titan.isa.simt.written import WrittenMemories

MINORITY = 3  # one of so many tiles may be stale
REGION_BITS = 36  # arrays of a launch that are given no address are so far apart


class StageAccess(NamedTuple):
    """An access to shared memory by an instruction of an agent, in the order of the run.

    `source`: of a write, where its bytes come from. `anywhere`: of a write, its address is not
    known. `unused`: of a read, nothing is made of it. `operand`: of a read by an instruction that
    reads several matrices, which of them.
    """

    agent: Hashable
    instruction: int
    footprint: Footprint
    source: Hashable | None
    anywhere: bool = False
    unused: bool = False
    operand: int = 0


def stale_reads(run: Run, unused: frozenset[int] = frozenset()) -> tuple[int, ...]:
    """The instructions of such reads in a run of PTX, in the order of their first ones; `unused`:
    the events of loads of which nothing is used."""
    return stale_of(list(_accesses(run, unused)))


def _accesses(run: Run, unused: frozenset[int]) -> Iterator[StageAccess]:
    unknown = run.unknown_addresses()
    for event in run.events:
        agent, number = (event.cta, event.warp), event.instruction
        anywhere, source = number in unknown, _source(event)
        several = isinstance(event, ev.AsynchronousEvent)
        for index, (footprint, mode) in enumerate(touched(event)):
            reads = mode is ev.Mode.READ
            if footprint.space is MemorySpace.SHARED and not (reads and anywhere):
                idle = reads and event.sequence in unused
                source_here = None if reads else source
                operand = index if reads and several else 0
                yield StageAccess(agent, number, footprint, source_here, anywhere, idle, operand)


def _source(event: ev.Event) -> Hashable:
    if not isinstance(event, ev.AsynchronousEvent):
        return event.instruction
    if event.tensor_map >= 0:
        return "map", event.tensor_map
    return source_of(event.instruction, (effect.footprint for effect in event.effects))


def source_of(instruction: int, footprints: Iterable[Footprint]) -> Hashable:
    """Where a copy takes its bytes from: a region of global memory, or what the instruction has."""
    for footprint in footprints:
        if footprint.space is MemorySpace.GLOBAL:
            return "region", footprint.bounds[0] >> REGION_BITS
    return instruction


def stale_of(accesses: list[StageAccess]) -> tuple[int, ...]:
    """The instructions of such reads among the accesses of a run."""
    groups = _Groups(accesses)
    rings: dict[Hashable, _Ring] = {}
    filled: dict[Footprint, int] = {}
    everything = 0
    for index, access in enumerate(accesses, 1):
        if access.source is None:
            place = access.footprint
            ring = rings.setdefault(groups.of(access), _Ring())
            ring.read(access, max(filled.get(place, 0), everything))
        elif access.anywhere:
            everything = index
        else:
            for place in groups.touched(access.footprint):
                filled[place] = index
    return tuple(dict.fromkeys(number for ring in rings.values() for number in ring.stale()))


@dataclass(slots=True)
class _Tile:
    """What a place holds: since which access, how often it was read, and by whom as stale."""

    since: int
    reads: int = 0
    read_at: int = 0
    stale: list[StageAccess] = field(default_factory=list)


@dataclass(slots=True)
class _Ring:
    """The places that one agent reads of one group; `held` begins with the one not read for the
    longest time.
    """

    held: OrderedDict[Footprint, _Tile] = field(default_factory=OrderedDict)
    past: dict[Footprint, list[_Tile]] = field(default_factory=dict)
    reads: int = 0
    turned_at: int = 0  # the last read that found its place new, which it had read before

    def read(self, access: StageAccess, since: int) -> None:
        """The next read, of a place that was last written at access `since`."""
        place = access.footprint
        self.reads += 1
        tile = self.held.get(place)
        if tile is None or tile.since != since:
            if tile is not None:
                self.turned_at = self.reads
                self.past.setdefault(place, []).append(tile)
            tile = self.held[place] = _Tile(since)
        elif next(iter(self.held)) == place and self.turned_at > tile.read_at:
            tile.stale.append(access)
        tile.reads += 1
        tile.read_at = self.reads
        self.held.move_to_end(place)

    def stale(self) -> list[int]:
        """The instructions of stale reads, after the last read."""
        by_place = [[*self.past.get(place, ()), tile] for place, tile in self.held.items()]
        tiles = [tile for held in by_place for tile in held]
        stale = [tile for tile in tiles if tile.stale]
        usual = max((tile.reads for tile in tiles if not tile.stale), default=0)
        if len(stale) * MINORITY >= len(tiles):
            return []
        return [
            access.instruction
            for held in by_place
            if sum(len(tile.stale) for tile in held) <= len(held)
            for tile in held
            if tile.reads >= 2 * usual
            for access in tile.stale
            if not access.unused
        ]


class _Groups:
    """Which reads belong together, and which places a write touches."""

    def __init__(self, accesses: list[StageAccess]) -> None:
        places = {access.footprint for access in accesses if access.source is None}
        self._memories = WrittenMemories((place, place) for place in places)
        self._touched: dict[Footprint, tuple[Footprint, ...]] = {}
        self._parents: dict[Hashable, Hashable] = {}
        sources: dict[Footprint, dict[Hashable, None]] = {}
        for access in accesses:
            if access.source is not None and not access.anywhere:
                for place in self.touched(access.footprint):
                    sources.setdefault(place, {})[access.source] = None
        for access in accesses:
            if access.source is None:
                reader = self._reader(access)
                for source in sources.get(access.footprint, ()):
                    self._parents[self._root(reader)] = self._root((access.agent, source))

    def touched(self, footprint: Footprint) -> tuple[Footprint, ...]:
        """The places of which the footprint has bytes."""
        found = self._touched.get(footprint)
        if found is None:
            found = tuple(dict.fromkeys(self._memories.meeting(footprint)))
            self._touched[footprint] = found
        return found

    def of(self, access: StageAccess) -> Hashable:
        """The group of a read."""
        return self._root(self._reader(access))

    def _reader(self, access: StageAccess) -> Hashable:
        return access.agent, "reader", access.instruction, access.operand

    def _root(self, item: Hashable) -> Hashable:
        while (parent := self._parents.setdefault(item, item)) != item:
            item = parent
        return item
