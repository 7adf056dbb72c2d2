"""The whole device suite in one run with a budget: litmus, stress, speed; results as dated files.

The folder holds what was made where there are solvers and compilers (`make device-prepare`):
`litmus/` rendered tests, `packages/` built kernels, `variants/` those of them that differ in one
decision, `probes/` probes of disputed facts. Results go to `litmus/results/DEVICE/DATE.json` and
`benchmarks/results/DEVICE/DATE.json` below the given root, each with a page beside it.

What is run is compiled first, by several processes at once: on one GPU the compiler would take most
of the time. Every part has a share of the time and ends with it: a package, a test, a timing that
is under way then is ended, and what the time did not reach is told by name.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from titan.device import ablations, bench, cycles, litmus, probes, stress
from titan.device.findings import Keep
from titan.device.page import page
from titan.device.spread import devices, spread
from titan.device.variants import variants
from titan.device.watchdog import run_job

FULL_SECONDS = 520.0
QUICK_SECONDS = 110.0
QUICK_LEVELS = ("quiet", "storm")
# Of the budget: litmus, stress, speed, variants and the fit. Probes come first and take seconds.
SHARES = {"compile": 0.12, "litmus": 0.3, "stress": 0.26, "bench": 0.18, "ablations": 0.14}
COMPILERS = 12  # processes at most
TESTS_TOGETHER = 40  # in one process
LEAST_SECONDS = 15.0  # of a package that is timed: four processes
HANG_SECONDS = 20.0  # of one test; the watchdog's own limit would take a quarter of the time
RUN_SECONDS = 20.0
FIT_SHARE = 0.3  # of the time of the variants


@dataclass(frozen=True, slots=True)
class Suite:
    """What came out. `left` names what the budget did not reach."""

    litmus: dict[str, Any]
    stress: dict[str, Any]
    bench: dict[str, Any]
    probes: dict[str, Any]
    ablations: dict[str, Any]
    cycles: dict[str, Any]
    machines: list[dict[str, Any]]
    left: dict[str, list[str]]
    shares: dict[str, dict[str, float]]

    @property
    def bad(self) -> bool:
        """A forbidden outcome, a safe kernel that failed, a wrong package, an open probe."""
        rows = [*self.bench["rows"], *self.ablations["rows"]]
        wrong = any(row["state"] in ("wrong", "failed") for row in rows)
        unanswered = any(row["state"] != "answered" for row in self.probes["probes"])
        findings = self.litmus["findings"] or self.stress["safe_failures"]
        return bool(findings or wrong or unanswered)


def run(
    folder: Path,
    facts: dict[str, Any],
    seconds: float,
    log: Path,
    tell: Callable[[str], None] = print,
    keep: Keep | None = None,
    **options: Any,
) -> Suite:
    """The probes, then four parts, each within its share of the time that is left."""
    budget = _Budget(seconds)
    packages = sorted(path.parent for path in (folder / "packages").glob("*/manifest.json"))
    found = list(
        probes.run(
            probes.manifests(folder / "probes"), lambda answer: tell(probes.line(answer)),
            seconds=HANG_SECONDS, **options,
        )
    )  # fmt: skip
    chosen = QUICK_LEVELS if seconds <= QUICK_SECONDS else None
    paths = litmus.manifests(folder / "litmus")
    cache = folder / "compiled"
    compile_all(paths, packages, chosen, cache, budget.part("compile"), options)
    budget.done("compile")
    several = {**options, "places": devices(facts), "keep": keep, "cache": cache}
    tests = _litmus(paths, budget.part("litmus"), log, budget.left, tell, several)
    budget.done("litmus")
    stressed = {**several, "policies": chosen}
    runs = _stress(packages, budget.part("stress"), budget.left, tell, stressed)
    budget.done("stress")
    timed = {**options, "cache": cache}
    rows = _bench(packages, facts, budget.part("bench"), budget.left, tell, timed)
    budget.done("bench")
    until = budget.part("ablations")
    beside, steady, machines = _ablations(
        folder / "variants", facts, until, budget.left, tell, options
    )
    budget.done("ablations")
    return Suite(
        litmus.document(facts, tests),
        stress.document(facts, runs),
        bench.document(facts, rows),
        probes.document(facts, found),
        ablations.document(facts, beside),
        cycles.document(facts, steady),
        machines,
        budget.left,
        budget.shares,
    )


def compile_all(
    tests: Sequence[Path], packages: Sequence[Path], policies: Sequence[str] | None, cache: Path,
    until: float, options: Any,
) -> int:  # fmt: skip
    """Compiles into the cache what the time allows; how many packages and tests that were.

    Safe kernels come first, then tests, then unsafe variants. What does not compile is left to
    whoever runs it: there the error is told.
    """
    tasks: list[dict[str, Any]] = []
    for folder in packages:
        source = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["source"]
        text = (folder / Path(str(source)).name).read_text(encoding="utf-8")
        for name in variants(text):
            task: dict[str, Any] = {"tasks": [[str(folder), name]], "policies": policies}
            tasks.append(task)
    tasks.sort(key=lambda task: task["tasks"][0][1] != stress.SAFE)
    groups = [tests[first::COMPILERS] for first in range(min(COMPILERS, len(tests)))]
    count = sum(task["tasks"][0][1] == stress.SAFE for task in tasks)
    tasks[count:count] = [{"manifests": [str(p) for p in group], "most": 1} for group in groups]
    made = 0

    def one(task: dict[str, Any], place: str | None) -> Iterator[dict[str, Any]]:
        left = until - time.monotonic()
        if left > 0:
            job = {"kind": "compile", "cache": str(cache), **task}
            yield from run_job(job, left, **options)

    # `spread` hands a place to each worker; these use no device.
    workers = [str(number) for number in range(min(COMPILERS, os.cpu_count() or 1))]
    for record in spread(tasks, one, workers):
        made += record["kind"] == "compiled"
    return made


class _Budget:
    """The time of the suite: a part that ends early leaves its time to those behind it."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds
        self.parts = list(SHARES)
        self.left: dict[str, list[str]] = {}
        self.shares: dict[str, dict[str, float]] = {}
        self.begun = 0.0

    def part(self, name: str) -> float:
        """Until when a part may run."""
        self.begun = time.monotonic()
        left = max(0.0, self.end - self.begun)
        share = left * SHARES[name] / sum(SHARES[other] for other in self.parts)
        self.parts.remove(name)
        self.shares[name] = {"given_seconds": round(share, 1)}
        return self.begun + share

    def done(self, name: str) -> None:
        self.shares[name]["taken_seconds"] = round(time.monotonic() - self.begun, 1)


