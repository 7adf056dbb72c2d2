"""Whether the lanes of a warp's next event are known to be after its events so far.

A warp is one agent, its events one after the other. `abreast` are the lanes that took part in the
last event, or have met since; `behind` those that were left for others before. Where they go on
again after the others have done more than weak accesses, the two parts run side by side, which no
order of one agent says. Weak accesses between two events of other lanes are placed by the run, as
those of any lanes that have not met, and `lane_schedules` moves them. What one instruction does for
several lanes at once they do abreast. An `elect.sync` goes on when all lanes of its mask have come
to it (PTX, "elect.sync").
"""

from __future__ import annotations

from enum import Enum

from titan.isa.simt import events as ev


class Parts(Enum):
    """What is known of the lanes of an event."""

    TOGETHER = 0
    IN_ORDER_OF_RUN = 1  # taken to be after the others, as in the run
    SIDE_BY_SIDE = 2


class LanesAbreast:
    """The lanes of one warp, event by event."""

    def __init__(self) -> None:
        self.abreast = 0
        self.behind = 0
        self.overtaken = 0  # lanes behind, since when others have done more than weak accesses

    def step(self, event: ev.Event, same_step: bool) -> Parts:
        """The next event; `same_step`: its instruction made the one before, at once."""
        at_warp = isinstance(event, ev.RendezvousEvent) and event.meeting is ev.Meeting.WARP
        if isinstance(event, ev.Elect) or at_warp:
            if not isinstance(event, ev.RendezvousEvent) or event.side is not ev.Side.ARRIVE:
                self._met(event.lanes)
            return Parts.TOGETHER
        known, lanes = self.abreast, event.lanes
        if same_step:
            self.abreast = known | lanes
            self._gone_on(event)
            return Parts.TOGETHER
        self.abreast = lanes
        found = Parts.IN_ORDER_OF_RUN if known and lanes & ~known else Parts.TOGETHER
        if known and not lanes & known:
            if lanes & self.overtaken:
                found = Parts.SIDE_BY_SIDE
            self.behind |= known
        self._gone_on(event)
        return found

    def _gone_on(self, event: ev.Event) -> None:
        """The lanes of an event are not behind, and may have overtaken those that are."""
        self.behind &= ~event.lanes
        self.overtaken &= self.behind
        weak = isinstance(event, ev.AccessEvent) and event.semantics is ev.AccessSemantics.WEAK
        if not weak:
            self.overtaken |= self.behind

    def _met(self, lanes: int) -> None:
        """Lanes have met: all of them are where one of them is."""
        if not self.abreast or lanes & self.abreast:
            self.abreast |= lanes
            self.behind &= ~lanes
            self.overtaken &= ~lanes
