"""A1, A6 and A7 of the evaluation plan without a device: imbalance, fences, layouts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from benchmarks.evaluation import banks
from benchmarks.evaluation.pipelines import library
from benchmarks.evaluation.tables import Table
from benchmarks.evaluation.timed import TimedRun, timed, trips, without_acquires
from titan.codegen.emit.write import EmissionRefused
from titan.codegen.pipeline.build import BuildRefused, NotVerified
from titan.codegen.pipeline.model import FormRefused
from titan.device import hooks
from titan.foundation.resources import root

MODEL = "cycles of the machine description (reference interpreter with times); no device"
FACTORS = (1, 2, 4, 8, 16)
DEPTHS = (2, 3, 4, 5)
TILES = 24


def slowed(name: str, depth: int, factor: float, groups: int = 0, broken: bool = False) -> TimedRun:
    """A pipeline whose consumers wait `factor` times longer before they give a stage back."""
    made = library(name, depth=depth, groups=groups)
    shape = next(shape for shape in made.shapes() if shape.depth == depth and shape.specialised)
    program = made.program(shape)
    if broken:
        program = without_acquires(program)
    costs = made.costs
    late = round(costs.product_cycles * factor)
    return timed(program, trips(program, TILES), replace(costs, product_cycles=late))


def imbalance(name: str = "gemm") -> Table:
    """A1: producer stalls at acquire against slower consumers, for every depth."""
    rows, plot = [], {}
    for depth in DEPTHS:
        points = []
        for factor in FACTORS:
            try:
                run = slowed(name, depth, factor)
                broken = slowed(name, depth, factor, broken=True)
            except (BuildRefused, NotVerified) as refused:
                rows.append((depth, factor, f"refused: {refused}", None, None, None))
                continue
            points.append((float(factor), run.stall("producer")))
            rows.append(
                (depth, factor, round(run.stall("producer"), 1), run.cycles,
                 run.fault.kind.value if run.fault else "none",
                 broken.fault.kind.value if broken.fault else "none")
            )  # fmt: skip
        if points:
            plot[f"depth {depth}"] = points
    return Table(
        "A1", f"{name}: producer stall at acquire against consumers that are slower", MODEL,
        ("depth", "consumers slower by", "cycles of an acquire", "cycles of the run", "fault",
         "fault without acquires"), tuple(rows),
        "Without the blocking acquire the run ends at its first overwrite.",
        plot, ("consumers slower by", "cycles of an acquire"),
    )  # fmt: skip


def partitions(names: tuple[str, ...] = ("gemm", "attention_forward_64")) -> Table:
    """A1: computing warpgroups and stages, compiled: registers, spills, CTAs that fit."""
    rows = []
    for name in names:
        for groups in (1, 2, 3):
            for depth in (2, 4):
                rows.append((name, groups, depth, *_partition(name, groups, depth)))
    return Table(
        "A1", "warp partitions and stages", f"nvcc and ptxas; stalls: {MODEL}",
        ("program", "computing warpgroups", "depth", "registers (entry)", "spilled bytes",
         "shared bytes", "CTAs on a multiprocessor", "cycles of an acquire",
         "cycles of the run"), tuple(rows),
    )  # fmt: skip


def _partition(name: str, groups: int, depth: int) -> tuple[str | int | float | None, ...]:
    from titan.codegen.emit.write import emit
    from titan.codegen.pipeline.build import decoded, group_starts
    from titan.codegen.pipeline.forms import form_of
    from titan.codegen.pipeline.printer import pipeline_text
    from titan.validate.compare.compile import compile_package
    from titan.validate.compare.toolchain import CannotCompile, ToolchainMissing

    try:
        made = library(name, depth=depth, groups=groups)
        shape = next(s for s in made.shapes() if s.depth == depth and s.specialised)
        starts = group_starts(made.tile, made.loop, made.schedule.starts)
        text = pipeline_text(form_of(made.tile.target)(made.tile, shape, starts, made.schedule.ii))
        kernel, program = decoded(text)
        emitted = emit(made.tile, kernel, program)
        run = timed(program, trips(program, TILES), made.costs)
    except (BuildRefused, FormRefused, NotVerified, EmissionRefused, StopIteration) as refused:
        return (f"refused: {refused}"[:120], *(None,) * 5)
    shared = int(emitted.manifest["launch"]["dynamic_shared_bytes"])
    together = hooks.SHARED_PER_MULTIPROCESSOR // (shared + hooks.SHARED_KEPT)
    try:
        figures = compile_package(emitted.files, made.tile.target).figures
        compiled = (figures.registers, figures.spill_bytes)
        threads = int(emitted.manifest["launch"]["block"])
        taken = -(-figures.registers // 8) * 8 * threads
        together = min(together, hooks.REGISTERS_PER_MULTIPROCESSOR // taken)
    except CannotCompile as error:
        return (f"refused: {error}"[:120], *(None,) * 5)
    except ToolchainMissing:
        compiled = (None, None)
    return (*compiled, shared, together, round(run.stall("producer"), 1), run.cycles)


def inflated(name: str = "gemm") -> Table:
    """A1: registers of the consumers, taken from the pool of the multiprocessor."""
    made = library(name, depth=4)
    shape = next(shape for shape in made.shapes() if shape.depth == 4 and shape.specialised)
    program = made.program(shape)
    threads = 128 * (made.tile.groups + 1)
    rows = []
    for registers in (96, 128, 160, 168, 200, 232):
        taken = 128 * (40 + made.tile.groups * registers)
        fits = hooks.REGISTERS_PER_MULTIPROCESSOR // taken
        warps = fits * threads // 32
        run = timed(program, trips(program, TILES), made.costs)
        rows.append((registers, taken, fits, f"{warps / 64:.0%}", round(run.stall("producer"), 1)))
    return Table(
        "A1", f"{name}: occupancy as registers are inflated", f"counted; stalls: {MODEL}",
        ("registers of a consumer thread", "registers of the CTA", "CTAs by registers",
         "occupancy by registers", "cycles of an acquire"), tuple(rows),
        "The stall of one CTA does not depend on registers that it does not spill.",
    )  # fmt: skip


def fences() -> Table:
    """A6: proxy fences of the library: fewest, by hand, at every hand-over; and what they cost."""
    stored = json.loads((results() / "fences.json").read_text(encoding="utf-8"))
    rows = tuple(
        (row["kernel"], row["synthesised_fences"], row["hand_fences"], row["always_fences"],
         row["synthesised_cost"], row["always_cost"], row["each_needed"])
        for row in stored
    )  # fmt: skip
    return Table(
        "A6", "proxy fences of the library", "verified; fences counted, costs by the price list",
        ("kernel", "fewest", "by hand", "at every hand-over", "cost, fewest",
         "cost, at every hand-over", "without any of the fewest it is refuted"), rows,
    )  # fmt: skip


def bank_conflicts() -> Table:
    """A7: cycles of accesses by swizzle and padding, and the bytes that padding takes."""
    rows = tuple(
        (row.access, row.row_bytes, row.swizzle, row.pad_bytes, row.cycles,
         f"{row.padding_share:.1%}")
        for row in banks.table()
    )  # fmt: skip
    return Table(
        "A7", "bank conflicts by swizzle and padding", "counted over the 32 banks",
        ("access", "bytes of a row", "swizzle", "padding of a row", "cycles (1 is the least)",
         "bytes for padding"), rows,
    )  # fmt: skip


def results() -> Path:
    """The folder of stored results."""
    return root("protocols").parent / "benchmarks" / "results"


TABLES: tuple[tuple[str, Callable[[], Table]], ...] = (
    ("A1", lambda: imbalance("gemm")),
    ("A1", lambda: imbalance("gemm_sm_100a")),
    ("A1", partitions),
    ("A1", inflated),
    ("A6", fences),
    ("A7", bank_conflicts),
)
