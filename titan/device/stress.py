"""Does the emitted pipeline survive the adversary, and does what is unsafe visibly fail?

Every package runs in all its variants (the safe one, and each that breaks one rule of the protocol)
over sizes below, at and beyond the depth of its rings, whole and ragged tiles, several seeds, and
several hostile schedulers (CPU back end) or levels of disturbance (GPU). A run is correct, wrong
(numbers), a fault (the emulation saw what no kernel may do) or hung. The safe variant has to be
correct every time; how often each unsafe one was seen to fail is the other result.
Source: seed evaluation plan, A1 to A5.
"""

from __future__ import annotations

import datetime
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from titan.device.expressions import BadExpression, evaluate
from titan.device.hooks import levels, new_progress, read_progress, told
from titan.device.plan import Unlaunchable, plan
from titan.device.spread import spread
from titan.device.variants import SAFE, variants
from titan.device.watchdog import run_job

POLICIES = ("uniform", "latest", "starve:consumer", "starve:producer", "priority")
RUN_SECONDS = 30.0
BAD = ("wrong", "fault", "hung", "failed")


@dataclass(frozen=True, slots=True)
class Run:
    package: str
    variant: str
    sizes: tuple[tuple[str, int], ...]
    trips: int
    depth: int
    seed: int
    policy: str
    state: str
    told: str = ""
    seconds: float = 0.0
    waits: tuple[dict[str, Any], ...] = ()


CHOICES = (1, 8, 40, 64, 72, 128, 136, 200, 256, 264, 320, 384, 520, 640, 776, 1032)
GRID_MAX = 8
TRIPS_LEAST = 3  # different trip counts, where the kernel has as many


def sizes_for(manifest: Mapping[str, Any], depth: int) -> list[dict[str, int]]:
    """Launches whose trip counts are 1, below, at, and beyond the depth, whole and ragged.

    Found by trying: small numbers for every size, the fewest elements for each trip count. Where a
    kernel has few of these trip counts (some always make the same number of turns), those that it
    has.
    """
    names = [str(item["name"]) for item in manifest["parameters"]]
    wanted = {1, max(1, depth - 1), depth, depth + 1, 2 * depth + 1}
    found: dict[tuple[int, bool], tuple[int, dict[str, int]]] = {}
    for values in itertools.product(CHOICES, repeat=len(names)):
        sizes = dict(zip(names, values, strict=True))
        elements = sum(values)
        try:
            launch = plan(manifest, sizes, 2)
            trips = trips_of(manifest, sizes)
        except (Unlaunchable, BadExpression):
            continue
        key = (trips, any(value % 64 for value in values))
        if launch.grid <= GRID_MAX and (key not in found or elements < found[key][0]):
            found[key] = (elements, sizes)
    have = {trips for trips, _ in found}
    chosen = wanted & have
    for trips in sorted(have - chosen):
        if len(chosen) < TRIPS_LEAST:
            chosen.add(trips)
    return [sizes for (trips, _), (_, sizes) in sorted(found.items()) if trips in chosen]


def trips_of(manifest: Mapping[str, Any], sizes: Mapping[str, int]) -> int:
    """Iterations of the longest of the first and the last work item. Raises BadExpression."""
    program = manifest.get("program", {})
    names = {**dict(program.get("sizes", ())), **sizes}
    work = {name: evaluate(extent, names) for name, extent in dict(program.get("work", ())).items()}
    ends = (dict.fromkeys(work, 0), {name: extent - 1 for name, extent in work.items()})
    text = str(manifest["trip_count"])
    return max(1, *(evaluate(text, {**sizes, **end}) for end in ends))


def stress(
    folders: Sequence[Path],
    backend: str,
    seeds: Sequence[int],
    tell: Callable[[Run], None] = lambda run: None,
    policies: Sequence[str] | None = None,
    unsafe: bool = True,
    seconds: float = RUN_SECONDS,
    places: Sequence[str] = (),
    **options: Any,
) -> Iterator[Run]:
    """All runs, as they come; `seconds` is the limit of one, `options` go to the watchdog.

    One child for each variant goes through all seeds, policies and sizes. On a GPU the policies are
    the levels of disturbance that fit the kernel; by default all policies are tried. `places`: the
    GPUs, where there are several.
    """
    jobs: list[_Job] = []
    for folder in folders:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        source = (folder / str(manifest["source"])).read_text(encoding="utf-8")
        depth = max((int(ring["depth"]) for ring in manifest["rings"]), default=1)
        known_policies = POLICIES if backend == "cpu" else [each.name for each in levels(manifest)]
        hostile = [name for name in known_policies if policies is None or name in policies]
        cases = [
            {"sizes": sizes, "seed": seed, "policy": policy}
            for seed, policy, sizes in itertools.product(seeds, hostile, sizes_for(manifest, depth))
        ]
        known = variants(source)
        for variant in known if unsafe else [SAFE]:
            job = {
                "kind": "check", "folder": str(folder), "variant": variant, "backend": backend,
            }  # fmt: skip
            jobs.append(_Job(job, manifest, known[variant], depth, cases))

    def run_one(job: _Job, place: str | None) -> Iterator[Run]:
        return _runs(job, seconds, {**options, "device": place} if place else options)

    for run in spread(jobs, run_one, places):
        tell(run)
        yield run


