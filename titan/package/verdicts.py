"""Whether a pipeline is verified for the scope that a certificate states.

The engine named by the certificate runs again on the sync program, for every value of the
parameters or for those up to the bound, and its verdict, scope and policies are compared with the
stated ones. Programs that differ in their names only are one question, asked once.

A verdict is kept under the digest of the program, what was asked, and a fingerprint of the code
that decided it, signed with a key of the user; only VERIFIED is kept. Nothing is ever taken from a
certificate on trust.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from titan.foundation.kept import SignedStore
from titan.package import canonical
from titan.package.certificate import ANY, scope
from titan.package.contents import printable
from titan.package.difference import difference
from titan.package.failures import GateFailure, failure_of

if TYPE_CHECKING:
    from titan.language.kernel.model import Kernel
    from titan.sync.program import SyncProgram
    from titan.verify.model import Coverage, Decision

ENGINES = ("explorer", "happens-before")
# What decides a verdict on a sync program; paths below titan/.
DECIDING = ("foundation", "sync", "engines", "target", "verify")
Sizes = tuple[tuple[str, tuple[int, ...] | None], ...]


@dataclass(frozen=True, slots=True)
class RecheckQuestion:
    """`stated` is the certificate's `verification`; `key` is the same for equal questions.

    `coverage` is what a verdict on the kernel covers, its parameters still open.
    """

    key: str
    pipeline: str
    engine: str
    every_value: bool
    stated: dict[str, Any]
    coverage: Coverage

    @staticmethod
    def of(
        pipeline: str, kernel: Kernel, program: SyncProgram, stated: dict[str, Any]
    ) -> RecheckQuestion:
        """The question on one kernel; its key ignores the name, and changes with TITAN's code."""
        from titan.verify.coverage import coverage_of

        engine = stated["engine"] if stated["engine"] in ENGINES else ""
        every = _says_any(stated["scope"])
        text = "\0".join(
            (canonical.canonical(canonical.nameless(program)), engine, str(every), fingerprint())
        )
        key = hashlib.sha256(text.encode()).hexdigest()
        return RecheckQuestion(key, pipeline, engine, every, stated, coverage_of(kernel))


@dataclass(frozen=True, slots=True)
class RecheckResult:
    """`fault` is why the protocol is not verified, `failure` of which kind that is.

    Without a fault `sizes` is what the verdict covers.
    """

    key: str
    fault: str = ""
    sizes: Sizes = ()
    seconds: float = 0.0
    failure: GateFailure = GateFailure.NONE


def _says_any(stated: Any) -> bool:
    try:
        return all(entry["values"] == ANY for entry in stated["parameters"].values())
    except (KeyError, TypeError, AttributeError):
        return False


@cache
def fingerprint() -> str:
    """A hash of the code that decides verdicts, so that no cached verdict outlives it."""
    import titan

    package = Path(titan.__file__).parent
    found = hashlib.sha256(titan.__version__.encode())
    for folder in DECIDING:
        for path in sorted((package / folder).rglob("*")):
            if path.suffix in (".py", ".c", ".h"):
                found.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def answer(question: RecheckQuestion, seconds: float) -> RecheckResult:
    """The verdict, recomputed; `seconds` of processor time are a backstop."""
    from titan.foundation.verdict import Verdict
    from titan.verify.coverage import narrowed

    started = time.thread_time()
    decision = _decide(_kernel(question), question, seconds)
    spent = time.thread_time() - started
    if decision is None or decision.verdict is not Verdict.VERIFIED:
        fault = "no engine of that name" if decision is None else _why(decision)
        kind = GateFailure.MALFORMED if decision is None else failure_of(decision.verdict)
        return RecheckResult(question.key, fault, seconds=spent, failure=kind)
    covered = narrowed(question.coverage, decision.sizes)
    return RecheckResult(question.key, "", covered.parameters, spent)


def _why(decision: Decision) -> str:
    """Why the protocol is not verified, on one line."""
    codes = "".join(f": {item.code}: {item.headline}" for item in decision.diagnostics[:1])
    fault = decision.trace.fault if decision.trace is not None else None
    found = f": {fault.kind.value}: {fault.message}" if fault is not None else ""
    remarks = "; ".join(report.remark for report in decision.engines if report.remark)
    text = printable(codes or found or (f": {remarks}" if remarks else ""))
    return f"the protocol is {decision.verdict}{text}"


def fault_of(question: RecheckQuestion, given: RecheckResult) -> str:
    """Why the verdict that a certificate states is not the one that was found, or nothing."""
    if given.fault:
        return given.fault
    coverage = replace(question.coverage, parameters=given.sizes)
    expected = {
        "verdict": "verified",
        "engine": question.engine,
        "scope": scope(coverage),
        "policies": dict(coverage.policies),
    }
    return difference(expected, question.stated, "verification") or ""


def _kernel(question: RecheckQuestion) -> Kernel:
    from titan.language.kernel.decode import decode_text

    family, _ = decode_text(question.pipeline, "pipeline.yaml")
    assert family is not None, "check.py has decoded it"
    return family.kernels[0]


def _decide(kernel: Kernel, question: RecheckQuestion, seconds: float) -> Decision | None:
    """What the engine that the certificate names decides; None where there is no such engine."""
    from titan.verify import engines
    from titan.verify.judge import conclude
    from titan.verify.lowering import sync_program
    from titan.verify.model import VerifyOptions

    program = sync_program(kernel).program
    options = VerifyOptions(seconds_max=seconds, save_traces=None)
    budget = engines.VerifyBudget(options.states_max, options.steps_max, seconds)
    if question.engine == engines.ORDER:
        report = engines.run_order(program, budget)
    elif question.engine == engines.EXPLORER and question.every_value:
        report = engines.run_explorer(program, budget)
    elif question.engine == engines.EXPLORER:
        report = engines.run_explorer_bounded(program, budget)
    else:
        return None
    return conclude(kernel, program, [report], options)


class Kept:
    """Verdicts of earlier runs, signed; only VERIFIED is kept. Nothing is where `path` is None."""

    def __init__(self, path: str | Path | None) -> None:
        self.store = SignedStore(path)

    def get(self, key: str) -> RecheckResult | None:
        """The verdict of an earlier run on the question `key`."""
        found = self.store.get(key)
        try:
            sizes = json.loads(found) if found is not None else None
            if sizes is None:
                return None
            named = tuple((str(name), tuple(v) if v is not None else None) for name, v in sizes)
        except (ValueError, TypeError):
            return None
        return RecheckResult(key, sizes=named)

    def put(self, given: RecheckResult) -> None:
        """Only what was verified is kept."""
        if not given.fault:
            self.store.put(given.key, json.dumps(given.sizes).encode())

    def close(self) -> None:
        """Close the file."""
        self.store.close()
