"""Verdicts: what was decided about one kernel, by which engines, and for exactly which scope."""

from __future__ import annotations

from dataclasses import field

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.records import dataclass
from titan.foundation.verdict import Reason, Verdict
from titan.sync.expression import Expression
from titan.sync.fault import Trace
from titan.sync.program import SyncProgram

STATES_MAX = 10_000_000
STEPS_MAX = 2_000_000
SECONDS_MAX = 600.0


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """What the user asked for; plain data that can be sent to another process.

    `states_max` bounds a search, `steps_max` the operations of all runs of one engine together.
    `seconds_max` is processor time, a backstop: what it ends is undecided, and says so.
    `as_written`: lowering adds no fence (None: where the kernel models existing code).
    `reviews_fences`: what is VERIFIED is searched for fences that nothing needs; no verdict depends
    on it. `examines_reads`: what is VERIFIED is undecided where it reads memory that nothing has
    written; False where the caller examines them itself.
    """

    overrides: tuple[tuple[str, tuple[int, ...]], ...] = ()
    policies: tuple[tuple[str, str], ...] = ()
    engine: str = "auto"
    require: str = "bounded"
    states_max: int = STATES_MAX
    steps_max: int = STEPS_MAX
    seconds_max: float = SECONDS_MAX
    save_traces: str | None = ".titan/traces"
    rewrites: frozenset[str] = frozenset()
    as_written: bool | None = None
    reviews_fences: bool = True
    examines_reads: bool = True


@dataclass(frozen=True, slots=True)
class EngineReport:
    """The result of one engine.

    `seconds` is processor time. `steps` are the operations of its runs. `sizes` are the values of
    the parameters that it covered, None for every value, or those that it refutes; `trace` is its
    counterexample. `reason` classifies why it is undecided, `remark` words it; `obstacle` is the
    expression that stands in the way of a search for every number.
    """

    engine: str
    verdict: Verdict
    seconds: float
    states: int = 0
    sizes: tuple[tuple[str, tuple[int, ...] | None], ...] = ()
    trace: Trace | None = None
    remark: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()
    steps: int = 0
    reason: Reason | None = None
    obstacle: Expression | None = None


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Why a verdict covers only some values of a size for which the kernel asks for any.

    `because` words the reason; `edit` is what would decide every number.
    """

    names: tuple[str, ...]
    reason: Reason
    because: str
    edit: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a verdict covers: sizes, parameters, agents, policies, and of code its launches.

    Values of several parameters are covered in all combinations, unless `combinations` words which.
    Of a parameter in `turns`, whose values are listed, not all sequences are covered: `per` what
    the parameter has a value each, and up to where values are tried in turn.
    """

    sizes: tuple[tuple[str, int], ...] = ()
    parameters: tuple[tuple[str, tuple[int, ...] | None], ...] = ()
    minimums: tuple[tuple[str, int], ...] = ()
    roles: tuple[tuple[str, int, int], ...] = ()  # name, agents, threads of each
    ctas: int = 1
    policies: tuple[tuple[str, str], ...] = ()
    launches: tuple[str, ...] = ()  # of code: the launch, then the runs of it that are covered
    combinations: str = ""
    turns: tuple[tuple[str, str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """What the engines together have decided about a program.

    `sizes` are the values of the open parameters that a VERIFIED covers, None for every value.
    `trace` leads `program` to its fault; it has been replayed.
    """

    verdict: Verdict
    program: SyncProgram
    engines: tuple[EngineReport, ...] = ()
    sizes: tuple[tuple[str, tuple[int, ...] | None], ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    notes: tuple[str, ...] = ()
    trace: Trace | None = None
    narrowing: Narrowing | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on one kernel, with everything that is reported of it.

    With a counterexample, `trace` leads `program` to its fault; it has been replayed. `narrowing`
    says why fewer numbers are covered than the kernel asks for; `added` are the operations that
    lowering put into the program and that the kernel does not have.
    """

    path: str
    kernel: str
    target: str
    verdict: Verdict
    coverage: Coverage = field(default_factory=Coverage)
    engines: tuple[EngineReport, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    program: SyncProgram | None = None
    trace: Trace | None = None
    trace_path: str = ""
    narrowing: Narrowing | None = None
    added: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """The exit code that the verdict gives a command."""
        return self.verdict.exit_code
