"""Decides whether the barriers of a rendered test can always be passed.

A kernel that hangs shows nothing. Rendered threads execute their barriers even after a bounded
wait gave up, so only the barriers themselves decide. One walk over them is enough: a barrier
that is used by the same threads with the same count completes in every order or in none. A number
in a register that still has its first value is known; one that is computed is refused. PTX
distinguishes barriers apart by number only, so static instances are fine where one number has one
instance.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from titan.litmus.language import ast
from titan.litmus.language.ast import Barrier, ClusterBarrier, LitmusTest, LitmusThread, Operand
from titan.litmus.render.places import LitmusLayout, Seat
from titan.litmus.render.refusal import NotRenderable

BARRIERS = 16  # named barriers of a CTA


def with_numbers(test: LitmusTest) -> LitmusTest:
    """The test with the number and the count of every barrier written out.

    Raises `NotRenderable` for one that is computed, and where PTX would join static instances.
    """
    threads = tuple(replace(thread, instructions=_numbered(thread)) for thread in test.threads)
    instances: dict[tuple[object, Operand], int | None] = {}
    for thread in threads:
        for step in thread.instructions:
            if isinstance(step, Barrier):
                key = (thread.placement.group, step.identifier)
                if instances.setdefault(key, step.instance) != step.instance:
                    raise NotRenderable(
                        "barrier instance",
                        "ptx joins the static instances of one barrier number",
                        step.span,
                    )
    return replace(test, threads=threads)


def _numbered(thread: LitmusThread) -> tuple[ast.LitmusInstruction, ...]:
    known: dict[str, int | None] = dict(thread.registers)
    jumps = any(isinstance(step, ast.Label) for step in thread.instructions)
    steps: list[ast.LitmusInstruction] = []
    for step in thread.instructions:
        if isinstance(step, Barrier):
            if jumps:
                raise NotRenderable(
                    "loop", "a barrier in a thread with jumps might not be reached", step.span
                )
            count = None if step.count is None else _value(step.count, known, step)
            number = _value(step.identifier, known, step)
            steps.append(replace(step, identifier=number, count=count))
        else:
            steps.append(step)
        assigned = getattr(step, "destination", None)
        if assigned is not None:
            known[assigned] = None
    return tuple(steps)


def _value(operand: Operand, known: dict[str, int | None], barrier: Barrier) -> int:
    value = operand if isinstance(operand, int) else known.get(operand.name, 0)
    if value is None:
        raise NotRenderable("barrier", "the barrier's number or count is computed", barrier.span)
    return value


def participants(test: LitmusTest, thread: LitmusThread, barrier: Barrier) -> int:
    """How many litmus threads take part: as written, or all of the CTA that name the barrier."""
    if isinstance(barrier.count, int):
        return barrier.count
    return sum(
        other.placement.group == thread.placement.group
        and any(
            isinstance(step, Barrier) and step.identifier == barrier.identifier
            for step in other.instructions
        )
        for other in test.threads
    )


def cluster_phases(layout: LitmusLayout) -> dict[int, int]:
    """How often the threads of each cluster pass `barrier.cluster`."""
    phases = dict.fromkeys(range(layout.clusters), 0)
    for seat in layout.seats:
        waits = sum(isinstance(s, ClusterBarrier) and s.waits for s in seat.thread.instructions)
        phases[layout.cluster(seat.cta)] = max(phases[layout.cluster(seat.cta)], waits)
    return phases


def check_barriers(test: LitmusTest, layout: LitmusLayout) -> None:
    """Raises `NotRenderable` for a barrier that does not exist or that would wait forever."""
    for seat in layout.seats:
        for step in seat.thread.instructions:
            if isinstance(step, Barrier):
                assert isinstance(step.identifier, int)
                if not 0 <= step.identifier < BARRIERS:
                    raise NotRenderable(
                        "barrier", f"no barrier has number {step.identifier}", step.span
                    )
    _clusters(layout)
    _run(test, layout)


def _clusters(layout: LitmusLayout) -> None:
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


def _run(test: LitmusTest, layout: LitmusLayout) -> None:
    """Walk all barriers until no thread can proceed; then all threads must be at the end."""
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
