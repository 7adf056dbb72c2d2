"""How fast are the packages: against the vendor's library, and against the machine model.

Medians over many launches with cold inputs, package and peer in one run. What the schedule predicts
(cycles between iterations) stands beside the cycles that an iteration took on the busiest
multiprocessor, and beside those that the kernel's own clock counted in the steady state of a few
CTAs. A package is checked for small sizes first: a fast wrong kernel has no time.
"""

from __future__ import annotations

import datetime
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from titan.device import cycles, work
from titan.device.stress import sizes_for, trips_of
from titan.device.watchdog import reason, run_job

SECONDS = 120.0
OVER = "the time was over"
# Calls of the device header that are counted, by kind.
_FENCES = re.compile(r"titan::fence_proxy\w*\(")
_BARRIERS = re.compile(r"titan::(?:named_|block_|cluster_)?(?:barrier_(?!init)\w+|sync)\(")


@dataclass(frozen=True, slots=True)
class BenchRow:
    """One package at one size; None where there is nothing to tell.

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
    told: str = ""


def counts(source: str) -> dict[str, int]:
    """Proxy fences and barrier operations that stand in a kernel's text, in loops or not."""
    return {
        "fences": len(_FENCES.findall(source)), "barriers": len(_BARRIERS.findall(source)),
    }  # fmt: skip


def bench(
    folders: Sequence[Path],
    facts: dict[str, Any],
    sizes: Sequence[dict[str, int]] = (),
    launches: int = 20,
    tell: Callable[[BenchRow], None] = lambda row: None,
    peers: bool = True,
    until: float | None = None,
    terms: Mapping[Path, Mapping[str, float]] | None = None,
    cache: Path | None = None,
    **options: Any,
) -> Iterator[BenchRow]:
    """The rows as they come; `options` go to the watchdog.

    `peers`: whether a library stands beside; `until`: when the time is over (`time.monotonic`),
    what is left is told as not run; `terms`: of the machine model, by folder; `cache`: machine code
    that was compiled ahead.
    """
    ready = {} if cache is None else {"cache": str(cache)}
    for folder in folders:
        package = _Package(folder, facts, launches, until, ready, options)
        for row in package.rows(sizes, peers, dict((terms or {}).get(folder, {}))):
            tell(row)
            yield row


