"""Cycles of one iteration in the steady state, and of the tail, from two lengths of the loop.

A kernel runs with two trip counts on a few CTAs, so that nobody waits for memory that others use:
what the machine description refers to is one multiprocessor. The slope is one iteration; what is
left at no iterations is the tail (fill, drain, epilogue).
"""

from __future__ import annotations

import datetime
import functools
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from titan.codegen.tile.manifest import Manifest
from titan.device.documents import CycleData, CyclesDocument
from titan.device.expressions import BadExpression
from titan.device.fit import Observation
from titan.device.manifests import Sizes
from titan.device.package_files import read_manifest
from titan.device.plan import Unlaunchable, plan
from titan.device.records import DeviceFacts, EndRecord, Job, WatchOptions
from titan.device.sizes import trips_of
from titan.device.watchdog import run_job

SECONDS = 60.0
GRID_MAX = 8
LENGTHS = (8, 32)  # trips, at least, of the short and the long run
CHOICES = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
ELEMENTS_MAX = 1 << 26


@dataclass(frozen=True, slots=True)
class CycleRow:
    """`terms`: what the machine model asks of one iteration (fit.py); empty where not known."""

    package: str
    target: str
    depth: int
    state: str  # measured, not run, hung, failed
    trips: tuple[int, ...] = ()
    spans: tuple[int, ...] = ()
    cycles: float | None = None
    tail_cycles: float | None = None
    terms: tuple[tuple[str, float], ...] = ()
    message: str = ""

    @property
    def observation(self) -> Observation | None:
        """What the fit needs of it; None where nothing was measured or no terms are known."""
        if self.cycles is None or not self.terms:
            return None
        return Observation(f"{self.package}, depth {self.depth}", self.cycles, dict(self.terms))


def lengths_for(manifest: Manifest) -> list[Sizes]:
    """A short and a long launch with the same work items; empty where the trip count is fixed.

    Whole tiles where they give so few CTAs; else sizes of 1 as well (heads of an attention).
    """
    return _lengths(manifest, CHOICES) or _lengths(manifest, (1, *CHOICES))


def _lengths(manifest: Manifest, choices: Sequence[int]) -> list[Sizes]:
    names = [str(item["name"]) for item in manifest["parameters"]]
    found: dict[int, dict[int, tuple[int, dict[str, int]]]] = {}
    for values in itertools.product(choices, repeat=len(names)):
        sizes = dict(zip(names, values, strict=True))
        try:
            launch = plan(manifest, sizes, GRID_MAX)
            trips = trips_of(manifest, sizes)
        except (Unlaunchable, BadExpression):
            continue
        elements = sum(tensor.bytes for tensor in launch.tensors)
        if launch.grid > GRID_MAX or elements > ELEMENTS_MAX:
            continue
        known = found.setdefault(launch.grid, {})
        if trips not in known or elements < known[trips][0]:
            known[trips] = (elements, sizes)
    for _, known in sorted(found.items()):
        short = min((trips for trips in known if trips >= LENGTHS[0]), default=None)
        long = min((trips for trips in known if trips >= LENGTHS[1]), default=None)
        if short is not None and long is not None and long > short:
            return [known[short][1], known[long][1]]
    return []


def measure(
    folders: Sequence[Path],
    terms: Mapping[Path, Mapping[str, float]] | None = None,
    report: Callable[[CycleRow], None] = lambda row: None,
    seconds: float = SECONDS,
    until: float | None = None,
    **options: Unpack[WatchOptions],
) -> Iterator[CycleRow]:
    """A row for each package; `terms` of the machine model by folder; `options`: the watchdog's.

    `until`: when the time is over (`time.monotonic`); what is left is reported as not run.
    """
    for folder in folders:
        left = seconds if until is None else min(seconds, until - time.monotonic())
        row = _one(folder, dict((terms or {}).get(folder, {})), left, options)
        report(row)
        yield row


def _one(folder: Path, terms: dict[str, float], seconds: float, options: WatchOptions) -> CycleRow:
    manifest = read_manifest(folder)
    depth = max((int(ring["depth"]) for ring in manifest["rings"]), default=1)
    row = functools.partial(
        CycleRow, str(manifest["kernel"]), str(manifest["target"]), depth,
        terms=tuple(sorted(terms.items())),
    )  # fmt: skip
    if seconds <= 0:
        return row("not run", message="the time limit was reached")
    sizes = lengths_for(manifest)
    if not sizes:
        return row("not run", message="the loop has no two lengths")
    job: Job = {"kind": "cycles", "folder": str(folder), "sizes": sizes}
    spans: list[int] = []
    end: EndRecord = {"kind": "end", "state": "failed"}
    for record in run_job(job, seconds, **options):
        if record["kind"] == "cycles":
            spans.append(int(record["span_cycles"]))
        elif record["kind"] == "end":
            end = record
    trips = tuple(trips_of(manifest, item) for item in sizes)
    if len(spans) != len(sizes):
        message = str(end.get("error") or end.get("state", "no cycles")).strip()[-300:]
        return row(end["state"], trips=trips, message=message)
    each = (spans[1] - spans[0]) / (trips[1] - trips[0])
    if each <= 0:
        message = f"{spans[0]} cycles for {trips[0]} iterations, {spans[1]} for {trips[1]}"
        return row("failed", trips=trips, spans=tuple(spans), message=message)
    return row(
        "measured", trips=trips, spans=tuple(spans), cycles=each,
        tail_cycles=spans[0] - each * trips[0],
    )  # fmt: skip


def tail_share(row: CycleRow, trips: int) -> float | None:
    """The part of a work item's cycles that is not an iteration in the steady state."""
    if row.cycles is None or row.tail_cycles is None or trips < 1:
        return None
    tail = max(0.0, row.tail_cycles)
    return tail / (tail + row.cycles * trips)


def document(facts: DeviceFacts, rows: Sequence[CycleRow]) -> CyclesDocument:
    """The rows as data."""
    made: list[CycleData] = [
        {
            "package": row.package, "target": row.target, "depth": row.depth, "state": row.state,
            "trips": row.trips, "spans": row.spans, "cycles": row.cycles,
            "tail_cycles": row.tail_cycles, "terms": dict(row.terms), "message": row.message,
        }
        for row in rows
    ]  # fmt: skip
    date = datetime.date.today().isoformat()
    return {"kind": "cycles", "date": date, "device": facts, "rows": made}


def line(row: CycleRow) -> str:
    """One line for a person."""
    head = f"{row.package} ({row.target}), depth {row.depth}: "
    if row.cycles is None:
        return f"{head}{row.state}; {row.message}"
    text = f"{head}{row.cycles:.0f} cycles an iteration, tail {row.tail_cycles:.0f}"
    if row.terms:
        name, most = max(row.terms, key=lambda term: term[1])
        text += f"; the model says {most:.0f} ({name})"
    return text
