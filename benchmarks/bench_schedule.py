"""Measurements of the schedulers; prints the tables of docs/reference/schedule.md as Markdown.

python benchmarks/bench_schedule.py proofs      proofs of optimality on the real loops
python benchmarks/bench_schedule.py faithful    the faithful formulation beside it
python benchmarks/bench_schedule.py scale       random loops of 100 to 100,000 operations
python benchmarks/bench_schedule.py gauss       the differentiable scheduler
python benchmarks/bench_schedule.py ablation    warps specialised or not; registers aware or naive
python benchmarks/bench_schedule.py robust      the interval when every cost moves by 10 %
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace

from titan.loop.bounds import bounds
from titan.loop.generate import large_loop
from titan.loop.load import load_loop
from titan.loop.model import Loop
from titan.resources import root
from titan.schedule import cnf, faithful, joint, rau
from titan.schedule.check import check
from titan.schedule.native import recurrence
from titan.schedule.normalise import normalise_loop
from titan.schedule.run import Request, run

PROVED = (
    "gemm_hopper",
    "gemm_blackwell",
    "fa3_forward_one",
    "fa3_forward",
    "fa3_backward",
    "fa4_forward",
    "linear_attention",
    "gemm_mi300",
)
REPEATS = 3


def library(name: str) -> Loop:
    return load_loop(root("protocols") / "loops" / f"{name}.yaml")


def row(*cells: object) -> None:
    print("| " + " | ".join(str(cell) for cell in cells) + " |")


def heading(*cells: str) -> None:
    row(*cells)
    row(*("---" for _ in cells))


def proofs() -> None:
    """Time to a proved (interval, length) of the normalised loop, and the loop in real cycles."""
    heading(
        "loop", "operations", "U", "ii", "length", "Z3 alone, CPU s", "SAT, CPU s", "variables",
        "clauses",
        "intervals refuted", "evidence", "real ii", "real bound",
    )  # fmt: skip
    for name in PROVED:
        loop = library(name)
        coarse = normalise_loop(loop, 300)
        times = {}
        for engine in cnf.available():
            spent = []
            for _ in range(REPEATS):
                options = joint.Options(engine=engine, second_solver=False)
                begin = time.process_time()
                joint.solve(coarse.loop, options)
                spent.append(time.process_time() - begin)
            times[engine] = statistics.median(spent)
        best = joint.solve(coarse.loop, joint.Options(engine="z3"))
        assert best.schedule is not None and not check(coarse.loop, best.schedule)
        real = run(loop, Request(solver="joint"))
        assert real.schedule is not None
        numbers = best.statistics
        row(
            name, len(loop.operations), coarse.normalisation.total, best.schedule.ii,
            best.schedule.length(coarse.loop), f"{times['z3']:.2f}",
            f"{times['sat']:.3f}" if "sat" in times else "-", numbers["variables"],
            numbers["clauses"], numbers["intervals_refuted"], best.evidence.kind,
            real.schedule.ii, real.bounds.ii,
        )  # fmt: skip


def faithful_table(seconds: float) -> None:
    """The faithful formulation on the same normalised loops, at the optimum: one question."""
    heading("loop", "U", "ii", "length", "booleans", "assertions", "answer", "seconds", "fast, s")
    for name, total in (
        ("toy_fa_hopper", 300), ("fa3_forward_one", 24), ("fa3_forward", 34),
        ("gemm_hopper", 24),
    ):  # fmt: skip
        coarse = normalise_loop(library(name), total).loop
        begin = time.perf_counter()
        best = joint.solve(coarse, joint.Options(second_solver=False))
        fast = time.perf_counter() - begin
        assert best.schedule is not None
        length = best.schedule.length(coarse)
        begin = time.perf_counter()
        formulation = faithful.Formulation(coarse, best.schedule.ii, length)
        formulation.build()
        left = seconds - (time.perf_counter() - begin)
        answer = formulation.solve(left) if left > 0 else None
        spent = time.perf_counter() - begin
        word = "none in time" if answer is None else "schedule" if answer else "refuted"
        row(
            name, total, best.schedule.ii, length, formulation.booleans,
            formulation.assertions, word, f"{spent:.1f}", f"{fast:.3f}",
        )  # fmt: skip


def scale(sizes: list[int], solve: Callable[[Loop], joint.Outcome], seeds: int) -> None:
    heading(
        "operations", "loops", "mean ii over bound", "at the bound", "median s", "median CPU s",
        "Python heap, MiB",
    )  # fmt: skip
    points = []
    for n in sizes:
        ratios, spent, busy, peaks, at = [], [], [], [], 0
        for seed in range(1, seeds + 1):
            loop = large_loop(n, seed)
            begin, begin_busy = time.perf_counter(), time.process_time()
            outcome = solve(loop)
            spent.append(time.perf_counter() - begin)
            busy.append(time.process_time() - begin_busy)
            assert outcome.schedule is not None and not check(loop, outcome.schedule)
            ratios.append(outcome.schedule.ii / outcome.evidence.lower_bound)
            at += outcome.schedule.ii == outcome.evidence.lower_bound
        tracemalloc.start()
        solve(large_loop(n, 1))
        peaks.append(tracemalloc.get_traced_memory()[1] / 2**20)
        tracemalloc.stop()
        middle = statistics.median(spent)
        points.append((n, middle))
        row(
            n, seeds, f"{statistics.mean(ratios):.4f}", at, f"{middle:.3f}",
            f"{statistics.median(busy):.3f}", f"{max(peaks):.1f}",
        )  # fmt: skip
    plot(points)


def plot(points: list[tuple[int, float]]) -> None:
    """Seconds over operations, both on a logarithmic scale, one character a factor of 1.33."""
    import math

    print()
    least = min(s for _, s in points)
    for n, seconds in points:
        print(f"    {n:>7} {'#' * (1 + round(8 * math.log10(seconds / least)))} {seconds:.3f} s")


def ablation(seconds: float) -> None:
    """B2 and B3 on the model: who specialises, and who knows about registers."""
    print(
        "Specialisation (B2): interval with warps always, heuristically, and never specialised.\n"
    )
    heading("loop", "bound", "always", "heuristic", "never", "never over heuristic")
    for name in (*PROVED, "gemm_epilogue"):
        loop = library(name)
        found = []
        for styles in (("specialised",), ("specialised", "joined"), ("joined",)):
            options = rau.Options(styles=styles)
            outcome = rau.solve(loop, replace(options, seconds=seconds))
            found.append(outcome.schedule.ii if outcome.schedule else None)
        ratio = f"{found[2] / found[1]:.3f}" if found[1] and found[2] else "-"
        row(name, bounds(loop, recurrence=recurrence).ii, *(x or "none" for x in found), ratio)
    print("\nRegisters (B3): naive ignores the limits, aware keeps them.\n")
    heading("loop", "registers a thread", "naive ii", "limits broken", "aware ii", "price")
    for name in ("fa3_forward", "fa3_backward", "fa4_forward", "gemm_epilogue"):
        for cut in (1.0, 0.7):
            loop = tight(library(name), cut)
            naive = rau.solve(loop, rau.Options(registers="naive", seconds=8)).schedule
            aware = rau.solve(loop, rau.Options(seconds=8)).schedule
            broken = {f.kind for f in check(loop, naive)} if naive else {"-"}
            limit = max(g.registers_per_thread or 0 for g in loop.groups)
            price = f"{aware.ii / naive.ii:.3f}" if naive and aware else "-"
            row(
                name, limit, naive.ii if naive else "none",
                ", ".join(sorted(broken)) or "no", aware.ii if aware else "none", price,
            )  # fmt: skip


def tight(loop: Loop, cut: float) -> Loop:
    groups = tuple(
        group
        if group.registers_per_thread is None
        else replace(group, registers_per_thread=int(group.registers_per_thread * cut))
        for group in loop.groups
    )
    return replace(loop, groups=groups)


def robust() -> None:
    """Costs and delays moved by up to 10 %: the interval of the order found, and the new bound."""
    heading("loop", "ii", "least new ii", "mean new ii", "largest new ii", "largest over its bound")
    for name in PROVED:
        loop = library(name)
        outcome = rau.solve(loop)
        if outcome.schedule is None:
            continue
        from titan.schedule.refine import refine

        rng, found, over = random.Random(1), [], 1.0
        for _ in range(20):
            moved = shaken(loop, rng)
            lower = bounds(moved, recurrence=recurrence).ii
            again = refine(moved, loop, outcome.schedule, lower)
            if again is not None:
                found.append(again.ii)
                over = max(over, again.ii / lower)
        mean = f"{statistics.mean(found):.0f}" if found else "-"
        low, high = (min(found), max(found)) if found else ("-", "-")
        row(name, outcome.schedule.ii, low, mean, high, f"{over:.3f} ({len(found)} of 20 kept)")


def shaken(loop: Loop, rng: random.Random) -> Loop:
    def move(x: int) -> int:
        return max(1, round(x * rng.uniform(0.9, 1.1))) if x else 0

    operations = tuple(
        replace(op, uses=tuple(replace(use, cycles=move(use.cycles)) for use in op.uses))
        for op in loop.operations
    )
    dependences = tuple(replace(e, delay_cycles=move(e.delay_cycles)) for e in loop.dependences)
    return replace(loop, operations=operations, dependences=dependences)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "table",
        nargs="?",
        default="proofs",
        choices=["proofs", "faithful", "scale", "gauss", "ablation", "robust"],
    )
    parser.add_argument("--seconds", type=float, default=120.0, help="for one faithful formula")
    parser.add_argument("--sizes", type=int, nargs="*")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    if options.table == "gauss":
        from titan.schedule import gauss

        sizes = options.sizes or [100, 1000]
        scale(sizes, gauss.solve, min(options.seeds, 2))
    elif options.table == "scale":
        scale(options.sizes or [100, 1000, 10_000, 100_000], rau.solve, options.seeds)
    elif options.table == "faithful":
        faithful_table(options.seconds)
    else:
        tables = {
            "proofs": proofs,
            "ablation": lambda: ablation(min(options.seconds, 20.0)),
            "robust": robust,
        }
        tables[options.table]()


if __name__ == "__main__":
    main()
