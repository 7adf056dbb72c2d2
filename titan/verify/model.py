"""Verdicts: what was decided about one kernel, by which engines, and for exactly which scope."""

from __future__ import annotations

from dataclasses import dataclass, field

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.verdict import Reason, Verdict
from titan.sync.fault import Trace
from titan.sync.program import SyncProgram


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """What the user asked for; plain data that can be sent to another process."""

    overrides: tuple[tuple[str, tuple[int, ...]], ...] = ()
    policies: tuple[tuple[str, str], ...] = ()
    engine: str = "auto"
    require: str = "bounded"
    states_max: int = 20_000_000
    seconds_max: float = 60.0
    save_traces: str | None = ".titan/traces"
    rewrites: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class EngineReport:
    """What one engine said.

    `sizes` are the values of the parameters that it covered, None for every value; `trace` is its
    counterexample; `reason` is why it did not decide.
    """

    engine: str
    verdict: Verdict
    seconds: float
    states: int = 0
    sizes: tuple[tuple[str, tuple[int, ...] | None], ...] = ()
    trace: Trace | None = None
    remark: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a verdict covers, in numbers: sizes, parameters, agents, policies."""

    sizes: tuple[tuple[str, int], ...] = ()
    parameters: tuple[tuple[str, tuple[int, ...] | None], ...] = ()
    minimums: tuple[tuple[str, int], ...] = ()
    roles: tuple[tuple[str, int, int], ...] = ()  # name, agents, threads of each
    ctas: int = 1
    policies: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on one kernel, with everything that is to be told of it.

    With a counterexample, `trace` leads `program` to its fault; it has been replayed.
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

    @property
    def exit_code(self) -> int:
        """The exit code that the verdict gives a command."""
        return self.verdict.exit_code
