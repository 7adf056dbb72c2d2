"""The memory of a recording: which regions a sync program has to contain, and effects on them.

A region that no agent writes, or that one agent alone uses by synchronous accesses, cannot be in a
conflict and is left out. Accesses that are atomic or have memory semantics (relaxed and stronger)
do not race with each other, nor do writes of the same known bytes: a region that has such accesses
gets, beside its cell of plain accesses, one cell for each agent and kind (atomic, or the bytes
written): accesses of that kind by other agents do not touch it, those of other kinds count as reads
there (so that they do not meet each other), plain ones as what they are. So every pair conflicts in
some cell but those of one kind. Accesses of CTA scope are a kind of their own, with which those of
another CTA do race: neither is then at a scope that holds both threads (PTX, "Morally Strong").

Shared memory that threads of another CTA use has to exist until they have: where no conflict needs
a cell, such a use writes one of its own.

The eight bytes of an mbarrier get a second cell. It is written by initialisation and invalidation,
and every access of data to those bytes touches it without regard to proxies, so that memory that is
used in turn as a barrier and for data must be handed over in order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from titan.frontends.ptx.regions import RegionMap, partition
from titan.isa.simt.footprints import Footprint, MemorySpace, merged
from titan.isa.simt.known_bytes import part_of
from titan.sync import program as ir
from titan.sync.expression import Constant

SPACES = {
    MemorySpace.SHARED: ir.Space.SHARED,
    MemorySpace.GLOBAL: ir.Space.GLOBAL,
    MemorySpace.TENSOR: ir.Space.TENSOR,
}
Range = tuple[int, int]
ZERO = Constant(0)
STRONG = "atomic"  # the mark of accesses that are atomic or have memory semantics


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """One access as memory sees it; `agent` numbers the agents of the recording.

    `strong`: accesses with one such mark do not race with each other: those that are atomic or have
    memory semantics, and writes of the same known bytes. `narrow`: its scope is the CTA of its
    agent, so that it races with strong ones of another CTA.
    """

    footprint: Footprint
    agent: int
    write: bool
    proxy: ir.Proxy = ir.Proxy.GENERIC
    asynchronous: bool = False
    strong: str | bytes = ""
    narrow: bool = False


class AccessKind(NamedTuple):
    """Accesses of one agent that have one mark and one reach; see `MemoryUse`."""

    strong: str | bytes
    agent: int
    narrow: bool


@dataclass(slots=True)
class _Users:
    """Who uses a region: plainly, with a mark (numbered as they come), as a barrier."""

    plain: set[int] = field(default_factory=set)
    strong: dict[AccessKind, int] = field(default_factory=dict)
    written: bool = False
    asynchronous: bool = False
    barrier: bool = False


class RecordedMemory:
    """Hears all uses first (`note`), then is `settled`, then gives effects."""

    def __init__(self, ranks: dict[int, int], agents_per_cta: int = 0) -> None:
        self._ranks = ranks  # of CTAs in the cluster
        self._agents_per_cta = agents_per_cta  # numbered CTA by CTA; 0: each CTA is alone
        self._uses: dict[MemoryUse, None] = {}  # in the order in which they come
        self._barriers: dict[Footprint, None] = {}
        self.regions = RegionMap()
        self.buffers: dict[str, ir.Buffer] = {}
        self._cells: list[_Users] = []
        self._settled: list[tuple[str, bool, bool]] = []
        self._made: dict[tuple[str, bool, ir.Proxy], ir.Effect] = {}
        self._effects: dict[MemoryUse, tuple[ir.Effect, ...]] = {}
        self._held: dict[str, int] = {}

    def note(self, use: MemoryUse) -> None:
        """A use that the recording has."""
        self._uses[use] = None

    def note_barrier(self, footprint: Footprint) -> None:
        """The bytes of an mbarrier object."""
        self._barriers[footprint] = None

    def settle(self) -> None:
        """Cut the memory into regions; all uses are known."""
        found = {use.footprint for use in self._uses} | self._barriers.keys()
        written = {use.footprint for use in self._uses if use.write} | self._barriers.keys()
        near = _near(found, written)
        self.regions = partition(sorted(near, key=_order))
        self.regions.of |= dict.fromkeys(found - near, ())
        self._cells = [_Users() for _ in self.regions.regions]
        for use in self._uses:
            for number in self.regions.of[use.footprint]:
                users = self._cells[number]
                if use.strong:
                    users.strong.setdefault(self._kind(use, number), len(users.strong))
                else:
                    users.plain.add(use.agent)
                users.written = users.written or use.write
                users.asynchronous = users.asynchronous or use.asynchronous
        for footprint in self._barriers:
            for number in self.regions.of[footprint]:
                self._cells[number].barrier = True
        self._settled = [self._facts(number) for number in range(len(self._cells))]

    def _facts(self, number: int) -> tuple[str, bool, bool]:
        """Of a region: its name; whether one agent alone uses it, at once; whether no two of its
        uses race, as all have marks."""
        users = self._cells[number]
        agents = users.plain | {kind.agent for kind in users.strong}
        alone = len(agents) < 2 and not users.asynchronous
        alike = bool(users.strong) and not users.plain and self._alike(users.strong)
        return self._name(number), alone, alike

    def effects(self, use: MemoryUse) -> tuple[ir.Effect, ...]:
        """The effects of one use, on all cells that it concerns."""
        known = self._effects.get(use)
        if known is None:
            known = tuple(self._effects_of(use))
            self._effects[use] = known
        return known

    def barrier_effects(self, footprint: Footprint) -> tuple[ir.Effect, ...]:
        """What initialisation and invalidation of a barrier write."""
        return tuple(
            self._effect(f"{self._settled[number][0]} as barrier", number, True, ir.Proxy.GENERIC)
            for number in self.regions.of[footprint]
            if self._cells[number].plain or self._cells[number].strong
        )

    def region_of(self, buffer: str) -> int:
        """The region that a buffer of the program represents."""
        return self._held[buffer]

    def _effects_of(self, use: MemoryUse) -> Iterable[ir.Effect]:
        for number in self.regions.of[use.footprint]:
            users = self._cells[number]
            name, alone, alike = self._settled[number]
            if users.barrier:
                yield self._effect(f"{name} as barrier", number, use.write, ir.Proxy.GENERIC)
            if (alone or alike) and self._of_a_peer(use, number):
                yield self._effect(f"{name} by a peer ({use.agent})", number, True, use.proxy)
            if not users.written or alone:
                continue
            if not use.strong:
                yield self._effect(name, number, use.write, use.proxy)
            if alike:
                continue
            mine = self._kind(use, number)
            for kind, cell in users.strong.items():
                own = kind == mine
                if own or kind.strong != mine.strong or self._beyond_scope(kind, mine):
                    write = use.write and (own or not use.strong)
                    effect = self._effect(f"{name} ({cell})", number, write, use.proxy)
                    # Reductions that one agent has in flight do not race with each other either.
                    atomic = write and kind.strong == use.strong == STRONG
                    yield replace(effect, reduction="add") if atomic else effect

    def _kind(self, use: MemoryUse, number: int) -> AccessKind:
        """What decides with which other accesses of a region it races: of known bytes those that it
        writes there, as two writes may have the same bytes at other places.
        """
        mark = use.strong
        if isinstance(mark, bytes):
            ranges = use.footprint.ranges()
            if sum(high - low for low, high in ranges) == len(mark):
                mark = part_of(mark, ranges, self.regions.regions[number].runs)
            else:
                mark = f"{mark.hex()} in {use.footprint}"
        return AccessKind(mark, use.agent, use.narrow)

    def _alike(self, kinds: Iterable[AccessKind]) -> bool:
        """Whether no two of these race."""
        first, *others = kinds
        if not any(kind.narrow for kind in (first, *others)):
            return all(kind.strong == first.strong for kind in others)
        ctas = {self._cta_of(kind.agent) for kind in (first, *others)}
        return len(ctas) == 1 and all(kind.strong == first.strong for kind in others)

    def _beyond_scope(self, one: AccessKind, other: AccessKind) -> bool:
        """Whether the scope of one of two strong accesses lacks the thread of the other."""
        narrow = one.narrow or other.narrow
        return narrow and self._cta_of(one.agent) != self._cta_of(other.agent)

    def _cta_of(self, agent: int) -> int:
        """The rank of an agent's CTA."""
        return agent // self._agents_per_cta if self._agents_per_cta else 0

    def _of_a_peer(self, use: MemoryUse, number: int) -> bool:
        """Whether the region lies in the shared memory of another CTA than the use's agent."""
        space, cta = self.regions.regions[number].memory
        if not self._agents_per_cta or space is not MemorySpace.SHARED:
            return False
        return self._cta_of(use.agent) != self._ranks.get(cta, 0)

    def _name(self, number: int) -> str:
        region = self.regions.regions[number]
        rank = self._ranks.get(region.memory[1], 0)
        many = len(self._ranks) > 1 and region.memory[0] is not MemorySpace.GLOBAL
        return f"{region.name}@{rank}" if many else region.name

    def _effect(self, name: str, number: int, write: bool, proxy: ir.Proxy) -> ir.Effect:
        key = name, write, proxy
        made = self._made.get(key)
        if made is None:
            if name not in self.buffers:
                space, cta = self.regions.regions[number].memory
                rank = self._ranks.get(cta, 0)
                self.buffers[name] = ir.Buffer(name, space=SPACES[space], cta=rank)
                self._held[name] = number
            made = self._made[key] = ir.Effect(name, ZERO, write, None, None, proxy)
        return made


