"""`titan schedule`: schedule the operations of a loop, or check a schedule made elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from titan.cli.exit_code import ExitCode
from titan.cli.output import colour_option, write

if TYPE_CHECKING:
    from titan.scheduling.loop.model import Loop
    from titan.scheduling.run import Request, ScheduleRun


@click.command()
@click.argument("path", metavar="LOOP", type=click.Path(dir_okay=False))
@click.option(
    "--solver",
    type=click.Choice(["auto", "rau", "joint", "gauss"]),
    default="auto",
    show_default=True,
    help="Who schedules. auto: Rau, then the joint solver unless a bound proves the result.",
)
@click.option(
    "--objective",
    type=click.Choice(["ii", "length", "registers", "edges"]),
    default="length",
    show_default=True,
    help="The last tie-break that the joint solver decides.",
)
@click.option(
    "--budget",
    type=click.FloatRange(0.01, 1e6),
    default=60.0,
    show_default=True,
    help="Seconds a solver may take.",
)
@click.option(
    "--resolution",
    type=click.IntRange(1, 100_000),
    default=300,
    show_default=True,
    help="The sum of normalised costs (U) for the joint solver.",
)
@click.option(
    "--registers",
    type=click.Choice(["naive", "reject", "degrade"]),
    default="degrade",
    show_default=True,
    help="What Rau does about register and memory limits.",
)
@click.option(
    "--specialise",
    type=click.Choice(["always", "never", "auto"]),
    default="always",
    show_default=True,
    help="Warp groups of the loop, one group for all, or what is faster for --tiles.",
)
@click.option(
    "--tiles",
    type=click.IntRange(1, 1 << 30),
    default=64,
    show_default=True,
    help="Iterations that `--specialise auto` decides for.",
)
@click.option("--seed", type=int, default=0, help="Seed of the differentiable scheduler.")
@click.option("--check", "checked", type=click.Path(dir_okay=False), help="Check this schedule.")
@click.option("--save", type=click.Path(dir_okay=False), help="Write the schedule (JSON).")
@click.option("--certificate", type=click.Path(dir_okay=False), help="Write it with its evidence.")
@click.option("--svg", "svg_path", type=click.Path(dir_okay=False), help="Write a picture.")
@click.option("--html", "html_path", type=click.Path(dir_okay=False), help="Write a page.")
@click.option("--trace", "trace_path", type=click.Path(dir_okay=False), help="Write a timeline.")
@click.option("--cache", type=click.Path(dir_okay=False), help="Look results up in this database.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
)
@colour_option
def schedule(
    path: str,
    solver: str,
    objective: str,
    budget: float,
    resolution: int,
    registers: str,
    specialise: str,
    tiles: int,
    seed: int,
    checked: str | None,
    save: str | None,
    certificate: str | None,
    svg_path: str | None,
    html_path: str | None,
    trace_path: str | None,
    cache: str | None,
    format_name: str,
    colour: str,
) -> int:
    """Schedule a loop: initiation interval with its proof, stages, warps, prologue and epilogue.

    LOOP is a loop-level file, or the GraphML of a public instance, its resource model beside it.
    """
    from titan.scheduling.common import common_group
    from titan.scheduling.gauss import TorchMissing
    from titan.scheduling.joint import Disagreement
    from titan.scheduling.loop.bounds import Unschedulable
    from titan.scheduling.run import Request

    loop = load(path, colour)
    if loop is None:
        return ExitCode.BAD_INPUT
    if specialise == "never":
        loop = common_group(loop)
    if checked is not None:
        return check_file(loop, checked, colour)
    progress = sys.stderr.isatty() and format_name == "text"
    request = Request(
        solver,
        objective,
        budget,
        resolution,
        registers,
        seed=seed,
        progress=progress,
        proofs=certificate is not None,
    )
    try:
        result = search(loop, request, cache)
        if specialise == "auto":
            result = faster(result, search(common_group(loop), request, cache), tiles)
    except Unschedulable as error:
        click.echo(f"{path}: no initiation interval exists: {error}", err=True)
        return ExitCode.REFUTED
    except TorchMissing as error:
        raise click.UsageError(str(error)) from None
    except Disagreement as error:
        click.echo(f"{path}: internal error: {error}", err=True)
        return ExitCode.INTERNAL
    _show(result, format_name)
    outputs = {
        "save": save,
        "certificate": certificate,
        "svg": svg_path,
        "html": html_path,
        "trace": trace_path,
    }
    _write_files(result, outputs)
    return ExitCode.VERIFIED if result.schedule is not None else ExitCode.UNDECIDED


def load(path: str, colour: str) -> Loop | None:
    """The loop of a file, or None with what is wrong on standard error."""
    from titan.foundation.diagnostics.render.colour import wanted
    from titan.foundation.diagnostics.render.text import render
    from titan.scheduling.loop.graphml import load_instance
    from titan.scheduling.loop.load import load_loop
    from titan.target.load import TargetRefused

    try:
        return load_instance(path) if path.endswith(".graphml") else load_loop(path)
    except TargetRefused as refused:
        click.echo(render(refused.diagnostics, colour=wanted(sys.stderr, colour)), err=True)
        return None


# The rule of every kind of fault that the checker names.
RULES = {
    "dependence": "TTN501",
    "capacity": "TTN502",
    "pool": "TTN502",
    "registers": "TTN503",
    "memory": "TTN504",
    "ring": "TTN504",
    "warps": "TTN505",
    "variable-latency": "TTN505",
    "concurrency": "TTN506",
    "spill": "TTN507",
    "shape": "TTN508",
    "start": "TTN508",
    "completion": "TTN508",
    "claim": "TTN509",
}


def check_file(loop: Loop, path: str, colour: str) -> int:
    """0 when the schedule holds, 1 with the violated constraints, 2 when it cannot be read."""
    from titan.foundation.diagnostics.render.colour import wanted
    from titan.foundation.diagnostics.render.text import render
    from titan.scheduling.store import certify, read
    from titan.target.load import TargetRefused

    try:
        found, claim = read(path, loop)
    except TargetRefused as refused:
        click.echo(render(refused.diagnostics, colour=wanted(sys.stderr, colour)), err=True)
        return ExitCode.BAD_INPUT
    faults = certify(loop, found, claim)
    for fault in faults:
        click.echo(f"{path}: {RULES[fault.kind]} {fault.kind}: {fault.text}")
    if faults:
        return ExitCode.REFUTED
    claimed = f"; the claim of kind {claim['kind']} " if "kind" in claim else ""
    if claimed:
        said = {"bound": "is derived anew and holds", "proof": "is checked and holds"}
        claimed += said.get(claim["kind"], "is a statement, not checked here")
    click.echo(f"{path}: holds: initiation interval {found.ii}{claimed}")
    return ExitCode.VERIFIED


def faster(special: ScheduleRun, common: ScheduleRun, tiles: int) -> ScheduleRun:
    """What takes fewer cycles for so many iterations; the warp groups of the loop where equal."""
    from dataclasses import replace

    cycles = [
        (tiles - 1) * r.schedule.ii + r.schedule.length(r.loop) if r.schedule else None
        for r in (special, common)
    ]
    first, second = cycles
    better = second is not None and (first is None or second < first)
    said = " and ".join("none" if c is None else str(c) for c in cycles)
    text = f"cycles for {tiles} tiles with warp groups and with one group: {said}; "
    note = text + ("one group is used" if better else "warp groups are used")
    chosen = common if better else special
    return replace(chosen, notes=(*chosen.notes, note))


def search(loop: Loop, request: Request, cache: str | None) -> ScheduleRun:
    from titan.scheduling.cache import Cache
    from titan.scheduling.run import run

    if cache is None:
        return run(loop, request)
    with Cache(cache) as store:
        return store.run(loop, request)


def _show(result: ScheduleRun, format_name: str) -> None:
    if format_name == "json":
        from titan.report.schedule_json import render as render_json

        write(render_json([result]))
        return
    from titan.report.schedule_text import render

    write(render(result))


def _write_files(result: ScheduleRun, outputs: dict[str, str | None]) -> None:
    from titan.report.schedule_html import page, svg
    from titan.report.schedule_trace import trace
    from titan.scheduling import store

    loop, found = result.loop, result.schedule
    if found is None:
        return
    if outputs["save"]:
        store.write(outputs["save"], store.as_data(loop, found))
    if outputs["certificate"]:
        store.write(
            outputs["certificate"], store.as_data(loop, found, result.evidence, result.refutations)
        )
    for name, text in (
        ("svg", lambda: svg(loop, found)),
        ("html", lambda: page(result)),
        ("trace", lambda: trace(loop, found)),
    ):
        path = outputs[name]
        if path:
            Path(path).write_text(text(), encoding="utf-8")
