"""How fast are the packages: against the vendor's library, and against the machine model.

Medians over many launches with cold inputs, package and peer in one run. What the schedule predicts
(cycles between iterations) stands beside the cycles that an iteration took on the busiest
multiprocessor. A package is checked for small sizes first: a fast wrong kernel has no time.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from titan.device import work
from titan.device.stress import sizes_for
from titan.device.watchdog import run_job

SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Row:
    """One package at one size; None where there is nothing to tell."""

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
    told: str = ""


def bench(
    folders: Sequence[Path],
    facts: dict[str, Any],
    sizes: Sequence[dict[str, int]] = (),
    launches: int = 20,
    tell: Callable[[Row], None] = lambda row: None,
    **options: Any,
) -> Iterator[Row]:
    """The rows as they come; `options` go to the watchdog."""
    for folder in folders:
        for row in _package(folder, facts, sizes, launches, options):
            tell(row)
            yield row


def _package(
    folder: Path,
    facts: dict[str, Any],
    sizes: Sequence[dict[str, int]],
    launches: int,
    options: Any,
) -> Iterator[Row]:
    from titan.tile.stored import from_data

    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    schedule = json.loads((folder / "schedule.json").read_text(encoding="utf-8"))
    tile = from_data(manifest["program"])
    names = {str(item["name"]) for item in manifest["parameters"]}
    chosen = list(sizes) or [
        size for size in work.FAMILIES[work.family(tile)] if set(size) == names
    ]
    base: dict[str, Any] = {"package": str(manifest["kernel"]), "target": str(manifest["target"])}
    if not chosen:
        told = f"no sizes are known for {', '.join(sorted(names))}; give --size"
        yield Row(**base, sizes={}, state="not run", told=told)
        return
    depth = max((int(ring["depth"]) for ring in manifest["rings"]), default=1)
    small = {
        "kind": "check", "folder": str(folder), "backend": "gpu", "seed": 0, "policy": "device",
        "sizes": sizes_for(manifest, depth),
    }  # fmt: skip
    if not small["sizes"]:
        yield Row(**base, sizes={}, state="not run", told="no small size to check it with")
        return
    wrong = [r for r in run_job(small, SECONDS, **options) if _is_wrong(r)]
    if wrong:
        told = str(wrong[0].get("told") or wrong[0].get("error") or wrong[0].get("state"))
        yield Row(**base, sizes=wrong[0].get("sizes", {}), state="wrong", told=told.strip()[-300:])
        return
    job = {"folder": str(folder), "sizes": chosen, "launches": launches}
    own = _times({"kind": "measure", **job}, options)
    peers = _times({"kind": "peer", "program": manifest["program"], **job}, options)
    for size in chosen:
        yield _row(base, tile, size, own, peers, int(schedule["ii"]), facts)


def _is_wrong(record: dict[str, Any]) -> bool:
    if record["kind"] == "run":
        return bool(record["state"] != "correct")
    return record["kind"] == "end" and record["state"] != "done"


def _times(job: dict[str, Any], options: Any) -> dict[str, dict[str, Any]]:
    """The records of a timing job by size; under `error` why there are no more."""
    found: dict[str, dict[str, Any]] = {}
    for record in run_job(job, SECONDS, **options):
        if record["kind"] == "time":
            found[_key(record["sizes"])] = record
        elif record["kind"] == "end" and record["state"] != "done":
            found["error"] = record
    return found


def _key(sizes: dict[str, int]) -> str:
    return json.dumps(sizes, sort_keys=True)


def _row(
    base: dict[str, Any], tile: Any, size: dict[str, int], own: dict[str, dict[str, Any]],
    peers: dict[str, dict[str, Any]], ii: int, facts: dict[str, Any],
) -> Row:  # fmt: skip
    time = own.get(_key(size))
    if time is None:
        end = own.get("error", {})
        told = str(end.get("error") or end.get("state", "no time")).strip()[-300:]
        return Row(**base, sizes=size, state="failed", told=told)
    seconds = float(time["median_seconds"])
    peer = peers.get(_key(size), {})
    peer_seconds = float(peer["median_seconds"]) if peer else None
    operations = work.operations(tile, size)
    clock_hz = 1000 * int(facts.get("clock_khz", 0))
    turns = work.iterations_of_one(tile, size, int(facts.get("multiprocessors", 1)))
    return Row(
        **base,
        sizes=size,
        state="timed",
        seconds=seconds,
        teraflops=operations / seconds / 1e12 if operations else None,
        gigabytes=work.bytes_moved(tile, size) / seconds / 1e9,
        peer=str(peer.get("peer", "")),
        peer_seconds=peer_seconds,
        ratio=peer_seconds / seconds if peer_seconds else None,
        predicted_cycles=ii,
        measured_cycles=seconds * clock_hz / turns if clock_hz else None,
    )


def document(facts: dict[str, Any], rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "kind": "bench",
        "date": datetime.date.today().isoformat(),
        "device": facts,
        "rows": [asdict(row) for row in rows],
    }


def line(row: Row) -> str:
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
    return text
