"""Measurements of the schedulers; prints the tables of docs/reference/schedule.md as Markdown.

python benchmarks/bench_schedule.py proofs      proofs of optimality on the real loops
python benchmarks/bench_schedule.py faithful    the faithful formulation next to it
python benchmarks/bench_schedule.py scale       random loops of 100 to 100,000 operations
python benchmarks/bench_schedule.py gauss       the differentiable scheduler
python benchmarks/bench_schedule.py gapped      the same where the optimum lies above the bound
python benchmarks/bench_schedule.py multipliers   its two kinds of multipliers
python benchmarks/bench_schedule.py ablation    warps specialised: always, chosen or never
python benchmarks/bench_schedule.py registers   registers aware or naive
python benchmarks/bench_schedule.py certificates  what is claimed, and the time to check it
python benchmarks/bench_schedule.py robust      the interval when every cost moves by 10 %
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import ModuleType

from titan.foundation.resources import root
from titan.scheduling import cnf, faithful, joint, rau, store
from titan.scheduling.check import check
from titan.scheduling.common import common_group
from titan.scheduling.loop.bounds import Unschedulable, bounds
from titan.scheduling.loop.generate import gapped_loop, large_loop
from titan.scheduling.loop.load import load_loop
from titan.scheduling.loop.model import Loop
from titan.scheduling.model import Schedule
from titan.scheduling.native import recurrence
from titan.scheduling.normalise import normalise_loop
from titan.scheduling.problem import compile_problem
from titan.scheduling.run import Request, run
from titan.scheduling.work import SearchWork

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
OFTEN, OFTEN_MAX = 9, 10_000
# Formulas of more than five million clauses, which memory does not do for.
LARGE = {("fa4_forward", 120)}


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
                options = joint.JointOptions(engine=engine, second_solver=False)
                begin = time.process_time()
                joint.solve(coarse.loop, options)
                spent.append(time.process_time() - begin)
            times[engine] = statistics.median(spent)
        best = joint.solve(coarse.loop, joint.JointOptions(engine="z3"))
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


def certificates() -> None:
    """What a certificate claims of the real loop, and what it takes to check it alone."""
    heading("loop", "ii", "bound", "claim", "lemmas", "bytes", "made, CPU s", "checked, CPU s")
    for name in PROVED:
        loop = library(name)
        begin = time.process_time()
        result = run(loop, Request(proofs=True, budget_seconds=300))
        made = time.process_time() - begin
        assert result.schedule is not None
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "certificate.json"
            data = store.as_data(loop, result.schedule, result.evidence, result.refutations)
            store.write(path, data)
            begin = time.process_time()
            found, claim = store.read(path, loop)
            assert store.certify(loop, found, claim) == []
            checked = time.process_time() - begin
            size = path.stat().st_size
        lemmas = " + ".join(str(len(r.lemmas)) for r in result.refutations) or "-"
        row(
            name, found.ii, result.bounds.ii, result.evidence.kind, lemmas, size,
            f"{made:.2f}", f"{checked:.3f}",
        )  # fmt: skip


def faithful_table(seconds: float) -> None:
    """The faithful formulation at the optimum of the fast one: is it there, and nothing shorter?"""
    heading(
        "loop", "U", "ii", "length", "booleans", "constraints", "built, CPU s", "solved, CPU s",
        "one cycle shorter", "CPU s", "fast, CPU s",
    )  # fmt: skip
    for name in ("toy_fa_hopper", *PROVED):
        for total in (30, 60, 120):
            if (name, total) in LARGE:
                continue
            coarse = normalise_loop(library(name), total).loop
            begin = time.process_time()
            best = joint.solve(coarse, joint.JointOptions(second_solver=False))
            fast = time.process_time() - begin
            assert best.schedule is not None
            length = best.schedule.length(coarse)
            at = faithful_answer(coarse, best.schedule.ii, length, seconds)
            below = faithful_answer(coarse, best.schedule.ii, length - 1, seconds)
            assert at[2] is not False and not below[2]
            words = {True: "schedule", False: "refuted", None: "none in time"}
            row(
                name, total, best.schedule.ii, length, at[0].booleans, at[0].assertions,
                f"{at[1]:.2f}", f"{at[3]:.2f}" if at[2] else words[None], words[below[2]],
                f"{below[1] + below[3]:.2f}", f"{fast:.3f}",
            )  # fmt: skip


def faithful_answer(
    loop: Loop, ii: int, length: int, seconds: float
) -> tuple[faithful.Formulation, float, bool | None, float]:
    """The formulation, seconds of building, whether there is a schedule, seconds of solving."""
    begin = time.process_time()
    formulation = faithful.Formulation(loop, ii, length)
    formulation.build()
    built = time.process_time()
    found = formulation.solve(SearchWork(seconds))
    if isinstance(found, Schedule):
        assert not check(loop, found, length)
    answer = found if found is None else isinstance(found, Schedule)
    return formulation, built - begin, answer, time.process_time() - built


def scale(
    sizes: list[int], solve: Callable[[Loop], joint.SchedulerResult], seeds: int, times: int = 1
) -> None:
    """Every loop is scheduled `times` times, those of more than OFTEN_MAX operations once."""
    heading(
        "operations", "loops", "mean ii over bound", "at the bound", "median ms",
        "median CPU ms", "least CPU ms", "Python heap, MiB",
    )  # fmt: skip
    points = []
    for n in sizes:
        ratios, spent, busy, peaks, at = [], [], [], [], 0
        for seed in range(1, seeds + 1):
            loop = large_loop(n, seed)
            for _ in range(times if n <= OFTEN_MAX else 1):
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
            n, seeds, f"{statistics.mean(ratios):.4f}", at, f"{1000 * middle:.1f}",
            f"{1000 * statistics.median(busy):.1f}", f"{1000 * min(busy):.1f}",
            f"{max(peaks):.1f}",
        )  # fmt: skip
    plot(points)


def plot(points: list[tuple[int, float]]) -> None:
    """Seconds over operations, both on a logarithmic scale, one character a factor of 1.33."""
    import math

    print()
    least = min(s for _, s in points)
    for n, seconds in points:
        print(f"    {n:>7} {'#' * (1 + round(8 * math.log10(seconds / least)))} {seconds:.3f} s")


def best(loop: Loop, seconds: float) -> Schedule | None:
    """The least (interval, length) of Rau and of the joint solver at three resolutions."""
    found = [rau.solve(loop, rau.RauOptions(seconds=seconds)).schedule]
    for total in (60, 100, 300):
        try:
            request = Request(solver="joint", budget_seconds=seconds, total_max=total)
            found.append(run(loop, request).schedule)
        except Unschedulable:
            return None
    known = [schedule for schedule in found if schedule is not None]
    return min(known, key=lambda x: (x.ii, x.length(loop)), default=None)


def small_tile(loop: Loop) -> Loop:
    """A quarter of the work and of the registers; what is not work (latency, transfer) stays."""
    operations = tuple(
        replace(
            op,
            uses=tuple(
                replace(
                    use,
                    cycles=max(1, use.cycles // 4),
                    first_cycle=min(use.first_cycle, use.cycles // 4),
                )
                for use in op.uses
            ),
            latency_cycles=max(0, op.latency_cycles - op.cycles + op.cycles // 4),
            registers=op.registers // 4,
        )
        for op in loop.operations
    )
    dependences = tuple(
        replace(
            e,
            delay_cycles=operations[e.source].latency_cycles
            if e.delay_cycles == loop.operations[e.source].latency_cycles
            else e.delay_cycles,
        )
        for e in loop.dependences
    )
    return replace(loop, operations=operations, dependences=dependences)


def ablation(seconds: float) -> None:
    """B2 on the model: specialised as the loop file says, never, and what is better for N tiles."""
    heading(
        "loop", "bound", "always: ii, length", "never: ii, length", "never over always",
        "2 tiles", "8 tiles", "64 tiles", "chosen",
    )  # fmt: skip
    for name in (*PROVED, "gemm_epilogue"):
        for variant, loop in (("", library(name)), (", quarter", small_tile(library(name)))):
            common = common_group(loop)
            always, never = best(loop, seconds), best(common, seconds)
            cells, ratios = [], []
            for schedule, where in ((always, loop), (never, common)):
                assert schedule is None or not check(where, schedule)
                cells.append(f"{schedule.ii}, {schedule.length(where)}" if schedule else "none")
            for tiles in (2, 8, 64):
                if always and never:
                    a, b = (
                        (tiles - 1) * s.ii + s.length(w)
                        for s, w in ((always, loop), (never, common))
                    )
                    ratios.append(b / a)
            chosen = "-"
            if ratios:
                chosen = "always" if min(ratios) > 1 else "never"
                if min(ratios) <= 1 <= max(ratios):
                    chosen = "either" if min(ratios) == max(ratios) else "by tiles"
            ratio = f"{never.ii / always.ii:.3f}" if always and never else "-"
            row(
                name + variant, bounds(loop, recurrence=recurrence).ii, *cells, ratio,
                *(f"{x:.3f}" for x in ratios or "---"), chosen,
            )  # fmt: skip


def registers_table(seconds: float) -> None:
    """B3 on the model: a schedule that ignores registers, and one that keeps the limit."""
    heading("loop", "registers a thread", "naive ii", "limits broken", "aware ii", "price")
    for name, counts in (
        ("fa3_forward", (240, 168, 128)), ("fa3_backward", (240, 208, 176, 168)),
        ("fa4_forward", (200, 140)), ("gemm_epilogue", (240, 168)),
    ):  # fmt: skip
        for count in counts:
            loop = tight(library(name), count)
            naive = rau.solve(loop, rau.RauOptions(registers="naive", seconds=seconds)).schedule
            aware = best(loop, seconds)
            broken = {f.kind for f in check(loop, naive)} if naive else {"-"}
            price = f"{aware.ii / naive.ii:.3f}" if naive and aware else "-"
            unknown = "refuted" if hopeless(loop) else "none in time"
            row(
                name, count, naive.ii if naive else "none",
                ", ".join(sorted(broken)) or "no", aware.ii if aware else unknown, price,
            )  # fmt: skip


def hopeless(loop: Loop) -> bool:
    """Is there no schedule of two stages at an interval of twice the work? In coarse cycles."""
    coarse = normalise_loop(loop, 30).loop
    ii = 2 * sum(op.cycles for op in coarse.operations)
    search = joint.Search(coarse, joint.JointOptions(objective="ii"), SearchWork(60))
    search.engine = cnf.available()[0]
    try:
        return joint.Attempt(search, ii, 2 * ii).find(2 * ii) is None
    except joint.Infeasible:
        return True


def tight(loop: Loop, registers: int) -> Loop:
    """No group has more registers a thread than this."""
    groups = tuple(
        group
        if group.registers_per_thread is None
        else replace(group, registers_per_thread=min(registers, group.registers_per_thread))
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
        from titan.scheduling.refine import refine

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


def gapped(sizes: list[int], density: float, iterations: int) -> None:
    """Loops whose optimum is known and above the bound: the means alone, refined, and Rau alone."""
    from titan.scheduling import gauss

    heading(
        "operations", "edges", "bound", "optimum", "means alone", "refined by Rau", "Rau alone",
        "steps", "CPU s",
    )  # fmt: skip
    gaps: dict[str, list[float]] = {"means alone": [], "refined": [], "Rau alone": []}
    for n in sizes:
        loop, optimum = gapped_loop(n, density, seed=1, units=max(6, n // 40))
        begin = time.process_time()
        alone, refined, steps = by_means(gauss, loop, optimum, iterations)
        spent = time.process_time() - begin
        plain = rau.solve(loop).schedule
        found = (alone, refined, plain.ii if plain is not None else None)
        for kept, ii in zip(gaps.values(), found, strict=True):
            kept.append(100 * (ii / optimum - 1) if ii else float("nan"))
        row(
            n, len(loop.dependences), bounds(loop).ii, optimum, *(ii or "none" for ii in found),
            steps, f"{spent:.1f}",
        )  # fmt: skip
    print("\nper cent above the optimum; a column is one per cent\n")
    for name, values in gaps.items():
        for n, gap in zip(sizes, values, strict=True):
            print(f"    {name:>12} {n:>6} {bar(gap)} {gap:.1f}")


def bar(gap: float) -> str:
    return "-" if math.isnan(gap) else "#" * min(60, round(gap))


def by_means(
    gauss: ModuleType, loop: Loop, optimum: int, iterations: int
) -> tuple[int | None, int | None, int]:
    """The least of a few intervals where the means are legal, and where refining them is."""
    torch = gauss.load_torch()
    torch.set_num_threads(1)
    problem = compile_problem(loop)
    alone = refined = None
    steps = 0
    for share in (0.0, 0.03, 0.1, 0.3):
        ii = optimum + round(share * optimum)
        options = gauss.GaussOptions(iterations=iterations, look_every=50, device="cpu")
        model = gauss.GaussModel(torch, loop, problem, ii, options)
        steps += model.descend(time.process_time() + 600)
        if alone is None and model.legal is not None:
            alone = ii
        if refined is None and gauss.legalise(loop, problem, ii, model.means())[0] is not None:
            refined = ii
        if alone is not None and refined is not None:
            break
    return alone, refined, steps


def multipliers(sizes: list[int], iterations: int) -> None:
    """How often the means are legal at the bound, and what they still violate, by multipliers."""
    from titan.scheduling import gauss

    torch = gauss.load_torch()
    torch.set_num_threads(1)
    heading("operations", "multipliers", "legal by the means", "mean worst violation, cycles")
    for n, kind in product(sizes, gauss.MULTIPLIERS):
        legal, left = 0, []
        for seed in range(5):
            loop = large_loop(n, seed)
            options = gauss.GaussOptions(iterations=iterations, multipliers=kind, device="cpu")
            ii = bounds(loop, recurrence=recurrence).ii
            model = gauss.GaussModel(torch, loop, compile_problem(loop), ii, options)
            model.descend(time.process_time() + 600)
            legal += model.legal is not None
            left.append(model.last_violation)
        row(n, kind, f"{legal} of 5", f"{statistics.mean(left):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "table",
        nargs="?",
        default="proofs",
        choices=[
            "proofs",
            "faithful",
            "scale",
            "gauss",
            "gapped",
            "multipliers",
            "ablation",
            "registers",
            "robust",
            "certificates",
        ],
    )
    parser.add_argument("--seconds", type=float, default=120.0, help="for one faithful formula")
    parser.add_argument("--sizes", type=int, nargs="*")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--density", type=float, default=0.002, help="of edges, for gapped")
    parser.add_argument("--iterations", type=int, default=300)
    options = parser.parse_args()
    if options.table == "gapped":
        gapped(options.sizes or [1000, 3000, 10_000], options.density, options.iterations)
    elif options.table == "multipliers":
        multipliers(options.sizes or [30, 100, 300], options.iterations)
    elif options.table == "gauss":
        from titan.scheduling import gauss

        sizes = options.sizes or [100, 1000]
        scale(sizes, gauss.solve, min(options.seeds, 2))
    elif options.table == "scale":
        scale(options.sizes or [100, 1000, 10_000, 100_000], rau.solve, options.seeds, OFTEN)
    elif options.table == "faithful":
        faithful_table(options.seconds)
    else:
        tables = {
            "proofs": proofs,
            "ablation": lambda: ablation(min(options.seconds, 8.0)),
            "registers": lambda: registers_table(min(options.seconds, 8.0)),
            "robust": robust,
            "certificates": certificates,
        }
        tables[options.table]()


if __name__ == "__main__":
    main()
