"""The Python machine led along an interleaving: which warp continues, and which operation
completes.

Nothing happens by itself: a warp runs until it has recorded so many events, an asynchronous
operation completes when it is asked to, or when the warp itself waits for it. A warp's own events
come in the same order in every interleaving, as nothing but waiting depends on others (see
`outcome.py`); so "the n-th event of a warp" names the same in each of them. Which kinds count is
`OWN`: those that do not depend on the schedule.
"""

from __future__ import annotations

from collections.abc import Iterator

from titan.foundation.errors import TitanError
from titan.isa.simt import events as ev
from titan.isa.simt.execution import QUANTUM, SimtExecution
from titan.isa.simt.outcome import Outcome
from titan.isa.simt.recorder import EndedRun
from titan.isa.simt.state import Fragment, InFlight, Warp

OWN = (
    ev.AccessEvent, ev.Skipped, ev.AsynchronousEvent, ev.CommitEvent, ev.QueueWaitEvent,
    ev.TensorCommitEvent, ev.CopyArrive, ev.BarrierInit, ev.BarrierInvalidate, ev.ArriveEvent,
    ev.ExpectBytes, ev.WaitEvent, ev.RendezvousEvent, ev.FenceEvent, ev.TensorAllocate,
    ev.TensorDeallocate, ev.RegisterCount,
)  # fmt: skip
ISSUING = (ev.AsynchronousEvent, ev.CopyArrive, ev.TensorCommitEvent)
WarpName = tuple[int, int]  # CTA and number


class NotFollowedError(TitanError):
    """The machine does not go where it is led; the message says where."""


class SteeredExecution(SimtExecution):
    """Call `begin`, then `advance` and `complete`; `go_on` runs freely to an end."""

    def begin(self) -> None:
        """Start the chosen clusters; nothing runs yet."""
        for members in self.chosen():
            self.start_cluster(members)
        self._turns: dict[WarpName, Iterator[bool]] = {}
        self._own: dict[WarpName, list[ev.Event]] = {}
        self._counted = 0

    def own(self, name: WarpName) -> list[ev.Event]:
        """The events of a warp so far."""
        for event in self.events[self._counted :]:
            if isinstance(event, OWN):
                self._own.setdefault((event.cta, event.warp), []).append(event)
        self._counted = len(self.events)
        return self._own.setdefault(name, [])

    def advance(self, name: WarpName, count: int) -> None:
        """The warp runs until it has recorded `count` events. Raises NotFollowedError."""
        cta = self.ctas.get(name[0])
        if cta is None or not 0 <= name[1] < len(cta.warps):
            raise NotFollowedError(f"there is no warp {name[1]} of CTA {name[0]}")
        turns = self._turns.setdefault(name, self._turns_of(cta.warps[name[1]]))
        while len(self.own(name)) < count:
            try:
                ran = next(turns)
            except EndedRun as ended:
                raise NotFollowedError(ended.outcome.reason) from None
            if not ran:
                place = f"warp {name[1]} of CTA {name[0]}"
                raise NotFollowedError(f"{place} cannot proceed after {len(self.own(name))} events")

    def _turns_of(self, warp: Warp) -> Iterator[bool]:
        """One instruction at a time, as in rounds of this warp alone; False where nothing runs."""
        while True:
            ran = False
            for fragment in tuple(warp.fragments):
                for _ in self._quantum(fragment):
                    ran = True
                    yield True
            if not ran and not self._break_join(warp):
                yield False

    def _quantum(self, fragment: Fragment) -> Iterator[None]:
        if fragment.dead:
            return
        if fragment.blocked is not None:
            if not fragment.blocked.ready():
                return
            blocked, fragment.blocked = fragment.blocked, None
            blocked.resume()
        for _ in range(QUANTUM):
            pc = fragment.pc
            self.run_fragment(fragment, 1)
            yield
            if fragment.dead or fragment.blocked is not None or fragment.pc == pc:
                return

    def operation(self, name: WarpName, ordinal: int) -> InFlight:
        """What the warp issued as its `ordinal`-th event of an operation. NotFollowedError."""
        issued = [event for event in self.own(name) if isinstance(event, ISSUING)]
        if ordinal < len(issued):
            number = issued[ordinal].operation
            for operation in self.ctas[name[0]].warps[name[1]].issued:
                if operation.number == number:
                    return operation
        place = f"warp {name[1]} of CTA {name[0]}"
        raise NotFollowedError(f"{place} has not issued its operation {ordinal}")

    def complete(self, name: WarpName, ordinal: int) -> None:
        """An engine completes what the warp issued."""
        self.finish(self.operation(name, ordinal))

    def go_on(self) -> Outcome:
        """Run freely from here."""
        try:
            while self._round():
                pass
        except EndedRun as ended:
            return ended.outcome
        return self._ending()
