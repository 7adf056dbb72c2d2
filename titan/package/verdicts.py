"""Whether a pipeline is verified for the scope that a certificate states.

The engine named by the certificate runs again on the sync program, for every value of the
parameters or for those up to the bound, and its verdict, scope and policies are compared with the
stated ones. Programs that differ in their names only are one question, asked once.

A verdict is kept under the digest of the program, what was asked, and a fingerprint of the code
that decided it; only VERIFIED is kept. Nothing is ever taken from a certificate on trust.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from titan.package import canonical
from titan.package.certificate import ANY, scope
from titan.package.contents import printable
from titan.package.difference import difference

if TYPE_CHECKING:
    from titan.language.kernel.model import Kernel
    from titan.sync.program import SyncProgram
    from titan.verify.model import Coverage, Finding

ENGINES = ("explorer", "happens-before")
DECIDING = ("sync", "explore", "order", "verify")
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
        from titan.verify.pipeline import coverage_of

        engine = stated["engine"] if stated["engine"] in ENGINES else ""
        every = _says_any(stated["scope"])
        text = "\0".join(
            (canonical.canonical(canonical.nameless(program)), engine, str(every), fingerprint())
        )
        key = hashlib.sha256(text.encode()).hexdigest()
        return RecheckQuestion(key, pipeline, engine, every, stated, coverage_of(kernel))


@dataclass(frozen=True, slots=True)
class RecheckResult:
    """`fault` is why the protocol is not verified; else `sizes` is what the verdict covers."""

    key: str
    fault: str = ""
    sizes: Sizes = ()
    seconds: float = 0.0


def _says_any(stated: Any) -> bool:
    try:
        return all(entry["values"] == ANY for entry in stated["parameters"].values())
    except (KeyError, TypeError, AttributeError):
        return False


@cache
def fingerprint() -> str:
    """A hash of the code that decides verdicts, so that a kept verdict never outlives it."""
    import titan

    package = Path(titan.__file__).parent
    found = hashlib.sha256(titan.__version__.encode())
    for folder in DECIDING:
        for path in sorted((package / folder).rglob("*")):
            if path.suffix in (".py", ".c", ".h"):
                found.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def answer(question: RecheckQuestion, seconds: float) -> RecheckResult:
    """The verdict, recomputed."""
    from titan.foundation.verdict import Verdict

    started = time.thread_time()
    kernel = _kernel(question)
    finding = _decide(kernel, question, seconds)
    spent = time.thread_time() - started
    if finding.verdict is not Verdict.VERIFIED:
        codes = "".join(f": {item.code}: {item.headline}" for item in finding.diagnostics[:1])
        remarks = "; ".join(report.remark for report in finding.engines if report.remark)
        told = printable(codes or (f": {remarks}" if remarks else ""))
        return RecheckResult(
            question.key, f"the protocol is {finding.verdict}{told}", seconds=spent
        )
    return RecheckResult(question.key, "", finding.coverage.parameters, spent)


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


def _decide(kernel: Kernel, question: RecheckQuestion, seconds: float) -> Finding:
    from titan.foundation.verdict import Verdict
    from titan.verify import engines
    from titan.verify.judge import conclude
    from titan.verify.lowering import sync_program
    from titan.verify.model import Finding, VerifyOptions

    program = sync_program(kernel).program
    finding = Finding(kernel.path, kernel.name, kernel.target, Verdict.UNDECIDED)
    finding = replace(finding, coverage=question.coverage)
    options = VerifyOptions(seconds_max=seconds, save_traces=None)
    budget = engines.Budget(options.states_max, options.steps_max, seconds)
    if question.engine == engines.ORDER:
        report = engines.run_order(program, budget)
    elif question.engine == engines.EXPLORER and question.every_value:
        report = engines.run_explorer(program, budget)
    elif question.engine == engines.EXPLORER:
        report = engines.run_explorer_bounded(program, budget)
    else:
        return finding
    return conclude(replace(finding, program=program), kernel, program, [report], options)


class Kept:
    """Verdicts of earlier runs, in an sqlite file. A file that cannot be used holds nothing."""

    def __init__(self, path: str | Path | None) -> None:
        self.database: sqlite3.Connection | None = None
        if path is None:
            return
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            self.database = sqlite3.connect(path, timeout=5)
            self.database.execute(
                "CREATE TABLE IF NOT EXISTS verdicts (key TEXT PRIMARY KEY, sizes TEXT)"
            )
        except (sqlite3.Error, OSError):
            self.database = None

    def get(self, key: str) -> RecheckResult | None:
        if self.database is None:
            return None
        try:
            row = self.database.execute(
                "SELECT sizes FROM verdicts WHERE key = ?", (key,)
            ).fetchone()
            sizes = json.loads(row[0]) if row is not None else None
            if sizes is None:
                return None
            return RecheckResult(
                key,
                sizes=tuple((str(name), tuple(v) if v is not None else None) for name, v in sizes),
            )
        except (sqlite3.Error, ValueError, TypeError):
            return None

    def put(self, given: RecheckResult) -> None:
        """Only what was verified is kept."""
        if self.database is None or given.fault:
            return
        try:
            with self.database:
                self.database.execute(
                    "INSERT OR REPLACE INTO verdicts VALUES (?, ?)",
                    (given.key, json.dumps(given.sizes)),
                )
        except sqlite3.Error:
            self.database = None

    def close(self) -> None:
        if self.database is not None:
            self.database.close()
