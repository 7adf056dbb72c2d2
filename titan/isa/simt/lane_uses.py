"""The accesses of a warp's lanes, and which lanes come after them.

Lanes come after what other lanes did where they meet (bar.warp.sync: those of its mask; barriers
of the CTA and the cluster: all), and where one takes over what another has handed over:

- a release (an access or an arrival with release; a fence, and then a strong write) hands over
  what its lanes have done and know;
- an acquire (an access with acquire, a wait that passes; a strong read, and then a fence) takes
  over all that lanes of the warp have handed over so far, wherever they did.

So a fence or a wait alone orders nothing among lanes. To which address a lane hands over is not
compared, nor whether the read saw the write: there a race is missed, never invented.

What may not happen, as data that are not known decide, counts as done by all lanes that may do it.
The arms of a branch that is the same for all lanes are apart from each other: each is compared with
what was before the branch, and what comes after it with both. Where data may *divide* the lanes, an
arm is compared with the others, too; and that the same lanes have written is then not known of what
comes after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from titan.isa.simt import events as ev
from titan.isa.simt.events import AccessSemantics, Mode, RecordedFence
from titan.isa.simt.values import LANES, lanes_of

LAYERS_MAX = 32
ITSELF = tuple(1 << lane for lane in range(LANES))
ACQUIRES = frozenset(
    {AccessSemantics.ACQUIRE, AccessSemantics.ACQUIRE_RELEASE, AccessSemantics.SEQUENTIAL}
)
RELEASES = frozenset(
    {AccessSemantics.RELEASE, AccessSemantics.ACQUIRE_RELEASE, AccessSemantics.SEQUENTIAL}
)
MEMORY_FENCES = frozenset(
    {
        RecordedFence.MEMORY, RecordedFence.TENSORMAP_ACQUIRE, RecordedFence.TENSORMAP_RELEASE,
        RecordedFence.BARRIER_INIT, RecordedFence.ASYNC_ACQUIRE, RecordedFence.ASYNC_RELEASE,
    }
)  # fmt: skip


class LaneAccess(IntEnum):
    """How a lane accesses a byte. Strong: atomic, volatile, or with an order and a scope."""

    WRITE = 0
    READ = 1
    STRONG_WRITE = 2
    STRONG_READ = 3


WRITES = (LaneAccess.WRITE, LaneAccess.STRONG_WRITE)
STRONG = (LaneAccess.STRONG_WRITE, LaneAccess.STRONG_READ)


@dataclass(slots=True)
class LaneUse:
    """Which lanes have accessed a byte, and where, by LaneAccess.

    `some`: bits of accesses that not all of these lanes may have made. Where plain stores are
    compared (`tracing/equal_stores.py`): `left`, a number for what all of them have left there,
    None where there is none; `apart`: a clash of them is left out.
    """

    lanes: list[int] = field(default_factory=lambda: [0] * len(LaneAccess))
    at: list[int] = field(default_factory=lambda: [0] * len(LaneAccess))
    some: int = 0
    left: int | None = None
    apart: bool = False

    def clash(
        self, lanes: int, access: LaneAccess, known: Sequence[int], some: bool,
        beside: LaneAccess | None = None,
    ) -> int | None:  # fmt: skip
        """The instruction of an access that this one by `lanes`, or some of them, is not ordered
        with; of other kinds than `beside`.

        Those in known[n] come after the accesses of lane n. What all of them wrote, all may read
        and write; what they read another of them may not write. Strong accesses do not clash with
        each other.
        """
        for earlier in LaneAccess:
            by = 0 if earlier is beside else self.lanes[earlier]
            if not by or (earlier not in WRITES and access not in WRITES):
                continue
            later = lanes
            if earlier in STRONG or access in STRONG:
                by = 0 if earlier in STRONG and access in STRONG else by
            elif some or self.some >> earlier & 1:
                pass
            elif access is LaneAccess.READ:
                later = lanes & ~by
            elif earlier in WRITES and by == lanes:
                by = 0
            if any(later & ~known[lane] for lane in lanes_of(by)):
                return self.at[earlier]
        return None

    def clash_with_engine(self, lanes: int, writes: bool, known: Sequence[int]) -> int | None:
        """As `clash`, for an access that an engine makes for `lanes`, in no order with them."""
        for earlier in LaneAccess if writes else WRITES:
            if any(lanes & ~known[lane] for lane in lanes_of(self.lanes[earlier])):
                return self.at[earlier]
        return None

    def add(self, lanes: int, access: LaneAccess, instruction: int) -> None:
        """Note the access."""
        self.lanes[access] |= lanes
        self.at[access] = instruction

    def merge(self, newer: LaneUse) -> None:
        """Note the accesses of another layer."""
        self.some |= newer.some
        self.apart |= newer.apart
        if newer.lanes[LaneAccess.WRITE]:
            alike = newer.left == self.left or not self.lanes[LaneAccess.WRITE]
            self.left = newer.left if alike else None
        for access in LaneAccess:
            if newer.lanes[access]:
                self.add(newer.lanes[access], access, newer.at[access])


_Table = dict[tuple[int, int], LaneUse]


def _merge(table: _Table, newer: _Table) -> None:
    for place, use in newer.items():
        table.setdefault(place, LaneUse()).merge(use)


@dataclass(slots=True)
class LaneArms:
    """A branch on unknown data: the accesses before it, and of its arms that have ended.

    `divided`: data may divide the lanes.
    """

    before: _Table
    divided: bool
    ended: _Table = field(default_factory=dict)


@dataclass(slots=True)
class LaneLayer:
    """Accesses between two events that order lanes.

    `users`: the lanes that access; known[n]: those that come after the accesses of lane n;
    `fenced`, `released`: lanes whose accesses are before a fence, and have been handed over.
    """

    uses: _Table
    users: int
    known: list[int] = field(default_factory=lambda: list(ITSELF))
    fenced: int = 0
    released: int = 0

    def known_to(self, lanes: int) -> int:
        """The lanes whose accesses some of `lanes` come after."""
        return sum(1 << lane for lane, after in enumerate(self.known) if after & lanes)

    def order(self, earlier: int, lanes: int) -> None:
        """`lanes` come after the accesses of the lanes of `earlier`."""
        for lane in lanes_of(earlier):
            self.known[lane] |= lanes

    def merge(self, other: LaneLayer) -> None:
        """Take the other layer in; what is ordered in one of them counts as ordered."""
        self.known = [a | b for a, b in zip(self.known, other.known, strict=True)]
        self.users |= other.users
        self.fenced |= other.fenced
        self.released |= other.released
        _merge(self.uses, other.uses)


@dataclass(slots=True)
class LaneUses:
    """`now`: since the last event that orders lanes, in the arm that is being executed; `outer`:
    the branches that it is in; `layers`: before the event; `strong_readers`: lanes whose next
    fence takes over. `spent`: lanes whose loads are compared with what is before them alone."""

    now: _Table = field(default_factory=dict)
    outer: list[LaneArms] = field(default_factory=list)
    users: int = 0
    layers: list[LaneLayer] = field(default_factory=list)
    strong_readers: int = 0
    spent: int = 0

    def note(
        self, place: tuple[int, int], lanes: int, access: LaneAccess, instruction: int, some: bool
    ) -> int | None:  # fmt: skip
        """Note an access to a byte by `lanes`, or some of them; an instruction before it that
        clashes with it, if any."""
        use = self.now.setdefault(place, LaneUse())
        other = use.clash(lanes, access, ITSELF, some)
        for table, known, parted in self._earlier(some):
            before = table.get(place)
            if other is None and before is not None:
                other = before.clash(lanes, access, known, parted)
        if access is LaneAccess.READ:
            lanes &= ~self.spent
        if lanes:
            use.add(lanes, access, instruction)
            use.some |= some << access
            self.users |= lanes
        return other

    def stored_alike(self, place: tuple[int, int], lanes: int) -> int | None:
        """The instruction of a plain store by all of `lanes`, and no others, to a byte, if one of
        them may be here before another has made it."""
        layers: list[tuple[_Table, Sequence[int]]] = [(self.now, ITSELF)]
        layers += [(table, known) for table, known, _ in self._earlier(False)]
        for table, known in layers:
            use = table.get(place)
            stored = use is not None and use.lanes[LaneAccess.WRITE] == lanes
            if use is not None and stored and any(lanes & ~known[at] for at in lanes_of(lanes)):
                return use.at[LaneAccess.WRITE]
        return None

    def _earlier(self, some: bool) -> Iterator[tuple[_Table, Sequence[int], bool]]:
        """The accesses that are not of `now`, who comes after them, and whether only some of the
        lanes now may make theirs."""
        for arms in reversed(self.outer):
            if arms.divided:
                some = True
                yield arms.ended, ITSELF, True
            yield arms.before, ITSELF, some
        for layer in self.layers:
            yield layer.uses, layer.known, some

    def first_clash(
        self, number: int, ranges: Sequence[tuple[int, int]], lanes: int, writes: bool
    ) -> tuple[int, int] | None:
        """The lowest byte of a memory that an engine accesses for `lanes` without order, and the
        instruction of the access before it."""
        layers: list[tuple[_Table, Sequence[int]]] = [(self.now, ITSELF)]
        layers += [(table, known) for table, known, _ in self._earlier(True)]
        places = {place for uses, _ in layers for place in uses if place[0] == number}
        for place in sorted(places):
            if any(low <= place[1] < high for low, high in ranges):
                for uses, known in layers:
                    use = uses.get(place)
                    other = None if use is None else use.clash_with_engine(lanes, writes, known)
                    if other is not None:
                        return place[1], other
        return None

    def enter_arms(self, divided: bool) -> None:
        """The arms of a branch on unknown data follow."""
        self.outer.append(LaneArms(self.now, divided))
        self.now = {}

    def end_arm(self) -> None:
        """An arm has ended, and another may begin."""
        arms = self.outer[-1]
        if arms.divided:
            for use in self.now.values():
                use.some = (1 << len(LaneAccess)) - 1
        _merge(arms.ended, self.now)
        self.now = {}

    def leave_arms(self) -> None:
        """The last arm has ended."""
        arms = self.outer.pop()
        self.now = arms.before
        _merge(self.now, arms.ended)

    def all_meet(self) -> None:
        """What the lanes did so far comes before what they do now."""
        self.now.clear()
        self.users = self.strong_readers = 0
        self.layers.clear()

    def meet(self, members: int, live: int) -> None:
        """The lanes of `members` meet."""
        if members & live == live:
            self.all_meet()
        else:
            self._ordered(live, lambda layer: layer.order(layer.known_to(members), members))

    def wait(self, lanes: int, live: int) -> None:
        """A wait of `lanes` has passed."""
        self._acquire(lanes, live)

    def arrive(self, lanes: int, semantics: AccessSemantics, live: int) -> None:
        """`lanes` arrive at an mbarrier."""
        self._write(lanes, semantics, live)

    def access(self, lanes: int, mode: Mode, semantics: AccessSemantics, live: int) -> None:
        """A strong access by `lanes`; an atomic is a read and then a write."""
        if mode is not Mode.WRITE:
            self.strong_readers |= lanes
            if semantics in ACQUIRES:
                self._acquire(lanes, live)
        if mode is not Mode.READ:
            self._write(lanes, semantics, live)

    def fence(self, lanes: int, kind: RecordedFence, live: int) -> None:
        """A fence of `lanes`; that of wgmma is executed by all lanes together."""
        if kind is RecordedFence.WGMMA:
            self.all_meet()
        elif kind in MEMORY_FENCES:
            if self.strong_readers & lanes:
                self._acquire(self.strong_readers & lanes, live)

            def fenced(layer: LaneLayer) -> None:
                layer.fenced |= layer.known_to(lanes)

            self._ordered(live, fenced)

    def _acquire(self, lanes: int, live: int) -> None:
        if any(layer.released for layer in self.layers):
            self._ordered(live, lambda layer: layer.order(layer.released, lanes))

    def _write(self, lanes: int, semantics: AccessSemantics, live: int) -> None:
        releases = semantics in RELEASES
        if not releases and not any(layer.fenced & ~layer.released for layer in self.layers):
            return

        def released(layer: LaneLayer) -> None:
            layer.released |= layer.fenced
            if releases:
                layer.released |= layer.known_to(lanes)

        self._ordered(live, released)

    def _ordered(self, live: int, event: Callable[[LaneLayer], None]) -> None:
        """Begin a new layer with what happens to the ones before; layers alike become one."""
        if self.now:
            self.layers.append(LaneLayer(self.now, self.users))
            self.now, self.users = {}, 0
        kept: list[LaneLayer] = []
        for layer in self.layers:
            event(layer)
            if all(layer.known[lane] & live == live for lane in lanes_of(layer.users)):
                continue
            same = next((one for one in kept if _alike(one, layer)), None)
            if same is None and len(kept) == LAYERS_MAX:
                same = kept[-1]  # one layer more than there are: a race may be missed
            if same is None:
                kept.append(layer)
            else:
                same.merge(layer)
        self.layers = kept


def _alike(one: LaneLayer, other: LaneLayer) -> bool:
    return (one.known, one.fenced, one.released) == (other.known, other.fenced, other.released)


def follow_lanes(uses: LaneUses, event: ev.Event, live: int) -> int:
    """What an event orders among the lanes of its warp; those that are live behind it."""
    lanes = event.lanes
    match event:
        case ev.RendezvousEvent(meeting=ev.Meeting.WARP, number=members):
            uses.meet(members, live)
        case ev.RendezvousEvent():
            uses.all_meet()
        case ev.WaitEvent():
            uses.wait(lanes, live)
        case ev.ArriveEvent(semantics=semantics):
            uses.arrive(lanes, semantics, live)
        case ev.ExpectBytes():
            uses.arrive(lanes, ev.AccessSemantics.RELAXED, live)
        case ev.CopyArrive() | ev.TensorCommitEvent():
            uses.arrive(lanes, ev.AccessSemantics.RELEASE, live)
        case ev.AccessEvent(mode=mode, semantics=semantics):
            if semantics is not ev.AccessSemantics.WEAK:
                uses.access(lanes, mode, semantics, live)
        case ev.FenceEvent(kind=kind):
            uses.fence(lanes, kind, live)
        case ev.Exit():
            live &= ~lanes
    return live
