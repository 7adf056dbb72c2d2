"""Instructions of main loops by what an iteration consists of, fitted to counts of machine code.

    python -m benchmarks.fit_instructions count [NAME ...] [--cache FILE]
    python -m benchmarks.fit_instructions fit [--page docs/reference/sass.md]

`count` builds shapes of tile programs (the deepest of each form that can be written and compiled,
not verified: counts claim nothing), counts the usual way around the main loop
and keeps the numbers in benchmarks/results/instructions.json. `fit` takes them from there: for each
target the costs, none below 0, that make the squares of the relative errors least, every program
with the same weight; they go to backends/TARGET/instructions.yaml, residuals to the page. Errors
of programs outside of the fit come from folds: each part of the programs is predicted by costs
that were fitted to the others.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from benchmarks.pages import write_between
from titan.codegen.emit.write import EmissionRefused, emit
from titan.codegen.pipeline.build import (
    BuildLimits,
    BuildRefused,
    NotVerified,
    considered,
    decoded,
    group_starts,
    scheduled,
)
from titan.codegen.pipeline.forms import form_of
from titan.codegen.pipeline.instructions import terms
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.pipeline.printer import pipeline_text
from titan.codegen.tile.instruction_costs import FILE, SCALE, TERMS
from titan.codegen.tile.load import load_tile, targets_of
from titan.codegen.tile.model import TileProgram
from titan.inspect import opcodes
from titan.inspect.counts import KernelCounts, LoopCounts, count
from titan.inspect.machine import of_compiled
from titan.validate.compare.compile import compile_package
from titan.validate.compare.toolchain import CannotCompile

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "protocols" / "tiles"
STORED = ROOT / "benchmarks" / "results" / "instructions.json"
BEGIN, END = "<!-- instructions -->\n", "<!-- end of instructions -->\n"
FORMS_MAX = 5  # of one program
OWN_MIN = 12  # instructions of a loop that does more than wait
SWEEPS = 3000
FOLDS = 8
COMPILERS = {
    "sm_90a": "ptxas 13.5", "sm_100a": "ptxas 13.5", "gfx942": "clang 22", "gfx950": "clang 22",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class CountedShape:
    """A shape of a program on a target, and the instructions of its main loop."""

    program: str
    target: str
    shape: Shape
    instructions: int


def main_loop(kernel: KernelCounts, target: str) -> LoopCounts | None:
    """The loop of the computing warps: that with the products; where another role issues them, that
    with the most exponentials; else that with the most arithmetic. Of several such the shortest,
    which masks nothing. None where nothing is computed."""
    large = [loop for loop in kernel.loops if loop.instructions >= OWN_MIN]
    products = [loop for loop in large if loop.tensor]
    if products and target != "sm_100a":
        return max(products, key=lambda loop: (loop.tensor, -loop.instructions))
    own = [loop for loop in large if not loop.tensor]

    def rank(loop: LoopCounts) -> tuple[int, int]:
        of = [loop.by_class.get(name, 0) for name in opcodes.ARITHMETIC]
        special = loop.by_class.get(opcodes.SPECIAL, 0) if products else 0
        return special, -loop.instructions if special else sum(of)

    best = max(own, key=rank, default=None)
    return best if best is not None and rank(best)[1] else None


def forms(listed: list[Shape]) -> list[list[Shape]]:
    """The shapes of each form, the deepest first, in an order that no ranking decides."""
    found: dict[tuple[object, ...], list[Shape]] = {}
    for shape in sorted(listed, key=lambda one: (-one.depth, one.name)):
        fields = asdict(shape)
        key = tuple(value for name, value in fields.items() if name not in ("name", "depth"))
        found.setdefault(key, []).append(shape)
    return list(found.values())[:FORMS_MAX]


def counted_shapes(name: str, target: str, cache: str | None = None) -> Iterator[CountedShape]:
    """What is counted for a program; forms that cannot be written or compiled are left out."""
    tile = load_tile(LIBRARY / f"{name}.yaml", target=target)
    limits = BuildLimits(cache=cache)
    loop, result, stages = scheduled(tile, limits)
    result, listed, _ = considered(tile, loop, result, stages, limits)
    assert result.schedule is not None
    starts = group_starts(tile, loop, result.schedule.starts)
    for shapes in forms(listed):
        counts = (
            _counted(name, tile, shape, starts, result.schedule.ii)
            for shape in shapes
            if terms(tile, shape) is not None
        )
        counted = next((one for one in counts if one is not None), None)
        if counted is not None:
            yield counted


def _counted(
    name: str, tile: TileProgram, shape: Shape, starts: dict[str, int], ii: int
) -> CountedShape | None:
    """The instructions of one shape; None where it has not one main loop, or none at all."""
    target = tile.target
    try:
        document = form_of(target)(tile, shape, starts, ii)
        kernel, program = decoded(pipeline_text(document))
        compiled = compile_package(emit(tile, kernel, program).files, target)
    except (FormRefused, NotVerified, EmissionRefused, CannotCompile) as reason:
        print(f"{name} {target}, {shape.name}: {str(reason)[:90]}", flush=True)
        return None
    mains = [main_loop(count(one), target) for one in of_compiled(compiled)]
    known = [main for main in mains if main is not None]
    if len(known) != 1:
        return None
    print(f"{name} {target}, {shape.name}: {known[0].usual}", flush=True)
    return CountedShape(name, target, shape, known[0].usual)


def stored() -> list[CountedShape]:
    """What was counted last."""
    rows = json.loads(STORED.read_text(encoding="utf-8"))
    return [
        CountedShape(
            row["program"],
            row["target"],
            Shape(row["shape"], row["depth"], **_flags(row["is"])),
            row["instructions"],
        )
        for row in rows
    ]


def _flags(names: list[str]) -> dict[str, bool]:
    fields = [name for name in asdict(Shape("", 1)) if name not in ("name", "depth")]
    return {name: name in names for name in fields}


def keep(rows: list[CountedShape]) -> None:
    """Write them, one a line."""
    lines = []
    for row in sorted(rows, key=lambda one: (one.program, one.target, one.shape.name)):
        flags = [name for name, is_so in asdict(row.shape).items() if is_so is True]
        data = {
            "program": row.program, "target": row.target, "shape": row.shape.name,
            "depth": row.shape.depth, "is": flags, "instructions": row.instructions,
        }  # fmt: skip
        lines.append(json.dumps(data))
    STORED.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


@lru_cache(maxsize=4096)
def amounts(program: str, target: str, shape: Shape) -> tuple[float, ...]:
    """How much of each term an iteration has."""
    found = terms(load_tile(LIBRARY / f"{program}.yaml", target=target), shape)
    assert found is not None
    return tuple(found[name] for name in TERMS)


def fitted(rows: list[CountedShape]) -> dict[str, float]:
    """The costs of the terms: coordinate descent on the normal equations, none below 0."""
    programs = [row.program for row in rows]
    matrix: list[list[float]] = []
    for row in rows:
        weight = programs.count(row.program) ** -0.5 / row.instructions
        found = amounts(row.program, row.target, row.shape)
        matrix.append([amount * weight for amount in found])
    wanted = [programs.count(name) ** -0.5 for name in programs]
    places = range(len(TERMS))
    squares = [[sum(line[i] * line[j] for line in matrix) for j in places] for i in places]
    right = [
        sum(line[i] * value for line, value in zip(matrix, wanted, strict=True)) for i in places
    ]
    costs = [0.0 for _ in TERMS]
    for _ in range(SWEEPS):
        for i in places:
            if squares[i][i] > 0:
                rest = right[i] - sum(a * b for a, b in zip(squares[i], costs, strict=True))
                costs[i] = max(0.0, costs[i] + rest / squares[i][i])
    return {name: cost for name, cost in zip(TERMS, costs, strict=True) if cost >= 1 / SCALE}


def errors(rows: list[CountedShape], costs: dict[str, float]) -> list[float]:
    """Predicted over counted, less 1."""
    found = []
    for row in rows:
        each = zip(TERMS, amounts(row.program, row.target, row.shape), strict=True)
        found.append(sum(costs.get(name, 0.0) * amount for name, amount in each))
    return [number / row.instructions - 1 for row, number in zip(rows, found, strict=True)]


def errors_outside(rows: list[CountedShape]) -> list[tuple[CountedShape, float]]:
    """The error of each row by costs that were fitted to other programs."""
    programs = sorted({row.program for row in rows})
    found = []
    for fold in range(min(FOLDS, len(programs))):
        apart = set(programs[fold::FOLDS])
        inside = [row for row in rows if row.program not in apart]
        outside = [row for row in rows if row.program in apart]
        found += list(zip(outside, errors(outside, fitted(inside)), strict=True))
    return found


def text_of(target: str, rows: list[CountedShape]) -> str:
    """The file of a target."""
    costs = fitted(rows)
    size = [abs(error) for error in errors(rows, costs)]
    lines = [
        "titan: 1",
        f"instructions: {target}",
        "thousandths:",
        *(f"  {name}: {round(cost * SCALE)}" for name, cost in costs.items()),
        f'source: "fitted to {len(rows)} loops of {len({row.program for row in rows})} programs as '
        f"{COMPILERS[target]} compiles them (benchmarks/fit_instructions.py); half of them within "
        f'{100 * statistics.median(size):.0f} %, all within {100 * max(size):.0f} %"',
    ]
    return "\n".join(lines) + "\n"


def table(all_rows: list[CountedShape]) -> str:
    """Residuals and costs as Markdown."""
    targets = sorted({row.target for row in all_rows})
    lines = [
        "| target | programs | loops | in the fit: half within | all within | outside: half within"
        " | nine of ten within | all within | farthest |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    costs = {}
    for target in targets:
        rows = [row for row in all_rows if row.target == target]
        costs[target] = fitted(rows)
        own = sorted(abs(error) for error in errors(rows, costs[target]))
        apart = sorted(errors_outside(rows), key=lambda one: abs(one[1]))
        size = [abs(error) for _, error in apart]
        worst, error = apart[-1]
        numbers = (
            statistics.median(own), own[-1], statistics.median(size), size[len(size) * 9 // 10],
            size[-1],
        )  # fmt: skip
        cells = " | ".join(f"{100 * number:.0f} %" for number in numbers)
        where = f"`{worst.program}`, {worst.shape.name}: {100 * error:+.0f} %"
        programs = len({row.program for row in rows})
        lines.append(f"| {target} | {programs} | {len(rows)} | {cells} | {where} |")
    lines += ["", f"| an iteration has | {' | '.join(targets)} |"]
    lines.append("| --- |" + " ---: |" * len(targets))
    for name in TERMS:
        cells = [
            f"{costs[target][name]:.2f}" if name in costs[target] else "" for target in targets
        ]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def count_all(names: list[str], cache: str | None) -> None:
    """Count what is named, by default what is stored; other programs stay as they are."""
    rows = stored() if STORED.is_file() else []
    names = names or sorted({row.program for row in rows})
    rows = [row for row in rows if row.program not in names]
    for name in names:
        for target in targets_of(LIBRARY / f"{name}.yaml"):
            try:
                rows += counted_shapes(name, target, cache)
            except BuildRefused as reason:
                print(f"{name} {target}: {reason}")
    keep(rows)


def main() -> int:
    """Count or fit."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("what", choices=("count", "fit"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--cache")
    parser.add_argument("--page", type=Path)
    arguments = parser.parse_args()
    if arguments.what == "count":
        count_all(arguments.names, arguments.cache)
        return 0
    rows = stored()
    for target in sorted({row.target for row in rows}):
        path = ROOT / "backends" / target / FILE
        path.write_text(
            text_of(target, [row for row in rows if row.target == target]), encoding="utf-8"
        )
    text = table(rows)
    print(text)
    if arguments.page is not None:
        write_between(arguments.page, BEGIN, END, text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
