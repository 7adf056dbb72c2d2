"""Verdicts and the reasons why there is none: one vocabulary for engines, checks and commands.

Control flow uses these values and never the wording of a message; the words for a person
stand in `titan.report`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Verdict(StrEnum):
    """What was decided about one program, kernel or test."""

    VERIFIED = "verified"
    REFUTED = "refuted"
    UNDECIDED = "undecided"
    REFUSED = "refused"  # the input is bad
    DISAGREEMENT = "disagreement"  # two engines contradict each other, or a trace does not replay

    @property
    def exit_code(self) -> int:
        """The exit code of a command that arrives at this verdict."""
        return _EXIT_CODE_OF[self]


class Reason(StrEnum):
    """Why something was not decided, or not done."""

    TIME = "time"  # the backstop of processor time
    STATES = "states"  # the budget of states of a search
    STEPS = "steps"  # the budget of steps or operations of a run
    MEMORY = "memory"  # the budget of bytes
    NOT_APPLICABLE = "not applicable"  # the method does not cover this program
    NO_QUOTIENT = "no quotient"  # no finite set of states represents every size
    COUNTED_APART = "counted apart"  # the same, for tiles or phases that operations count unlike
    UNSUPPORTED = "unsupported"  # a construct that is not handled
    TOO_LARGE = "too large"  # beyond a fixed size of the method, whatever the budget
    IN_FLIGHT = "in flight"  # more operations of one agent in flight than the method holds
    DRIFT = "drift"  # agents drift too far apart in a loop whose inner trip count is open
    LATE_SIZE = "late size"  # a size is needed before any loop has counted up to it
    PUBLICATION = "publication"  # what a completed copy makes visible is not followed
    OVERFLOW = "overflow"  # a number beyond 64 bits
    DIVISION = "division"  # a division by zero
    UNBOUNDED_LOOP = "unbounded loop"  # control flow without an operation does not end
    NO_VALUE = "no value"  # a parameter has no value
    MISSING_CORE = "missing core"  # the native core was not built
    MISSING_TOOL = "missing tool"  # a program or library that is not installed
    REPLAY = "replay"  # a counterexample that the reference interpreter does not confirm
    SOLVER = "solver"  # a solver answered that it does not know


_EXIT_CODE_OF = {
    Verdict.VERIFIED: 0,
    Verdict.REFUTED: 1,
    Verdict.REFUSED: 2,
    Verdict.UNDECIDED: 3,
    Verdict.DISAGREEMENT: 4,
}
_WORST_FIRST = (4, 2, 1, 3, 0)


def worst(codes: Iterable[int]) -> int:
    """The exit code of several verdicts; 0 where there are none."""
    given = set(codes)
    return next((code for code in _WORST_FIRST if code in given), 0)
