"""Does the emitted pipeline survive the adversary, and does what is unsafe visibly fail?

Every package runs in all its variants (the safe one, and each that breaks one rule of the protocol)
over sizes below, at and beyond the depth of its rings, whole and ragged tiles, several seeds, and
several adversarial schedules (without a GPU) or levels of disturbance (on one). A run is correct,
wrong (numbers), a fault (the emulation saw what no kernel may do) or hung. The safe variant has to
be correct every time; how often each unsafe one was seen to fail is the other result. A budget of
time is shared out among packages and variants, the safe ones first; what it did not reach is
reported as skipped. Source: seed evaluation plan, A1 to A5.
"""

from __future__ import annotations

import datetime
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from titan.codegen.tile.manifest import Manifest
from titan.device import findings
from titan.device.documents import (
    ImbalancePoint,
    ImbalanceRow,
    PolicyCounts,
    SkippedRow,
    StallRow,
    StressDocument,
    StressFailure,
    StressRow,
)
from titan.device.findings import Keep
from titan.device.hooks import KNOBS, PRODUCER, describe, levels, new_progress, read_progress
from titan.device.package_files import read_manifest
from titan.device.platforms import AMD_TARGETS
from titan.device.records import (
    NOT_RUN,
    DeviceFacts,
    EndRecord,
    Job,
    Progress,
    RunCase,
    RunRecord,
    WaitRow,
    WatchOptions,
)
from titan.device.sizes import sizes_for, spread_cases, trips_of
from titan.device.spread import spread
from titan.device.variants import SAFE, variants
from titan.device.watchdog import reason, run_job

# Without a GPU: the names of titan/device/emulated.py, which needs NumPy; the last one decides all
# interleavings, and not for AMD.
SEEDED = ("shuffled", "starved", "ahead", "mixed", "checked")
RUN_SECONDS = 30.0
EMULATED_RUN_SECONDS = 900.0  # a run without a GPU ends by its steps; compilers wait for processors
BAD = ("wrong", "fault", "hung", "failed")
SKIPPED = "skipped"
WITHOUT_RESULT = (SKIPPED, NOT_RUN)
# Errors of a child that say nothing of the kernel, and what the runs that were left are then.
_NO_RUN = {"OtherDevice": SKIPPED, "ModuleNotFoundError": NOT_RUN}
LEAST_SECONDS = 6.0  # a child that has less does not come to its first run


@dataclass(frozen=True, slots=True)
class StressRun:
    """One run of one variant of a package; `message` says what was seen where it is not correct."""

    package: str
    variant: str
    sizes: tuple[tuple[str, int], ...]
    trips: int
    depth: int
    seed: int
    policy: str
    state: str
    message: str = ""
    seconds: float = 0.0
    waits: tuple[WaitRow, ...] = ()


@dataclass(frozen=True, slots=True)
class StressSettings:
    """What packages are tried with.

    On a GPU the policies are the levels of disturbance that fit the kernel; None tries all.
    `unsafe`: the variants that break a rule, too. `seconds` is the limit of one run (None: that of
    the back end), `budget` the seconds for all of it. `cache`: machine code that was compiled
    ahead. `longest`: a launch of so many trips beside the others. `runs`: at most so many of each
    variant (None: all), spread evenly over seeds, sizes and policies.
    """

    backend: str
    seeds: Sequence[int] = (0,)
    policies: Sequence[str] | None = None
    unsafe: bool = True
    seconds: float | None = None
    budget: float | None = None
    cache: Path | None = None
    longest: int | None = None
    runs: int | None = None


@dataclass(frozen=True, slots=True)
class StressPlan:
    """Which runs there will be: of each package (by its kernel), depth and variant how many."""

    jobs: tuple[_Job, ...]

    @property
    def runs(self) -> dict[tuple[str, int, str], int]:
        """By package, depth and variant; of packages that have all these, together."""
        found: Counter[tuple[str, int, str]] = Counter()
        for job in self.jobs:
            name = str(job.manifest["kernel"])
            found[name, job.depth, str(job.job["variant"])] += len(job.cases)
        return found

    @property
    def left_out(self) -> int:
        """Runs that the limit on those of each variant leaves out."""
        return sum(job.left_out for job in self.jobs)


def planned(folders: Sequence[Path], settings: StressSettings) -> StressPlan:
    """The runs of these packages, the safe kernels first."""
    jobs = [job for folder in folders for job in _jobs(folder, settings)]
    jobs.sort(key=lambda job: job.job["variant"] != SAFE)
    return StressPlan(tuple(jobs))


