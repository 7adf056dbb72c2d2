"""Whether what strong reads of shared memory give is settled, although they may race.

A volatile or relaxed read does not race with strong writes, so its value may differ from one
interleaving to the next; where it steers control, one run does not represent them all. Code by hand
reads the address of its tensor memory so, behind a barrier. `settled_form` is the run with the
strong accesses to such bytes taken as plain ones: if nothing races in it, each of these reads is
ordered against every write of its bytes, those writes against each other, and the value is the same
in every interleaving (condition (b) of titan/isa/simt/outcome.py).

Left as they are, so undecided: bytes of global memory (other clusters may write them), those that
atomics or reductions change, and those that a warp both writes strongly and reads: its lanes are
one agent of the sync program, so that no race between them would show.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeGuard

from titan.isa.simt import events as ev
from titan.isa.simt.footprints import Footprint, MemorySpace
from titan.isa.simt.outcome import Run

_Bytes = set[tuple[int, int]]  # owner and offset, of shared memory


def settled_form(run: Run) -> Run | None:
    """The run as above; None where no strong read steers, or one that this does not settle."""
    events = run.events
    strong = [s for s in run.confluence.steering if _is_strong(events[s.sequence])]
    if not strong:
        return None
    read: _Bytes = set()
    readers: set[tuple[int, int]] = set()
    changed: dict[int, ev.Event] = {}
    for steering in strong:
        event = events[steering.sequence]
        if not isinstance(event, ev.AccessEvent) or event.mode is not ev.Mode.READ:
            return None
        if event.footprint.space is not MemorySpace.SHARED:
            return None
        read |= _bytes((event.footprint,))
        readers.add((event.cta, event.warp))
        changed[event.sequence] = _plain(event)
    for event in events:
        if isinstance(event, ev.AsynchronousEvent):
            reduced = (e.footprint for e in event.effects if e.mode is ev.Mode.ATOMIC)
            if _bytes(reduced) & read:
                return None
        elif _is_strong(event) and event.mode is not ev.Mode.READ:
            if not _bytes((event.footprint,)) & read:
                continue
            if event.mode is ev.Mode.ATOMIC or (event.cta, event.warp) in readers:
                return None
            changed[event.sequence] = _plain(event)
    return replace(
        run,
        events=tuple(changed.get(event.sequence, event) for event in events),
        confluence=replace(
            run.confluence,
            steering=tuple(s for s in run.confluence.steering if s not in strong),
        ),
    )


def _is_strong(event: ev.Event) -> TypeGuard[ev.AccessEvent]:
    return isinstance(event, ev.AccessEvent) and event.semantics is not ev.AccessSemantics.WEAK


def _plain(event: ev.AccessEvent) -> ev.AccessEvent:
    return replace(event, semantics=ev.AccessSemantics.WEAK)


def _bytes(footprints: Iterable[Footprint]) -> _Bytes:
    return {
        (footprint.cta, at)
        for footprint in footprints
        if footprint.space is MemorySpace.SHARED
        for low, high in footprint.ranges()
        for at in range(low, high)
    }
