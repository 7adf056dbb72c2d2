"""The whole device suite in one run with a budget: litmus, stress, speed; results as dated files.

The folder holds what was made where there are solvers and compilers (`make device-prepare`):
`litmus/` rendered tests, `packages/` built kernels, `variants/` those of them that differ in one
decision, `probes/` probes of disputed facts. Results go to `litmus/results/DEVICE/DATE.json` and
`benchmarks/results/DEVICE/DATE.json` below the given root, each with a page next to it.

What is run is compiled first, by several processes at once: on one GPU the compiler would take most
of the time. Every part has a share of the time and ends with it: a package, a test, a timing that
is under way then is ended, and what the time did not reach is listed by name.
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
from typing import Unpack

from titan.device import ablations, bench, cycles, litmus, probes, stress
from titan.device.documents import (
    BenchDocument,
    CyclesDocument,
    FittedMachine,
    LitmusDocument,
    ProbesDocument,
    ShareRow,
    StressDocument,
    SuiteDocument,
    VariantRow,
    VariantsDocument,
)
from titan.device.findings import Keep
from titan.device.package_files import read_manifest
from titan.device.page import page
from titan.device.platforms import runs_on
from titan.device.records import DeviceFacts, Job, Record, WatchOptions
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

    litmus: LitmusDocument
    stress: StressDocument
    bench: BenchDocument
    probes: ProbesDocument
    ablations: VariantsDocument
    cycles: CyclesDocument
    machines: list[FittedMachine]
    left: dict[str, list[str]]
    shares: dict[str, ShareRow]

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
    facts: DeviceFacts,
    seconds: float,
    log: Path,
    report: Callable[[str], None] = print,
    keep: Keep | None = None,
    **options: Unpack[WatchOptions],
) -> Suite:
    """The probes, then four parts, each within its share of the time that is left."""
    budget = _Budget(seconds)
    packages = [
        path.parent
        for path in sorted((folder / "packages").glob("*/manifest.json"))
        if runs_on(str(read_manifest(path.parent)["target"]), facts)
    ]
    asked = [] if "architecture" in facts else probes.manifests(folder / "probes")  # of NVIDIA's
    found = list(
        probes.run(
            asked, lambda answer: report(probes.line(answer)),
            seconds=HANG_SECONDS, **options,
        )
    )  # fmt: skip
    chosen = QUICK_LEVELS if seconds <= QUICK_SECONDS else None
    paths = litmus.manifests(folder / "litmus", facts)
    cache = folder / "compiled"
    compile_all(paths, packages, chosen, cache, budget.part("compile"), options)
    budget.done("compile")
    parts = _Parts(facts, cache, log, report, keep, budget.left, options)
    tests = parts.litmus(paths, budget.part("litmus"))
    budget.done("litmus")
    runs = parts.stress(packages, budget.part("stress"), chosen)
    budget.done("stress")
    rows = parts.bench(packages, budget.part("bench"))
    budget.done("bench")
    beside, steady, machines = parts.ablations(folder / "variants", budget.part("ablations"))
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
    until: float, options: WatchOptions,
) -> int:  # fmt: skip
    """Compiles into the cache what the time allows; how many packages and tests that were.

    Safe kernels come first, then tests, then unsafe variants. What does not compile is left to
    whoever runs it: there the error is reported.
    """
    safe: list[Job] = []
    unsafe: list[Job] = []
    for folder in packages:
        source = read_manifest(folder)["source"]
        text = (folder / Path(source).name).read_text(encoding="utf-8")
        for name in variants(text):
            task: Job = {"tasks": [(str(folder), name)], "policies": policies}
            (safe if name == stress.SAFE else unsafe).append(task)
    groups = [tests[first::COMPILERS] for first in range(min(COMPILERS, len(tests)))]
    rendered: list[Job] = [{"manifests": [str(p) for p in group], "most": 1} for group in groups]
    made = 0

    def one(task: Job, place: str | None) -> Iterator[Record]:
        left = until - time.monotonic()
        if left > 0:
            job: Job = {**task, "kind": "compile", "cache": str(cache)}
            yield from run_job(job, left, **options)

    # `spread` hands a place to each worker; these use no device.
    workers = [str(number) for number in range(min(COMPILERS, os.cpu_count() or 1))]
    for record in spread([*safe, *rendered, *unsafe], one, workers):
        made += record["kind"] == "compiled"
    return made


class _Budget:
    """The time of the suite: a part that ends early leaves its time to those behind it."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds
        self.parts = list(SHARES)
        self.left: dict[str, list[str]] = {}
        self.shares: dict[str, ShareRow] = {}
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
        """The part is over; what it took is kept."""
        self.shares[name]["taken_seconds"] = round(time.monotonic() - self.begun, 1)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts of a suite and what they share; `left` names what the time did not reach."""

    facts: DeviceFacts
    cache: Path
    log: Path
    report: Callable[[str], None]
    keep: Keep | None
    left: dict[str, list[str]]
    options: WatchOptions

    def litmus(self, paths: list[Path], until: float) -> list[litmus.LitmusRow]:
        """Every test once, as long as the time lasts."""
        rows: list[litmus.LitmusRow] = []
        settings = litmus.RunSettings(
            0.05, most=1, hang=HANG_SECONDS, cache=self.cache, together=TESTS_TOGETHER
        )
        found = litmus.run_tests(
            paths, settings, self.log, places=devices(self.facts), keep=self.keep, **self.options
        )
        for row in found:
            rows.append(row)
            self.report(f"litmus {len(rows)}/{len(paths)} {row.test}: {row.state}")
            if time.monotonic() > until:
                break
        done = {row.manifest for row in rows}
        self.left["litmus"] = [path.stem for path in paths if path.name not in done]
        return rows

    def stress(
        self, packages: list[Path], until: float, policies: Sequence[str] | None
    ) -> list[stress.StressRun]:
        """The safe kernels first; every package has the same part of what is left."""

        def report(run: stress.StressRun) -> None:
            if run.variant == stress.SAFE and run.state in stress.BAD:
                where = f"{run.package}, depth {run.depth}, {run.policy}"
                self.report(f"stress {where}: {run.state}; {run.message}")

        settings = stress.StressSettings(
            "gpu", policies=policies, seconds=RUN_SECONDS, cache=self.cache,
            budget=max(0.0, until - time.monotonic()),
        )  # fmt: skip
        places = devices(self.facts)
        runs = list(stress.stress(packages, settings, report, places, self.keep, **self.options))
        self.left["stress"] = [
            f"{row['package']} depth {row['depth']}, {row['variant']}: {row['runs']} runs under "
            f"{', '.join(row['policies'])}"
            for row in stress.skipped(runs)
        ]
        safe = [
            run
            for run in runs
            if run.variant == stress.SAFE and run.state not in stress.WITHOUT_RESULT
        ]
        self.report(f"stress: safe {sum(run.state == 'correct' for run in safe)}/{len(safe)}")
        return runs

    def bench(self, packages: list[Path], until: float) -> list[bench.BenchRow]:
        """Every package with an equal part of the time that is left."""
        rows: list[bench.BenchRow] = []
        for number, folder in enumerate(packages):
            now = time.monotonic()
            if now >= until:
                self.left["bench"] = [path.name for path in packages[number:]]
                break
            equal = (until - now) / (len(packages) - number)
            share = min(until, now + max(LEAST_SECONDS, equal))
            settings = bench.BenchSettings(until=share, cache=self.cache)
            for row in bench.bench([folder], self.facts, settings, **self.options):
                rows.append(row)
                self.report(bench.line(row))
        return rows

    def ablations(
        self, folder: Path, until: float
    ) -> tuple[list[VariantRow], list[cycles.CycleRow], list[FittedMachine]]:
        """Variants side by side, then their cycles and the machine that fits them."""
        if "architecture" in self.facts or not (folder / ablations.INDEX).is_file():
            return [], [], []  # variants are those of NVIDIA kernels
        begin = time.monotonic()
        settings = bench.BenchSettings(until=begin + (until - begin) * (1.0 - FIT_SHARE))
        rows = []
        for row in ablations.run(folder, self.facts, settings, **self.options):
            rows.append(row)
            self.report(ablations.line(row))
        self.left["ablations"] = [
            f"{row['package']}, {row['axis']} {row['setting']}"
            for row in rows
            if row["message"] == bench.OVER
        ]
        steady, machines = ablations.fitted(
            folder, self.facts, lambda row: self.report(cycles.line(row)), until, **self.options
        )
        return rows, steady, machines


def slug(name: str) -> str:
    """A device's name as a folder's: `NVIDIA H100 80GB HBM3` becomes `nvidia-h100-80gb-hbm3`."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "device"


def save(suite: Suite, root: Path, write: Callable[[Path, str], None]) -> list[Path]:
    """The result files, each with its page."""
    name = slug(str(suite.litmus["device"].get("name", "")))
    date = datetime.date.today().isoformat()
    tests: LitmusDocument = {**suite.litmus, "probes": suite.probes["probes"]}
    whole: SuiteDocument = {
        "kind": "device", "date": date, "device": suite.bench["device"],
        "stress": suite.stress, "bench": suite.bench, "ablations": suite.ablations,
        "cycles": suite.cycles, "machines": suite.machines, "probes": suite.probes,
        "left_out": suite.left, "shares": suite.shares,
    }  # fmt: skip
    files: dict[Path, LitmusDocument | SuiteDocument] = {
        root / "litmus" / "results" / name / f"{date}.json": {
            **tests, "left_out": suite.left.get("litmus", []),
        },
        root / "benchmarks" / "results" / name / f"{date}.json": whole,
    }  # fmt: skip
    made = []
    for path, data in files.items():
        write(path, json.dumps(data, indent=1) + "\n")
        write(path.with_suffix(".html"), page(data))
        made += [path, path.with_suffix(".html")]
    return made