def stress(
    given: Sequence[Path] | StressPlan,
    settings: StressSettings,
    report: Callable[[StressRun], None] = lambda run: None,
    places: Sequence[str] = (),
    keep: Keep | None = None,
    **options: Unpack[WatchOptions],
) -> Iterator[StressRun]:
    """All runs of packages, or of a plan, as they come; `options` go to the watchdog.

    One child for each variant goes through all seeds, policies and sizes. `places`: the GPUs, where
    there are several. `keep`: where safe kernels that fail are kept.
    """
    plan = given if isinstance(given, StressPlan) else planned(given, settings)
    jobs = plan.jobs
    if settings.cache is not None:
        for job in jobs:
            job.job["cache"] = str(settings.cache)
    share = _Share(settings.budget, len(jobs), max(1, len(places)))
    usual = RUN_SECONDS if settings.backend == "gpu" else EMULATED_RUN_SECONDS
    seconds = usual if settings.seconds is None else settings.seconds

    def run_one(job: _Job, place: str | None) -> Iterator[StressRun]:
        more: WatchOptions = {**options, "device": place} if place else options
        return _runs(job, seconds, share.next(), keep, more)

    for run in spread(jobs, run_one, places):
        report(run)
        yield run


def _jobs(folder: Path, settings: StressSettings) -> Iterator[_Job]:
    manifest = read_manifest(folder)
    source = (folder / Path(str(manifest["source"])).name).read_text(encoding="utf-8")
    depth = max((int(ring["depth"]) for ring in manifest["rings"]), default=1)
    backend, policies = settings.backend, settings.policies
    known: Sequence[str] = SEEDED
    if backend == "gpu":
        known = [level.name for level in levels(manifest, source)]
    elif str(manifest["target"]).startswith(AMD_TARGETS):
        known = SEEDED[:-1]
    adversarial = [name for name in known if policies is None or name in policies]
    sizes = sizes_for(manifest, depth, settings.longest)
    cases = spread_cases(settings.seeds, sizes, adversarial)
    chosen = cases[: settings.runs]
    texts = variants(source)
    for variant in texts if settings.unsafe else [SAFE]:
        job: Job = {"kind": "check", "folder": str(folder), "variant": variant, "backend": backend}
        left_out = len(cases) - len(chosen)
        yield _Job(job, manifest, texts[variant], depth, chosen, left_out)


@dataclass(frozen=True, slots=True)
class _Job:
    """One variant of a package and what it is tried with."""

    job: Job
    manifest: Manifest
    source: str
    depth: int
    cases: list[RunCase]
    left_out: int = 0


class _Share:
    """The time that is left, in equal parts for the jobs that are left; they may come at once.

    Where that is too little for each, those in front have enough, and the others nothing.
    """

    def __init__(self, budget: float | None, jobs: int, together: int) -> None:
        self.end = None if budget is None else time.monotonic() + budget
        self.jobs, self.together = jobs, together
        self.lock = threading.Lock()

    def next(self) -> float | None:
        """Until when the next job may run."""
        with self.lock:
            if self.end is None:
                return None
            left = max(0.0, self.end - time.monotonic())
            share = min(left, max(LEAST_SECONDS, left * self.together / max(1, self.jobs)))
            self.jobs -= 1
            return time.monotonic() + share


def again(
    folder: Path, backend: str, cases: list[RunCase], seconds: float, binaries: Path | None,
    options: WatchOptions,
) -> Iterator[StressRun]:  # fmt: skip
    """The safe kernel of a package with exactly these cases; `binaries`: ready machine code."""
    (job,) = _jobs(folder, StressSettings(backend, (), unsafe=False))
    if binaries is not None:
        job.job["binaries"] = str(binaries)
    whole = _Job(job.job, job.manifest, job.source, job.depth, cases)
    return _runs(whole, seconds, None, None, options)


