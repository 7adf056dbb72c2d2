"""Places to which the same lanes of a warp store twice, another value, without having met.

What all lanes have stored they may store to again (`lane_uses.py`), as long as it is the same: one
lane may be at the second store before another has made the first, and then the first value stays.
Such stores, and copies by `cp.async`, are rare, and found in the events. A run that has some is
made again with its values traced, and what is stored is compared with what was stored before, or
what the place holds before and behind the second store: by numbers, by bytes where they are known.
What is copied counts as another value. What an arm of a branch on data stores so is open where it
is another value, as the branch may be taken once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from titan.isa.simt import events as ev
from titan.isa.simt.accesses import place, read_value
from titan.isa.simt.footprints import NO_CTA, Footprint, MemorySpace
from titan.isa.simt.operations import DecodedStep, Op
from titan.isa.simt.outcome import INSTRUCTIONS_MAX, Ending, PreparedLaunch, Run
from titan.isa.simt.state import Fragment, LanePlace, Warp
from titan.isa.simt.tracing.executed_step import is_untraced
from titan.isa.simt.tracing.traced import ADDRESS_MASK, TracingExecution
from titan.isa.simt.tracing.traced_memory import Traced
from titan.isa.simt.values import LANES, Opaque, Scalar, lane, lanes_of

_RECORDED = (MemorySpace.SHARED, MemorySpace.GLOBAL)


class StoredAgain(NamedTuple):
    """`clashes`: stores of another value than the same lanes have stored before. `open`: the
    instructions of stores whose values could not be compared."""

    clashes: tuple[ev.LaneClash, ...] = ()
    open: tuple[int, ...] = ()


def stored_again(run: Run) -> StoredAgain:
    """What several lanes store over what they have stored, where it may be another value."""
    made = run.prepared
    if made is None or run.outcome.ending is not Ending.FINISHED:
        return StoredAgain()
    steps = made.code.steps
    watched = _repeated(run.events, steps, run.launch.threads)
    if not watched:
        return StoredAgain()
    if run.instructions > INSTRUCTIONS_MAX or any(is_untraced(e, steps) for e in run.events):
        return StoredAgain((), tuple(sorted(watched)))
    machine = _WatchedStores(made, watched)
    again = machine.run()
    if list(again.events) != list(run.events) or again.outcome != run.outcome:
        return StoredAgain((), tuple(sorted(watched)))
    left = machine.open | (machine.equal if machine.unsure else set())
    return StoredAgain(tuple(machine.found.values()), tuple(sorted(left)))


def _repeated(events: Sequence[ev.Event], steps: Sequence[DecodedStep], threads: int) -> set[int]:
    """The stores and copies, by instruction, of which lanes write common bytes, and of which some
    has been written so before, with no barrier of the whole warp in between."""
    found: set[int] = set()
    written: dict[tuple[int, int], list[Footprint]] = {}
    for event in events:
        if isinstance(event, ev.RendezvousEvent):
            lanes = min(LANES, threads - LANES * event.warp)
            if event.lanes == (1 << lanes) - 1:
                written.pop((event.cta, event.warp), None)
            continue
        footprint = _in_common(event, steps)
        if footprint is not None:
            before = written.setdefault((event.cta, event.warp), [])
            if any(footprint.may_meet(other) for other in before):
                found.add(event.instruction)
            if footprint not in before:
                before.append(footprint)
    return found


def _in_common(event: ev.Event, steps: Sequence[DecodedStep]) -> Footprint | None:
    """What a store or a cp.async writes, where some lanes of it write the same bytes."""
    if isinstance(event, ev.AccessEvent):
        return event.footprint if event.collides else None
    if not isinstance(event, ev.AsynchronousEvent) or event.kind is not ev.RecordedOperation.COPY:
        return None
    step = steps[event.instruction] if event.instruction < len(steps) else None
    if step is None or step.op is not Op.COPY:
        return None
    each = step.flags[2] * event.lanes.bit_count()
    written = (one.footprint for one in event.effects if one.mode is ev.Mode.WRITE)
    return next((one for one in written if _bytes(one) < each), None)


def _bytes(footprint: Footprint) -> int:
    return sum(high - low for low, high in footprint.ranges())


class _Place(NamedTuple):
    """Where `lanes` are about to store `values` of each `size` bytes in all. `earlier`: the
    instruction by which they have stored there, unordered, and what is there."""

    lanes: int
    where: LanePlace
    size: int
    values: tuple[Scalar, ...]
    earlier: int | None
    held: tuple[Scalar, ...] = ()


class _WatchedStores(TracingExecution):
    """A traced run that compares what the watched stores write with what was there."""

    def __init__(self, made: PreparedLaunch, watched: set[int]) -> None:
        super().__init__(made)
        self.watched = watched
        self.found: dict[int, ev.LaneClash] = {}
        self.equal: set[int] = set()  # stores that are shown to write what was there
        self.open: set[int] = set()  # in arms that data leave out, of values that differ
        self._last: dict[tuple[Warp, LanePlace], tuple[int, int, tuple[Scalar, ...]]] = {}

    def step(self, fragment: Fragment) -> bool:
        """Execute one instruction."""
        pc, step = fragment.pc, self.steps[fragment.pc]
        stores = step.op in (Op.STORE, Op.COPY) and self._arms is None
        places = self._places(fragment, step) if stores else []
        result = super().step(fragment)
        for item in places:
            last = self._last.get((fragment.warp, item.where))
            self._last[fragment.warp, item.where] = pc, item.size, item.values
            if item.earlier is None:
                continue
            again = last is not None and last[:2] == (item.earlier, item.size)
            if step.op is Op.STORE and (
                (again and last is not None and _same(last[2], item.values))
                or (not self.maybe and _same(item.held, self._held(fragment, *item[1:3])))
            ):
                self.equal.add(pc)
            elif self.maybe:
                self.open.add(pc)
            else:
                self._clash(fragment, pc, item)
        return result

    def _clash(self, fragment: Fragment, pc: int, item: _Place) -> None:
        space, cta, low = item.where
        number = NO_CTA if cta is None else cta.number
        footprint = self.footprint(MemorySpace(space), number, ((low, low + item.size),))
        warp, other = fragment.warp, item.earlier
        assert other is not None
        header = len(self.events), warp.cta.number, warp.index, item.lanes, pc
        self.found.setdefault(pc, ev.LaneClash(*header, footprint, ev.Mode.WRITE, other))

    def forget(self, footprint: Footprint) -> None:
        """Strong accesses that are taken as plain ones leave what they write."""
        if not self.options.strong_as_plain:
            super().forget(footprint)

    def _places(self, fragment: Fragment, step: DecodedStep) -> list[_Place]:
        """Where several lanes are about to store."""
        warp, lanes, values = fragment.warp, fragment.mask, step.args[1:]
        if step.op is Op.STORE:
            space, offset, _, _, bits, _ = step.flags
            size = bits // 8 * len(values)
        else:
            space, values = MemorySpace.SHARED, ()
            offset, _, size, _ = step.flags
        if step.guard >= 0:
            lanes, _ = self.guarded(warp, step, lanes)
        by_place: dict[LanePlace, int] = {}
        for index in lanes_of(lanes):
            address = lane(warp.registers[step.args[0]], index)
            if isinstance(address, Opaque):
                return []
            where = place(self, warp, space, (address + offset) & ADDRESS_MASK)
            by_place[where] = by_place.get(where, 0) | 1 << index
        found = []
        for where, writers in by_place.items():
            if where[0] not in _RECORDED or not writers & writers - 1:
                continue
            first = lanes_of(writers)[0]
            numbers = tuple(lane(warp.registers[item], first) for item in values)
            earlier = self._stored(fragment, where, size, writers)
            held = () if earlier is None else self._held(fragment, where, size)
            found.append(_Place(writers, where, size, numbers, earlier, held))
        return found

    def _stored(self, fragment: Fragment, where: LanePlace, size: int, lanes: int) -> int | None:
        """The instruction by which the lanes have stored there; of watched stores alone."""
        if fragment.pc not in self.watched:
            return None
        _, cta, low = where
        number, uses = NO_CTA if cta is None else cta.number, fragment.warp.uses
        found = (uses.stored_alike((number, at), lanes) for at in range(low, low + size))
        return next((item for item in found if item is not None), None)

    def _held(self, fragment: Fragment, where: LanePlace, size: int) -> tuple[Scalar, ...]:
        space, cta, low = where
        bytes_ = [(space, cta, low + at) for at in range(size)]
        return tuple(read_value(self, fragment.warp, 0, one, 1, fragment.pc) for one in bytes_)


def _same(before: Sequence[Scalar], now: Sequence[Scalar]) -> bool:
    """Whether values are known, or shown, to be equal."""
    return len(before) == len(now) and all(map(_equal, before, now))


def _equal(one: Scalar, other: Scalar) -> bool:
    if isinstance(one, Traced) and isinstance(other, Traced):
        return one.number == other.number
    return isinstance(one, int) and one == other