class _Package:
    """One package with what is known of it before it is timed."""

    def __init__(
        self, folder: Path, facts: dict[str, Any], launches: int, until: float | None,
        ready: dict[str, str], options: Any,
    ) -> None:  # fmt: skip
        from titan.codegen.tile.stored import from_data

        self.folder, self.facts, self.launches = folder, facts, launches
        self.until, self.ready, self.options = until, ready, options
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        schedule = json.loads((folder / "schedule.json").read_text(encoding="utf-8"))
        source = folder / Path(str(manifest["source"])).name
        self.manifest, self.ii = manifest, int(schedule["ii"])
        self.tile = from_data(manifest["program"])
        self.base: dict[str, Any] = {
            "package": str(manifest["kernel"]), "target": str(manifest["target"]),
            **counts(source.read_text(encoding="utf-8")),
        }  # fmt: skip

    def rows(
        self, sizes: Sequence[dict[str, int]], peers: bool, terms: dict[str, float]
    ) -> Iterator[BenchRow]:
        names = {str(item["name"]) for item in self.manifest["parameters"]}
        known = work.FAMILIES[work.family(self.tile)]
        chosen = list(sizes) or [size for size in known if set(size) == names]
        if not chosen:
            told = f"no sizes are known for {', '.join(sorted(names))}; give --size"
            yield BenchRow(**self.base, sizes={}, state="not run", told=told)
            return
        bad = self.check()
        if bad is not None:
            yield bad
            return
        job: dict[str, Any] = {
            "folder": str(self.folder), "sizes": chosen, "launches": self.launches, **self.ready,
        }  # fmt: skip
        own = self.times({"kind": "measure", **job})
        beside = self.manifest["program"]
        other = self.times({"kind": "peer", "program": beside, **job}) if peers else {}
        steady = cycles.CycleRow("", "", 1, "not run")
        if not self.over():
            (steady,) = cycles.measure(
                [self.folder], {self.folder: terms}, seconds=self.limit(), **self.options
            )
        for size in chosen:
            yield self.row(size, own, other, steady)

    def over(self) -> bool:
        return self.until is not None and time.monotonic() >= self.until

    def limit(self) -> float:
        """Seconds that a child may take."""
        if self.until is None:
            return SECONDS
        return min(SECONDS, max(0.1, self.until - time.monotonic()))

    def check(self) -> BenchRow | None:
        """Why the package is not timed, or None."""
        depth = max((int(ring["depth"]) for ring in self.manifest["rings"]), default=1)
        small = {
            "kind": "check", "folder": str(self.folder), "backend": "gpu", "seed": 0,
            "policy": "device", "sizes": sizes_for(self.manifest, depth), **self.ready,
        }  # fmt: skip
        if not small["sizes"]:
            told = "no small size to check it with"
            return BenchRow(**self.base, sizes={}, state="not run", told=told)
        if not self.over():
            wrong = [r for r in run_job(small, self.limit(), **self.options) if _is_wrong(r)]
            if not wrong:
                return None
            if not (self.over() and wrong[0].get("state") == "hung"):
                why = wrong[0].get("told") or wrong[0].get("error") or wrong[0].get("state")
                if reason(wrong[0]).startswith("OtherDevice"):
                    other = reason(wrong[0]).partition(": ")[2]
                    return BenchRow(**self.base, sizes={}, state="not run", told=other)
                found = wrong[0].get("sizes", {})
                return BenchRow(
                    **self.base, sizes=found, state="wrong", told=str(why).strip()[-300:]
                )
        return BenchRow(**self.base, sizes={}, state="not run", told=OVER)

    def times(self, job: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """The records of a timing job by size; under `error` why there are no more."""
        found: dict[str, dict[str, Any]] = {}
        if self.over():
            return {"error": {"state": OVER}}
        for record in run_job(job, self.limit(), **self.options):
            if record["kind"] == "time":
                found[_key(record["sizes"])] = record
            elif record["kind"] == "end" and record["state"] != "done":
                over = self.over() and record["state"] == "hung"
                found["error"] = {"state": OVER} if over else record
        return found

    def row(
        self, size: dict[str, int], own: Mapping[str, Any], peers: Mapping[str, Any],
        steady: cycles.CycleRow,
    ) -> BenchRow:  # fmt: skip
        timed = own.get(_key(size))
        if timed is None:
            end = own.get("error", {})
            told = str(end.get("error") or end.get("state", "no time")).strip()[-300:]
            state = "not run" if told == OVER else "failed"
            return BenchRow(**self.base, sizes=size, state=state, told=told)
        seconds = float(timed["median_seconds"])
        peer = peers.get(_key(size), {})
        peer_seconds = float(peer["median_seconds"]) if peer else None
        operations = work.operations(self.tile, size)
        clock_hz = 1000 * int(self.facts.get("clock_khz", 0))
        processors = int(self.facts.get("multiprocessors", 1))
        turns = work.iterations_of_one(self.tile, size, processors)
        return BenchRow(
            **self.base,
            sizes=size,
            state="timed",
            seconds=seconds,
            teraflops=operations / seconds / 1e12 if operations else None,
            gigabytes=work.bytes_moved(self.tile, size) / seconds / 1e9,
            peer=str(peer.get("peer", "")),
            peer_seconds=peer_seconds,
            ratio=peer_seconds / seconds if peer_seconds else None,
            predicted_cycles=self.ii,
            measured_cycles=seconds * clock_hz / turns if clock_hz else None,
            steady_cycles=steady.cycles,
            tail_share=cycles.tail_share(steady, trips_of(self.manifest, size)),
            wave_share=work.idle_share(self.tile, size, processors),
            occupancy=_occupancy(timed, self.facts, processors),
            **{name: timed.get(name) for name in ("registers", "spilled_bytes", "shared_bytes")},
        )


def _occupancy(timed: Mapping[str, Any], facts: Mapping[str, Any], processors: int) -> float | None:
    """Warps that are on a multiprocessor, of those that fit there; no more than the grid has."""
    if "ctas_per_multiprocessor" not in timed or not facts.get("warps_per_multiprocessor"):
        return None
    filled = -(-int(timed["grid"]) // processors)
    together = min(int(timed["ctas_per_multiprocessor"]), filled)
    return together * int(timed["warps_per_cta"]) / int(facts["warps_per_multiprocessor"])


def _is_wrong(record: dict[str, Any]) -> bool:
    if record["kind"] == "run":
        return bool(record["state"] != "correct")
    return record["kind"] == "end" and record["state"] != "done"


def _key(sizes: dict[str, int]) -> str:
    return json.dumps(sizes, sort_keys=True)


def document(facts: dict[str, Any], rows: Sequence[BenchRow]) -> dict[str, Any]:
    return {
        "kind": "bench",
        "date": datetime.date.today().isoformat(),
        "device": facts,
        "rows": [asdict(row) for row in rows],
    }


def line(row: BenchRow) -> str:
    """One line for a person."""
    sizes = ", ".join(f"{name}={value}" for name, value in row.sizes.items())
    head = f"{row.package} ({row.target}) {sizes}: "
    if row.seconds is None:
        return f"{head}{row.state}; {row.told}"
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
