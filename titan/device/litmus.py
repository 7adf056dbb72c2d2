"""Runs rendered litmus tests one after the other and puts the counts next to the model's verdicts.

Each test runs in a child process with a time limit; what it counted before it failed or hung is
kept. The log holds a line for every batch; the result is one JSON document for a machine and day.
"""

from __future__ import annotations

import datetime
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from titan.device.outcomes import BadManifest, Verdict, judge
from titan.device.spread import spread
from titan.device.watchdog import Log, run_job

HANG_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Row:
    """One test: what was counted, or why it was not."""

    test: str
    manifest: str
    state: str
    verdict: Verdict | None
    instances: int
    seconds: float
    batches: int
    error: str = ""
    seeds: tuple[int, ...] = ()

    @property
    def rate(self) -> float:
        """Instances a second."""
        return self.instances / self.seconds if self.seconds else 0.0


def manifests(folder: Path) -> list[Path]:
    """The rendered tests of a folder."""
    return sorted(folder.glob("*.json"))


def run_tests(
    paths: Sequence[Path],
    seconds: float,
    seed: int = 1,
    scale: float = 1.0,
    log: Path | None = None,
    tell: Callable[[int, Row], None] = lambda number, row: None,
    places: Sequence[str] = (),
    **options: Any,
) -> Iterator[Row]:
    """The rows as they come; `places`: GPUs, where there are several; `options`: the watchdog's."""
    with (
        tempfile.TemporaryDirectory(prefix="titan-") as folder,
        Log(log or Path(folder) / "log.jsonl") as kept,
    ):

        def run_one(path: Path, place: str | None) -> Iterator[Row]:
            more = {**options, "device": place} if place else options
            yield run_test(path, seconds, seed, scale, kept, **more)

        for number, row in enumerate(spread(paths, run_one, places)):
            tell(number, row)
            yield row


def run_test(
    path: Path, seconds: float, seed: int, scale: float, log: Log, most: int = 6, **options: Any
) -> Row:
    """One test in a child process."""
    manifest = json.loads(path.read_text(encoding="utf-8"))
    job = {
        "kind": "litmus", "manifest": str(path), "seconds": seconds, "seed": seed, "scale": scale,
        "most": most,
    }  # fmt: skip
    histogram: list[int] = []
    spent, batches = 0.0, 0
    seeds: list[int] = []
    end: dict[str, Any] = {}
    for record in run_job(job, seconds + HANG_SECONDS, **options):
        log.add({"test": manifest["test"], "file": path.name, **record})
        if record["kind"] == "counts":
            counts = record["histogram"]
            histogram = [a + b for a, b in zip(histogram or [0] * len(counts), counts, strict=True)]
            spent += record["seconds"]
            batches += 1
            seeds.append(record["seed"])
        elif record["kind"] == "end":
            end = record
    error = str(end.get("error", "")) if end.get("state") != "done" else ""
    if end.get("state") == "hung":
        error = f"hung; last seen: {json.dumps(end.get('last', {}))[:300]}"
    verdict = None
    state = "failed" if end.get("state") == "failed" else str(end.get("state", "failed"))
    if error.startswith("NotRun"):
        state = "not run"
    if histogram:
        try:
            verdict = judge(manifest, histogram)
        except BadManifest as bad:
            state, error = "failed", str(bad)
        else:
            state = verdict.state if state == "done" or verdict.forbidden else state
    total = sum(histogram)
    return Row(
        str(manifest["test"]), path.name, state, verdict, total, spent, batches,
        error.strip().splitlines()[-1] if error.strip() else "", tuple(seeds),
    )  # fmt: skip


def machine(backend: str, **options: Any) -> dict[str, Any]:
    """The facts of the device; raises RuntimeError where there is none."""
    for record in run_job({"kind": "facts", "backend": backend}, 60.0, **options):
        if record["kind"] == "facts":
            return {key: value for key, value in record.items() if key != "kind"}
        if record["kind"] == "end":
            text = str(record.get("error", "no device")).strip().splitlines()
            raise RuntimeError(text[-1].partition(": ")[2] if text else "no device")
    raise RuntimeError("no device")


def document(facts: dict[str, Any], rows: Sequence[Row]) -> dict[str, Any]:
    """The result of a run as data."""
    return {
        "kind": "litmus",
        "date": datetime.date.today().isoformat(),
        "device": facts,
        "instances": sum(row.instances for row in rows),
        "findings": [row.test for row in rows if row.state == "finding"],
        "tests": [_row(row) for row in rows],
    }


def _row(row: Row) -> dict[str, Any]:
    data: dict[str, Any] = {
        "test": row.test, "file": row.manifest, "state": row.state, "instances": row.instances,
        "seconds": round(row.seconds, 3), "per_second": round(row.rate), "batches": row.batches,
        "seeds": [row.seeds[0], row.seeds[-1]] if row.seeds else [],
    }  # fmt: skip
    if row.error:
        data["error"] = row.error
    if row.verdict is not None:
        data["words"] = list(row.verdict.names)
        data["outcomes"] = [
            {"values": list(o.values), "count": o.count, "state": o.state, "asked": o.asked}
            for o in row.verdict.outcomes
        ]
        data["allowed_but_unseen"] = [list(values) for values in row.verdict.unseen]
        data["incomplete"] = row.verdict.incomplete
    return data
