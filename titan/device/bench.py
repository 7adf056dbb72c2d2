"""How fast are the packages: against the vendor's library, and against the machine model.

Medians over many launches with cold inputs, package and peer in one run. What the schedule predicts
(cycles between iterations) stands beside the cycles that an iteration took on the busiest
multiprocessor, and beside those that the kernel's own clock counted in the steady state of a few
CTAs. A package is checked for small sizes first: a fast wrong kernel has no time.
"""

from __future__ import annotations

import datetime
import functools
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Unpack, cast

from titan.device import cycles, work
from titan.device.documents import BenchDocument, TimedRow
from titan.device.manifests import Sizes
from titan.device.package_files import read_manifest
from titan.device.records import DeviceFacts, Job, Record, TimeRecord, WatchOptions
from titan.device.sizes import sizes_for, trips_of
from titan.device.watchdog import reason, run_job

SECONDS = 120.0
OVER = "the time limit was reached"
# Calls of the device header that are counted, by kind.
_FENCES = re.compile(r"titan::fence_proxy\w*\(")
_BARRIERS = re.compile(r"titan::(?:named_|block_|cluster_)?(?:barrier_(?!init)\w+|sync)\(")


@dataclass(frozen=True, slots=True)
class BenchRow:
    """One package at one size; None where there is nothing to report.

    `occupancy`: warps that a multiprocessor holds at once, of those that it could. `steady_cycles`,
    `tail_share`: cycles of one iteration by the kernel's clock, and the part of a work item that is
    fill, drain and epilogue. `wave_share`: the part of the multiprocessors' time that the last,
    not full round of work items leaves idle.
    """

    package: str
    target: str
    sizes: dict[str, int]
    state: str
    seconds: float | None = None
    teraflops: float | None = None
    gigabytes: float | None = None
    peer: str = ""
    peer_seconds: float | None = None
    ratio: float | None = None  # of the peer's time to ours: above 1 is faster
    predicted_cycles: int | None = None
    measured_cycles: float | None = None
    steady_cycles: float | None = None
    tail_share: float | None = None
    wave_share: float | None = None
    occupancy: float | None = None
    registers: int | None = None
    spilled_bytes: int | None = None
    shared_bytes: int | None = None
    fences: int | None = None
    barriers: int | None = None
    message: str = ""


