"""Whether accesses of two CTAs that wait for words conflict and nothing orders them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from titan.foundation.diagnostics.model import Diagnostic
from titan.frontends.grid.asked_words import Item, NotWaiting, items_of
from titan.frontends.grid.hand_over import READ_ONLY_HELP, read_only_loads
from titan.frontends.grid.word_accesses import (
    PAIRS_MAX,
    WordAccess,
    comes_before,
    harmless,
    race_of,
    word_accesses,
)
from titan.frontends.grid.word_actors import FAILED_ROUNDS, WordActor, WordWaits
from titan.frontends.grid.word_order import Graph, Place, Sides, sides_of
from titan.frontends.grid.word_schedules import PlayedWords, schedules
from titan.frontends.ptx.places import CodePlaces
from titan.isa.simt import events as ev
from titan.isa.simt.outcome import Run
from titan.isa.simt.written import WrittenRanges

HELP = (
    "a CTA hands over by a release of gpu scope behind a barrier of its threads: "
    "`__syncthreads()`, then by one thread `st.release`, `red.release`, or `__threadfence()` and a "
    "volatile store or an atomic; it takes over by an acquire of the thread that waits before a "
    "barrier: `ld.acquire`, or a volatile load and `__threadfence()`"
)


@dataclass(frozen=True, slots=True)
class _Access(WordAccess):
    """An access of a CTA in the run in which its waits fail `fails` times first."""

    fails: int


@dataclass(slots=True)
class _Variant:
    """A run of a CTA with its items and their sides."""

    cta: int
    fails: int
    run: Run
    items: list[Item]
    sides: Sides


class Comparison:
    """All accesses of all CTAs, compared. `reason`: why they are not decided."""

    def __init__(self, waits: WordWaits, places: CodePlaces) -> None:
        self.waits, self.places = waits, places
        self.launch = waits.runs.made.launch
        self.counts = [len(actor.items) for actor in waits.actors]
        self.reason: NotWaiting | None = None
        self.events: dict[_Access, ev.Event] = {}
        self.variants = [variant for actor in waits.actors for variant in self._variants(actor)]
        read_only = read_only_loads(places)
        for variant in self.variants:
            self._note(variant, read_only)

    def _variants(self, actor: WordActor) -> Iterator[_Variant]:
        done: list[Run] = []
        for fails in FAILED_ROUNDS:
            run, failed = self.waits.variant(actor, fails)
            if any(list(run.events) == list(other.events) for other in done):
                continue
            done.append(run)
            made = items_of(run, self.waits.runs.words, self.waits.runs.joint)
            items = [item for item in made if item.asks < 0 or item.asks not in failed]
            if list(map(_shape, items)) != list(map(_shape, actor.items)):
                raise NotWaiting("waits that fail first change what a CTA does")
            yield _Variant(actor.cta, fails, run, items, sides_of(run, items))

    def _note(self, variant: _Variant, read_only: set[int]) -> None:
        words = self.waits.runs.words
        found = word_accesses(variant.cta, variant.run, variant.sides, words, read_only)
        for access, event in found:
            self.events.setdefault(_Access(**access.fields(), fails=variant.fails), event)

    # --------------------------------------------------------------------------- comparing

    def race(self, edges: Mapping[Place, frozenset[Place]]) -> Diagnostic | None:
        """A race, if there is one; `reason` where something is not decided."""
        graph = Graph(self.counts, self._relays(every=True), edges)
        open_: dict[tuple[int, int], list[tuple[_Access, _Access]]] = {}
        written = WrittenRanges(
            (access.footprint, access) for access in self.events if access.mode is not ev.Mode.READ
        )
        count = 0
        for access, event in self.events.items():
            for write in written.meeting(access.footprint):
                count += 1
                if count > PAIRS_MAX:
                    raise NotWaiting(f"more than {PAIRS_MAX:,} accesses of CTAs meet")
                if write.cta == access.cta or harmless(access, write):
                    continue
                if comes_before(graph, access, write) or comes_before(graph, write, access):
                    continue
                low, high = sorted((event.instruction, self.events[write].instruction))
                open_.setdefault((low, high), []).append((access, write))
        return self._shown(open_) if open_ else None

    def _relays(self, *, every: bool) -> list[tuple[int, set[tuple[int, int]]]]:
        """What each CTA hands on: in each of its runs, or in one."""
        found: dict[int, set[tuple[int, int]]] = {}
        for variant in self.variants:
            if variant.cta not in found:
                found[variant.cta] = set(_relays_of(variant, every=every))
            elif every:
                found[variant.cta] &= _relays_of(variant, every=True)
            else:
                found[variant.cta] |= _relays_of(variant, every=False)
        return list(found.items())

    def _shown(
        self, open_: Mapping[tuple[int, int], Sequence[tuple[_Access, _Access]]]
    ) -> Diagnostic | None:
        """A pair that an execution has unordered, as a diagnostic."""
        relays = self._relays(every=False)
        items = [actor.items for actor in self.waits.actors]
        start = {at: number for at, (_, number) in self.waits.runs.words.items()}
        for done in schedules(items, start, self.waits.passes):
            if done.stuck:
                continue
            graph = Graph(self.counts, relays, done.edges)
            for pairs in open_.values():
                for one, other in pairs:
                    if one.strong and other.strong:
                        continue
                    if not (self._happens(done, one) and self._happens(done, other)):
                        continue
                    if comes_before(graph, one, other) or comes_before(graph, other, one):
                        continue
                    return self._race(one, other)
        one, other = next(iter(open_.values()))[0]
        strong = one.strong and other.strong
        self.reason = NotWaiting(
            "the order of CTAs decides what strong accesses give"
            if strong
            else "whether what CTAs access is ordered was not found out",
            self.events[one].instruction,
        )
        return None

    def _happens(self, done: PlayedWords, access: _Access) -> bool:
        """Whether the run of an access is one of the CTA in a schedule, and it may race there."""
        if not access.certain:
            return False
        if not access.fails:
            return True
        return all(
            (access.cta, at) in done.failed for cta, at in self.waits.failing if cta == access.cta
        )

    def _race(self, one: _Access, other: _Access) -> Diagnostic:
        events = self.events[one], self.events[other]
        help_ = READ_ONLY_HELP if one.read_only or other.read_only else HELP
        return race_of((one, other), events, self.launch, self.places, "wait for each other", help_)


def _relays_of(variant: _Variant, *, every: bool) -> set[tuple[int, int]]:
    return variant.sides.relays if every else variant.sides.perhaps


def _shape(item: Item) -> tuple[object, ...]:
    return item.address, item.asks >= 0, item.operation, item.operands
