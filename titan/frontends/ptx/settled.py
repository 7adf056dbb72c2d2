"""Whether what strong reads of shared memory give is settled, although they may race.

A volatile or relaxed read does not race with strong writes, so its value may differ from one
interleaving to the next; where it steers control, one run does not represent them all. Code by hand
reads the address of its tensor memory so, behind a barrier. `settled_form` is the run with the
strong accesses to such bytes taken as plain ones: if nothing races in it, each of these reads is
ordered against every write of its bytes, those writes against each other, and the value is the same
in every interleaving (condition (b) of titan/isa/simt/outcome.py).

A counter of the grid in global memory that one lane alone raises in its cluster (`own_counters`)
gives a value that other clusters decide, not the interleaving inside; values are tried instead
(`Launch.in_turn`).

Left as they are, so undecided: other bytes of global memory, as other clusters may write them;
those that atomics or reductions change; and those that a warp both writes strongly and reads: its
lanes are one agent of the sync program, so that no race between them would show.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeGuard

from titan.isa.simt import events as ev
from titan.isa.simt.footprints import Footprint, MemorySpace
from titan.isa.simt.operations import ATOMICS, DecodedStep, Op
from titan.isa.simt.outcome import Confluence, Run

_Bytes = dict[int, list[int]]  # sorted offsets of bytes of shared memory, by its owner


def settled_form(run: Run) -> Run | None:
    """The run as above; None where no strong read steers, or one that this does not settle."""
    events = run.events
    strong = [s for s in run.confluence.steering if _is_strong(events[s.sequence])]
    if strong:
        counters = own_counters(run)
        strong = [s for s in strong if s.sequence not in counters]
    if not strong:
        return None
    footprints: list[Footprint] = []
    readers: set[tuple[int, int]] = set()
    changed: dict[int, ev.Event] = {}
    for steering in strong:
        event = events[steering.sequence]
        if not isinstance(event, ev.AccessEvent) or event.mode is not ev.Mode.READ:
            return None
        if event.footprint.space is not MemorySpace.SHARED:
            return None
        footprints.append(event.footprint)
        readers.add((event.cta, event.warp))
        changed[event.sequence] = _plain(event)
    read = _bytes(footprints)
    for event in events:
        if isinstance(event, ev.AsynchronousEvent):
            if any(e.mode is ev.Mode.ATOMIC and _touches(e.footprint, read) for e in event.effects):
                return None
        elif _is_strong(event) and event.mode is not ev.Mode.READ:
            if not _touches(event.footprint, read):
                continue
            if event.mode is ev.Mode.ATOMIC or (event.cta, event.warp) in readers:
                return None
            changed[event.sequence] = _plain(event)
    others = tuple(item for item in run.confluence.steering if item not in strong)
    return replace(
        run,
        events=tuple(changed.get(event.sequence, event) for event in events),
        confluence=replace(run.confluence, steering=others),
    )


def steering_alone(run: Run, form: Run) -> Run:
    """The settled form with no accesses but those of the bytes that steer strongly.

    Where nothing races in it they are settled, whatever is wrong with other memory.
    """
    kept = set(form.confluence.steering)
    strong = [item for item in run.confluence.steering if item not in kept]
    read = _bytes(item.footprint for item in strong)
    events: list[ev.Event] = []
    for event in form.events:
        if isinstance(event, ev.AccessEvent) and not _touches(event.footprint, read):
            continue
        if isinstance(event, ev.AsynchronousEvent):
            near = tuple(item for item in event.effects if _touches(item.footprint, read))
            events.append(replace(event, effects=near))
        else:
            events.append(event)
    return replace(form, events=tuple(events), confluence=Confluence())


def own_counters(run: Run) -> set[int]:
    """The additions, by sequence number, to counters in global memory that one lane alone uses.

    None where other atomics, too, give old values: which of them steers is not kept.
    """
    found: dict[Footprint, list[ev.AccessEvent]] = {}
    others: list[ev.Event] = []
    steps = run.prepared.code.steps if run.prepared is not None else ()
    for event in run.events:
        if isinstance(event, ev.AccessEvent) and event.footprint.space is MemorySpace.GLOBAL:
            if event.mode is ev.Mode.ATOMIC and event.returns:
                found.setdefault(event.footprint, []).append(event)
            else:
                others.append(event)
        elif isinstance(event, ev.AccessEvent) and event.returns:
            return set()
        elif isinstance(event, ev.AsynchronousEvent | ev.Skipped):
            others.append(event)
    counters: set[int] = set()
    touched = [_global_bounds(event) for event in others] if found else []
    for footprint, events in found.items():
        low, high = footprint.bounds
        lanes = {(event.cta, event.warp, event.lanes) for event in events}
        alone = len(lanes) == 1 and _is_one(events[0].lanes)
        apart = all(low >= end or high <= start for pairs in touched for start, end in pairs)
        same = sum(other.bounds[0] < high and low < other.bounds[1] for other in found) == 1
        adds = all(
            event.instruction < len(steps) and _adds(steps[event.instruction]) for event in events
        )
        if not (alone and apart and same and adds):
            return set()
        counters |= {event.sequence for event in events}
    return counters


def _adds(step: DecodedStep) -> bool:
    return step.op is Op.ATOMIC and ATOMICS[step.flags[6]] == "add"


def _is_one(lanes: int) -> bool:
    return lanes & (lanes - 1) == 0


def _global_bounds(event: ev.Event) -> list[tuple[int, int]]:
    footprints: Iterable[Footprint] = ()
    if isinstance(event, ev.AccessEvent):
        footprints = (event.footprint,)
    elif isinstance(event, ev.AsynchronousEvent):
        footprints = [effect.footprint for effect in event.effects]
    elif isinstance(event, ev.Skipped):
        footprints = event.writes
    return [item.bounds for item in footprints if item.space is MemorySpace.GLOBAL]


def _is_strong(event: ev.Event) -> TypeGuard[ev.AccessEvent]:
    return isinstance(event, ev.AccessEvent) and event.semantics is not ev.AccessSemantics.WEAK


def _plain(event: ev.AccessEvent) -> ev.AccessEvent:
    return replace(event, semantics=ev.AccessSemantics.WEAK)


def _bytes(footprints: Iterable[Footprint]) -> _Bytes:
    found: dict[int, set[int]] = {}
    for footprint in footprints:
        if footprint.space is MemorySpace.SHARED:
            for low, high in footprint.ranges():
                found.setdefault(footprint.cta, set()).update(range(low, high))
    return {cta: sorted(offsets) for cta, offsets in found.items()}


def _touches(footprint: Footprint, read: _Bytes) -> bool:
    offsets = read.get(footprint.cta)
    if footprint.space is not MemorySpace.SHARED or not offsets:
        return False
    low, high = footprint.bounds
    if not _any_within(offsets, low, high):
        return False
    return any(_any_within(offsets, low, high) for low, high in footprint.ranges())


def _any_within(offsets: list[int], low: int, high: int) -> bool:
    place = bisect_left(offsets, low)
    return place < len(offsets) and offsets[place] < high
