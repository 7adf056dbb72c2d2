"""Tests of a barrier that gave false and were not simply tried again: peeks.

Code may test a barrier early (`try_wait`), do other work, and block on it later. In the run
that is recorded such a peek gives false, so that the wait is there: whatever a peek that gives true
leads to is an interleaving of that, in which the phase was complete early. That holds unless the
peek sees the parity of an earlier phase: it asks for phase n and must not be able to meet the
barrier before phase n - 1 is complete. A warp that has waited for phase n - 1 knows that; of
another the engine decides whether the completion is before the peek in every interleaving
(`titan/engines/happens_before/peeks.py`), as where warpgroups take tiles in turns. And the
wait that follows at the same barrier has to ask for the phase that the peek asked for: otherwise a
peek that gives true leads past a wait that is for something else. That it is at the same barrier
the machine sees by its marks: a wait that a branch on other barriers' peeks might have spared
counts as steered by them (`PollSteered`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from titan.isa.simt import events as ev
from titan.isa.simt.blocking import waits_until_passed
from titan.isa.simt.outcome import Run


@dataclass(slots=True)
class PeeksOfRun:
    """`astray`: instructions of peeks whose waits ask for another phase. `open`: peeks by sequence
    number of whose barrier the warp has not waited for the phase before.
    """

    astray: list[int] = field(default_factory=list)
    open: dict[int, ev.Poll] = field(default_factory=dict)


def peeks_of_run(run: Run) -> PeeksOfRun:
    """The peeks of a run that do not follow from what their warps have waited for."""
    found = PeeksOfRun()
    asked: dict[tuple[int, int, ev.BarrierAddress], ev.Poll] = {}
    seen: dict[tuple[int, int, ev.BarrierAddress], int] = {}
    last: dict[tuple[int, int], ev.Poll] = {}
    for event in run.events:
        warp = (event.cta, event.warp)
        poll = last.get(warp)
        if poll is not None and poll.lanes & event.lanes:
            del last[warp]
        else:
            poll = None
        if poll is not None and not _retried(poll, event):
            known = seen.get((*warp, poll.barrier))
            if known is None or known < poll.phase - 1:
                found.open[poll.sequence] = poll
            asked[(*warp, poll.barrier)] = poll
        if isinstance(event, ev.Poll):
            last[warp] = event
        elif isinstance(event, ev.WaitEvent):
            key = (*warp, event.barrier)
            seen[key] = max(seen.get(key, -1), event.phase)
            before = asked.pop(key, None)
            if before is not None and before.phase != event.phase:
                found.astray.append(before.instruction)
        elif isinstance(event, ev.BarrierInit):
            seen = {key: phase for key, phase in seen.items() if key[2] != event.barrier}
    return found


def left_waits(run: Run) -> list[int]:
    """The instructions that have waited in the run, and that the code may leave unpassed."""
    if run.prepared is None:
        return []
    waited = {event.instruction for event in run.events if isinstance(event, ev.WaitEvent)}
    waited |= {item.instruction for item in run.outcome.waiters if item.what == "mbarrier"}
    code = run.prepared.code
    return [number for number in sorted(waited) if not waits_until_passed(code, number)]


def _retried(poll: ev.Poll, event: ev.Event) -> bool:
    return isinstance(event, ev.WaitEvent | ev.Poll) and (event.instruction, event.barrier) == (
        poll.instruction,
        poll.barrier,
    )
