"""What every engine is asked and what it answers: `Engine`, `Budget`, `EngineResult`.

An engine decides a sync program for given sizes, or for every size where none are given and it can.
Its budget counts what it does (states, operations, bytes), so that an answer does not depend on how
busy the machine is; processor time is a backstop.
"""

from __future__ import annotations

from typing import Protocol

from titan.foundation.records import dataclass
from titan.foundation.verdict import Reason, Verdict
from titan.sync.control import Sizes
from titan.sync.fault import Trace
from titan.sync.program import SyncProgram


@dataclass(frozen=True, slots=True)
class Budget:
    """The most an engine may spend on one call; what it spent first is its `Reason`.

    `seconds_max` is processor time of this process, a backstop; `operations_max` limits the length
    of one run (happens-before), the others a search.
    """

    states_max: int = 10_000_000
    seconds_max: float = 600.0
    bytes_max: int = 2**30
    operations_max: int = 500_000


@dataclass(frozen=True, slots=True)
class EngineResult:
    """VERIFIED, REFUTED with a trace, or UNDECIDED with a reason.

    `states` counts the states of a search (0 where there are none); `remark` says in words what an
    UNDECIDED rests on, and nothing depends on it.
    """

    verdict: Verdict
    states: int = 0
    trace: Trace | None = None
    reason: Reason | None = None
    remark: str = ""


class Engine(Protocol):
    """A function that decides a program; what engines can do beyond it are further parameters."""

    def __call__(
        self, program: SyncProgram, sizes: Sizes | None = None, budget: Budget | None = None
    ) -> EngineResult:
        """Decide the program for the sizes given. Raises ZeroDivisionError, LocalLoopError."""
        ...
