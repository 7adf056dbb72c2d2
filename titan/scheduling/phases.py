"""Prologue, steady state and epilogue of a schedule, as lists of what is issued when."""

from __future__ import annotations

from dataclasses import dataclass

from titan.scheduling.loop.model import Loop
from titan.scheduling.model import Schedule


@dataclass(frozen=True, slots=True)
class IssueSlot:
    """Operation `operation` of iteration `iteration` (relative to the phase) issued at `cycle`."""

    cycle: int
    operation: int
    iteration: int


@dataclass(frozen=True, slots=True)
class Phases:
    """Cycles of the steady state count from 0; its iterations are counted back from the newest."""

    prologue: tuple[IssueSlot, ...]
    steady: tuple[IssueSlot, ...]
    epilogue: tuple[IssueSlot, ...]


def phases(loop: Loop, schedule: Schedule) -> Phases:
    """The program for a loop that runs just long enough to have a steady state.

    Iteration i of the prologue starts at i * ii. In the steady state an operation of stage s
    belongs to the iteration s before the newest; in the epilogue iterations are counted back from
    the last.
    """
    stages, ii = schedule.stages(loop), schedule.ii
    prologue, steady, epilogue = [], [], []
    for v, start in enumerate(schedule.starts):
        stage, row = divmod(start, ii)
        steady.append(IssueSlot(row, v, -stage))
        for iteration in range(stages - 1):
            cycle = start + iteration * ii
            if cycle < (stages - 1) * ii:
                prologue.append(IssueSlot(cycle, v, iteration))
        for back in range(1, stages):
            cycle = start - back * ii
            if cycle >= 0:
                epilogue.append(IssueSlot(cycle, v, -back))
    key = _order
    return Phases(
        tuple(sorted(prologue, key=key)),
        tuple(sorted(steady, key=key)),
        tuple(sorted(epilogue, key=key)),
    )


def _order(issue: IssueSlot) -> tuple[int, int, int]:
    return issue.cycle, issue.operation, issue.iteration
