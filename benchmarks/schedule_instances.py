"""Rau scheduling on the public modulo-scheduling instances, against proven optima or bounds.

    python benchmarks/schedule_instances.py FOLDER [--part K/N] [--seconds S]

FOLDER is the `benchmarks` folder of the repository SpeedyBK/hatschet. Every graph is taken with the
resource model next to it, or with each `RM*.xml` of its folder. Prints one line with the summary,
and the instances where Rau is not at its bound; small ones of these are also scheduled as
`titan schedule` does by default. `--part 3/8` takes every eighth instance, from the third on. No
limit is one of the clock: those of CP-SAT are its deterministic seconds, all others counts.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

from titan.scheduling import rau
from titan.scheduling.loop.bounds import Unschedulable
from titan.scheduling.loop.graphml import beside, load_instance
from titan.scheduling.loop.model import Loop
from titan.scheduling.model import SchedulerResult
from titan.scheduling.run import JOINT_OPERATIONS, Request, run
from titan.target.load import TargetRefused


def pairs(folder: Path) -> list[tuple[Path, Path]]:
    """Graphs with their resource models."""
    found = []
    for graph in sorted(folder.rglob("*.graphml")):
        models = [beside(graph)]
        if not models[0].exists():
            models = sorted(graph.parent.glob("RM*.xml"))
        found.extend((graph, model) for model in models if model.exists())
    return found


def exact(loop: Loop, ii: int, bound: int, seconds: float) -> tuple[int, bool]:
    """The best bound that CP-SAT proves by refuting intervals, and whether it is the optimum.

    Dependences and units alone: warp groups, pools, registers and memory are not part of it. Every
    row of the modulo reservation table is used by the whole intervals that an operation occupies a
    unit for, and by the rest, which may wrap around. The table is laid out twice over, so that a
    use that wraps is one piece in the second copy.
    """
    from ortools.sat.python import cp_model

    for candidate in range(bound, ii):
        model = cp_model.CpModel()
        horizon = sum(op.latency_cycles + op.cycles for op in loop.operations) + candidate
        starts = [model.new_int_var(0, horizon, "") for _ in loop.operations]
        rests: dict[str, list[tuple[cp_model.IntervalVar, int]]] = {}
        whole: dict[str, int] = {}
        for start, op in zip(starts, loop.operations, strict=True):
            for use in op.uses:
                row = model.new_int_var(0, candidate - 1, "")
                model.add_modulo_equality(row, start + use.first_cycle, candidate)
                turns, rest = divmod(use.cycles, candidate)
                whole[use.unit] = whole.get(use.unit, 0) + turns * use.amount
                for shift in (0, candidate) if rest else ():
                    piece = model.new_fixed_size_interval_var(row + shift, rest, "")
                    rests.setdefault(use.unit, []).append((piece, use.amount))
        for e in loop.dependences:
            gap = e.delay_cycles - e.distance * candidate
            model.add(starts[e.sink] - starts[e.source] >= gap)
        free = {unit: loop.units[unit].capacity - count for unit, count in whole.items()}
        for unit, pieces in rests.items():
            intervals, amounts = zip(*pieces, strict=True)
            model.add_cumulative(intervals, amounts, max(free[unit], 0))
        solver = cp_model.CpSolver()
        solver.parameters.max_deterministic_time = seconds
        solver.parameters.num_workers = 1
        status = cp_model.INFEASIBLE if min(free.values(), default=0) < 0 else solver.solve(model)
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return candidate, True
        if status != cp_model.INFEASIBLE:
            return candidate, False
    return ii, True


def by_default(loop: Loop) -> str:
    """What `titan schedule` finds for a small instance, as text."""
    if len(loop.operations) > JOINT_OPERATIONS:
        return ""
    outcome = run(loop, Request())
    interval = None if outcome.schedule is None else outcome.schedule.ii
    return f"; titan schedule {interval} by {outcome.produced_by}, {outcome.evidence.kind}"


def by_gauss(folder: Path, count: int) -> None:
    """The differentiable scheduler on a fixed sample of instances of up to 400 operations."""
    from titan.scheduling import gauss

    found = pairs(folder)
    random.Random(1).shuffle(found)
    ratios: list[float] = []
    names: dict[str, int] = {}
    begin = time.perf_counter()
    for graph, model in found:
        try:
            loop = load_instance(graph, model)
        except TargetRefused:
            continue
        if len(loop.operations) > 400 or len(ratios) == count:
            continue
        outcome = gauss.solve(loop, gauss.GaussOptions(iterations=600, seconds=10))
        if outcome.schedule is not None:
            ratios.append(outcome.schedule.ii / outcome.evidence.lower_bound)
            names[outcome.solver] = names.get(outcome.solver, 0) + 1
    print(
        f"{len(ratios)} instances: mean interval over the bound {sum(ratios) / len(ratios):.5f}, "
        f"worst {max(ratios):.3f}; found by {names}; {time.perf_counter() - begin:.1f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--part", default="1/1", help="every N-th instance from the K-th on")
    parser.add_argument("--seconds", type=float, default=20.0, help="of CP-SAT, for one refutation")
    parser.add_argument("--gauss", type=int, help="sample so many for the differentiable scheduler")
    options = parser.parse_args()
    if options.gauss:
        by_gauss(options.folder, options.gauss)
        return
    done: list[tuple[str, SchedulerResult, int, bool]] = []
    refused = infeasible = 0
    sizes, spent = [], 0.0
    part, parts = (int(text) for text in options.part.split("/"))
    for graph, model in pairs(options.folder)[part - 1 :: parts]:
        try:
            loop = load_instance(graph, model)
            begin = time.process_time()
            outcome = rau.solve(loop)
            spent += time.process_time() - begin
        except TargetRefused as error:
            refused += 1
            print(f"refused {graph}: {error}")
            continue
        except Unschedulable:
            infeasible += 1
            continue
        bound = outcome.evidence.lower_bound
        best, proved = bound, True
        if outcome.schedule is not None and outcome.schedule.ii > bound:
            best, proved = exact(loop, outcome.schedule.ii, bound, options.seconds)
            name = f"{graph.parent.name}/{graph.stem} with {model.stem}, {len(loop.operations)}"
            found = f"Rau {outcome.schedule.ii}, bound {bound}, best {best}, proved {proved}"
            print(f"{name} operations: {found}{by_default(loop)}", flush=True)
        sizes.append(len(loop.operations))
        done.append((str(graph), outcome, best, proved))
    ratios = [o.schedule.ii / best for _, o, best, _ in done if o.schedule is not None]
    at_bound = sum(o.schedule is not None and o.proved for _, o, _, _ in done)
    print(
        f"{len(done)} instances ({min(sizes)} to {max(sizes)} operations), {refused} refused, "
        f"{infeasible} without any interval; scheduled {len(ratios)}; "
        f"at the lower bound {at_bound}; "
        f"mean interval over the proven optimum or bound {sum(ratios) / len(ratios):.5f}, "
        f"worst {max(ratios):.3f}; optimum not proved for {sum(not p for *_, p in done)}; "
        f"processor seconds in Rau {spent:.2f}"
    )


if __name__ == "__main__":
    main()
