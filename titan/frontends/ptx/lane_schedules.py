"""Other orders in which the lanes of a warp may make the accesses of a run.

A recording has the accesses of a warp in the order of the run, as though its lanes went on
together. Lanes that have not met may be ahead or behind: one lane may arrive at a barrier while
another has yet to store, and where one has waited another may have read before. So the run is made
again with an access for each lane, and its accesses are moved as late, and as early, as the lanes
that make them allow: to the next or the last event of one of these lanes that synchronises. In a
third order they are moved as early, but not to before an asynchronous operation that any lane has
started: it is in flight then. Fences, and waits of lanes for their own `cp.async`, move as late as
accesses do. In a fourth order they are moved early, and accesses late: the fence of one lane is
then before what another has yet to write. All are orders of real runs, so what the engine refutes
in them is a fault; not every order is tried.

Taken to bring the lanes of a warp together: what all that live do at once, `bar.warp.sync`, and any
instruction with a mask of members, or `.aligned`, in the text between two events of the warp. So a
fault is missed where only memory ordering lacks, never invented.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from titan.isa.simt import events as ev
from titan.isa.simt.execution import SimtExecution
from titan.isa.simt.operations import ALIGNED, MEMBERS, DecodedCode, Op
from titan.isa.simt.outcome import Ending, Run

INSTRUCTIONS_MAX = 20_000  # of the Python machine
SILENT = (ev.Poll, ev.Assumption, ev.Skipped, ev.Prefetch, ev.RegisterBreach, ev.LaneClash)
HANDS_OVER = (
    ev.ArriveEvent, ev.AsynchronousEvent, ev.CopyArrive, ev.TensorCommitEvent, ev.RendezvousEvent,
    ev.BarrierInvalidate, ev.TensorDeallocate,
)  # fmt: skip
TAKES_OVER = (ev.WaitEvent, ev.QueueWaitEvent, ev.RendezvousEvent, ev.TensorAllocate)
ALL_LANES = 0xFFFFFFFF
LANES_HELP = "lanes of the warp have not met here: `bar.warp.sync` orders what they did"


def other_schedules(run: Run) -> list[Run]:
    """The run with its accesses as late, and as early, as their lanes allow, and as early as what
    is in flight; those that differ.

    Empty where the lanes of each warp meet between their accesses and what one of them does, and
    where the run cannot be made with an access for each lane.
    """
    made = run.prepared
    if made is None or run.outcome.ending is not Ending.FINISHED or not _part(run, made.code):
        return []
    if run.instructions > INSTRUCTIONS_MAX:
        return []
    machine = SimtExecution.again(made)
    machine.apart = True
    again = replace(machine.run(), prepared=made)
    if again.outcome != run.outcome:
        return []
    warps = _warps(again.events, made.code)
    orders = [[step.event for steps in warps for step in steps]]
    ways: list[Callable[[list[_Step]], list[_Step]]] = [
        lambda steps: _moved(steps, late=True, before_starts=True),
        lambda steps: _moved(steps, late=False, before_starts=True),
        lambda steps: _moved(steps, late=False, before_starts=False),
        lambda steps: _moved(_early_fences(steps), late=True, before_starts=True, fences=False),
    ]
    for way in ways:
        order = [step.event for steps in warps for step in way(steps)]
        if order not in orders:
            orders.append(order)
    return [replace(again, order=tuple(order)) for order in orders[1:]]


@dataclass(frozen=True, slots=True)
class _Step:
    """An event of a warp. `met`: its lanes have met between the event before and this one.

    `lanes`: those that it concerns: a wait for bulk groups those that have started some.
    """

    event: ev.Event
    lanes: int
    met: bool


def _warps(events: Sequence[ev.Event], code: DecodedCode) -> list[list[_Step]]:
    """The events of each warp."""
    together = [number for number, step in enumerate(code.steps) if step.op in ALIGNED | MEMBERS]
    found: dict[tuple[int, int], list[_Step]] = {}
    started: dict[tuple[int, int], int] = {}
    bulk = ev.RecordedQueue.BULK
    for event in events:
        warp, lanes = (event.cta, event.warp), event.lanes
        steps = found.setdefault(warp, [])
        if isinstance(event, ev.AsynchronousEvent) and event.queue is bulk:
            started[warp] = started.get(warp, 0) | lanes
        elif isinstance(event, ev.QueueWaitEvent | ev.CommitEvent) and event.queue is bulk:
            lanes &= started.get(warp, 0)
        met = bool(steps) and _met(code, together, steps[-1].event, event)
        steps.append(_Step(event, lanes, met))
    return list(found.values())


def _met(code: DecodedCode, together: list[int], first: ev.Event, second: ev.Event) -> bool:
    """Whether an instruction of several lanes may lie between two events of a warp."""
    low, high = first.instruction, second.instruction
    if low == high and isinstance(first, ev.Poll) and (around := _spin(code, low)):
        return bisect_left(together, around[0]) < bisect_right(together, around[1])
    if low < high:
        return bisect_left(together, high) > bisect_right(together, low)
    again = low > high or bool(first.lanes & second.lanes)  # a loop has gone round
    return again and bool(together) and together[-1] >= high


def _spin(code: DecodedCode, at: int) -> tuple[int, int] | None:
    """First and last instruction of the innermost loop around a wait that polls, if there is one:
    what follows the loop has not been reached between two polls."""
    for number in range(at, len(code.steps)):
        step = code.steps[number]
        if step.op is Op.BRANCH and step.flags[0] <= at:
            return step.flags[0], number
    return None


def _is_weak(event: ev.Event) -> bool:
    return isinstance(event, ev.AccessEvent) and event.semantics is ev.AccessSemantics.WEAK


def _is_proxy_fence(event: ev.Event) -> bool:
    return isinstance(event, ev.FenceEvent) and event.kind is ev.RecordedFence.PROXY_ASYNC


def _hands_over(event: ev.Event) -> bool:
    """Whether an event of some lanes may make what all have done known to others: what a lane
    completes by mbarrier.complete_tx behind a fence does, what it expects does not."""
    return isinstance(event, HANDS_OVER) or (isinstance(event, ev.ExpectBytes) and event.bytes < 0)


def _moves_late(event: ev.Event) -> bool:
    """Whether an event of some lanes orders nothing of the other lanes by itself."""
    if isinstance(event, ev.FenceEvent):
        return event.kind is not ev.RecordedFence.WGMMA
    return isinstance(event, ev.QueueWaitEvent) and event.queue is ev.RecordedQueue.COPY


def _part(run: Run, code: DecodedCode) -> bool:
    """Whether some lanes of a warp act on what other lanes that they have not met do."""
    for steps in _warps(run.events, code):
        accessing = waiting = 0  # lanes since the last meeting
        for step in steps:
            event = step.event
            if step.met:
                accessing = waiting = 0
            if isinstance(event, SILENT) or not step.lanes:
                continue
            if isinstance(event, ev.AccessEvent):
                if waiting and step.lanes & ~waiting:
                    return True
                accessing |= step.lanes
            elif _moves_late(event):
                if _is_proxy_fence(event) and accessing & ~step.lanes:
                    return True
                if isinstance(event, ev.QueueWaitEvent):
                    accessing |= step.lanes
                    waiting |= step.lanes
            elif step.lanes == ALL_LANES:
                accessing = waiting = 0
            elif _hands_over(event) and accessing & ~step.lanes:
                return True
            elif isinstance(event, TAKES_OVER):
                waiting |= step.lanes
    return False


def _early_fences(steps: list[_Step]) -> list[_Step]:
    """The steps with each fence right behind what its own lanes do before it, or where they met."""
    found: list[_Step] = []
    held: list[_Step] = []
    for step in reversed(steps):
        if _moves_late(step.event):
            held.append(step)
        elif isinstance(step.event, SILENT):
            found.append(step)
        else:
            found += [*(other for other in held if other.lanes & step.lanes), step]
            held = [other for other in held if not other.lanes & step.lanes]
        if step.met:  # the fences that are before this step now are behind the meeting, too
            if held and held[-1] is not step:
                held[-1] = replace(held[-1], met=True)
            found += held
            held = []
    return (found + held)[::-1]


def _moved(
    steps: list[_Step], *, late: bool, before_starts: bool, fences: bool = True
) -> list[_Step]:
    """The steps with each access next to what its own lanes do after it, or before it. Unless
    `before_starts`, it stays behind asynchronous operations that other lanes start. With `fences`
    these move late, too."""
    found: list[_Step] = []
    held: list[_Step] = []  # accesses that wait for their lanes
    for step in steps if late else reversed(steps):
        event = step.event
        if late and step.met:
            found += held
            held = []
        if _is_weak(event) or (late and fences and _moves_late(event)):
            held.append(step)
        elif isinstance(event, SILENT):
            found.append(step)
        else:
            stays = isinstance(event, ev.AsynchronousEvent) and not before_starts
            found += [*(other for other in held if stays or other.lanes & step.lanes), step]
            held = [other for other in held if not (stays or other.lanes & step.lanes)]
        if not late and step.met:
            found += held
            held = []
    found += held
    return found if late else found[::-1]
