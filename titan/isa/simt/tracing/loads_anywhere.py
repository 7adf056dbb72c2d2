"""What a traced run loads of global memory at addresses that are not known.

Two loads of a warp at one address give the same where the warp has done nothing in between but
read: what another agent writes can come after the first and before the second only by an event of
the warp that takes it over, or in a race with them. Such a race is judged by itself.
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

    def key(self, now: ExecutedStep, register: int, index: int) -> object | None:
        """What a weak load gives a lane is made of, where it has addresses that are not known."""
        address = now.operands[0]
        made = keys_of([lane(address, index)])
        if now.step.flags[0] != MemorySpace.GLOBAL or made is None or not any_opaque([address]):
            return None
        for event in self._events[self._seen :]:
            if not isinstance(event, _SILENT) and not _reads(event):
                self._last[event.cta, event.warp] = event.sequence
        self._seen = len(self._events)
        warp = now.warp.cta.number, now.warp.index
        position = now.step.out.index(register)
        return "anywhere", warp, self._last.get(warp, -1), now.step.flags, position, made


def _reads(event: ev.Event) -> bool:
    if not isinstance(event, ev.AccessEvent) or event.mode is not ev.Mode.READ:
        return False
    return event.semantics is ev.AccessSemantics.WEAK
