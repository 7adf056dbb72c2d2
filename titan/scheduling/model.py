"""A modulo schedule, the evidence for its initiation interval, and what a search reports.

`starts[v]` is the issue cycle of operation v within its iteration; iteration i runs the same
operations `i * ii` cycles later. The length is the last cycle that an operation occupies, plus one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from titan.scheduling.loop.model import Loop


@dataclass(frozen=True, slots=True)
class Schedule:
    """Issue cycles and warp groups, by position of the operation."""

    ii: int
    starts: tuple[int, ...]
    teams: tuple[int, ...]

    def length(self, loop: Loop) -> int:
        """Cycles from the first issue of an iteration to the end of its last occupied cycle."""
        ends = [t + op.cycles for t, op in zip(self.starts, loop.operations, strict=True)]
        return max(ends, default=0)

    def stages(self, loop: Loop) -> int:
        """Iterations that overlap in the steady state."""
        return -(-self.length(loop) // self.ii)

    def stage(self, operation: int) -> int:
        return self.starts[operation] // self.ii


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why no smaller initiation interval exists, or that this is not known.

    `kind`: `bound` (a lower bound with its witness), `proof` (every smaller interval has a
    refutation that plain code has checked), `refutation` (a solver refuted ii - 1), `agreement`
    (two solvers or formulations did), `none`. `lower_bound` is the best bound proved.
    """

    kind: str
    lower_bound: int
    detail: str
    lengths_to: int | None = None
    complete: bool = True

    @property
    def proves(self) -> bool:
        """For schedules of every length; a refutation up to some length only does not."""
        return self.kind != "none" and self.complete


@dataclass(frozen=True, slots=True)
class SchedulerResult:
    """What a scheduler hands back: perhaps a schedule, the evidence, and how it was found."""

    solver: str
    schedule: Schedule | None
    evidence: Evidence
    seconds: float
    statistics: dict[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    failures: tuple[object, ...] = ()

    @property
    def proved(self) -> bool:
        return (
            self.schedule is not None
            and self.evidence.proves
            and self.evidence.lower_bound == self.schedule.ii
        )
