"""How far a search goes: counted in work that it did, never by the clock.

What a search does is counted in units that are the same on every machine and under every load:
clauses written down, assignments that a SAT solver propagates, seats that a placer examines, steps
of a descent. A budget "of seconds" is a number of such units. They are about those of a core of
2023; a slow or busy machine takes longer and finds the same.
"""

from __future__ import annotations

import time

from titan.foundation.errors import Refusal
from titan.foundation.verdict import Reason

UNITS = 1_000_000  # of work in a second of a budget
CLAUSE = 2  # one clause, made and handed to a solver
CHECK = 15  # one operation or dependence of a schedule that is examined
SEAT = 1  # one seat that plain Python examines, or a step of a list of them
SEATS, ROWS = 8, 1000  # seats that C examines, and rows that it writes, in a unit
SLOW = 8  # one seat or placement in plain Python
PROPAGATIONS = 12  # of a SAT solver, in a unit
VISITS = 6  # clauses that plain unit propagation examines, in a unit
Z3_UNITS = 2  # of work in one of z3's own


class BudgetSpent(Refusal):
    """The search has done all the work that it may."""

    reason = Reason.STEPS


class SearchWork:
    """What a search may do, and what it has done; a part of another counts there as well."""

    def __init__(self, seconds: float, whole: SearchWork | None = None) -> None:
        self.limit = int(min(seconds, 1e12) * UNITS)
        self.done = 0
        self.whole = whole

    def spend(self, units: int) -> None:
        """So much has been done."""
        self.done += units
        if self.whole is not None:
            self.whole.spend(units)

    @property
    def left(self) -> int:
        """Units that may still be done; 0 when the budget is spent."""
        own = max(0, self.limit - self.done)
        return own if self.whole is None else min(own, self.whole.left)

    @property
    def seconds_left(self) -> float:
        """What is left, in seconds of a budget."""
        return self.left / UNITS


class Stopwatch:
    """Processor time that a search took, for reports: no decision reads it."""

    def __init__(self) -> None:
        self._begin = time.process_time()

    @property
    def seconds(self) -> float:
        """Since it was made."""
        return time.process_time() - self._begin