def counts(source: str) -> dict[str, int]:
    """Proxy fences and barrier operations that stand in a kernel's text, in loops or not."""
    return {
        "fences": len(_FENCES.findall(source)), "barriers": len(_BARRIERS.findall(source)),
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class BenchSettings:
    """How packages are timed: sizes (by default the family's), launches for a median.

    `peers`: whether a library stands beside; `until`: when the time is over (`time.monotonic`),
    what is left is reported as not run; `cache`: machine code that was compiled ahead.
    """

    sizes: Sequence[Sizes] = ()
    launches: int = 20
    peers: bool = True
    until: float | None = None
    cache: Path | None = None


def bench(
    folders: Sequence[Path],
    facts: DeviceFacts,
    settings: BenchSettings | None = None,
    report: Callable[[BenchRow], None] = lambda row: None,
    terms: Mapping[Path, Mapping[str, float]] | None = None,
    **options: Unpack[WatchOptions],
) -> Iterator[BenchRow]:
    """The rows as they come; `terms` of the machine model by folder; `options`: the watchdog's."""
    for folder in folders:
        package = _Package(folder, facts, settings or BenchSettings(), options)
        for row in package.rows(dict((terms or {}).get(folder, {}))):
            report(row)
            yield row


@dataclass(frozen=True, slots=True)
class _Times:
    """Records of a timing job by size; `why` there are no more, empty where nothing went wrong."""

    records: dict[str, TimeRecord]
    why: str = ""


class _Package:
    """One package with what is known of it before it is timed."""

    def __init__(
        self, folder: Path, facts: DeviceFacts, settings: BenchSettings, options: WatchOptions
    ) -> None:
        from titan.codegen.tile.stored import from_data

        self.folder, self.facts, self.settings, self.options = folder, facts, settings, options
        manifest = read_manifest(folder)
        schedule = json.loads((folder / "schedule.json").read_text(encoding="utf-8"))
        source = folder / Path(str(manifest["source"])).name
        self.manifest, self.ii = manifest, int(schedule["ii"])
        self.tile = from_data(manifest["program"])
        found = counts(source.read_text(encoding="utf-8"))
        self.bare = functools.partial(
            BenchRow, str(manifest["kernel"]), str(manifest["target"]),
            fences=found["fences"], barriers=found["barriers"],
        )  # fmt: skip

    def job(self, kind: str, sizes: list[Sizes]) -> Job:
        """A job for the package, with the machine code that is ready."""
        job: Job = {"kind": kind, "folder": str(self.folder), "sizes": sizes}
        if self.settings.cache is not None:
            job["cache"] = str(self.settings.cache)
        return job

    def rows(self, terms: dict[str, float]) -> Iterator[BenchRow]:
        """A row for each size, or one that says why there are none."""
        names = {str(item["name"]) for item in self.manifest["parameters"]}
        known = work.FAMILIES[work.family(self.tile)]
        chosen = list(self.settings.sizes) or [size for size in known if set(size) == names]
        if not chosen:
            message = f"no sizes are known for {', '.join(sorted(names))}; give --size"
            yield self.bare({}, "not run", message=message)
            return
        bad = self.check()
        if bad is not None:
            yield bad
            return
        launches = self.settings.launches
        own = self.times({**self.job("measure", chosen), "launches": launches})
        other = _Times({})
        if self.settings.peers:
            job = self.job("peer", chosen)
            program = self.manifest["program"]
            other = self.times({**job, "launches": launches, "program": program})
        steady = cycles.CycleRow("", "", 1, "not run")
        if not self.over():
            (steady,) = cycles.measure(
                [self.folder], {self.folder: terms}, seconds=self.limit(), **self.options
            )
        for size in chosen:
            yield self.row(size, own, other, steady)

    def over(self) -> bool:
        """Whether the time is over."""
        until = self.settings.until
        return until is not None and time.monotonic() >= until

    def limit(self) -> float:
        """Seconds that a child may take."""
        if self.settings.until is None:
            return SECONDS
        return min(SECONDS, max(0.1, self.settings.until - time.monotonic()))

    def check(self) -> BenchRow | None:
        """Why the package is not timed, or None."""
        depth = max((int(ring["depth"]) for ring in self.manifest["rings"]), default=1)
        small = self.job("check", sizes_for(self.manifest, depth))
        small["backend"], small["seed"], small["policy"] = "gpu", 0, "device"
        if not small["sizes"]:
            message = "no small size to check it with"
            return self.bare({}, "not run", message=message)
        if not self.over():
            wrong = [r for r in run_job(small, self.limit(), **self.options) if _is_wrong(r)]
            if not wrong:
                return None
            first = wrong[0]
            if first["kind"] == "run":
                why = first["message"] or first.get("error") or first["state"]
                return self.bare(first.get("sizes", {}), "wrong", message=str(why).strip()[-300:])
            if first["kind"] == "end" and not (self.over() and first["state"] == "hung"):
                if reason(first).startswith("OtherDevice"):
                    return self.bare({}, "not run", message=reason(first).partition(": ")[2])
                why = first.get("error") or first["state"]
                return self.bare({}, "wrong", message=str(why).strip()[-300:])
        return self.bare({}, "not run", message=OVER)

    def times(self, job: Job) -> _Times:
        """The records of a timing job by size, and why there are no more."""
        found: dict[str, TimeRecord] = {}
        why = ""
        if self.over():
            return _Times({}, OVER)
        for record in run_job(job, self.limit(), **self.options):
            if record["kind"] == "time":
                found[_key(record["sizes"])] = record
            elif record["kind"] == "end" and record["state"] != "done":
                over = self.over() and record["state"] == "hung"
                why = OVER if over else str(record.get("error") or record["state"])
        return _Times(found, why)

    def row(self, size: Sizes, own: _Times, peers: _Times, steady: cycles.CycleRow) -> BenchRow:
        """The row of one size from the times that were measured for it."""
        timed = own.records.get(_key(size))
        if timed is None:
            message = (own.why or "no time").strip()[-300:]
            return self.bare(size, "not run" if message == OVER else "failed", message=message)
        seconds = float(timed["median_seconds"])
        peer = peers.records.get(_key(size))
        peer_seconds = float(peer["median_seconds"]) if peer else None
        operations = work.operations(self.tile, size)
        clock_hz = 1000 * int(self.facts.get("clock_khz", 0))
        processors = int(self.facts.get("multiprocessors", 1))
        turns = work.iterations_of_one(self.tile, size, processors)
        return self.bare(
            size,
            "timed",
            seconds=seconds,
            teraflops=operations / seconds / 1e12 if operations else None,
            gigabytes=work.bytes_moved(self.tile, size) / seconds / 1e9,
            peer=str(peer.get("peer", "")) if peer else "",
            peer_seconds=peer_seconds,
            ratio=peer_seconds / seconds if peer_seconds else None,
            predicted_cycles=self.ii,
            measured_cycles=seconds * clock_hz / turns if clock_hz else None,
            steady_cycles=steady.cycles,
            tail_share=cycles.tail_share(steady, trips_of(self.manifest, size)),
            wave_share=work.idle_share(self.tile, size, processors),
            occupancy=_occupancy(timed, self.facts, processors),
            registers=timed.get("registers"),
            spilled_bytes=timed.get("spilled_bytes"),
            shared_bytes=timed.get("shared_bytes"),
        )


def _occupancy(timed: TimeRecord, facts: DeviceFacts, processors: int) -> float | None:
    """Warps that are on a multiprocessor, of those that fit there; no more than the grid has."""
    if "ctas_per_multiprocessor" not in timed or not facts.get("warps_per_multiprocessor"):
        return None
    filled = -(-int(timed["grid"]) // processors)
    together = min(int(timed["ctas_per_multiprocessor"]), filled)
    return together * int(timed["warps_per_cta"]) / int(facts["warps_per_multiprocessor"])


def _is_wrong(record: Record) -> bool:
    if record["kind"] == "run":
        return bool(record["state"] != "correct")
    return record["kind"] == "end" and record["state"] != "done"


def _key(sizes: dict[str, int]) -> str:
    return json.dumps(sizes, sort_keys=True)


def row_data(row: BenchRow) -> TimedRow:
    """A row as data."""
    return cast(TimedRow, asdict(row))


def document(facts: DeviceFacts, rows: Sequence[BenchRow]) -> BenchDocument:
    """The rows as data."""
    return {
        "kind": "bench",
        "date": datetime.date.today().isoformat(),
        "device": facts,
        "rows": [row_data(row) for row in rows],
    }


def line(row: BenchRow) -> str:
    """One line for a person."""
    sizes = ", ".join(f"{name}={value}" for name, value in row.sizes.items())
    head = f"{row.package} ({row.target}) {sizes}: "
    if row.seconds is None:
        return f"{head}{row.state}; {row.message}"
    rate = (
        f"{row.teraflops:.1f} TFLOP/s" if row.teraflops is not None else f"{row.gigabytes:.0f} GB/s"
    )
    text = f"{head}{row.seconds * 1e6:.1f} us, {rate}"
    if row.ratio is not None:
        text += f", {row.ratio:.2f} of the speed of {row.peer}"
    if row.measured_cycles is not None:
        text += f"; {row.measured_cycles:.0f} cycles an iteration, {row.predicted_cycles} predicted"
    if row.steady_cycles is not None:
        text += f", {row.steady_cycles:.0f} in the steady state"
    if row.registers is not None:
        text += f"; {row.registers} registers, {row.shared_bytes:,} bytes of shared memory"
    if row.occupancy is not None:
        text += f", occupancy {row.occupancy:.0%}"
    return text
