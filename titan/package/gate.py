"""Decides for packages, schedules and kernels whether each may pass, in two processes.

A package: `check.py` and then the question that it leaves, answered once for equal questions. A
schedule file: judged for the loop that is next to it. A kernel file: verified. The certificate of
a verdict (`.cert`): derived again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.errors import UserError
from titan.foundation.source.loading import load_file, near_files
from titan.foundation.verdict import Verdict
from titan.foundation.workers import worker_pool
from titan.package import certified, contents
from titan.package.check import Checked, check_package
from titan.package.failures import GateFailure, failure_of
from titan.package.verdicts import Kept, RecheckResult, answer, fault_of
from titan.report.findings import narrowing_text, parameters_text
from titan.verify.coverage import relaxed_policies
from titan.verify.files import KERNEL_SUFFIXES, has_suffix, kind_of
from titan.verify.model import Coverage, Finding, VerifyOptions
from titan.verify.pipeline import verify_file

PACKAGE, SCHEDULE, KERNEL, SKIPPED = "package", "schedule", "kernel", "skipped"
PROOF = "proof"
RECOMPUTED, SHARED, KEPT = "recomputed", "shared", "kept"
DERIVED = "derived from its certificate"
FOLDERS_MAX = 100_000
WHY_MAX = 200
TAKEN_BY = {"loop": ("loop", "schedule"), "tile": ("tile program", "build")}
LOOPS = (".yaml", ".yml", ".graphml")
OWN_FOLDER = ".titan"  # where commands keep traces and caches
PACKAGE_FILES = frozenset(
    (
        contents.SCHEDULE,
        contents.PIPELINE,
        contents.MANIFEST,
        *(pair[0] for pair in contents.SOURCES),
    )
)


class NothingThere(UserError):
    """A path to nothing that the gate can judge; bad usage."""


@dataclass(frozen=True, slots=True)
class GateItem:
    """Something to judge; `why` says of a SKIPPED path why nothing in it is judged."""

    kind: str
    path: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Judged:
    """One line of the report.

    `verdict` says where the verdict on a package's protocol comes from: recomputed for it, shared
    with an equal program of this run, or kept from an earlier run of the same code. `scope` is what
    is covered, in words; `policies` are those that differ from the defaults, `bounded` whether only
    some numbers are covered where any number is asked for. `failure` is the kind of a failure and
    `why` its sentence; `details` are the `diagnostics` as text.
    """

    item: GateItem
    ok: bool
    name: str
    why: str = ""
    stated: tuple[str, ...] = ()
    verdict: str = ""
    scope: str = ""
    policies: tuple[tuple[str, str], ...] = ()
    bounded: bool = False
    details: str = ""
    failure: GateFailure = GateFailure.NONE
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class GateRules:
    """What may pass, and what judging may take.

    `seconds` is the processor time of one verification, a backstop. Without `allow_bounded` a
    verdict for some numbers does not pass where any number is asked for.
    """

    seconds: float = 600.0
    allow_bounded: bool = False
    loop: str | None = None


def find(paths: tuple[str, ...], loop: str | None = None) -> list[GateItem]:
    """What the paths name, in order; folders are searched. Raises NothingThere.

    A file that is named has to be one that the gate judges, and readable: otherwise it is bad
    usage. What is wrong with its content is a failure, as it is below a folder.
    """
    items: list[GateItem] = []
    for path in paths:
        if os.path.isdir(path):
            package = contents.is_package(path)
            found = [GateItem(PACKAGE, path)] if package else list(_below(path))
            if not found:
                raise NothingThere(
                    f"there is no package, certificate or kernel in {contents.printable(path)}"
                )
            items += found
        elif not os.path.isfile(path):
            raise NothingThere(_absent(path))
        else:
            items.append(_named(path, loop))
    return list(dict.fromkeys(items))


def _named(path: str, loop: str | None) -> GateItem:
    """A file that is named. Raises NothingThere where it is nothing that is judged."""
    shown = contents.printable(path)
    source, errors = load_file(path, contents.BYTES_MAX)
    if source is None:
        span = errors[0].span
        if span is not None and span.source is not None:
            shown += f":{span.start_line}:{span.start_column}"
        raise NothingThere(f"{shown}: {errors[0].headline}")
    if os.path.basename(path) == contents.CERTIFICATE:
        return GateItem(PACKAGE, os.path.dirname(path) or ".")
    if has_suffix(path, (".json",)):
        if loop is None and _beside(path) is None:
            raise NothingThere(
                f"there is no loop of the name of {shown} next to it; name it with --loop"
            )
        return GateItem(SCHEDULE, path)
    if has_suffix(path, (certified.SUFFIX,)):
        return GateItem(PROOF, path)
    kind = kind_of(path)
    if kind in TAKEN_BY:
        what, command = TAKEN_BY[kind]
        raise NothingThere(f"{shown} is a {what}, not a kernel; `titan {command}` takes it")
    if not kind and not has_suffix(path, KERNEL_SUFFIXES):
        raise NothingThere(f"{shown} is no package, schedule, certificate or kernel file")
    return GateItem(KERNEL, path)


def _absent(path: str) -> str:
    shown = contents.printable(path)
    if os.path.lexists(path):
        return f"{shown} is neither a file nor a folder"
    return "; ".join((f"there is no file or folder {shown}", *near_files(path)))


def _below(folder: str) -> Iterator[GateItem]:
    """Packages, certificates and kernels below a folder, and what is skipped, with the reason.

    Nothing is left out silently: symbolic links, hidden folders, folders that cannot be read, and
    files of a package without a certificate next to them are items of their own.
    """
    failed: list[OSError] = []
    walk = os.walk(folder, onerror=failed.append)
    for count, (parent, folders, files) in enumerate(walk):
        if count > FOLDERS_MAX:
            raise NothingThere(
                f"{contents.printable(folder)} holds more than {FOLDERS_MAX} folders"
            )
        if contents.CERTIFICATE in files:
            folders.clear()
            yield GateItem(PACKAGE, parent)
            continue
        yield from _skipped(parent, folders, files)
        bare = bool(PACKAGE_FILES & set(files))  # reported as skipped
        for name in sorted(files):
            path = os.path.join(parent, name)
            if os.path.islink(path):
                continue
            if has_suffix(name, (certified.SUFFIX,)):
                yield GateItem(PROOF, path)
            elif not bare and has_suffix(name, KERNEL_SUFFIXES) and kind_of(path) == "kernel":
                yield GateItem(KERNEL, path)
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and not os.path.islink(os.path.join(parent, name))
        )
    for error in failed:
        reason = (error.strerror or "it cannot be read").lower()
        yield GateItem(SKIPPED, os.fsdecode(error.filename or folder), reason)


def _skipped(parent: str, folders: list[str], files: list[str]) -> Iterator[GateItem]:
    for name in sorted((*folders, *files)):
        path = os.path.join(parent, name)
        if os.path.islink(path):
            yield GateItem(SKIPPED, path, "a symbolic link is not followed")
        elif name in folders and name.startswith(".") and name != OWN_FOLDER:
            yield GateItem(SKIPPED, path, "a hidden folder is not searched")
    if PACKAGE_FILES & set(files):
        yield GateItem(SKIPPED, parent, f"files of a package, but no {contents.CERTIFICATE}")


def gate(
    items: list[GateItem],
    jobs: int = 2,
    rules: GateRules | None = None,
    cache: str | None = None,
    report: Callable[[int, int], None] = lambda done, of: None,
) -> Iterator[Judged]:
    """The judgements in the order of `items`, each as soon as it is made.

    `cache` is the file of verdicts kept from earlier runs; `report` is called with the items that
    are judged and with how many there are.
    """
    kept = Kept(cache)
    try:
        with worker_pool(min(jobs, max(1, len(items)))) as pool:
            yield from _Run(pool, kept, rules or GateRules()).judge(items, report)
    finally:
        kept.close()


class _Run:
    """Two tasks a package: the check without search and, once for equal questions, the verdict."""

    def __init__(self, pool: ProcessPoolExecutor, kept: Kept, rules: GateRules) -> None:
        self.pool = pool
        self.kept = kept
        self.rules = rules
        self.answers: dict[str, Future[RecheckResult] | RecheckResult] = {}

    def judge(self, items: list[GateItem], report: Callable[[int, int], None]) -> Iterator[Judged]:
        ahead = 64  # packages whose check is under way before the first verdict is waited for
        waiting: list[tuple[GateItem, Future[Any]]] = []
        asked: list[tuple[GateItem, Any, str]] = []
        queue = iter(items)
        done = 0
        while True:
            while len(waiting) + len(asked) < ahead and (item := next(queue, None)) is not None:
                waiting.append((item, self._submit(item)))
            while waiting and (waiting[0][1].done() or not asked):
                item, future = waiting.pop(0)
                asked.append((item, *self._asked(future.result())))
            if not asked:
                return
            judged = self._judged(*asked.pop(0))
            done += 1
            report(done, len(items))
            yield judged

    def _submit(self, item: GateItem) -> Future[Any]:
        if item.kind == SKIPPED:
            return self.pool.submit(_not_judged, item)
        if item.kind == PACKAGE:
            return self.pool.submit(check_package, item.path)
        if item.kind == PROOF:
            return self.pool.submit(judge_proof, item, self.rules)
        if item.kind == SCHEDULE:
            return self.pool.submit(judge_schedule, item, self.rules.loop)
        return self.pool.submit(judge_kernel, item, self.rules)

    def _asked(self, found: Checked | Judged) -> tuple[Checked | Judged, str]:
        """Submits the question of a package where no equal one was submitted; says who answers."""
        if isinstance(found, Judged) or found.question is None:
            return found, ""
        key = found.question.key
        if key in self.answers:
            return found, KEPT if isinstance(self.answers[key], RecheckResult) else SHARED
        earlier = self.kept.get(key)
        if earlier is not None:
            self.answers[key] = earlier
            return found, KEPT
        self.answers[key] = self.pool.submit(answer, found.question, self.rules.seconds)
        return found, RECOMPUTED

    def _judged(self, item: GateItem, found: Checked | Judged, source: str) -> Judged:
        if isinstance(found, Judged):
            return found
        name = found.name or contents.printable(os.path.basename(os.path.abspath(item.path)))
        if found.question is None:
            return Judged(item, False, name, found.fault, failure=found.failure)
        given = self.answers[found.question.key]
        if not isinstance(given, RecheckResult):
            given = given.result()
        if source == RECOMPUTED:
            self.kept.put(given)
        coverage = replace(found.question.coverage, parameters=given.sizes)
        why = fault_of(found.question, given)
        failure = given.failure or (GateFailure.ALTERED if why else GateFailure.NONE)
        bounded = not why and _is_bounded(found.question.coverage, coverage)
        if bounded and not self.rules.allow_bounded:
            failure = GateFailure.BOUNDED
            why = f"verified for {parameters_text(coverage)}; --allow-bounded accepts it"
        return Judged(
            item,
            not why,
            name,
            why,
            found.stated,
            source,
            "" if given.fault else parameters_text(coverage),
            relaxed_policies(found.question.coverage),
            bounded,
            failure=failure,
        )


def _is_bounded(asked: Coverage, covered: Coverage) -> bool:
    """Whether only some numbers are covered of a size that is open."""
    known = dict(covered.parameters)
    return any(values is None and known.get(name) is not None for name, values in asked.parameters)


def _not_judged(item: GateItem) -> Judged:
    """What is skipped does not pass."""
    name = contents.printable(os.path.basename(os.path.abspath(item.path)))
    return Judged(item, False, name, item.why, failure=GateFailure.SKIPPED)


def judge_proof(item: GateItem, rules: GateRules) -> Judged:
    """A certificate: every line derived again, for the kernel next to it."""
    from titan.sync.program import DEFAULT_POLICIES

    name = contents.printable(os.path.basename(item.path))
    try:
        claim = certified.claim_of(item.path)
    except certified.NotProved as reason:
        return Judged(item, False, name, str(reason), failure=GateFailure.UNPROVED)
    policies = tuple(
        (field.name, str(chosen))
        for field in fields(DEFAULT_POLICIES)
        if (chosen := getattr(claim.program.policies, field.name))
        != getattr(DEFAULT_POLICIES, field.name)
    )
    judged = Judged(
        item,
        True,
        contents.printable(claim.program.name),
        stated=(claim.whose,),
        verdict=DERIVED,
        scope=claim.scope,
        policies=policies,
        bounded=claim.bounded,
    )
    if claim.bounded and not rules.allow_bounded:
        why = f"certified for {claim.scope} only; --allow-bounded accepts it"
        return replace(judged, ok=False, why=why, failure=GateFailure.BOUNDED)
    return judged


def judge_schedule(item: GateItem, loop_path: str | None) -> Judged:
    """A schedule or certificate file of `titan schedule`, for its loop."""
    from titan.scheduling.loop.graphml import load_instance
    from titan.scheduling.loop.load import load_loop
    from titan.scheduling.store import certify, read
    from titan.target.load import TargetRefused

    name = contents.printable(os.path.basename(item.path))
    beside = loop_path or _beside(item.path)
    if beside is None:
        why = "there is no loop of the same name next to it; name it with --loop"
        return Judged(item, False, name, why, failure=GateFailure.REFUSED)
    try:
        loop = load_instance(beside) if beside.endswith(".graphml") else load_loop(beside)
        schedule, claim = read(item.path, loop)
    except TargetRefused as refused:
        headline = refused.diagnostics[0].headline if refused.diagnostics else "it cannot be read"
        return Judged(item, False, name, contents.printable(headline), failure=GateFailure.REFUSED)
    faults = certify(loop, schedule, claim)
    if faults:
        why = contents.printable(f"{faults[0].kind}: {faults[0].text}")
        return Judged(item, False, name, why, failure=GateFailure.UNSOUND)
    kind = claim.get("kind")
    stated = (f"interval: {kind}, not re-derived",) if kind in ("refutation", "agreement") else ()
    return Judged(item, True, name, "", stated)


def _beside(path: str) -> str | None:
    stem = Path(path)
    while stem.suffix in (".json", ".schedule", ".certificate"):
        stem = stem.with_suffix("")
    candidates = (stem.with_name(stem.name + suffix) for suffix in LOOPS)
    return next((str(found) for found in candidates if found.is_file()), None)


def judge_kernel(item: GateItem, rules: GateRules) -> Judged:
    """All kernels of a file verified, for any number unless bounded verdicts are allowed."""
    from titan.foundation.diagnostics.wording import counted, printable
    from titan.report.findings import diagnostics_of, render

    require = "bounded" if rules.allow_bounded else "any"
    options = VerifyOptions(seconds_max=rules.seconds, require=require, save_traces=None)
    findings = verify_file(item.path, options)
    names = dict.fromkeys(finding.kernel for finding in findings if finding.kernel)
    name = contents.printable(", ".join(names) or os.path.basename(item.path))
    scopes = dict.fromkeys(parameters_text(finding.coverage) for finding in findings)
    policies = dict.fromkeys(one for item in findings for one in relaxed_policies(item.coverage))
    bad = [finding for finding in findings if finding.verdict is not Verdict.VERIFIED]
    count = f"{len(findings)} kernels" if len(findings) != 1 else "1 kernel"
    fences = max((len(finding.added) for finding in findings), default=0)
    added = (f"{counted(fences, 'fence')} that lowering adds",) if fences else ()
    judged = Judged(
        item,
        bool(findings) and not bad,
        name,
        stated=(count, *added),
        verdict=RECOMPUTED,
        scope=" or ".join(scopes),
        policies=tuple(policies),
        bounded=any(finding.narrowing is not None for finding in findings),
    )
    if not bad:
        return judged
    narrowed = bad[0].narrowing is not None and bad[0].verdict is Verdict.UNDECIDED
    return replace(
        judged,
        why=printable(_why(bad[0]), WHY_MAX),
        details=render(bad, "text"),
        stated=(),
        failure=GateFailure.BOUNDED if narrowed else failure_of(bad[0].verdict),
        diagnostics=tuple(one for finding in bad for one in diagnostics_of(finding)),
    )


def _why(finding: Finding) -> str:
    """The verdict and its first diagnostic, on one line."""
    from titan.report.findings import diagnostics_of

    if finding.narrowing is not None:
        return f"{finding.verdict}{narrowing_text(finding)}"
    first = next((f": {item.code}: {item.headline}" for item in diagnostics_of(finding)), "")
    return f"{finding.verdict}{first}"
