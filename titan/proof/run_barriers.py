"""Barriers along one run: every operation at one falls into the same phase in every run.

The bounds are those of docs/explanation/happens_before.md: an operation of phase `c` is behind
completion `c - 1`, and completion `c` behind all that counts for it; who waits for phase `c` stands
at the wait behind completion `c - 1`, and passes before completion `c + 1`; bytes are expected
before some arrival of their phase; some wait has passed for a phase before anything arrives for the
next. Named barriers: an arrival is behind the generation before its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from titan.proof.run_order import Clock, Mark, Moment, Work, joined, with_mark
from titan.sync.mbarrier_rules import TRANSACTION_MAX
from titan.sync.open_numbers import NotCoveredError


def _need(holds: bool, message: str) -> None:
    if not holds:
        raise NotCoveredError(message)


@dataclass(slots=True)
class BarrierPhase:
    """What counts for the open phase: arrivals, steps that expect bytes, and clocks of all."""

    arrivals: list[Moment] = field(default_factory=list)
    expecting: list[Moment] = field(default_factory=list)
    clocks: list[Clock] = field(default_factory=list)
    expected_bytes: int = 0
    completed_bytes: int = 0


@dataclass(slots=True)
class BarrierOrder:
    """One mbarrier. `entry` counts its completed phases over all lives, `base` those before this
    one; `live`: the mark of its initialisation, None where it is there from the start."""

    entry: int
    may_run_ahead: bool
    live: Mark | None = None
    base: int = 0
    phase: int = 0
    open: BarrierPhase = field(default_factory=BarrierPhase)
    clocks: list[Clock] = field(default_factory=list)  # of the completions of this life
    waits: dict[int, list[Moment]] = field(default_factory=dict)  # by phase
    users: dict[int, int] = field(default_factory=dict)  # agent -> its last step here
    works: list[Work] = field(default_factory=list)
    ended: Mark | None = None

    def completion(self, phase: int) -> Mark:
        """The mark of the completion of a phase of this life."""
        return self.entry, self.base + phase + 1

    def _behind(self, moment: Moment, phase: int) -> None:
        """The step is behind the completion of the phase, or behind the start of this life."""
        if phase >= 0:
            _need(moment.knows(self.completion(phase)), "a step may fall into an earlier phase")
        else:
            _need(self.live is None or moment.knows(self.live), "a barrier may not be live yet")

    def counts(self, moment: Moment, arrives: bool, expects: int, completes: int) -> None:
        """A step that counts for the open phase."""
        self._behind(moment, self.phase - 1)
        if arrives and self.phase and not self.may_run_ahead:
            seen = any(moment.knows(wait.mark) for wait in self.waits.get(self.phase - 1, ()))
            _need(seen, "an arrival for a phase before any wait for the last one")
        if arrives:
            self.open.arrivals.append(moment)
        elif expects:
            self.open.expecting.append(moment)
        self.open.expected_bytes += expects
        self.open.completed_bytes += completes
        _need(
            max(self.open.expected_bytes, self.open.completed_bytes) <= TRANSACTION_MAX,
            "more bytes than a barrier can count",
        )
        self.open.clocks.append(with_mark(moment.clock, moment.mark))

    def complete(self) -> Clock:
        """The phase is complete: the clock of that."""
        self.settle()
        mark = self.completion(self.phase)
        clock = with_mark(joined(self.open.clocks), mark)
        for wait in self.waits.get(self.phase - 1, ()):
            entry, number = wait.mark
            _need(clock[entry] >= number, "a wait may be lapped")
        self.clocks.append(clock)
        self.phase += 1
        self.open = BarrierPhase()
        return clock

    def settle(self) -> None:
        """Bytes are expected before some arrival of the phase, which holds it open."""
        for step in self.open.expecting:
            held = any(arrival.knows(step.mark) for arrival in self.open.arrivals)
            _need(held, "bytes may be expected after the last arrival of their phase")

    def wait(self, moment: Moment) -> Clock | None:
        """A wait that passes; what it comes to know. `moment`: the agent that stands there."""
        phase = self.phase - 1
        if phase >= 1:
            self._behind(moment, phase - 1)
        self._behind(moment, -1)
        self.waits.setdefault(phase, []).append(moment)
        return self.clocks[phase] if phase >= 0 else None

    def initialise(self, moment: Moment) -> None:
        """A life begins."""
        _need(self.ended is None or moment.knows(self.ended), "a barrier may still be live")
        self.live, self.base = moment.mark, self.base + self.phase
        self.phase, self.open, self.clocks, self.waits = 0, BarrierPhase(), [], {}

    def invalidate(self, moment: Moment) -> None:
        """A life ends, behind everything that used the barrier."""
        self._behind(moment, -1)
        used = all(moment.knows(mark) for mark in self.users.items())
        over = all(work.over(moment, True) for work in self.works)
        _need(used and over, "a barrier may be in use when it is invalidated")
        self.users, self.works, self.ended = {}, [], moment.mark


@dataclass(slots=True)
class NamedOrder:
    """One named barrier: its generations, and who waits in the open one."""

    entry: int
    generation: int = 0
    arrived: int = 0
    threads: int = 0
    clocks: list[Clock] = field(default_factory=list)
    passed: dict[int, Clock] = field(default_factory=dict)  # of an agent's last arrival
    inside: dict[int, bool] = field(default_factory=dict)  # agent -> whether it waits

    def arrive(
        self, agent: int, moment: Moment, counted: tuple[int, int], waits: bool
    ) -> dict[int, Clock]:
        """An arrival of some of all threads (`counted`); the clocks of agents that it releases."""
        own, threads = counted
        if self.generation:
            known = moment.knows((self.entry, self.generation))
            _need(known, "an arrival may fall into an earlier generation")
        _need(self.threads in (0, threads), "two numbers of threads at one barrier")
        self.threads = threads
        self.arrived += own
        self.inside[agent] = waits
        self.clocks.append(with_mark(moment.clock, moment.mark))
        if self.arrived != threads:
            return {}
        self.generation += 1
        clock = with_mark(joined(self.clocks), (self.entry, self.generation))
        self.passed |= dict.fromkeys(self.inside, clock)
        released = {other: clock for other, waiting in self.inside.items() if waiting}
        self.arrived, self.threads, self.clocks, self.inside = 0, 0, [], {}
        return released
