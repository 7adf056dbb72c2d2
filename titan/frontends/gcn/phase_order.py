"""Which conflicting accesses of a run of waves are ordered, found by counting barriers alone.

Only `s_barrier` orders different waves, and all waves that have not ended take part in each: an
access is over before the barrier of its wave that comes first behind the wait for it, and another
wave's access is behind the barriers that its own wave has passed. Two numbers an access decide
every pair; no engine takes part, so the verdict of the happens-before engine on assembly has a
second opinion, and two runs can be compared: where they make the same accesses and order all that
conflict in the same way, every load reads the same store in both, whatever the interleaving.

Assumed: operations of one queue of a wave keep their order (`record.py` has the sources), and those
on global memory by the vector cache take place where they are issued (`issue_order.py`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from titan.frontends.gcn.issue_order import IssueOrder
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.outcome import Ending, Run
from titan.isa.waves.events import (
    APART,
    BY_CACHE_GFX1250,
    SCALAR_QUEUES,
    CounterWait,
    MisalignedAtomic,
    OperationIssued,
    OutsideLds,
    OutsidePrivate,
    PendingRegister,
    UnknownAddress,
    WaitStatesMissing,
    WaveBarrier,
    WaveEnd,
    WaveQueue,
    WaveSignal,
    WaveSignalWait,
)

PAIRS_MAX = 4_000_000
Name = tuple[int, int]  # the wave, and which of its accesses


@dataclass(slots=True, eq=False)
class TimedAccess:
    """An operation with its extent in time.

    `issued`, `over`: barriers that its wave has passed when it begins, and at which it has arrived
    when it is over.

    `since`, `until`: the same as places among the events of its wave.
    """

    name: Name
    queue: WaveQueue
    number: int
    issued: int
    since: int
    over: int = -1
    until: int = -1

    def before(self, other: TimedAccess) -> bool:
        """Whether it is over before the other one begins, in every interleaving."""
        if self.name[0] != other.name[0]:
            return self.over < other.issued
        if self.queue in BY_CACHE_GFX1250 and other.queue in BY_CACHE_GFX1250:
            return self.since < other.since
        if self.queue is other.queue and self.queue not in SCALAR_QUEUES | APART:
            return self.number < other.number
        return 0 <= self.until < other.since


_User = tuple[TimedAccess, bool, bytes]  # whether it writes, and its mark
ATOMIC = b"atomic"


class _Touch(NamedTuple):
    """A run of bytes that an access touches."""

    low: int
    high: int
    user: _User


@dataclass(frozen=True, slots=True)
class PhaseOrder:
    """The accesses of each wave in words, and the pairs that conflict.

    `ordered`: the first is over before the second. `unordered`: in some interleaving it is not.
    """

    accesses: tuple[tuple[str, ...], ...]
    ordered: frozenset[tuple[Name, Name]]
    unordered: frozenset[tuple[Name, Name]]

    @property
    def conflicts(self) -> int:
        """How many pairs conflict."""
        return len(self.ordered) + len(self.unordered)


def phase_order(run: Run) -> PhaseOrder | None:
    """The order of all conflicting accesses; None if the run has not ended or is too long."""
    if run.outcome.ending is not Ending.FINISHED:
        return None
    texts: dict[int, list[str]] = {}
    touched: dict[tuple[MemorySpace, int], list[_Touch]] = {}
    order = IssueOrder(run)
    for access, event in accesses_of(run, texts):
        performed = replace(access, over=access.issued, until=access.since)
        for use in event.uses:
            mark = ATOMIC if use.atomic else use.value
            memory = touched.setdefault((use.footprint.space, use.footprint.cta), [])
            user = performed if order.holds(access.queue, use.footprint) else access
            for low, high in use.footprint.ranges():
                memory.append(_Touch(low, high, (user, use.write, mark)))
    pairs = _conflicting(touched.values())
    if pairs is None:
        return None
    ordered, unordered = set[tuple[Name, Name]](), set[tuple[Name, Name]]()
    for one, other in pairs:
        if one.before(other):
            ordered.add((one.name, other.name))
        elif other.before(one):
            ordered.add((other.name, one.name))
        else:
            first, second = sorted((one.name, other.name))
            unordered.add((first, second))
    accesses = tuple(tuple(texts[wave]) for wave in sorted(texts))
    return PhaseOrder(accesses, frozenset(ordered), frozenset(unordered))


def same_order(first: PhaseOrder | None, second: PhaseOrder | None) -> str:
    """Why the second run is not shown to be like the first; empty if it is."""
    if first is None or second is None:
        return "a run has not ended, or has too many pairs"
    if first.accesses != second.accesses:
        return "the waves make other accesses"
    reversed_pairs = {(b, a) for a, b in first.ordered} & second.ordered
    if reversed_pairs:
        return f"the order of {len(reversed_pairs)} conflicting pairs is reversed"
    if first != second:
        return f"{len(second.unordered - first.unordered)} more conflicting pairs are unordered"
    return ""


def accesses_of(run: Run, texts: dict[int, list[str]]) -> list[tuple[TimedAccess, OperationIssued]]:
    """The operations that touch memory, with their extent in time; `texts` says what they are."""
    barriers: dict[int, int] = {}  # that the wave has passed
    arrived: dict[int, int] = {}  # at which it has arrived
    flying: dict[tuple[int, WaveQueue], list[TimedAccess]] = {}
    issued: dict[tuple[int, WaveQueue], int] = {}
    found: list[tuple[TimedAccess, OperationIssued]] = []

    def finish(wave: int, queue: WaveQueue, cut: int, place: int) -> None:
        waiting = flying.setdefault((wave, queue), [])
        while waiting and waiting[0].number < cut:
            done = waiting.pop(0)
            done.over, done.until = arrived.get(wave, 0), place

    for place, event in enumerate(run.events):
        wave = event.warp
        words = texts.setdefault(wave, [])
        match event:
            case WaveBarrier():
                barriers[wave] = barriers.get(wave, 0) + 1
                arrived[wave] = arrived.get(wave, 0) + 1
            case WaveSignal():
                arrived[wave] = arrived.get(wave, 0) + 1
            case WaveSignalWait():
                barriers[wave] = barriers.get(wave, 0) + 1
            case CounterWait(queue=queue, pending=pending):
                finish(wave, queue, issued.get((wave, queue), 0) - pending, place)
            case WaveEnd():
                for queue in WaveQueue:
                    finish(wave, queue, event.sequence + 1, place)
            case OperationIssued(queue=queue, number=number):
                issued[wave, queue] = number + 1
                name = wave, len(words)
                access = TimedAccess(name, queue, number, barriers.get(wave, 0), place)
                words.append(f"{queue} {event.lanes:x} {event.uses}")
                flying.setdefault((wave, queue), []).append(access)
                found.append((access, event))
            case (
                UnknownAddress()
                | PendingRegister()
                | WaitStatesMissing()
                | OutsideLds()
                | MisalignedAtomic()
                | OutsidePrivate()
            ):
                words.append(type(event).__name__)
    return found


def _conflicting(memories: Iterable[list[_Touch]]) -> set[tuple[TimedAccess, TimedAccess]] | None:
    """The pairs of which one writes to a byte that the other touches.

    Two atomics do not race, nor do writes of the same known value.
    """
    pairs: set[tuple[TimedAccess, TimedAccess]] = set()
    for memory in memories:
        edges = sorted({edge for touch in memory for edge in (touch.low, touch.high)})
        cells: list[list[_User]] = [[] for _ in edges]
        for touch in memory:
            for cell in range(bisect_left(edges, touch.low), bisect_left(edges, touch.high)):
                cells[cell].append(touch.user)
        for users in set(map(tuple, cells)):
            writers = [user for user in users if user[1]]
            if len(writers) * len(users) > PAIRS_MAX:
                return None
            for one, _, mark in writers:
                for other, _, also in users:
                    if one is not other and not (mark and mark == also):
                        pairs.add((one, other) if one.name < other.name else (other, one))
            if len(pairs) > PAIRS_MAX:
                return None
    return pairs
