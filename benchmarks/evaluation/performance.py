"""B1 to D of the evaluation plan without a device: what compilers, counts and the model say."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence

from benchmarks import virtual_tokens
from benchmarks.evaluation.correctness import MODEL, results
from benchmarks.evaluation.pipelines import Scheduled, library, one_transfer_at_a_time
from benchmarks.evaluation.tables import NOT_RUN, Table
from benchmarks.evaluation.timed import timed, trips
from titan.codegen.pipeline.build import NotVerified
from titan.codegen.pipeline.fencing import conservative
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.device.hooks import REGISTERS_PER_MULTIPROCESSOR, SHARED_KEPT, SHARED_PER_MULTIPROCESSOR
from titan.foundation.resources import root
from titan.scheduling import rau
from titan.scheduling.explain import storage_use
from titan.scheduling.loop.load import load_loop

TILES = 24
SPECIALISED = ("gemm", "gemm_small_tiles", "gemm_low_k", "softmax_rows", "attention_forward_64")
FENCED = ("gemm", "attention_forward_64", "attention_forward")
COUNTED = ("gemm_small_tiles_gfx942", "gemm_gfx942", "attention_forward_causal_64_gfx942")


def packages() -> Table:
    """B1: every built package: registers, occupancy, shared memory, fences, barriers, tail."""
    stored = json.loads((results() / "build.json").read_text(encoding="utf-8"))["rows"]
    rows = []
    for row in stored:
        if not row["built"]:
            continue
        used, registers = row["resources"], row.get("registers")
        rows.append(
            (row["kernel"], row["target"], NOT_RUN, NOT_RUN, occupancy(row), registers,
             row.get("spills"), used.get("shared_bytes"), used.get("fences"),
             used.get("barriers"), tail_share(row["kernel"], row["target"]))
        )  # fmt: skip
    return Table(
        "B1", "packages", f"compilers and counts; tail: {MODEL}",
        ("package", "target", "TFLOP/s", "GB/s", "occupancy", "registers", "spilled bytes",
         "shared bytes", "fences", "barriers", "tail"), tuple(rows),
        "Occupancy by registers and shared memory; tail: the part of a run of 24 iterations that "
        "is fill, drain and epilogue.",
    )  # fmt: skip


def occupancy(row: dict) -> str | None:  # type: ignore[type-arg]
    """Warps on a multiprocessor of Hopper or Blackwell, of 64; None elsewhere."""
    used = row["resources"]
    threads, registers = used.get("threads"), row.get("registers")
    if row["target"].startswith("gfx") or not threads or not registers:
        return None
    by_registers = REGISTERS_PER_MULTIPROCESSOR // (-(-registers // 8) * 8 * threads)
    shared = used.get("shared_bytes", 0) + SHARED_KEPT
    together = min(by_registers, SHARED_PER_MULTIPROCESSOR // shared)
    return f"{together * -(-threads // 32) / 64:.0%}"


def tail_share(kernel: str, target: str) -> str | None:
    """The part of a run that does not grow with its iterations, by the model."""
    try:
        made = library(kernel, target)
        shape = next(iter(made.shapes()))
        program = made.program(shape)
    except Exception:
        return None
    few, many = (timed(program, trips(program, n), made.costs).cycles for n in (TILES // 2, TILES))
    steady = 2 * (many - few)
    return f"{max(0.0, 1 - steady / many):.1%}"


def specialisation() -> Table:
    """B2: a warp that loads, none, and what the heuristic takes, by iterations."""
    rows = []
    for name in SPECIALISED:
        made = library(name)
        for count in (1, 2, 4, 16):
            cycles = {}
            for apart in (True, False):
                found = [_cycles(made, s, count) for s in made.shapes() if s.specialised is apart]
                known = [one for one in found[:2] if one is not None]
                cycles[apart] = min(known, default=None)
            with_warp, without = cycles[True], cycles[False]
            better = "no form" if None in (with_warp, without) else (
                "always" if with_warp <= without else "never")  # fmt: skip
            rows.append((name, count, with_warp, without, better))
    return Table(
        "B2", "specialisation", MODEL,
        ("program", "iterations", "cycles, always", "cycles, never", "fewer cycles"), tuple(rows),
    )  # fmt: skip


def _cycles(made, shape: Shape, count: int) -> int | None:  # type: ignore[no-untyped-def]
    try:
        program = made.program(shape)
    except (FormRefused, NotVerified):
        return None
    run = timed(program, trips(program, count), made.costs)
    return None if run.fault else run.cycles


def registers() -> Table:
    """B3: schedules that ignore registers, refuse what passes them, and give way."""
    rows = []
    for name in ("fa3_forward", "fa3_backward", "fa4_forward", "gemm_epilogue"):
        loop = load_loop(root("protocols") / "loops" / f"{name}.yaml")
        for mode in ("naive", "reject", "degrade"):
            found = rau.solve(loop, rau.RauOptions(registers=mode, seconds=5.0)).schedule
            if found is None:
                rows.append((name, mode, None, None, None))
                continue
            uses = [s for s in storage_use(loop, found) if s.name.startswith("registers")]
            most = max((s.share for s in uses), default=0.0)
            rows.append((name, mode, found.ii, f"{most:.0%}", most <= 1))
    return Table(
        "B3", "registers in scheduling", "counted by the schedule's lifetimes",
        ("loop", "limits", "interval", "fullest group", "fits without spills"), tuple(rows),
    )  # fmt: skip


def overlap() -> Table:
    """B4: fewest fences against a fence at every hand-over: how busy the tensor cores are."""
    rows = []
    for name in FENCED:
        made = library(name)
        shape = next(shape for shape in made.shapes() if not shape.ping_pong)
        for label, edit in (("fewest", lambda document: document), ("conservative", conservative)):
            program = made.program(shape, edit)
            run = timed(program, trips(program, TILES), made.costs)
            executed = "none" if run.fault is None else run.fault.kind.value
            rows.append((name, label, run.cycles, f"{run.overlap:.1%}", executed, NOT_RUN))
    return Table(
        "B4", "overlap with fewest and with conservative fences", MODEL,
        ("program", "fences", "cycles of 24 iterations", "tensor cores busy", "fault",
         "measured"), tuple(rows),
        "Overlap efficiency: cycles in which the tensor cores work, of all cycles of the run.",
    )  # fmt: skip


def counters(names: Sequence[str] = COUNTED) -> Table:
    """C1: waits of the mapping, full waits, and one transfer at a time."""
    rows = []
    for name in names:
        made, shape = _counted(name, "gfx950" if name.startswith("attention") else "gfx942")
        counts = {}
        for label, chosen, edit in (
            ("virtual tokens", shape, lambda document: document),
            ("full waits", Shape("vmcnt(0)", shape.depth, False, False), lambda document: document),
            ("one transfer at a time", shape, one_transfer_at_a_time),
        ):
            program = made.program(chosen, edit)
            run = timed(program, trips(program, TILES), made.costs)
            waited = run.waited["wave"]
            counts[label] = waited.others
            left = sum(run.in_flight) / max(1, len(run.in_flight))
            rows.append(
                (name, made.tile.target, label, waited.others, waited.other_cycles,
                 round(left, 2), run.cycles, "none" if run.fault is None else run.fault.kind.value,
                 NOT_RUN)
            )  # fmt: skip
        saved = counts["one transfer at a time"] - counts["virtual tokens"]
        rows.append((name, made.tile.target, "waits saved by the mapping", saved, *(None,) * 5))
    return Table(
        "C1", "waits by count", MODEL,
        ("program", "target", "waits", "waits and meetings", "stall cycles of all waves",
         "copies left in flight at a wait", "cycles of 24 iterations", "fault", "measured"),
        tuple(rows),
    )  # fmt: skip


def _counted(name: str, target: str) -> tuple[Scheduled, Shape]:
    """A tile program with the most stages, up to four, that LDS has room for."""
    for depth in (4, 3, 2):
        made = library(name, target, depth)
        shape = next(shape for shape in made.shapes() if shape.overlapped and not shape.ping_pong)
        try:
            made.program(shape)
        except FormRefused:
            continue
        return made, shape
    raise FormRefused(f"two stages of {name} do not fit into LDS")


def coverage() -> Table:
    """C2: what becomes of a corpus of protocols on a target that counts."""
    found = virtual_tokens.rates(virtual_tokens.corpus())
    rows = [
        (name, count, f"{count / found.configurations:.1%}")
        for name, count in (
            ("taken as it stands", found.as_they_stand), ("taken after rewrites",
            found.after_rewrites), ("refused", found.refused),
            ("refused when read", found.unreadable), ("undecided", found.undecided),
        )
    ]  # fmt: skip
    rows += [(f"last rewrite needed: {name}", count, None) for name, count in found.fallbacks]
    rows += [(f"first reason against it: {code}", count, None) for code, count in found.reasons]
    return Table("C2", "protocols on a target with wait counters", "verified",
                 ("outcome", "protocols", "share"), tuple(rows))  # fmt: skip


def budget() -> Table:
    """D: seconds, candidates and fallbacks of the builds of the library."""
    stored = json.loads((results() / "build.json").read_text(encoding="utf-8"))["rows"]
    built = [row for row in stored if row["built"]]
    rows = []
    for target in sorted({row["target"] for row in built}):
        mine = [row for row in built if row["target"] == target]
        for name, key in (("empty", "seconds_empty_cache"), ("full", "seconds_full_cache")):
            seconds = sorted(row[key] for row in mine)
            high = seconds[min(len(seconds) - 1, int(0.95 * len(seconds)))]
            rows.append(
                (target, name, len(mine), round(statistics.median(seconds), 3), high,
                 statistics.median(row["explored"] for row in mine),
                 sum(bool(row["refused"]) for row in mine))
            )  # fmt: skip
    return Table(
        "D", "compile time", "this machine's results of bench_build.py",
        ("target", "cache of schedules", "packages", "median seconds", "95th percentile",
         "schedules explored (median)", "not in the first shape"), tuple(rows),
        "Hit rates by shape, type, target and fusion: `titan build --cache-rates`.",
    )  # fmt: skip


TABLES: tuple[tuple[str, Callable[[], Table]], ...] = (
    ("B1", packages),
    ("B2", specialisation),
    ("B3", registers),
    ("B4", overlap),
    ("C1", counters),
    ("C2", coverage),
    ("D", budget),
)