def _runs(
    job: _Job, seconds: float, until: float | None, keep: Keep | None, options: WatchOptions
) -> Iterator[StressRun]:
    """The runs of one job; where the child hangs or dies, the others follow in a new one.

    At `until` the child is ended; the cases that are left are skipped.
    """
    left = list(job.cases)
    whole: Job = {**job.job}
    path = new_progress() if job.job["backend"] == "gpu" else None
    if path is not None:
        whole["progress"] = str(path)
    found = 0

    def seen() -> Progress:
        return {} if path is None else read_progress(path, job.manifest, job.source)

    def over() -> bool:
        return until is not None and time.monotonic() >= until

    wanted = keep is not None and job.job["variant"] == SAFE
    with findings.kept(wanted) as binaries:
        if binaries is not None:
            whole["keep"] = str(binaries)
        try:
            while left and not over():
                limit = seconds * len(left)
                if until is not None:
                    limit = min(limit, max(0.1, until - time.monotonic()))
                whole["cases"] = left
                for record in run_job(whole, limit, idle=seconds, progress=seen, **options):
                    if not left:
                        continue
                    if record["kind"] == "end":
                        if record["state"] == "hung" and over():
                            break
                        name, _, why = reason(record).partition(": ")
                        if name in _NO_RUN:
                            while left:
                                yield _run(job, left.pop(0), _ended(_NO_RUN[name], why))
                            break
                        ran = _ended(record["state"], _why(record), record.get("seconds", 0.0))
                        seen_at = record.get("progress", Progress())
                    elif record["kind"] == "run":
                        ran, seen_at = record, Progress()
                    else:
                        continue
                    case = left.pop(0)
                    run = _run(job, case, ran)
                    if wanted and keep is not None and run.state in BAD and found < findings.MOST:
                        found += 1
                        _save(job, case, run, ran.get("launch"), seen_at, keep, binaries)
                    yield run
                    if over():
                        break
        finally:
            if path is not None:
                path.unlink(missing_ok=True)
    for case in left:
        yield _run(job, case, _ended(SKIPPED, "the time limit was reached"))


def _ended(state: str, message: str, seconds: float = 0.0) -> RunRecord:
    """The record of a run that the child did not report itself."""
    return {"kind": "run", "sizes": {}, "state": state, "message": message, "seconds": seconds}


def _save(
    job: _Job,
    case: RunCase,
    run: StressRun,
    launch: Mapping[str, object] | None,
    progress: Progress,
    keep: Keep,
    binaries: Path | None,
) -> None:
    """A safe kernel that failed becomes a finding."""
    folder = Path(job.job["folder"])
    names = ["manifest.json", Path(job.manifest["source"]).name, Path(job.manifest["header"]).name]
    data = {
        "backend": job.job["backend"], "state": run.state, "message": run.message,
        "sizes": case["sizes"], "seed": case["seed"], "policy": case["policy"],
        "launch": launch or job.manifest["launch"], "progress": progress,
    }  # fmt: skip
    sources = {name: (folder / name).read_bytes() for name in names}
    findings.keep(keep, "stress", run.package, data, sources, binaries)


def _why(end: EndRecord) -> str:
    """Why a child ended before its work: where the kernel hung, its last error, its last record."""
    if end["state"] == "done":
        return "the child ended without this run"
    place = describe(end.get("progress", Progress()))
    lines = str(end.get("error", "")).strip().splitlines()
    return place or (lines[-1] if lines else json.dumps(end.get("last", {}))[:200])


def _run(job: _Job, case: RunCase, record: RunRecord) -> StressRun:
    sizes = case["sizes"]
    trips = trips_of(job.manifest, sizes)
    state = "failed" if record["state"] == "done" else str(record["state"])
    return StressRun(
        str(job.manifest["kernel"]), str(job.job["variant"]), tuple(sizes.items()), trips,
        job.depth, int(case["seed"]), str(case["policy"]), state, str(record["message"]),
        round(float(record.get("seconds", 0.0)), 4), tuple(record.get("waits", ())),
    )  # fmt: skip


def document(facts: DeviceFacts, runs: Sequence[StressRun], left_out: int = 0) -> StressDocument:
    """The result as data: a row for each package and variant, and every run that went wrong."""
    rows: list[StressRow] = []
    keys = dict.fromkeys((run.package, run.depth, run.variant) for run in runs)
    for package, depth, variant in keys:
        mine = [
            run
            for run in runs
            if (run.package, run.depth, run.variant) == (package, depth, variant)
        ]
        states: dict[str, int] = {}
        for run in mine:
            states[run.state] = states.get(run.state, 0) + 1
        first = next((run.message for run in mine if run.state in (*BAD, NOT_RUN)), "")
        waited = stalls(mine)
        rows.append(
            {
                "package": package, "depth": depth, "variant": variant,
                "runs": sum(run.state not in WITHOUT_RESULT for run in mine),
                "trips": sorted({run.trips for run in mine if run.state not in WITHOUT_RESULT}),
                "states": states,
                "seen_to_fail": sum(run.state in BAD for run in mine), "first": first,
                "policies": _by_policy(mine), "stalls": waited,
                "imbalance": imbalance(waited),
            }
        )  # fmt: skip
    safe_bad = [run for run in runs if run.variant == SAFE and run.state in BAD]
    unsafe = [row for row in rows if row["variant"] != SAFE]
    return {
        "kind": "stress",
        "date": datetime.date.today().isoformat(),
        "device": facts,
        "runs": sum(run.state not in WITHOUT_RESULT for run in runs),
        "not_run": sum(run.state == NOT_RUN for run in runs),
        "safe_failures": [_data(run) for run in safe_bad],
        "unsafe_variants": len(unsafe),
        "unsafe_seen_to_fail": sum(row["seen_to_fail"] > 0 for row in unsafe),
        "skipped": skipped(runs),
        "left_out": left_out,
        "rows": rows,
    }


