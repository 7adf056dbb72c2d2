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
        """The stage of an operation: how many iterations behind the newest it is issued."""
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
class PlacementFailure:
    """Why an operation found no seat at a candidate interval.

    `footprint`: (unit, first cycle, cycles, amount) of what it takes. `rows`: (what rejected it,
    row of the interval, what the row holds, its limit) for the different conflicts of the cycles
    that were tried, the last first. `window`: the cycles that its dependences permit, None for no
    end. `pool`: what rejected the last of them, None where no cycle was permitted. `group`: the
    operations that were to be placed together, the `order`-th group of the pass.
    """

    ii: int
    operation: int
    cycles: int
    footprint: tuple[tuple[str, int, int, int], ...]
    rows: tuple[tuple[str, int, int, int], ...]
    window: tuple[int, int | None]
    pool: str | None
    group: tuple[int, ...]
    order: int
    stage: int


@dataclass(frozen=True, slots=True)
class StorageRejection:
    """Placements that were refused because one limit of storage was passed; the first as example.

    `resource` is a memory, `registers`, or `ring` of an operation; `group` the warp group whose
    registers they are. `cover`: values (operation, copies) that are alive together at interval
    `ii` and take `used` of `limit`; empty for a ring.
    """

    resource: str
    group: int | None
    count: int
    ii: int
    used: int
    limit: int
    cover: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class SchedulerResult:
    """What a scheduler hands back: perhaps a schedule, the evidence, and how it was found."""

    solver: str
    schedule: Schedule | None
    evidence: Evidence
    seconds: float
    statistics: dict[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    failures: tuple[PlacementFailure, ...] = ()
    rejections: tuple[StorageRejection, ...] = ()

    @property
    def proved(self) -> bool:
        """Whether the evidence holds for all lengths and for the interval of the schedule."""
        return (
            self.schedule is not None
            and self.evidence.proves
            and self.evidence.lower_bound == self.schedule.ii
        )
