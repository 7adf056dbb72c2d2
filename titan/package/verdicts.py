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
import hmac
import json
import os
import secrets
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
    from titan.verify.model import Coverage, Decision

ENGINES = ("explorer", "happens-before")
# What decides a verdict on a sync program; paths below titan/.
DECIDING = ("foundation", "sync", "engines", "target", "verify")
KEY_BYTES = 32
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
        return RecheckResult(question.key, fault, seconds=spent)
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


def secret() -> bytes:
    """A key of this user, beside no repository, by which the kept verdicts are signed.

    A row that somebody else has written, or that came with a checkout, bears no signature of it.
    Raises OSError where no file for it can be made.
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    path = Path(home) / "titan" / "gate.key"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        found = path.read_bytes()
        if len(found) != KEY_BYTES:
            raise OSError(f"{path} is no key") from None
        return found
    with os.fdopen(handle, "wb") as stream:
        made = secrets.token_bytes(KEY_BYTES)
        stream.write(made)
    return made


class Kept:
    """Verdicts of earlier runs, in an sqlite file, each signed with the key of this user.

    A file that cannot be used holds nothing, nor does a row whose signature does not fit: nobody
    makes a verdict by writing a row.
    """

    def __init__(self, path: str | Path | None) -> None:
        self.database: sqlite3.Connection | None = None
        self._key = b""
        if path is None:
            return
        try:
            self._key = secret()
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            self.database = sqlite3.connect(path, timeout=5)
            self.database.execute(
                "CREATE TABLE IF NOT EXISTS signed (key TEXT PRIMARY KEY, sizes TEXT, mark TEXT)"
            )
        except (sqlite3.Error, OSError):
            self.database = None

    def get(self, key: str) -> RecheckResult | None:
        """The verdict of an earlier run on the question `key`."""
        if self.database is None:
            return None
        try:
            row = self.database.execute(
                "SELECT sizes, mark FROM signed WHERE key = ?", (key,)
            ).fetchone()
            if row is None or not hmac.compare_digest(self._mark(key, str(row[0])), str(row[1])):
                return None
            sizes = json.loads(row[0])
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
        sizes = json.dumps(given.sizes)
        try:
            with self.database:
                self.database.execute(
                    "INSERT OR REPLACE INTO signed VALUES (?, ?, ?)",
                    (given.key, sizes, self._mark(given.key, sizes)),
                )
        except sqlite3.Error:
            self.database = None

    def _mark(self, key: str, sizes: str) -> str:
        return hmac.new(self._key, f"{key}\0{sizes}".encode(), hashlib.sha256).hexdigest()

    def close(self) -> None:
        """Close the file."""
        if self.database is not None:
            self.database.close()
