"""Whether accesses of two CTAs that wait for words conflict and nothing orders them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from titan.foundation.diagnostics.model import Annotation, Diagnostic, diagnostic
from titan.frontends.grid.asked_words import Item, NotWaiting, items_of
from titan.frontends.grid.hand_over import READ_ONLY_HELP, common_range, coordinates
from titan.frontends.grid.word_actors import FAILED_ROUNDS, WordActor, WordWaits
from titan.frontends.grid.word_order import Graph, Place, Sides, sides_of
from titan.frontends.grid.word_schedules import PlayedWords, schedules
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.rendering import with_sources
from titan.frontends.ptx.settled import commutes
from titan.isa.simt import events as ev
from titan.isa.simt.footprints import Footprint
from titan.isa.simt.outcome import Run
from titan.isa.simt.written import WrittenRanges, global_accesses

PAIRS_MAX = 2_000_000  # of accesses that are compared
HELP = (
    "a CTA hands over by a release of gpu scope behind a barrier of its threads: "
    "`__syncthreads()`, then by one thread `st.release`, `red.release`, or `__threadfence()` and a "
    "volatile store or an atomic; it takes over by an acquire of the thread that waits before a "
    "barrier: `ld.acquire`, or a volatile load and `__threadfence()`"
)


@dataclass(frozen=True, slots=True)
class _Access:
    """An access of a CTA in the run in which its waits fail `fails` times first.

    `before` and `behind`: nodes of the CTA's items, as bits, that all its lanes are before or
    behind. `certain`: when and where it happens is known, and what orders it.
    """

    cta: int
    fails: int
    mode: ev.Mode
    strong: bool
    value: bytes | None
    footprint: Footprint
    settled: str
    certain: bool
    read_only: bool
    before: int
    behind: int


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
        self.read_only = {
            number
            for number, item in enumerate(places.module.instructions)
            if item.opcode == "ld" and "nc" in item.modifiers
        }
        self.variants = [variant for actor in waits.actors for variant in self._variants(actor)]
        for variant in self.variants:
            self._note(variant)

    def _variants(self, actor: WordActor) -> Iterator[_Variant]:
        done: list[Run] = []
        for fails in FAILED_ROUNDS:
            run, failed = self.waits.variant(actor, fails)
            if any(list(run.events) == list(other.events) for other in done):
                continue
            done.append(run)
            made = items_of(run, self.waits.runs.words)
            items = [item for item in made if item.asks < 0 or item.asks not in failed]
            if list(map(_shape, items)) != list(map(_shape, actor.items)):
                raise NotWaiting("waits that fail first change what a CTA does")
            yield _Variant(actor.cta, fails, run, items, sides_of(run, items))

    def _note(self, variant: _Variant) -> None:
        run, sides = variant.run, variant.sides
        unknown = run.unknown_addresses()
        words = self.waits.runs.words
        for event, footprint, mode in global_accesses(run, set()):
            strong, value, settled = mode is ev.Mode.ATOMIC, None, ""
            known = event.instruction not in unknown and isinstance(event, ev.AccessEvent)
            if isinstance(event, ev.AccessEvent):
                strong = event.scope >= ev.AccessScope.GPU
                value, settled = event.value, commutes(run, event)
                if strong and footprint.bounds[0] in words:
                    settled = "word"
            before, behind, whole = _nodes(variant, event)
            access = _Access(
                variant.cta, variant.fails, mode, strong, value, footprint, settled,
                known and whole and sides.complete, event.instruction in self.read_only,
                before, behind,
            )  # fmt: skip
            self.events.setdefault(access, event)

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
                if write.cta == access.cta or _harmless(access, write):
                    continue
                if self._ordered(graph, access, write) or self._ordered(graph, write, access):
                    continue
                low, high = sorted((event.instruction, self.events[write].instruction))
                open_.setdefault((low, high), []).append((access, write))
        return self._shown(open_) if open_ else None

    def _relays(self, *, every: bool) -> list[tuple[int, set[tuple[int, int]]]]:
        """What each CTA hands on: in each of its runs, or in one."""
        found: dict[int, set[tuple[int, int]]] = {}
        for variant in self.variants:
            if variant.cta not in found:
                found[variant.cta] = set(variant.sides.relays)
            elif every:
                found[variant.cta] &= variant.sides.relays
            else:
                found[variant.cta] |= variant.sides.relays
        return list(found.items())

    def _ordered(self, graph: Graph, one: _Access, other: _Access) -> bool:
        if one.read_only or other.read_only:
            return False
        return graph.ordered(
            one.before << graph.first[one.cta], other.behind << graph.first[other.cta]
        )

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
                    if self._ordered(graph, one, other) or self._ordered(graph, other, one):
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
        words = {ev.Mode.READ: "reads", ev.Mode.WRITE: "writes", ev.Mode.ATOMIC: "updates"}
        low, high = common_range(one.footprint, other.footprint)
        ctas = [coordinates(self.launch, item.cta) for item in (one, other)]
        spans = [self.places.span(self.events[item].instruction) for item in (one, other)]
        labels = [
            f"CTA {cta} {words[item.mode]} here (warp {self.events[item].warp})"
            for cta, item in zip(ctas, (one, other), strict=True)
        ]
        headline = (
            f"CTA {ctas[0]} and CTA {ctas[1]} access global+{low:#x}..{high - 1:#x} and nothing "
            "orders them, though CTAs wait for each other"
        )
        helps = (READ_ONLY_HELP,) if one.read_only or other.read_only else (HELP,)
        others = (Annotation(spans[1], labels[1]),)
        made = diagnostic("TTN201", headline, spans[0], labels[0], others=others, helps=helps)
        return with_sources(made, self.places)


def _nodes(variant: _Variant, event: ev.Event) -> tuple[int, int, bool]:
    """The nodes that all lanes of an event are before and behind; whether no lanes are apart."""
    sides, whole = variant.sides, True
    found = [0, 0]
    follows = isinstance(event, ev.AccessEvent)
    for side, table in enumerate((sides.before, sides.behind)):
        for node, masks in table.items():
            lanes = masks.get(event.sequence, 0)
            whole = whole and lanes in (0, event.lanes)
            if lanes == event.lanes and follows:
                found[side] |= 1 << node
    return found[0], found[1], whole


def _shape(item: Item) -> tuple[object, ...]:
    return item.address, item.asks >= 0, item.operation, item.operands


def _harmless(one: _Access, other: _Access) -> bool:
    """Whether two accesses may come in any order: both of a word and strong, both sums, or both
    plain writes of the same bytes."""
    if one.strong and other.strong:
        return one.settled != "" and one.settled == other.settled
    writes = one.mode is other.mode is ev.Mode.WRITE
    same = (one.value, one.footprint) == (other.value, other.footprint)
    return writes and one.value is not None and same
