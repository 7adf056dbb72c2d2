"""Goes over packages, schedules and kernels and says of each whether it may pass, in two processes.

A package: `check.py` and then the question that it leaves, answered once for equal questions. A
schedule file: judged for the loop that lies beside it. A kernel file: verified.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from titan.package import contents
from titan.package.check import Checked, check_package
from titan.package.verdicts import Kept, RecheckResult, answer, fault_of

PACKAGE, SCHEDULE, KERNEL = "package", "schedule", "kernel"
RECOMPUTED, SHARED, KEPT = "recomputed", "shared", "kept"
FOLDERS_MAX = 100_000
LOOPS = (".yaml", ".yml", ".graphml")


class NothingThere(Exception):
    """A path that names nothing the gate can judge; bad usage."""


@dataclass(frozen=True, slots=True)
class GateItem:
    kind: str
    path: str


@dataclass(frozen=True, slots=True)
class Judged:
    """One line of the report.

    `verdict` tells where the verdict on a package's protocol is from: recomputed for it, shared
    with an equal program of this run, or kept from an earlier run of the same code.
    """

    item: GateItem
    ok: bool
    name: str
    why: str = ""
    stated: tuple[str, ...] = ()
    verdict: str = ""


def find(paths: tuple[str, ...]) -> list[GateItem]:
    """What the paths name, in order; folders are searched for packages. Raises NothingThere."""
    items: list[GateItem] = []
    for path in paths:
        if os.path.isdir(path):
            found = [path] if contents.is_package(path) else list(_packages(path))
            if not found:
                raise NothingThere(f"there is no package in {contents.printable(path)}")
            items += [GateItem(PACKAGE, folder) for folder in found]
        elif not os.path.isfile(path):
            raise NothingThere(f"there is no file or folder {contents.printable(path)}")
        elif path.endswith(".json"):
            certificate = os.path.basename(path) == contents.CERTIFICATE
            parent = os.path.dirname(path) or "."
            items.append(GateItem(PACKAGE, parent) if certificate else GateItem(SCHEDULE, path))
        else:
            items.append(GateItem(KERNEL, path))
    return list(dict.fromkeys(items))


def _packages(folder: str) -> Iterator[str]:
    """Folders that hold a certificate; hidden ones are left out."""
    for count, (parent, folders, files) in enumerate(os.walk(folder)):
        if count > FOLDERS_MAX:
            raise NothingThere(
                f"{contents.printable(folder)} holds more than {FOLDERS_MAX} folders"
            )
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if contents.CERTIFICATE in files:
            folders.clear()
            yield parent


def gate(
    items: list[GateItem],
    jobs: int = 2,
    seconds: float = 600.0,
    cache: str | None = None,
    loop: str | None = None,
    tell: Callable[[int, int], None] = lambda done, of: None,
) -> Iterator[Judged]:
    """The judgements in the order of `items`, each as soon as it is there.

    `seconds` is the processor time of one verification, `cache` the file of verdicts kept from
    earlier runs, `loop` the loop of schedule files.
    """
    kept = Kept(cache)
    try:
        with ProcessPoolExecutor(min(jobs, max(1, len(items)))) as pool:
            yield from _Run(pool, kept, seconds, loop).judge(items, tell)
    finally:
        kept.close()


class _Run:
    """Every package is two tasks: what is plain, and, once for equal questions, the verdict."""

    def __init__(
        self, pool: ProcessPoolExecutor, kept: Kept, seconds: float, loop: str | None
    ) -> None:
        self.pool = pool
        self.kept = kept
        self.seconds = seconds
        self.loop = loop
        self.answers: dict[str, Future[RecheckResult] | RecheckResult] = {}

    def judge(self, items: list[GateItem], tell: Callable[[int, int], None]) -> Iterator[Judged]:
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
            tell(done, len(items))
            yield judged

    def _submit(self, item: GateItem) -> Future[Any]:
        if item.kind == PACKAGE:
            return self.pool.submit(check_package, item.path)
        if item.kind == SCHEDULE:
            return self.pool.submit(judge_schedule, item, self.loop)
        return self.pool.submit(judge_kernel, item, self.seconds)

    def _asked(self, found: Checked | Judged) -> tuple[Checked | Judged, str]:
        """Submits the question of a package where nobody has asked it yet; says who answers."""
        if isinstance(found, Judged) or found.question is None:
            return found, ""
        key = found.question.key
        if key in self.answers:
            return found, KEPT if isinstance(self.answers[key], RecheckResult) else SHARED
        earlier = self.kept.get(key)
        if earlier is not None:
            self.answers[key] = earlier
            return found, KEPT
        self.answers[key] = self.pool.submit(answer, found.question, self.seconds)
        return found, RECOMPUTED

    def _judged(self, item: GateItem, found: Checked | Judged, source: str) -> Judged:
        if isinstance(found, Judged):
            return found
        name = found.name or contents.printable(os.path.basename(os.path.abspath(item.path)))
        if found.question is None:
            return Judged(item, False, name, found.fault)
        given = self.answers[found.question.key]
        if not isinstance(given, RecheckResult):
            given = given.result()
        if source == RECOMPUTED:
            self.kept.put(given)
        why = fault_of(found.question, given)
        return Judged(item, not why, name, why, found.stated, source)


def judge_schedule(item: GateItem, loop_path: str | None) -> Judged:
    """A schedule or certificate file of `titan schedule`, for its loop."""
    from titan.scheduling.loop.graphml import load_instance
    from titan.scheduling.loop.load import load_loop
    from titan.scheduling.store import certify, read
    from titan.target.load import TargetRefused

    name = contents.printable(os.path.basename(item.path))
    beside = loop_path or _beside(item.path)
    if beside is None:
        why = "its loop does not lie beside it under the same name; name it with --loop"
        return Judged(item, False, name, why)
    try:
        loop = load_instance(beside) if beside.endswith(".graphml") else load_loop(beside)
        schedule, claim = read(item.path, loop)
    except TargetRefused as refused:
        told = refused.diagnostics[0].headline if refused.diagnostics else "it cannot be read"
        return Judged(item, False, name, contents.printable(told))
    faults = certify(loop, schedule, claim)
    if faults:
        return Judged(item, False, name, contents.printable(f"{faults[0].kind}: {faults[0].text}"))
    kind = claim.get("kind")
    stated = (f"interval: {kind}, not re-derived",) if kind in ("refutation", "agreement") else ()
    return Judged(item, True, name, "", stated)


def _beside(path: str) -> str | None:
    stem = Path(path)
    while stem.suffix in (".json", ".schedule", ".certificate"):
        stem = stem.with_suffix("")
    candidates = (stem.with_name(stem.name + suffix) for suffix in LOOPS)
    return next((str(found) for found in candidates if found.is_file()), None)


def judge_kernel(item: GateItem, seconds: float) -> Judged:
    """All kernels of a file verified."""
    from titan.foundation.verdict import Verdict
    from titan.verify.model import VerifyOptions
    from titan.verify.pipeline import verify_file

    findings = verify_file(item.path, VerifyOptions(seconds_max=seconds, save_traces=None))
    names = dict.fromkeys(finding.kernel for finding in findings if finding.kernel)
    name = contents.printable(", ".join(names) or os.path.basename(item.path))
    bad = [finding for finding in findings if finding.verdict is not Verdict.VERIFIED]
    if not bad:
        count = f"{len(findings)} kernels" if len(findings) != 1 else "1 kernel"
        return Judged(item, bool(findings), name, "", (count,), RECOMPUTED)
    told = next((f"{d.code}: {d.headline}" for f in bad for d in f.diagnostics), "")
    why = f"{bad[0].verdict}{': ' if told else ''}{told}"
    return Judged(item, False, name, contents.printable(why), verdict=RECOMPUTED)
