"""Whether accesses of two CTAs that take locks conflict and nothing orders them.

What a CTA does while it has a lock comes before what the next one does that takes it: the release
is observed by the attempt that takes the lock next. That orders memory where the release has what
came before it behind it, and the attempt what comes then (`word_order.py`: by a release and an
acquire pattern, or by two `fence.sc`); and from one CTA to all later ones where each section hands
on what it has taken over. Which CTA comes first is open, so both orders have to hold.

An access is *within* a section if all its lanes are behind what acquires and before what releases.
Two that are within sections of one lock, by the same way, are ordered. Others are a race if they
are one where CTAs run one after the other, in some order of them, which is an execution that the
launch may have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from titan.foundation.diagnostics.model import Diagnostic
from titan.frontends.grid.asked_words import Item, NotWaiting, known_reads
from titan.frontends.grid.hand_over import READ_ONLY_HELP, read_only_loads
from titan.frontends.grid.lock_runs import LockRuns, LockVariant
from titan.frontends.grid.race_text import common_range
from titan.frontends.grid.ticket_order import touches
from titan.frontends.grid.tickets import perhaps
from titan.frontends.grid.word_accesses import (
    PAIRS_MAX,
    WordAccess,
    comes_before,
    harmless,
    race_of,
    word_accesses,
)
from titan.frontends.grid.word_order import WAYS, Graph, Place, Sides, sides_of
from titan.frontends.ptx.places import CodePlaces
from titan.isa.simt import events as ev
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.written import WrittenRanges

SERIAL_MAX = 48  # orders of CTAs that are tried
HELP = (
    "a CTA takes a lock by an atomic with acquire, or with `__threadfence()` behind it, and "
    "releases it by one with release, or with `__threadfence()` before it, of gpu scope; a barrier "
    "of its threads (`__syncthreads()`) stands between the lock and what other threads access"
)
LOCK_HELP = (
    "a lock is taken and released by strong accesses of gpu scope: atomics, not plain stores"
)
Within = frozenset[tuple[int, int]]  # locks, and the way (0: pattern, 1: `fence.sc`) on a side


@dataclass(frozen=True, slots=True)
class LockedAccess(WordAccess):
    """An access of a CTA. `early`: the locks in a section of which it is, by the ways in which what
    releases is behind it; `late`: the same of what acquires."""

    early: Within
    late: Within


@dataclass(slots=True)
class _Node:
    """A run with what it does to locks and guards that may order something."""

    variant: LockVariant
    items: list[Item]
    sides: Sides
    sections: list[tuple[int, int, int]]  # lock, and the numbers of the items
    accesses: set[LockedAccess] = field(default_factory=set)


class LockComparison:
    """All accesses of all CTAs, compared. `reason`: why they are not decided."""

    def __init__(self, runs: LockRuns, places: CodePlaces) -> None:
        self.runs, self.places = runs, places
        self.launch = runs.runs.made.launch
        self.reason: NotWaiting | None = None
        self.events: dict[LockedAccess, ev.Event] = {}
        read_only = read_only_loads(places)
        self.nodes = [self._node(variant) for variant in runs.variants]
        self.ways = self._ways()
        for node in self.nodes:
            self._accesses(node, read_only)

    # ------------------------------------------------------------------------------ sections

    def _node(self, variant: LockVariant) -> _Node:
        run = variant.run
        places = {item.place: item for item in variant.items}
        used = [at for one in variant.use.sections for at in (one.taken, one.released)]
        kept = {variant.items[at].place for at in (*used, *variant.use.kept)}
        if not variant.spins:
            kept = set(places)
        items = []
        for event in run.events:
            if event.sequence in kept:
                items.append(places[event.sequence])
            elif isinstance(event, ev.AccessEvent):
                items += self._guard_item(event)
        number = {item.place: at for at, item in enumerate(items)}
        sections = [
            (one.lock, number[variant.items[one.taken].place],
             number[variant.items[one.released].place])
            for one in variant.use.sections
        ]  # fmt: skip
        return _Node(variant, items, sides_of(run, items), sections)

    def _guard_item(self, event: ev.AccessEvent) -> Iterator[Item]:
        """A strong access by one lane of a guard, which may order something, too."""
        low, high = event.footprint.bounds
        guard = self.runs.guards.get(low)
        strong = event.scope >= ev.AccessScope.GPU
        if guard is None or guard.size != high - low or not strong:
            return
        if event.lanes & (event.lanes - 1) or event.footprint.space is not MemorySpace.GLOBAL:
            return
        operation = {ev.Mode.READ: "", ev.Mode.WRITE: "store", ev.Mode.ATOMIC: "exch"}[event.mode]
        asks = -1 if event.mode is ev.Mode.WRITE else 0
        yield Item(low, high - low, event.sequence, event.instruction, event.warp, event.lanes,
                   asks, operation)  # fmt: skip

    def _ways(self) -> dict[int, set[int]]:
        """The ways in which all sections of each lock hand on what they have taken over."""
        found = {lock: {0, 1} for lock in self.runs.locks}
        for node in self.nodes:
            events = node.variant.run.events
            for lock, taken, released in node.sections:
                ends = [events[node.items[at].place] for at in (taken, released)]
                strong = all(_is_strong(event) for event in ends)
                found[lock] &= {
                    way
                    for way in (0, 1)
                    if strong and (WAYS * taken + way, WAYS * released + way) in node.sides.relays
                }
        return found

    def _accesses(self, node: _Node, read_only: set[int]) -> None:
        run, code = node.variant.run, self.runs.runs.made.code
        doubtful = [event for event in run.events if isinstance(event, ev.Assumption | ev.Skipped)]
        locks = self.runs.locks
        for found, event in word_accesses(node.variant.cta, run, node.sides, locks, read_only):
            certain = found.certain and not any(
                perhaps(code, one, event.instruction) for one in doubtful
            )
            early, late = _within(node.sections, found.before, found.behind)
            made = {**found.fields(), "certain": certain}
            access = LockedAccess(**made, early=early, late=late)
            node.accesses.add(access)
            self.events.setdefault(access, event)

    # ----------------------------------------------------------------------------- comparing

    def race(self) -> Diagnostic | None:
        """A race, if there is one; `reason` where something is not decided."""
        open_: dict[tuple[int, int], list[tuple[LockedAccess, LockedAccess]]] = {}
        written = WrittenRanges(
            (access.footprint, access) for access in self.events if access.mode is not ev.Mode.READ
        )
        count = 0
        for access, event in self.events.items():
            for write in set(written.meeting(access.footprint)):
                count += 1
                if count > PAIRS_MAX:
                    raise NotWaiting(f"more than {PAIRS_MAX:,} accesses of CTAs meet")
                if write.cta == access.cta or self._ordered(access, write):
                    continue
                if harmless(access, write) and not self._guards(access):
                    continue
                low, high = sorted((event.instruction, self.events[write].instruction))
                open_.setdefault((low, high), []).append((access, write))
        return self._shown(open_) if open_ else None

    def check_guards(self) -> None:
        """What decides is read and written by CTAs that have its lock; raises NotWaiting."""
        for node in self.nodes:
            for access in node.accesses:
                for guard in self.runs.guards.values():
                    if not touches(access.footprint, guard.address, guard.size):
                        continue
                    ways = self.ways[guard.lock]
                    early = any((guard.lock, way) in access.early for way in ways)
                    late = any((guard.lock, way) in access.late for way in ways)
                    if not (early and late) or access.read_only:
                        raise NotWaiting("a word that decides is accessed outside of its lock",
                                         self.events[access].instruction)  # fmt: skip

    def _guards(self, access: LockedAccess) -> bool:
        return any(
            touches(access.footprint, one.address, one.size) for one in self.runs.guards.values()
        )

    def _ordered(self, one: LockedAccess, other: LockedAccess) -> bool:
        """Whether two accesses are within sections of one lock, whichever comes first."""
        if one.read_only or other.read_only:
            return False
        first, second = one.early & other.late, other.early & one.late
        return any(
            any((lock, way) in first for way in ways) and any((lock, way) in second for way in ways)
            for lock, ways in self.ways.items()
        )

    def _shown(
        self, open_: Mapping[tuple[int, int], Sequence[tuple[LockedAccess, LockedAccess]]]
    ) -> Diagnostic | None:
        """A pair that an execution has unordered, as a diagnostic."""
        pairs = [pair for found in open_.values() for pair in found]
        for order in self._orders(open_):
            played = self._played(order)
            if played is None:
                continue
            nodes, graph = played
            for one, other in pairs:
                if (one.strong and other.strong) or not (one.certain and other.certain):
                    continue
                if one not in nodes[one.cta].accesses or other not in nodes[other.cta].accesses:
                    continue
                if comes_before(graph, one, other) or comes_before(graph, other, one):
                    continue
                return self._race(one, other)
        one, other = pairs[0]
        self.reason = NotWaiting(
            "the order of CTAs decides what strong accesses give"
            if one.strong and other.strong
            else "whether what CTAs access is ordered by locks was not found out",
            self.events[one].instruction,
        )
        return None

    def _orders(
        self, open_: Mapping[tuple[int, int], Sequence[tuple[LockedAccess, LockedAccess]]]
    ) -> Iterator[list[int]]:
        """Orders of the CTAs: as they are numbered, backwards, and with those of a pair first."""
        ctas = list(self.runs.ctas)
        yield ctas
        yield ctas[::-1]
        tried = dict.fromkeys(
            (one.cta, other.cta) for found in open_.values() for one, other in found[:2]
        )
        for one, other in list(tried)[: SERIAL_MAX // 2]:
            rest = [cta for cta in ctas if cta not in (one, other)]
            yield [one, other, *rest]
            yield [other, one, *rest]

    def _played(self, order: Sequence[int]) -> tuple[dict[int, _Node], Graph] | None:
        """The runs of CTAs that come one after the other, and what orders them."""
        numbers = {lock: self.runs.start(lock) for lock in self.runs.locks}
        nodes: dict[int, _Node] = {}
        for cta in order:
            node = next(
                (
                    one for one in self.nodes
                    if one.variant.cta == cta and not one.variant.spins
                    and all(numbers[at] == found for at, found in one.variant.numbers.items())
                ),
                None,
            )  # fmt: skip
            if node is None or node.variant.use.kept:
                return None
            nodes[cta] = node
            numbers |= node.variant.left
        window: dict[int, frozenset[Place]] = {}
        edges: dict[Place, frozenset[Place]] = {}
        for cta in order:
            for at, item in enumerate(nodes[cta].items):
                before = window.get(item.address, frozenset())
                if item.asks >= 0:
                    edges[cta, at] = before
                if item.writes:
                    kept = before if item.operation != "store" else frozenset()
                    window[item.address] = kept | {(cta, at)}
        counts = [len(nodes[cta].items) for cta in sorted(order)]
        relays = [(cta, nodes[cta].sides.perhaps) for cta in order]
        return nodes, Graph(counts, relays, edges)

    def _race(self, one: LockedAccess, other: LockedAccess) -> Diagnostic:
        low, high = common_range(one.footprint, other.footprint)
        events = self.events[one], self.events[other]
        help_ = READ_ONLY_HELP if one.read_only or other.read_only else HELP
        if any(low < at + lock.size and at < high for at, lock in self.runs.locks.items()):
            help_ = LOCK_HELP
        return race_of((one, other), events, self.launch, self.places, "take locks", help_)

    def check_data(self) -> None:
        """No known bytes are read that another CTA may have replaced, but for locks and guards.
        Raises NotWaiting."""
        written = WrittenRanges(
            (access.footprint, access) for access in self.events if access.mode is not ev.Mode.READ
        )
        own = {((at, at + size),) for at, (size, _) in self.runs.words().items()}
        for node in self.nodes:
            for instruction, footprint in known_reads(node.variant.run):
                if footprint.ranges() in own:
                    continue
                for write in written.meeting(footprint):
                    if write.cta != node.variant.cta:
                        raise NotWaiting("bytes that another CTA may have replaced decide",
                                         instruction)  # fmt: skip


def _is_strong(event: ev.Event) -> bool:
    return isinstance(event, ev.AccessEvent) and event.scope >= ev.AccessScope.GPU


def _within(
    sections: Sequence[tuple[int, int, int]], before: int, behind: int
) -> tuple[Within, Within]:
    """The locks in a section of which an access is, by the ways of its release and its attempt."""
    early, late = set(), set()
    for lock, taken, released in sections:
        releases = {way for way in (0, 1) if before >> (WAYS * released + way) & 1}
        acquires = {way for way in (0, 1) if behind >> (WAYS * taken + way) & 1}
        if releases and acquires:
            early |= {(lock, way) for way in releases}
            late |= {(lock, way) for way in acquires}
    return frozenset(early), frozenset(late)
