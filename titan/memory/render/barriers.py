"""Decides whether the barriers of a rendered test can always be passed.

A kernel that hangs shows nothing. Rendered threads execute their barriers even after a bounded
wait gave up, so only the barriers themselves decide. One walk over them stands for all: a barrier
that is used by the same threads with the same count completes in every order or in none. Barriers
whose number is computed, or that carry a static instance, are refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from titan.memory.ast import Barrier, ClusterBarrier, LitmusTest, Thread
from titan.memory.render.layout import Layout, Seat
from titan.memory.render.refusal import NotRenderable

BARRIERS = 16  # named barriers of a CTA


def participants(test: LitmusTest, thread: Thread, barrier: Barrier) -> int:
    """How many litmus threads take part: as written, or all of the CTA that name the barrier."""
    if isinstance(barrier.count, int):
        return barrier.count
    return sum(
        other.placement == thread.placement
        and any(
            isinstance(step, Barrier) and step.identifier == barrier.identifier
            for step in other.instructions
        )
        for other in test.threads
    )


def cluster_phases(layout: Layout) -> dict[int, int]:
    """How often the threads of each cluster pass `barrier.cluster`."""
    phases = dict.fromkeys(range(layout.clusters), 0)
    for seat in layout.seats:
        waits = sum(isinstance(s, ClusterBarrier) and s.waits for s in seat.thread.instructions)
        phases[layout.cluster(seat.cta)] = max(phases[layout.cluster(seat.cta)], waits)
    return phases


def check_barriers(test: LitmusTest, layout: Layout) -> None:
    """Raises `NotRenderable` for a barrier that is not static or that would wait for ever."""
    for seat in layout.seats:
        for step in seat.thread.instructions:
            if isinstance(step, Barrier):
                _static(step)
    _clusters(layout)
    _run(test, layout)


def _static(barrier: Barrier) -> None:
    if barrier.instance is not None:
        raise NotRenderable(
            "barrier instance", "static instances of a barrier are not known to ptx", barrier.span
        )
    if not isinstance(barrier.identifier, int) or not (
        barrier.count is None or isinstance(barrier.count, int)
    ):
        raise NotRenderable("barrier", "the barrier's number or count is computed", barrier.span)
    if not 0 <= barrier.identifier < BARRIERS:
        raise NotRenderable("barrier", f"no barrier has number {barrier.identifier}", barrier.span)


def _clusters(layout: Layout) -> None:
    phases = cluster_phases(layout)
    for seat in layout.seats:
        steps = [s for s in seat.thread.instructions if isinstance(s, ClusterBarrier)]
        regular = all(step.waits == bool(number % 2) for number, step in enumerate(steps))
        wanted = 2 * phases[layout.cluster(seat.cta)]
        if not regular or len(steps) != wanted:
            raise NotRenderable(
                "barrier",
                f"`barrier.cluster` is for all threads of a cluster: {seat.thread.name} has to "
                f"arrive and wait in turn, {wanted // 2} times",
                seat.thread.instructions[0].span if seat.thread.instructions else None,
            )


def _run(test: LitmusTest, layout: Layout) -> None:
    """Walk all barriers until nobody can go on; then everybody must be at the end."""
    runs = [_Run(seat) for seat in layout.seats]
    open_barriers: dict[tuple[int, int], _Open] = {}
    moved = True
    while moved:
        moved = False
        for run in runs:
            step = run.next()
            if step is None or run.blocked:
                continue
            if isinstance(step, ClusterBarrier):
                cluster = layout.cluster(run.seat.cta)
                peers = [r for r in runs if layout.cluster(r.seat.cta) == cluster]
                if step.waits and min(peer.arrived for peer in peers) < run.arrived:
                    continue
                run.arrived += not step.waits
            else:
                _meet(test, run, step, open_barriers)
            run.position += 1
            moved = True
    stuck = [run.seat for run in runs if run.blocked or run.next() is not None]
    stuck += [run.seat for run in runs if any(cta == run.seat.cta for cta, _ in open_barriers)]
    if stuck:
        raise NotRenderable(
            "barrier",
            f"{stuck[0].thread.name} is at a barrier that would not complete",
            test.span,
        )


def _meet(
    test: LitmusTest, run: _Run, step: Barrier, open_barriers: dict[tuple[int, int], _Open]
) -> None:
    assert isinstance(step.identifier, int)
    key = (run.seat.cta, step.identifier)
    wanted = participants(test, run.seat.thread, step)
    barrier = open_barriers.setdefault(key, _Open(wanted))
    if barrier.wanted != wanted:
        raise NotRenderable(
            "barrier",
            f"barrier {step.identifier} is used with counts {barrier.wanted} and {wanted}",
            step.span,
        )
    barrier.arrived += 1
    if step.waits:
        barrier.waiting.append(run)
        run.blocked = True
    if barrier.arrived == wanted:
        for waiter in barrier.waiting:
            waiter.blocked = False
        del open_barriers[key]


@dataclass(slots=True)
class _Open:
    """A barrier of one CTA between its first and its last arrival."""

    wanted: int
    arrived: int = 0
    waiting: list[_Run] = field(default_factory=list)


@dataclass(slots=True)
class _Run:
    """One thread on its way through its barriers; `arrived` counts its cluster arrivals."""

    seat: Seat
    position: int = 0
    arrived: int = 0
    blocked: bool = False

    def next(self) -> Barrier | ClusterBarrier | None:
        steps = [
            s for s in self.seat.thread.instructions if isinstance(s, Barrier | ClusterBarrier)
        ]
        return steps[self.position] if self.position < len(steps) else None
