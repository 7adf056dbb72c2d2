"""Does the emitted pipeline survive the adversary, and does what is unsafe visibly fail?

Every package runs in all its variants (the safe one, and each that breaks one rule of the protocol)
over sizes below, at and beyond the depth of its rings, whole and ragged tiles, several seeds, and,
on the CPU back end, several hostile schedulers. A run is correct, wrong (numbers), a fault (the
emulation saw what no kernel may do) or hung. The safe variant has to be correct every time; how
often each unsafe one was seen to fail is the other result. Source: seed evaluation plan, A1 to A5.
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
from titan.device.plan import Unlaunchable, plan
from titan.device.variants import SAFE, variants
from titan.device.watchdog import run_job

POLICIES = ("uniform", "latest", "starve:consumer", "starve:producer", "priority")
RUN_SECONDS = 60.0
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


def sizes_for(manifest: Mapping[str, Any], depth: int) -> list[dict[str, int]]:
    """Launches whose trip counts are 1, below, at, and beyond the depth, whole and ragged.

    Found by trying: small numbers for every size, the fewest elements for each trip count.
    """
    names = [str(item["name"]) for item in manifest["parameters"]]
    choices = (1, 8, 40, 64, 72, 128, 136, 200, 256, 264, 320, 384, 520, 640, 776, 1032)
    wanted = sorted({1, max(1, depth - 1), depth, depth + 1, 2 * depth + 1})
    found: dict[tuple[int, bool], tuple[int, dict[str, int]]] = {}
    for values in itertools.product(choices, repeat=len(names)):
        sizes = dict(zip(names, values, strict=True))
        elements = sum(values)
        try:
            launch = plan(manifest, sizes, 2)
            trips = max(1, evaluate(str(manifest["trip_count"]), {**sizes, **_firsts(manifest)}))
        except (Unlaunchable, BadExpression):
            continue
        ragged = any(value % 64 for value in values)
        key = (trips, ragged)
        fewer = key not in found or elements < found[key][0]
        if trips in wanted and launch.grid <= 8 and fewer:
            found[key] = (elements, sizes)
    return [sizes for _, (_, sizes) in sorted(found.items())]


def _firsts(manifest: Mapping[str, Any]) -> dict[str, int]:
    """Work coordinates of the first item, for trip counts that differ between items."""
    return dict.fromkeys(manifest.get("program", {}).get("work", {}), 0)


def stress(
    folders: Sequence[Path],
    backend: str,
    seeds: Sequence[int],
    tell: Callable[[Run], None] = lambda run: None,
    policies: Sequence[str] = POLICIES,
    unsafe: bool = True,
    seconds: float = RUN_SECONDS,
    **options: Any,
) -> Iterator[Run]:
    """All runs, as they come; `options` go to the watchdog."""
    for folder in folders:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        source = (folder / str(manifest["source"])).read_text(encoding="utf-8")
        names = list(variants(source)) if unsafe else [SAFE]
        depth = max((int(ring["depth"]) for ring in manifest["rings"]), default=1)
        sizes = sizes_for(manifest, depth)
        hostile = policies if backend == "cpu" else ("device",)
        for variant, seed, policy in itertools.product(names, seeds, hostile):
            job = {
                "kind": "check", "folder": str(folder), "variant": variant, "backend": backend,
                "sizes": sizes, "seed": seed, "policy": policy,
            }  # fmt: skip
            for run in _runs(job, manifest, depth, seconds, options):
                tell(run)
                yield run


def _runs(
    job: dict[str, Any], manifest: Mapping[str, Any], depth: int, seconds: float, options: Any
) -> Iterator[Run]:
    """The runs of one job; where the child hangs or dies, the others follow in a new one."""
    left = list(job["sizes"])
    while left:
        current = left[0]
        for record in run_job({**job, "sizes": left}, seconds, **options):
            if record["kind"] == "begin":
                current = record["sizes"]
            elif record["kind"] == "run":
                left.remove(current)
                spent = float(record.get("seconds", 0.0))
                yield _run(job, manifest, depth, current, record["state"], record["told"], spent)
            elif record["kind"] == "end" and record["state"] != "done":
                told = str(record.get("error", "")).strip().splitlines()
                text = told[-1] if told else json.dumps(record.get("last", {}))[:200]
                left.remove(current)
                yield _run(job, manifest, depth, current, record["state"], text, seconds)


def _run(
    job: Mapping[str, Any], manifest: Mapping[str, Any], depth: int, sizes: dict[str, int],
    state: str, told: str, seconds: float,
) -> Run:  # fmt: skip
    names = {**sizes, **_firsts(manifest)}
    trips = max(1, evaluate(str(manifest["trip_count"]), names))
    return Run(
        str(manifest["kernel"]), str(job["variant"]), tuple(sizes.items()), trips, depth,
        int(job["seed"]), str(job["policy"]), state, told, round(seconds, 4),
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


def _data(run: Run) -> dict[str, Any]:
    return {
        "package": run.package, "variant": run.variant, "sizes": dict(run.sizes),
        "depth": run.depth, "seed": run.seed, "policy": run.policy, "state": run.state,
        "told": run.told,
    }  # fmt: skip