def skipped(runs: Sequence[StressRun]) -> list[SkippedRow]:
    """What the time did not reach: package, variant, policies, how many runs."""
    found: dict[tuple[str, int, str], SkippedRow] = {}
    for run in runs:
        if run.state == SKIPPED:
            empty: SkippedRow = {
                "package": run.package, "depth": run.depth, "variant": run.variant, "runs": 0,
                "policies": [],
            }  # fmt: skip
            row = found.setdefault((run.package, run.depth, run.variant), empty)
            row["runs"] += 1
            if run.policy not in row["policies"]:
                row["policies"].append(run.policy)
    return list(found.values())


def _by_policy(runs: Sequence[StressRun]) -> dict[str, PolicyCounts]:
    """Of each policy: runs, and those that were seen to fail."""
    found: dict[str, PolicyCounts] = {}
    for run in runs:
        if run.state == SKIPPED:
            continue
        row = found.setdefault(run.policy, {"runs": 0, "seen_to_fail": 0})
        row["runs"] += 1
        row["seen_to_fail"] += run.state in BAD
    return found


def stalls(runs: Sequence[StressRun]) -> list[StallRow]:
    """Cycles that each role waited at barriers, by policy, over the runs that were measured."""
    found: dict[tuple[str, str], StallRow] = {}
    for run in runs:
        for item in run.waits:
            key = (run.policy, str(item["role"]))
            row = found.setdefault(key, {"policy": key[0], "role": key[1], "cycles": 0, "waits": 0})
            row["cycles"] += item["cycles"]
            row["waits"] += item["waits"]
            if "delays" in item:
                more = item["delay_cycles"]
                row["delay_cycles"] = row.get("delay_cycles", 0) + more
                row["delays"] = row.get("delays", 0) + item["delays"]
    for row in found.values():
        row["cycles_each"] = round(row["cycles"] / row["waits"], 1) if row["waits"] else None
        if row.get("delays"):
            row["delay_each"] = round(row["delay_cycles"] / row["delays"], 1)
    return list(found.values())


def imbalance(waited: Sequence[StallRow]) -> list[ImbalanceRow]:
    """What a producer waits to acquire a stage, against the delay of those that read the stages.

    For each knob the points: amount, cycles of the delay after one wait (null for an epilogue),
    cycles of one wait of the producer. The first is the kernel that is only measured.
    """
    by_policy: dict[str, dict[str, StallRow]] = {}
    for item in waited:
        by_policy.setdefault(item["policy"], {})[item["role"]] = item
    bare = by_policy.get("measured", {}).get(PRODUCER)
    found: list[ImbalanceRow] = []
    for knob in KNOBS:
        points = [] if bare is None else [_point(0, bare, None)]
        for policy, roles in by_policy.items():
            name, _, amount = policy.partition("@")
            if name == knob and PRODUCER in roles:
                others = [item for role, item in roles.items() if role != PRODUCER]
                measured = others[0] if others and knob != KNOBS[0] else None
                points.append(_point(int(amount), roles[PRODUCER], measured))
        if len(points) > 1:
            points.sort(key=lambda point: int(point["amount"]))
            found.append({"knob": knob, "points": points})
    return found


def _point(amount: int, producer: StallRow, other: StallRow | None) -> ImbalancePoint:
    return {
        "amount": amount, "delay_cycles": other.get("delay_each") if other else None,
        "producer_cycles": producer["cycles_each"],
    }  # fmt: skip


def _data(run: StressRun) -> StressFailure:
    return {
        "package": run.package, "variant": run.variant, "sizes": dict(run.sizes),
        "depth": run.depth, "seed": run.seed, "policy": run.policy, "state": run.state,
        "message": run.message,
    }  # fmt: skip
