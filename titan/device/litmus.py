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

from titan.device import findings
from titan.device.findings import Keep
from titan.device.outcomes import BadManifest, ObservedVerdict, judge
from titan.device.spread import spread
from titan.device.watchdog import Log, reason, run_job

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


def manifests(folder: Path) -> list[Path]:
    """The rendered tests of a folder."""
    return sorted(folder.glob("*.json"))


def run_tests(
    paths: Sequence[Path],
    seconds: float,
    seed: int = 1,
    scale: float = 1.0,
    log: Path | None = None,
    tell: Callable[[int, LitmusRow], None] = lambda number, row: None,
    places: Sequence[str] = (),
    keep: Keep | None = None,
    together: int = 1,
    **options: Any,
) -> Iterator[LitmusRow]:
    """The rows as they come; `places`: GPUs, where there are several; `options`: the watchdog's.

    `keep`: where tests that show what the model forbids are kept. `together`: tests in one process,
    which saves its start; what one leaves behind in the device is not seen by the next.
    """
    groups = [paths[first : first + together] for first in range(0, len(paths), max(1, together))]
    with (
        tempfile.TemporaryDirectory(prefix="titan-") as folder,
        Log(log or Path(folder) / "log.jsonl") as kept,
    ):

        def run_one(group: Sequence[Path], place: str | None) -> Iterator[LitmusRow]:
            more = {**options, "device": place} if place else options
            if together > 1:
                yield from _run_group(group, seconds, seed, scale, kept, keep=keep, **more)
            else:
                yield run_test(group[0], seconds, seed, scale, kept, keep=keep, **more)

        for number, row in enumerate(spread(groups, run_one, places)):
            tell(number, row)
            yield row


def _run_group(
    paths: Sequence[Path], seconds: float, seed: int, scale: float, log: Log, most: int = 6,
    hang: float | None = None, keep: Keep | None = None, cache: Path | None = None, **options: Any,
) -> Iterator[LitmusRow]:  # fmt: skip
    """Tests in one child; where it hangs, dies or has to stop, the rest follows in a new one."""
    hang = HANG_SECONDS if hang is None else hang
    job: dict[str, Any] = {"seconds": seconds, "seed": seed, "scale": scale, "most": most}
    job |= {"cache": str(cache)} if cache is not None else {}
    left = list(paths)
    with findings.kept(keep is not None) as binaries:
        more = {} if binaries is None else {"keep": str(binaries)}

        def told(batches: list[dict[str, Any]], end: dict[str, Any]) -> LitmusRow:
            path = left.pop(0)
            manifest = json.loads(path.read_text(encoding="utf-8"))
            row = _told(path, manifest, batches, end)
            if keep is not None and binaries is not None and row.state == "finding":
                _save(path, manifest, job, batches, row, keep, binaries / path.stem)
            return row

        while left:
            whole = {
                "kind": "litmus many",
                "manifests": [str(path) for path in left],
                **job,
                **more,
            }
            limit = len(left) * (seconds + hang)
            batches: list[dict[str, Any]] = []
            stopped = False
            for record in run_job(whole, limit, idle=seconds + hang, **options):
                log.add({"file": left[0].name if left else "", **record})
                if record["kind"] == "counts":
                    batches.append(record)
                elif record["kind"] == "over" and left:
                    state = "failed" if record["error"] else "done"
                    yield told(batches, {**record, "state": state})
                    batches, stopped = [], bool(record["stop"])
                elif record["kind"] == "end" and left and not stopped:
                    yield told(batches, record)


