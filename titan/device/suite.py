"""The whole device suite in one run with a budget: litmus, stress, speed; results as dated files.

The folder holds what was made where there are solvers and compilers (`make device-prepare`):
`litmus/` rendered tests, `packages/` built kernels, `probes/` probes of disputed facts. Results go
to `litmus/results/DEVICE/DATE.json` and `benchmarks/results/DEVICE/DATE.json` below the given root.
What the budget did not reach is told, not left out silently.
"""

from __future__ import annotations

import datetime
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from titan.device import bench, litmus, probes, stress
from titan.device.spread import devices

FULL_SECONDS = 520.0
QUICK_SECONDS = 110.0
QUICK_LEVELS = ("quiet", "storm")
SHARES = (0.45, 0.3, 0.25)  # of the budget: litmus, stress, speed


@dataclass(frozen=True, slots=True)
class Suite:
    """What came out. `left` names what the budget did not reach."""

    litmus: dict[str, Any]
    stress: dict[str, Any]
    bench: dict[str, Any]
    probes: dict[str, Any]
    left: dict[str, list[str]]

    @property
    def bad(self) -> bool:
        """A forbidden outcome, a safe kernel that failed, a wrong package, an open probe."""
        rows = self.bench["rows"]
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
    **options: Any,
) -> Suite:
    """The probes, then three parts, each within its share of the budget."""
    left: dict[str, list[str]] = {}
    paths = litmus.manifests(folder / "litmus")
    packages = sorted(path.parent for path in (folder / "packages").glob("*/manifest.json"))
    found = list(
        probes.run(
            probes.manifests(folder / "probes"), lambda answer: tell(probes.line(answer)), **options
        )
    )
    several = {**options, "places": devices(facts)}
    tests = _litmus(paths, seconds * SHARES[0], log, left, tell, several)
    chosen = QUICK_LEVELS if seconds <= QUICK_SECONDS else None
    runs = _stress(packages, seconds * SHARES[1], left, tell, {**several, "policies": chosen})
    rows = _bench(packages, facts, seconds * SHARES[2], left, tell, options)
    return Suite(
        litmus.document(facts, tests),
        stress.document(facts, runs),
        bench.document(facts, rows),
        probes.document(facts, found),
        left,
    )


def _litmus(
    paths: list[Path], seconds: float, log: Path, left: Any, tell: Any, options: Any
) -> list[litmus.Row]:
    end = time.monotonic() + seconds
    rows: list[litmus.Row] = []
    found = litmus.run_tests(paths, 0.05, 1, 1.0, log, most=1, **options)
    for row in found:
        rows.append(row)
        tell(f"litmus {len(rows)}/{len(paths)} {row.test}: {row.state}")
        if time.monotonic() > end:
            break
    left["litmus"] = [path.stem for path in paths[len(rows) :]]
    return rows


def _stress(
    packages: list[Path], seconds: float, left: Any, tell: Any, options: Any
) -> list[stress.Run]:
    end = time.monotonic() + seconds
    runs: list[stress.Run] = []
    for number, folder in enumerate(packages):
        if time.monotonic() > end:
            left["stress"] = [path.name for path in packages[number:]]
            break
        mine = list(stress.stress([folder], "gpu", [0], **options))
        runs += mine
        safe = [run for run in mine if run.variant == stress.SAFE]
        tell(
            f"stress {folder.name}: safe {sum(run.state == 'correct' for run in safe)}/{len(safe)}"
        )
    return runs


def _bench(
    packages: list[Path], facts: dict[str, Any], seconds: float, left: Any, tell: Any, options: Any
) -> list[bench.Row]:
    end = time.monotonic() + seconds
    rows: list[bench.Row] = []
    for number, folder in enumerate(packages):
        if time.monotonic() > end:
            left["bench"] = [path.name for path in packages[number:]]
            break
        for row in bench.bench([folder], facts, **options):
            rows.append(row)
            tell(bench.line(row))
    return rows


def slug(name: str) -> str:
    """A device's name as a folder's: `NVIDIA H100 80GB HBM3` becomes `nvidia-h100-80gb-hbm3`."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "device"


def save(suite: Suite, root: Path, write: Callable[[Path, str], None]) -> list[Path]:
    """The result files."""
    name = slug(str(suite.litmus["device"].get("name", "")))
    date = datetime.date.today().isoformat()
    files = {
        root / "litmus" / "results" / name / f"{date}.json": {
            **suite.litmus, "probes": suite.probes["probes"],
            "left_out": suite.left.get("litmus", []),
        },
        root / "benchmarks" / "results" / name / f"{date}.json": {
            "kind": "device", "date": date, "device": suite.bench["device"],
            "stress": suite.stress, "bench": suite.bench, "left_out": suite.left,
        },
    }  # fmt: skip
    for path, data in files.items():
        write(path, json.dumps(data, indent=1) + "\n")
    return list(files)
