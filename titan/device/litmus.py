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
from typing import Unpack, cast

from titan.device import findings
from titan.device.documents import LitmusDocument, LitmusTestRow
from titan.device.findings import Keep
from titan.device.manifests import LitmusManifest
from titan.device.outcomes import BadManifest, ObservedVerdict, judge
from titan.device.records import BatchCounts, DeviceFacts, EndRecord, Job, WatchOptions
from titan.device.spread import spread
from titan.device.watchdog import Log, reason, run_job
from titan.foundation.errors import Refusal
from titan.foundation.verdict import Reason

HANG_SECONDS = 120.0
BATCHES_KEPT = 20  # of a finding


@dataclass(frozen=True, slots=True)
class LitmusRow:
    """One test: what was counted, or why it was not."""

    test: str
    manifest: str
    state: str
    verdict: ObservedVerdict | None
    instances: int
    seconds: float
    batches: int
    error: str = ""
    seeds: tuple[int, ...] = ()

    @property
    def rate(self) -> float:
        """Instances a second."""
        return self.instances / self.seconds if self.seconds else 0.0


def manifests(folder: Path, facts: DeviceFacts | None = None) -> list[Path]:
    """The rendered tests of a folder; with the facts of a GPU those in its language."""
    found = sorted(folder.glob("*.json"))
    if facts is None or facts.get("backend") != "gpu":
        return found
    other = "cuda" if "architecture" in facts else "hip"
    return [path for path in found if json.loads(path.read_text())["language"] != other]


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How litmus tests are run: seconds for each, first seed, instances as a multiple.

    `most`: placements that are tried. `hang`: seconds beyond its time after which a test is ended.
    `cache`: machine code that was compiled ahead. `together`: tests in one process, which saves its
    start; what one leaves behind in the device is not seen by the next. `backend`: "gpu" or
    "emulated", for tests in CUDA; those in C11 run on the CPU.
    """

    seconds: float = 1.0
    seed: int = 1
    scale: float = 1.0
    most: int = 6
    hang: float = HANG_SECONDS
    cache: Path | None = None
    together: int = 1
    backend: str = "gpu"

    def job(self) -> Job:
        """What every job of these settings says."""
        job: Job = {
            "seconds": self.seconds, "seed": self.seed, "scale": self.scale, "most": self.most,
            "backend": self.backend,
        }  # fmt: skip
        if self.cache is not None:
            job["cache"] = str(self.cache)
        return job


def run_tests(
    paths: Sequence[Path],
    settings: RunSettings,
    log: Path | None = None,
    report: Callable[[int, LitmusRow], None] = lambda number, row: None,
    places: Sequence[str] = (),
    keep: Keep | None = None,
    **options: Unpack[WatchOptions],
) -> Iterator[LitmusRow]:
    """The rows as they come; `places`: GPUs, where there are several; `options`: the watchdog's.

    `keep`: where tests that show what the model forbids are kept.
    """
    together = max(1, settings.together)
    groups = [paths[first : first + together] for first in range(0, len(paths), together)]
    with (
        tempfile.TemporaryDirectory(prefix="titan-") as folder,
        Log(log or Path(folder) / "log.jsonl") as kept,
    ):

        def run_one(group: Sequence[Path], place: str | None) -> Iterator[LitmusRow]:
            more: WatchOptions = {**options, "device": place} if place else options
            if together > 1:
                yield from _run_group(group, settings, kept, keep, more)
            else:
                yield run_test(group[0], settings, kept, keep, **more)

        for number, row in enumerate(spread(groups, run_one, places)):
            report(number, row)
            yield row


def _run_group(
    paths: Sequence[Path], settings: RunSettings, log: Log, keep: Keep | None,
    options: WatchOptions,
) -> Iterator[LitmusRow]:  # fmt: skip
    """Tests in one child; where it hangs, dies or has to stop, the rest follows in a new one."""
    remaining = list(paths)
    each = settings.seconds + settings.hang
    with findings.kept(keep is not None) as binaries:

        def row_of(batches: list[BatchCounts], end: EndRecord) -> LitmusRow:
            test = _Test(remaining.pop(0), settings)
            row = test.row(batches, end)
            if keep is not None and binaries is not None and row.state == "finding":
                test.save(batches, row, keep, binaries / test.path.stem)
            return row

        while remaining:
            job: Job = {
                **settings.job(), "kind": "litmus many",
                "manifests": [str(path) for path in remaining],
            }  # fmt: skip
            if binaries is not None:
                job["keep"] = str(binaries)
            batches: list[BatchCounts] = []
            stopped = False
            for record in run_job(job, len(remaining) * each, idle=each, **options):
                log.add({"file": remaining[0].name if remaining else "", **record})
                if record["kind"] == "counts":
                    batches.append(record)
                elif record["kind"] == "over" and remaining:
                    state = "failed" if record["error"] else "done"
                    yield row_of(batches, {"kind": "end", "state": state, "error": record["error"]})
                    batches, stopped = [], bool(record["stop"])
                elif record["kind"] == "end" and remaining and not stopped:
                    yield row_of(batches, record)


def run_test(
    path: Path, settings: RunSettings, log: Log, keep: Keep | None = None,
    **options: Unpack[WatchOptions],
) -> LitmusRow:  # fmt: skip
    """One test in a child process, ended when it takes `hang` seconds more than it may run."""
    test = _Test(path, settings)
    job: Job = {**settings.job(), "kind": "litmus", "manifest": str(path)}
    batches: list[BatchCounts] = []
    end: EndRecord = {"kind": "end", "state": "failed"}
    with findings.kept(keep is not None) as binaries:
        if binaries is not None:
            job["keep"] = str(binaries)
        for record in run_job(job, settings.seconds + settings.hang, **options):
            log.add({"test": test.manifest["test"], "file": path.name, **record})
            if record["kind"] == "counts":
                batches.append(record)
            elif record["kind"] == "end":
                end = record
        row = test.row(batches, end)
        if keep is not None and row.state == "finding":
            test.save(batches, row, keep, binaries)
    return row


class _Test:
    """One rendered test with its manifest, and what becomes of its batches."""

    def __init__(self, path: Path, settings: RunSettings) -> None:
        self.path, self.settings = path, settings
        self.manifest: LitmusManifest = json.loads(path.read_text(encoding="utf-8"))

    def row(self, batches: list[BatchCounts], end: EndRecord) -> LitmusRow:
        """The row of a test from its batches and the end of its child."""
        state = end["state"]
        error = str(end.get("error", "")) if state != "done" else ""
        if state == "hung":
            error = f"hung; last seen: {json.dumps(end.get('last', {}))[:300]}"
        verdict = None
        if reason({"error": error}).startswith(("NotRun", "OtherDevice")):
            state = "not run"
        histogram = [sum(counts) for counts in zip(*(b["histogram"] for b in batches), strict=True)]
        if histogram:
            try:
                verdict = judge(self.manifest, histogram)
            except BadManifest as bad:
                state, error = "failed", str(bad)
            else:
                state = verdict.state if state == "done" or verdict.forbidden else state
        return LitmusRow(
            str(self.manifest["test"]), self.path.name, state, verdict, sum(histogram),
            sum(batch["seconds"] for batch in batches), len(batches),
            error.strip().splitlines()[-1] if error.strip() else "",
            tuple(batch["seed"] for batch in batches),
        )  # fmt: skip

    def save(
        self, batches: list[BatchCounts], row: LitmusRow, keep: Keep, binaries: Path | None
    ) -> None:
        """A forbidden outcome becomes a finding, with the batches that showed it."""
        shown = [batch for batch in batches if judge(self.manifest, batch["histogram"]).forbidden]
        if not shown or row.verdict is None:
            return
        settings = self.settings
        data = {
            "manifest": self.path.name, "batches": shown[:BATCHES_KEPT],
            "backend": settings.backend,
            "seed": settings.seed, "scale": settings.scale, "most": settings.most,
            "instances": row.instances, "words": list(row.verdict.names),
            "forbidden": [
                {"values": list(item.values), "count": item.count} for item in row.verdict.forbidden
            ],
            "launch": self.manifest["launch"],
        }  # fmt: skip
        source = self.path.parent / Path(str(self.manifest["source"])).name
        sources = {file.name: file.read_bytes() for file in (self.path, source)}
        findings.keep(keep, "litmus", row.test, data, sources, binaries)


class NoMachine(Refusal):
    """There is no device to run on; the text says why."""

    reason = Reason.MISSING_TOOL


def machine(backend: str, **options: Unpack[WatchOptions]) -> DeviceFacts:
    """The facts of the device. Raises NoMachine where there is none."""
    for record in run_job({"kind": "facts", "backend": backend}, 60.0, **options):
        if record["kind"] == "facts":
            return cast(DeviceFacts, {key: value for key, value in record.items() if key != "kind"})
        if record["kind"] == "end":
            text = str(record.get("error", "no device")).strip().splitlines()
            raise NoMachine(text[-1].partition(": ")[2] if text else "no device")
    raise NoMachine("no device")


def document(facts: DeviceFacts, rows: Sequence[LitmusRow]) -> LitmusDocument:
    """The result of a run as data."""
    return {
        "kind": "litmus",
        "date": datetime.date.today().isoformat(),
        "device": facts,
        "instances": sum(row.instances for row in rows),
        "findings": [row.test for row in rows if row.state == "finding"],
        "tests": [_row(row) for row in rows],
    }


def _row(row: LitmusRow) -> LitmusTestRow:
    data: LitmusTestRow = {
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