def run_test(
    path: Path, seconds: float, seed: int, scale: float, log: Log, most: int = 6,
    hang: float | None = None, keep: Keep | None = None, cache: Path | None = None, **options: Any,
) -> LitmusRow:  # fmt: skip
    """One test in a child process, ended when it takes `hang` seconds more than it may run."""
    hang = HANG_SECONDS if hang is None else hang
    manifest = json.loads(path.read_text(encoding="utf-8"))
    job = {
        "kind": "litmus", "manifest": str(path), "seconds": seconds, "seed": seed, "scale": scale,
        "most": most, **({"cache": str(cache)} if cache is not None else {}),
    }  # fmt: skip
    batches: list[dict[str, Any]] = []
    end: dict[str, Any] = {}
    with findings.kept(keep is not None) as binaries:
        more = {} if binaries is None else {"keep": str(binaries)}
        for record in run_job({**job, **more}, seconds + hang, **options):
            log.add({"test": manifest["test"], "file": path.name, **record})
            if record["kind"] == "counts":
                batches.append(record)
            elif record["kind"] == "end":
                end = record
        row = _told(path, manifest, batches, end)
        if keep is not None and row.state == "finding":
            _save(path, manifest, job, batches, row, keep, binaries)
    return row


def _told(
    path: Path, manifest: dict[str, Any], batches: list[dict[str, Any]], end: dict[str, Any]
) -> LitmusRow:
    """What the batches of a test and the end of its child come to."""
    error = str(end.get("error", "")) if end.get("state") != "done" else ""
    if end.get("state") == "hung":
        error = f"hung; last seen: {json.dumps(end.get('last', {}))[:300]}"
    verdict = None
    state = str(end.get("state", "failed"))
    if reason({"error": error}).startswith(("NotRun", "OtherDevice")):
        state = "not run"
    histogram = [sum(counts) for counts in zip(*(b["histogram"] for b in batches), strict=True)]
    if histogram:
        try:
            verdict = judge(manifest, histogram)
        except BadManifest as bad:
            state, error = "failed", str(bad)
        else:
            state = verdict.state if state == "done" or verdict.forbidden else state
    return LitmusRow(
        str(manifest["test"]), path.name, state, verdict, sum(histogram),
        sum(batch["seconds"] for batch in batches), len(batches),
        error.strip().splitlines()[-1] if error.strip() else "",
        tuple(batch["seed"] for batch in batches),
    )  # fmt: skip


def _save(
    path: Path, manifest: dict[str, Any], job: dict[str, Any], batches: list[dict[str, Any]],
    row: LitmusRow, keep: Keep, binaries: Path | None,
) -> None:  # fmt: skip
    """A forbidden outcome becomes a finding, with the batches that showed it."""
    shown = [batch for batch in batches if judge(manifest, batch["histogram"]).forbidden]
    if not shown or row.verdict is None:
        return
    data = {
        "manifest": path.name, "batches": shown[:BATCHES_KEPT],
        **{key: job[key] for key in ("seed", "scale", "most")},
        "instances": row.instances, "words": list(row.verdict.names),
        "forbidden": [
            {"values": list(item.values), "count": item.count} for item in row.verdict.forbidden
        ],
        "launch": manifest["launch"],
    }  # fmt: skip
    source = path.parent / Path(str(manifest["source"])).name
    sources = {file.name: file.read_bytes() for file in (path, source)}
    findings.keep(keep, "litmus", row.test, data, sources, binaries)


def machine(backend: str, **options: Any) -> dict[str, Any]:
    """The facts of the device; raises RuntimeError where there is none."""
    for record in run_job({"kind": "facts", "backend": backend}, 60.0, **options):
        if record["kind"] == "facts":
            return {key: value for key, value in record.items() if key != "kind"}
        if record["kind"] == "end":
            text = str(record.get("error", "no device")).strip().splitlines()
            raise RuntimeError(text[-1].partition(": ")[2] if text else "no device")
    raise RuntimeError("no device")


def document(facts: dict[str, Any], rows: Sequence[LitmusRow]) -> dict[str, Any]:
    """The result of a run as data."""
    return {
        "kind": "litmus",
        "date": datetime.date.today().isoformat(),
        "device": facts,
        "instances": sum(row.instances for row in rows),
        "findings": [row.test for row in rows if row.state == "finding"],
        "tests": [_row(row) for row in rows],
    }


def _row(row: LitmusRow) -> dict[str, Any]:
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