@dataclass(frozen=True, slots=True)
class _Job:
    """One variant of a package and what it is tried with."""

    job: dict[str, Any]
    manifest: dict[str, Any]
    source: str
    depth: int
    cases: list[dict[str, Any]]


def _runs(job: _Job, seconds: float, options: Any) -> Iterator[Run]:
    """The runs of one job; where the child hangs or dies, the others follow in a new one."""
    left = list(job.cases)
    path = new_progress() if job.job["backend"] == "gpu" else None
    more = {} if path is None else {"progress": str(path)}

    def seen() -> dict[str, Any]:
        return {} if path is None else read_progress(path, job.manifest, job.source)

    try:
        while left:
            for record in run_job(
                {**job.job, **more, "cases": left}, seconds * len(left), idle=seconds,
                progress=seen, **options,
            ):  # fmt: skip
                if record["kind"] == "run" and left:
                    yield _run(job, left.pop(0), record)
                elif record["kind"] == "end" and left:
                    yield _run(job, left.pop(0), {**record, "told": _why(record)})
    finally:
        if path is not None:
            path.unlink(missing_ok=True)


def _why(end: Mapping[str, Any]) -> str:
    """Why a child ended before its work: where the kernel hung, its last error, its last record."""
    if end["state"] == "done":
        return "the child ended without this run"
    place = told(end.get("progress", {}))
    lines = str(end.get("error", "")).strip().splitlines()
    return place or (lines[-1] if lines else json.dumps(end.get("last", {}))[:200])


def _run(job: _Job, case: Mapping[str, Any], record: Mapping[str, Any]) -> Run:
    sizes = case["sizes"]
    trips = trips_of(job.manifest, sizes)
    state = "failed" if record["state"] == "done" else str(record["state"])
    return Run(
        str(job.manifest["kernel"]), str(job.job["variant"]), tuple(sizes.items()), trips,
        job.depth, int(case["seed"]), str(case["policy"]), state, str(record["told"]),
        round(float(record.get("seconds", 0.0)), 4), tuple(record.get("waits", ())),
    )  # fmt: skip


def document(facts: dict[str, Any], runs: Sequence[Run]) -> dict[str, Any]:
    """The result as data: a row for each package and variant, and every run that went wrong."""
    rows: list[dict[str, Any]] = []
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
        first = next((run.told for run in mine if run.state in BAD), "")
        rows.append(
            {
                "package": package, "depth": depth, "variant": variant, "runs": len(mine),
                "trips": sorted({run.trips for run in mine}), "states": states,
                "seen_to_fail": sum(run.state in BAD for run in mine), "first": first,
                "policies": _by_policy(mine), "stalls": stalls(mine),
            }
        )  # fmt: skip
    safe_bad = [run for run in runs if run.variant == SAFE and run.state in BAD]
    unsafe = [row for row in rows if row["variant"] != SAFE]
    return {
        "kind": "stress",
        "date": datetime.date.today().isoformat(),
        "device": facts,
        "runs": len(runs),
        "safe_failures": [_data(run) for run in safe_bad],
        "unsafe_variants": len(unsafe),
        "unsafe_seen_to_fail": sum(row["seen_to_fail"] > 0 for row in unsafe),
        "rows": rows,
    }


def _by_policy(runs: Sequence[Run]) -> dict[str, dict[str, int]]:
    """Of each policy: runs, and those that were seen to fail."""
    found: dict[str, dict[str, int]] = {}
    for run in runs:
        row = found.setdefault(run.policy, {"runs": 0, "seen_to_fail": 0})
        row["runs"] += 1
        row["seen_to_fail"] += run.state in BAD
    return found


def stalls(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Cycles that each role waited at barriers, by policy, over the runs that were measured."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for run in runs:
        for item in run.waits:
            key = (run.policy, str(item["role"]))
            row = found.setdefault(key, {"policy": key[0], "role": key[1], "cycles": 0, "waits": 0})
            row["cycles"] += int(item["cycles"])
            row["waits"] += int(item["waits"])
    for row in found.values():
        row["cycles_each"] = round(row["cycles"] / row["waits"], 1) if row["waits"] else None
    return list(found.values())


def _data(run: Run) -> dict[str, Any]:
    return {
        "package": run.package, "variant": run.variant, "sizes": dict(run.sizes),
        "depth": run.depth, "seed": run.seed, "policy": run.policy, "state": run.state,
        "told": run.told,
    }  # fmt: skip