def _near(found: set[Footprint], written: set[Footprint]) -> set[Footprint]:
    """Those that lie near bytes that are written; the others cannot be in a conflict."""
    spans: dict[tuple[MemorySpace, int], list[tuple[int, int]]] = {}
    for footprint in written:
        spans.setdefault((footprint.space, footprint.cta), []).append(footprint.bounds)
    whole = {memory: merged(ranges) for memory, ranges in spans.items()}
    near = set(written)
    for footprint in found - written:
        ranges = whole.get((footprint.space, footprint.cta), ())
        low, high = footprint.bounds
        at = bisect_left(ranges, (high, high)) - 1
        if at >= 0 and ranges[at][1] > low:
            near.add(footprint)
    return near


def _order(footprint: Footprint) -> tuple[int, int, tuple[int, int], int]:
    return footprint.space, footprint.cta, footprint.bounds, hash(footprint)


def united(effects: Iterable[ir.Effect]) -> tuple[ir.Effect, ...]:
    """One effect a buffer and proxy; a write says more than a read, or than a reduction."""
    table: dict[tuple[str, ir.Proxy], ir.Effect] = {}
    for effect in effects:
        key = (effect.buffer, effect.proxy)
        old = table.get(key)
        if old is None or _rank(effect) > _rank(old):
            table[key] = effect
    return tuple(table.values())


def _rank(effect: ir.Effect) -> int:
    """How much of what others do conflicts with the effect."""
    return 0 if not effect.write else 1 if effect.reduction else 2