def _litmus(
    paths: list[Path], until: float, log: Path, left: Any, tell: Any, options: Any
) -> list[litmus.LitmusRow]:
    rows: list[litmus.LitmusRow] = []
    found = litmus.run_tests(
        paths, 0.05, 1, 1.0, log, most=1, hang=HANG_SECONDS,
        together=TESTS_TOGETHER, **options,
    )  # fmt: skip
    for row in found:
        rows.append(row)
        tell(f"litmus {len(rows)}/{len(paths)} {row.test}: {row.state}")
        if time.monotonic() > until:
            break
    done = {row.manifest for row in rows}
    left["litmus"] = [path.stem for path in paths if path.name not in done]
    return rows


def _stress(
    packages: list[Path], until: float, left: Any, tell: Any, options: Any
) -> list[stress.StressRun]:
    """The safe kernels first; every package has the same part of what is left."""

    def told(run: stress.StressRun) -> None:
        if run.variant == stress.SAFE and run.state in stress.BAD:
            tell(f"stress {run.package}, depth {run.depth}, {run.policy}: {run.state}; {run.told}")

    budget = max(0.0, until - time.monotonic())
    runs = list(
        stress.stress(packages, "gpu", [0], told, seconds=RUN_SECONDS, budget=budget, **options)
    )
    left["stress"] = [
        f"{row['package']} depth {row['depth']}, {row['variant']}: {row['runs']} runs under "
        f"{', '.join(row['policies'])}"
        for row in stress.skipped(runs)
    ]
    safe = [run for run in runs if run.variant == stress.SAFE and run.state != stress.SKIPPED]
    tell(f"stress: safe {sum(run.state == 'correct' for run in safe)}/{len(safe)}")
    return runs


def _bench(
    packages: list[Path], facts: dict[str, Any], until: float, left: Any, tell: Any, options: Any
) -> list[bench.BenchRow]:
    rows: list[bench.BenchRow] = []
    for number, folder in enumerate(packages):
        now = time.monotonic()
        if now >= until:
            left["bench"] = [path.name for path in packages[number:]]
            break
        equal = (until - now) / (len(packages) - number)
        share = min(until, now + max(LEAST_SECONDS, equal))
        for row in bench.bench([folder], facts, until=share, **options):
            rows.append(row)
            tell(bench.line(row))
    return rows


def _ablations(
    folder: Path, facts: dict[str, Any], until: float, left: Any, tell: Any, options: Any
) -> tuple[list[dict[str, Any]], list[cycles.CycleRow], list[dict[str, Any]]]:
    """Variants side by side, then their cycles and the machine that fits them."""
    if not (folder / ablations.INDEX).is_file():
        return [], [], []
    begin = time.monotonic()
    first = begin + (until - begin) * (1.0 - FIT_SHARE)
    rows = []
    for row in ablations.run(folder, facts, until=first, **options):
        rows.append(row)
        tell(ablations.line(row))
    left["ablations"] = [
        f"{row['package']}, {row['axis']} {row['setting']}"
        for row in rows
        if row["told"] == bench.OVER
    ]
    steady, machines = ablations.fitted(
        folder, facts, lambda row: tell(cycles.line(row)), until=until, **options
    )
    return rows, steady, machines


def slug(name: str) -> str:
    """A device's name as a folder's: `NVIDIA H100 80GB HBM3` becomes `nvidia-h100-80gb-hbm3`."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "device"


def save(suite: Suite, root: Path, write: Callable[[Path, str], None]) -> list[Path]:
    """The result files, each with its page."""
    name = slug(str(suite.litmus["device"].get("name", "")))
    date = datetime.date.today().isoformat()
    files = {
        root / "litmus" / "results" / name / f"{date}.json": {
            **suite.litmus, "probes": suite.probes["probes"],
            "left_out": suite.left.get("litmus", []),
        },
        root / "benchmarks" / "results" / name / f"{date}.json": {
            "kind": "device", "date": date, "device": suite.bench["device"],
            "stress": suite.stress, "bench": suite.bench, "ablations": suite.ablations,
            "cycles": suite.cycles, "machines": suite.machines, "probes": suite.probes,
            "left_out": suite.left, "shares": suite.shares,
        },
    }  # fmt: skip
    made = []
    for path, data in files.items():
        write(path, json.dumps(data, indent=1) + "\n")
        write(path.with_suffix(".html"), page(data))
        made += [path, path.with_suffix(".html")]
    return made
