"""What a traced run loads of global memory at addresses that are not known.

Two loads of a warp at one address give the same where the warp has done nothing in between but
read: what another agent writes can come after the first and before the second only by an event of
the warp that takes it over, or in a race with them. Such a race is judged by itself. Loads of two
warps give the same where no warp has done anything in between by which global memory changes, or by
which something is taken over from outside of the block: accesses of shared memory and barriers of
the block leave it as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from titan.isa.simt import events as ev
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.tracing.alike_lanes import keys_of
from titan.isa.simt.tracing.executed_step import ExecutedStep
from titan.isa.simt.values import any_opaque, lane

_SILENT = (ev.Assumption, ev.LaneClash)


class LoadsAnywhere:
    """Follows the `events` of a run."""

    def __init__(self, events: Sequence[ev.Event]) -> None:
        self._events = events
        self._seen = 0
        self._last: dict[tuple[int, int], int] = {}  # events that are no reads, by warp
        self._changed = -1  # the last event by which global memory may be another one
        self._of_all: dict[object, object] = {}  # the key for all warps, by that of one

    def key(self, now: ExecutedStep, register: int, index: int) -> object | None:
        """What a weak load gives a lane is made of, where it has addresses that are not known."""
        address = now.operands[0]
        made = keys_of([lane(address, index)])
        if now.step.flags[0] != MemorySpace.GLOBAL or made is None or not any_opaque([address]):
            return None
        for event in self._events[self._seen :]:
            if not isinstance(event, _SILENT) and not _reads(event):
                self._last[event.cta, event.warp] = event.sequence
                if not _stays_inside(event):
                    self._changed = event.sequence
        self._seen = len(self._events)
        warp = now.warp.cta.number, now.warp.index
        position = now.step.out.index(register)
        key = now.step.flags, position, made
        of_warp = "anywhere", warp, self._last.get(warp, -1), *key
        return self._of_all.setdefault(of_warp, ("anywhere", self._changed, *key))


def _reads(event: ev.Event) -> bool:
    if not isinstance(event, ev.AccessEvent) or event.mode is not ev.Mode.READ:
        return False
    return event.semantics is ev.AccessSemantics.WEAK


def _stays_inside(event: ev.Event) -> bool:
    """Whether an event leaves global memory as it is, whatever other blocks do."""
    if isinstance(event, ev.RendezvousEvent):
        return event.meeting in (ev.Meeting.NAMED, ev.Meeting.WARP)
    if not isinstance(event, ev.AccessEvent) or event.semantics is not ev.AccessSemantics.WEAK:
        return False
    return event.footprint.space is MemorySpace.SHARED
