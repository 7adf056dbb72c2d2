"""Runs a finding again, from its folder alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Unpack

from titan.device.documents import FindingRecord
from titan.device.findings import BINARIES, SOURCES, BadFinding, read
from titan.device.outcomes import judge
from titan.device.records import EndRecord, Job, RunCase, WatchOptions
from titan.device.stress import BAD, again
from titan.device.watchdog import run_job


def replay(
    folder: Path, times: int, seconds: float, fresh: bool = False, **options: Unpack[WatchOptions]
) -> Iterator[tuple[bool, str]]:
    """Runs the finding again: for each run whether it was seen again, and a line on it.

    `fresh`: compiled again, not with the machine code that was kept. Raises BadFinding.
    """
    record = read(folder)
    kept = folder / BINARIES
    binaries = None if fresh or not kept.is_dir() else kept
    try:
        run = _stress_again if record["of"] == "stress" else _litmus_again
        yield from run(folder, record, times, seconds, binaries, options)
    except KeyError as error:
        raise BadFinding(f"{folder}: finding.json lacks {error}") from None


def _stress_again(
    folder: Path,
    record: FindingRecord,
    times: int,
    seconds: float,
    binaries: Path | None,
    options: WatchOptions,
) -> Iterator[tuple[bool, str]]:
    case: RunCase = {
        "sizes": record["sizes"], "seed": record["seed"], "policy": record["policy"],
    }  # fmt: skip
    backend = str(record["backend"])
    for run in again(folder / SOURCES, backend, [case] * times, seconds, binaries, options):
        yield run.state in BAD, f"{run.state}; {run.message}" if run.message else run.state


def _litmus_again(
    folder: Path,
    record: FindingRecord,
    times: int,
    seconds: float,
    binaries: Path | None,
    options: WatchOptions,
) -> Iterator[tuple[bool, str]]:
    path = folder / SOURCES / str(record["manifest"])
    manifest = json.loads(path.read_text(encoding="utf-8"))
    batch = record["batches"][0]
    job: Job = {
        "kind": "litmus", "manifest": str(path), "seconds": seconds, "only": batch["number"],
        "seed": record["seed"], "scale": record["scale"], "most": record["most"],
        "backend": record["backend"],
    }  # fmt: skip
    if binaries is not None:
        job["binaries"] = str(binaries)
    for _ in range(times):
        total = seen = 0
        end: EndRecord = {"kind": "end", "state": "failed"}
        for found in run_job(job, seconds + 120.0, **options):
            if found["kind"] == "counts":
                total += sum(found["histogram"])
                seen += sum(item.count for item in judge(manifest, found["histogram"]).forbidden)
            elif found["kind"] == "end":
                end = found
        message = f"{seen:,} forbidden outcomes in {total:,} instances"
        if end.get("state") != "done":
            message += f"; {end.get('state')}: {str(end.get('error', '')).strip()[-200:]}"
        yield seen > 0, message
