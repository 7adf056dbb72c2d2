"""Whether what the CTAs of a launch hand over by a counter of tickets is ordered.

Each CTA draws a ticket, and what it does then depends on it: the last one reads what all others
have written. Any order of the CTAs may come about, as nobody waits for anybody. So for each two
CTAs, and each two tickets that they may have, the accesses of the one with the earlier ticket must
be ordered before those of the other where they conflict (`ticket_order.py`), or both are strong and
leave the same in any order, or both write the same. Where they are not, and the order that is
looked for cannot come from anything else, that is a race.

Each CTA with each ticket is run once (`tickets.py`); the first, the middle and the last one are
judged by themselves, too, with each of their behaviours. The answer holds for the grid of the
launch alone.

The counter itself may be set back by the CTA with the last ticket, behind its atomic: all others
have been observed by then. What `ld.global.nc` reads is ordered by nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from titan.foundation.diagnostics.model import Annotation, Diagnostic
from titan.foundation.verdict import Verdict
from titan.frontends.grid.race_text import (
    RacingAccess,
    common_range,
    coordinates,
    race_diagnostic,
)
from titan.frontends.grid.ticket_order import TicketSides, ticket_sides, touches
from titan.frontends.grid.tickets import Behaviour, Counter, NoTickets, behaviours_of, is_drawn
from titan.frontends.grid.waited_copies import (
    Waits,
    is_copy,
    lanes_before,
    lanes_behind,
    waits_for_copies,
)
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.settled import commutes, of_one_operation
from titan.frontends.ptx.trial import Trial
from titan.isa.simt import events as ev
from titan.isa.simt.footprints import Footprint
from titan.isa.simt.known_bytes import leave_the_same
from titan.isa.simt.launch import Launch
from titan.isa.simt.outcome import Run
from titan.isa.simt.written import WrittenRanges, global_accesses

RACES_MAX = 4  # that are reported
RELEASE_HELP = (
    "the CTA that draws an earlier ticket hands over what is before its atomic by a fence of gpu "
    "scope: `__threadfence()` by the thread that writes and `__syncthreads()` before the atomic, "
    "or both the other way round with the fence by the thread of the atomic"
)
ACQUIRE_HELP = (
    "the CTA that draws a later ticket takes over by a fence of gpu scope behind its atomic: "
    "`__threadfence()` by the thread of the atomic before `__syncthreads()`, or by each thread "
    "that reads where all fences are `fence.sc` (`membar.gl`)"
)
READ_ONLY_HELP = "`ld.global.nc` may be answered from a cache that nothing keeps coherent"
APART_HELP = "these CTAs draw from different counters, or from none, which orders nothing"
COUNTER_HELP = "`atomicAdd_block` and `.cta` or `.cluster` atomics are none for other CTAs"


@dataclass(frozen=True, slots=True)
class _Access:
    """An access of a CTA in one of its behaviours (`place` among all).

    `strong`: at a scope that holds other CTAs; `known`: where it is, and what order it has. The
    last four are sides of the ticket, all lanes of the access on them.
    """

    place: int
    mode: ev.Mode
    strong: bool
    observes: bool
    value: bytes | None
    footprint: Footprint
    settled: str
    known: bool
    read_only: bool
    released: bool
    acquired: bool
    fenced_before: bool
    fenced_behind: bool


@dataclass(frozen=True, slots=True)
class HandOver:
    """What was found: trials, which take the place of those of the launch, and notes. `reason`: why
    nothing was found, by the engine `by`; `waits`: a CTA waits for another one."""

    trials: list[Trial] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    reason: str = ""
    by: str = "tickets"
    waits: bool = False

    def texts(self) -> list[str]:
        """The notes on a launch that this does not decide."""
        return [f"{self.by} do not decide it: {self.reason}"] if self.reason else []


def draws(run: Run) -> bool:
    """Whether a CTA may draw a ticket."""
    return not run.launch.cancelled and any(map(is_drawn, run.events))


def handed_over(
    drawing: Run, label: str, places: CodePlaces, judge: Callable[[Run, str, str], Trial]
) -> HandOver:
    """What tickets decide of a launch. `drawing`: the run of a CTA that draws one. `judge`: the
    judgement on a run by itself, for a label and the name of a CTA."""
    try:
        found = behaviours_of(drawing)
    except NoTickets as why:
        return HandOver(reason=str(why))
    if not any(item.counter is not None for item in found):
        return HandOver()
    launch = drawing.launch
    trials = []
    for item in found:
        if item.cta in (0, launch.ctas // 2, launch.ctas - 1):
            name = ", ".join(part for part in (label, _ticket_text(item)) if part)
            trial = judge(item.run, name, coordinates(launch, item.cta))
            if trial.verdict is Verdict.REFUTED:
                return HandOver([trial])
            trials.append(trial)
    open_ = next((trial for trial in trials if trial.verdict is not Verdict.VERIFIED), None)
    together = _Together(found, launch, places)
    races = together.races()
    if races:
        ctas = sorted({cta for race in races[:1] for cta in race.ctas})
        where = " and ".join(coordinates(launch, cta) for cta in ctas)
        diagnostics = tuple(race.diagnostic for race in races[:RACES_MAX])
        return HandOver([Trial(label, where, Verdict.REFUTED, diagnostics=diagnostics)])
    if open_ is not None:
        return HandOver(reason=open_.reason)
    if together.reason:
        return HandOver(reason=together.reason)
    return HandOver(trials, list(_notes(found)))


def _ticket_text(item: Behaviour) -> str:
    if item.counter is None:
        return "no ticket"
    count = len(item.counter.drawers)
    low, high = item.tickets[0], item.tickets[-1]
    if len(item.tickets) == 1 or list(item.tickets) != list(range(low, high + 1)):
        return f"ticket {', '.join(map(str, item.tickets))} of {count}"
    return f"ticket {low} to {high} of {count}"


def _notes(found: Sequence[Behaviour]) -> Iterator[str]:
    counters = dict.fromkeys(item.counter for item in found if item.counter is not None)
    most = max(len(counter.drawers) for counter in counters)
    yield (
        f"CTAs hand over by {len(counters)} counter{'s' if len(counters) > 1 else ''} of up to "
        f"{most} tickets: what each CTA does with each ticket was compared with all others; this "
        "holds for this grid"
    )


@dataclass(frozen=True, slots=True)
class _Race:
    ctas: tuple[int, int]
    place: int  # the instruction of the first
    diagnostic: Diagnostic


class _Together:
    """All behaviours of all CTAs, compared. `reason`: why they are not decided."""

    def __init__(self, found: Sequence[Behaviour], launch: Launch, places: CodePlaces) -> None:
        self.found, self.launch, self.places = found, launch, places
        self.reason = ""
        self.events: dict[_Access, ev.Event] = {}
        self.sides: list[TicketSides] = []
        self.waits: list[Waits] = []
        self.words = list(dict.fromkeys(item.counter for item in found if item.counter is not None))
        self.read_only = read_only_loads(places)
        for place, item in enumerate(found):
            sides = ticket_sides(item.run.events, item.ticket)
            self.sides.append(sides)
            self._note(place, item, sides)

    def _note(self, place: int, item: Behaviour, sides: TicketSides) -> None:
        run = item.run
        unknown, waits = run.unknown_addresses(), waits_for_copies(run.events)
        self.waits.append(waits)
        for event, footprint, mode in global_accesses(run, set()):
            touched = [word for word in self.words if touches(footprint, word.address, word.size)]
            if touched:
                self._at_counter(item, sides, event, alone=touched == [item.counter])
                continue
            strong, observes, value = mode is ev.Mode.ATOMIC, False, None
            settled = commutes(run, event)
            known = event.instruction not in unknown
            if isinstance(event, ev.AccessEvent):
                strong = event.scope >= ev.AccessScope.GPU
                observes = strong and (mode is ev.Mode.READ or event.returns)
                value = event.value
            elif not is_copy(event):
                known = False  # when it happens is not followed
            before = [
                lanes_before(side, event, waits) == event.lanes
                for side in (sides.released, sides.fenced_before)
            ]
            behind = [
                lanes_behind(side, event) == event.lanes
                for side in (sides.acquired, sides.fenced_behind)
            ]
            access = _Access(
                place, mode, strong, observes, value, footprint, settled, known,
                event.instruction in self.read_only,
                before[0], behind[0], before[1], behind[1],
            )  # fmt: skip
            self.events.setdefault(access, event)

    def _at_counter(
        self, item: Behaviour, sides: TicketSides, event: ev.Event, *, alone: bool
    ) -> None:
        """The ticket itself, or an access behind the last one. `alone`: of its own counter only."""
        if item.ticket is not None and event.sequence == item.ticket.sequence:
            return
        after = sides.behind.get(event.sequence, 0) == event.lanes
        if not (alone and item.is_last and after and isinstance(event, ev.AccessEvent)):
            self._leave(event, "the counter is touched where others may draw tickets")

    def _leave(self, event: ev.Event, why: str) -> None:
        if not self.reason:
            self.reason = f"{why} (line {self.places.span(event.instruction).start_line})"

    # ----------------------------------------------------------------------- comparing

    def races(self) -> list[_Race]:
        """The races, one for each instruction of the CTA with the earlier ticket; `reason` where
        something is not decided."""
        found: dict[tuple[int, int], _Race] = {}
        for counter in self.words:
            self._narrow_counter(counter, found)
        written = WrittenRanges(
            (access.footprint, access) for access in self.events if access.mode is not ev.Mode.READ
        )
        for access, event in self.events.items():
            for write in written.meeting(access.footprint):
                mine, other = self.found[access.place], self.found[write.place]
                if mine.cta == other.cta:
                    continue
                low, high = sorted((event.instruction, self.events[write].instruction))
                if (low, high) not in found:
                    self._compare(access, write, found, (low, high))
        lines = {race.place: race for race in reversed(found.values())}
        return [lines[place] for place in sorted(lines)]

    def _narrow_counter(self, counter: Counter, found: dict[tuple[int, int], _Race]) -> None:
        items = [item for item in self.found if item.counter == counter]
        narrow = [item for item in items if item.ticket and item.ticket.scope < ev.AccessScope.GPU]
        if narrow and len(counter.drawers) > 1:
            one = narrow[0]
            two = next(item for item in items if item.cta != one.cta)
            assert one.ticket is not None and two.ticket is not None
            key = one.ticket.instruction, two.ticket.instruction
            found[key] = self._race(
                (one, one.ticket, ev.Mode.ATOMIC), (two, two.ticket, ev.Mode.ATOMIC),
                one.ticket.footprint.bounds, (COUNTER_HELP,),
            )  # fmt: skip

    def _compare(
        self, one: _Access, other: _Access, found: dict[tuple[int, int], _Race],
        key: tuple[int, int],
    ) -> None:  # fmt: skip
        apart = self._apart(one, other)
        pairs = self._orders(one, other)
        open_ = [pair for pair in pairs if apart or not _ordered(*pair)]
        if not open_ or _equal(one, other):
            return
        first, second = open_[0]
        event = self.events[one]
        if one.strong and other.strong:
            if not of_one_operation(one.settled, other.settled):
                self._leave(event, "the order of CTAs decides what strong accesses give")
            return
        if not (one.known and other.known):
            self._leave(event, "where or when an access happens is not known")
            return
        helps = (APART_HELP,) if apart else self._helps(first, second)
        partly = not (self._whole(first) and self._whole(second))
        if partly:
            self._leave(event, "whether CTAs hand over the same bytes in order is not known")
            return
        low, high = common_range(one.footprint, other.footprint)
        ends = [(self.found[item.place], self.events[item], item.mode) for item in (first, second)]
        found[key] = self._race(ends[0], ends[1], (low, high), helps)

    def _apart(self, one: _Access, other: _Access) -> bool:
        """Whether the accesses are of CTAs that draw from different counters, or from none."""
        mine, its = self.found[one.place], self.found[other.place]
        return mine.counter is None or mine.counter != its.counter

    def _orders(self, one: _Access, other: _Access) -> list[tuple[_Access, _Access]]:
        """Both accesses, the one with the earlier ticket first, as they may come."""
        mine, its = self.found[one.place], self.found[other.place]
        if self._apart(one, other):
            return [(one, other)]
        found = []
        if mine.tickets[0] < its.tickets[-1]:
            found.append((one, other))
        if its.tickets[0] < mine.tickets[-1]:
            found.append((other, one))
        return found

    def _whole(self, access: _Access) -> bool:
        """Whether all lanes of an access are on one side, and all that orders was followed."""
        sides, event = self.sides[access.place], self.events[access]
        if not sides.complete:
            return False
        waits = self.waits[access.place]
        lanes = [
            *(lanes_before(it, event, waits) for it in (sides.released, sides.fenced_before)),
            *(lanes_behind(it, event) for it in (sides.acquired, sides.fenced_behind)),
        ]
        return all(found in (0, event.lanes) for found in lanes)

    @staticmethod
    def _helps(first: _Access, second: _Access) -> tuple[str, ...]:
        if second.read_only or first.read_only:
            return (READ_ONLY_HELP,)
        if not (first.released or first.fenced_before):
            return (RELEASE_HELP,)
        return (ACQUIRE_HELP,)

    def _race(
        self,
        one: tuple[Behaviour, ev.Event, ev.Mode],
        two: tuple[Behaviour, ev.Event, ev.Mode],
        common: tuple[int, int],
        helps: tuple[str, ...],
    ) -> _Race:
        first, second = (
            RacingAccess(item.cta, event, mode, f", with {_ticket_text(item)}")
            for item, event, mode in (one, two)
        )
        drawn, cta = one[0].ticket, coordinates(self.launch, first.cta)
        others = [Annotation(self.places.span(drawn.instruction), f"CTA {cta} draws its ticket")
                  ] if drawn is not None else []  # fmt: skip
        made = race_diagnostic(
            (first, second), common, self.launch, self.places,
            though=", whatever tickets they have drawn", helps=helps, others=others,
        )  # fmt: skip
        return _Race((first.cta, second.cta), one[1].instruction, made)


def _ordered(first: _Access, second: _Access) -> bool:
    if first.read_only or second.read_only:
        return False
    return (first.released and second.acquired) or (first.fenced_before and second.fenced_behind)


def _equal(one: _Access, other: _Access) -> bool:
    """Whether both are plain writes of the same known bytes."""
    writes = one.mode is other.mode is ev.Mode.WRITE
    return writes and leave_the_same(one.value, one.footprint, other.value, other.footprint)


def read_only_loads(places: CodePlaces) -> set[int]:
    """The instructions whose loads may be answered from a cache that is not coherent."""
    return {
        number
        for number, item in enumerate(places.module.instructions)
        if item.opcode == "ld" and "nc" in item.modifiers
    }
