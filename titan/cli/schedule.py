"""`titan schedule`: schedule the operations of a loop, or check a schedule made elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict, TypeVar, Unpack

import click

from titan.cli.exit_code import ExitCode
from titan.cli.output import colour_option, write
from titan.cli.progress import progress
from titan.cli.settings import NumberRange
from titan.cli.streams import INPUT

if TYPE_CHECKING:
    from titan.scheduling.loop.model import Loop
    from titan.scheduling.run import Request, ScheduleRun

# Of titan.scheduling.paper_engines, and sat; a test holds the two lists together.
JOINT_ENGINES = ("sat", "z3", "scip", "cbc", "highs", "cp-sat", "yices", "cvc5", "msat")


class ScheduleOptions(TypedDict):
    """The options of the command that go into the request or name a file."""

    solver: str
    objective: str
    budget: float
    resolution: int
    registers: str
    formulation: str
    figure: int
    engine: str
    search: str
    ii_max: int | None
    stages: int | None
    arms_max: int
    seed: int
    gauss_ii: int | None
    gauss_horizon: float | None
    gauss_capacity: float | None
    gauss_rate: float
    gauss_iterations: int
    gauss_multipliers: str
    save: str | None
    certificate: str | None
    svg: str | None
    html: str | None
    trace: str | None
    code: str | None
    cuda: str | None


Command = TypeVar("Command", bound=Callable[..., object])


def gauss_options(command: Command) -> Command:
    """Adds the options of the differentiable scheduler."""
    given = (
        click.option("--gauss-ii", type=click.IntRange(1), help="Only this interval (gauss)."),
        click.option(
            "--gauss-horizon",
            type=NumberRange(1),
            help="D: cycles that issue cycles are spread over (gauss).",
        ),
        click.option(
            "--gauss-capacity",
            type=NumberRange(0, min_open=True),
            help="One capacity for every unit instead of the machine's (gauss).",
        ),
        click.option(
            "--gauss-rate",
            type=NumberRange(0, min_open=True),
            default=0.01,
            show_default=True,
            help="Learning rate (gauss).",
        ),
        click.option(
            "--gauss-iterations",
            type=click.IntRange(1),
            default=2000,
            show_default=True,
            help="Maximum number of descent iterations for an interval (gauss).",
        ),
        click.option(
            "--gauss-multipliers",
            type=click.Choice(["raised", "card"]),
            default="raised",
            show_default=True,
            help="Multipliers: from 1 in large steps, or from 0 by rho (gauss).",
        ),
    )
    for option in reversed(given):
        command = option(command)
    return command


@click.command()
@click.argument("path", metavar="LOOP", type=INPUT)
@click.option(
    "--solver",
    type=click.Choice(["auto", "rau", "joint", "gauss"]),
    default="auto",
    show_default=True,
    help="Scheduler. auto: Rau, then the joint solver unless a bound proves the result optimal.",
)
@click.option(
    "--objective",
    type=click.Choice(["ii", "length", "registers", "edges"]),
    default="edges",
    show_default=True,
    help="Last tie-break for the joint solver to decide.",
)
@click.option(
    "--budget",
    type=NumberRange(0.01, 1e6),
    default=60.0,
    show_default=True,
    help="Work that a solver may do, in seconds of an idle core of 2023; counted, not timed.",
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
    help="How Rau treats register and memory limits.",
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
@click.option(
    "--formulation",
    type=click.Choice(["encoded", "paper"]),
    default="encoded",
    show_default=True,
    help="How the joint problem is written down: our encoding, or as in Twill's paper.",
)
@click.option(
    "--figures",
    "figure",
    type=click.IntRange(4, 6),
    default=6,
    show_default=True,
    help="With --formulation paper: constraints of figure 4, of 4 and 5 (storage), or of 4 to 6.",
)
@click.option(
    "--engine",
    type=click.Choice(["auto", *JOINT_ENGINES]),
    default="auto",
    show_default=True,
    help="Solver of the joint problem: sat or z3; with --formulation paper any but sat.",
)
@click.option(
    "--search",
    type=click.Choice(["auto", "linear", "gallop"]),
    default="auto",
    show_default=True,
    help="How Rau goes through candidate intervals.",
)
@click.option("--ii-max", type=click.IntRange(1), help="The largest interval that Rau tries.")
@click.option(
    "--stages", type=click.IntRange(1), help=("Maximum number of overlapping iterations (Rau).")
)
@click.option(
    "--arms-max",
    type=click.IntRange(0),
    default=10_000,
    show_default=True,
    help="Loops of more operations are placed by eviction alone (Rau).",
)
@click.option("--seed", type=int, default=0, help="Seed of the differentiable scheduler.")
@gauss_options
@click.option("--check", "checked", type=click.Path(dir_okay=False), help="Check this schedule.")
@click.option("--save", type=click.Path(dir_okay=False), help="Write the schedule (JSON).")
@click.option("--certificate", type=click.Path(dir_okay=False), help="Write it with its evidence.")
@click.option("--svg", type=click.Path(dir_okay=False), help="Write a picture.")
@click.option("--html", type=click.Path(dir_okay=False), help="Write a page.")
@click.option(
    "--code", type=click.Path(dir_okay=False), help="Write pseudocode of the pipelined loop."
)
@click.option("--cuda", type=click.Path(dir_okay=False), help="Write a skeleton in CUDA.")
@click.option("--trace", type=click.Path(dir_okay=False), help="Write a timeline.")
@click.option(
    "--pareto",
    is_flag=True,
    help="Schedule one iteration, not modulo: a table of latency, units and registers.",
)
@click.option("--entry", help="The kernel of a TTGIR file, the first one unless given.")
@click.option("--cache", type=click.Path(dir_okay=False), help="Cache results in this database.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How to show the schedule.",
)
@click.option("--timings", is_flag=True, help="Show processor times.")
@colour_option
def schedule(
    path: str,
    specialise: str,
    tiles: int,
    checked: str | None,
    pareto: bool,
    entry: str | None,
    cache: str | None,
    format_name: str,
    timings: bool,
    colour: str,
    **options: Unpack[ScheduleOptions],
) -> int:
    """Schedule a loop: initiation interval with its proof, stages, warps, prologue and epilogue.

    LOOP is a loop-level file, TTGIR of Triton or Gluon, or the GraphML of a public instance, its
    resource model next to it.
    """
    from titan.scheduling.common import common_group, faster
    from titan.scheduling.gauss import TorchMissing
    from titan.scheduling.joint import Disagreement
    from titan.scheduling.loop.bounds import Unschedulable
    from titan.scheduling.paper import PaperDisagreement
    from titan.scheduling.paper_engines import EngineMissing, Uncounted

    loop = load(path, colour, entry)
    if loop is None:
        return ExitCode.BAD_INPUT
    if specialise == "never":
        loop = common_group(loop)
    if checked is not None:
        return check_file(loop, checked, colour)
    # The differentiable scheduler draws a bar of its own.
    bar = sys.stderr.isatty() and format_name == "text" and options["solver"] == "gauss"
    request = request_of(options, bar)
    if pareto:
        return show_pareto(loop, request, format_name)
    try:
        with progress(not bar) as shown:
            shown.show(f"scheduling {len(loop.operations)} operations of {loop.name}")
            result = search(loop, request, cache)
            if specialise == "auto":
                result = faster(result, search(common_group(loop), request, cache), tiles)
    except Unschedulable as error:
        click.echo(f"{path}: no initiation interval exists: {error}", err=True)
        return ExitCode.REFUTED
    except (TorchMissing, EngineMissing) as error:
        raise click.UsageError(str(error)) from None
    except Uncounted as error:
        click.echo(f"{path}: undecided: {error}", err=True)
        return ExitCode.UNDECIDED
    except (Disagreement, PaperDisagreement) as error:
        click.echo(f"{path}: internal error: {error}", err=True)
        return ExitCode.INTERNAL
    _show(result, format_name, timings)
    _write_files(result, options)
    return ExitCode.VERIFIED if result.schedule is not None else ExitCode.UNDECIDED


def request_of(options: ScheduleOptions, bar: bool) -> Request:
    """The request that the options make. Raises click.UsageError if they contradict each other."""
    from titan.scheduling.gauss import GaussOptions
    from titan.scheduling.run import Request

    paper = options["formulation"] == "paper"
    if paper and options["engine"] == "sat":
        raise click.UsageError("--formulation paper has sums, which --engine sat does not take")
    if not paper and options["engine"] not in ("auto", "sat", "z3"):
        raise click.UsageError(f"--engine {options['engine']} needs --formulation paper")
    if not paper and options["figure"] != 6:
        raise click.UsageError("--figures needs --formulation paper")
    if options["stages"] is not None and options["solver"] != "rau":
        raise click.UsageError("--stages needs --solver rau")
    return Request(
        solver="joint" if paper and options["solver"] == "auto" else options["solver"],
        objective=options["objective"],
        budget_seconds=options["budget"],
        total_max=options["resolution"],
        registers=options["registers"],
        engine=options["engine"],
        seed=options["seed"],
        progress=bar,
        proofs=options["certificate"] is not None,
        formulation=options["formulation"],
        figure=options["figure"],
        search=options["search"],
        ii_max=options["ii_max"],
        arms_max=options["arms_max"],
        stages_bound=options["stages"],
        gauss=GaussOptions(
            target_ii=options["gauss_ii"],
            horizon=options["gauss_horizon"],
            capacity=options["gauss_capacity"],
            learning_rate=options["gauss_rate"],
            iterations=options["gauss_iterations"],
            multipliers=options["gauss_multipliers"],
        ),
    )


def load(path: str, colour: str, entry: str | None = None) -> Loop | None:
    """The loop of a file, or None after showing its diagnostics on standard error."""
    from titan.foundation.diagnostics.render.colour import wanted
    from titan.foundation.diagnostics.render.text import render
    from titan.frontends.open import is_ttgir
    from titan.scheduling.loop.graphml import load_instance
    from titan.scheduling.loop.load import load_loop
    from titan.target.load import TargetRefused

    try:
        if is_ttgir(path):
            from titan.frontends.graph.extract import load_ttgir

            return load_ttgir(path, entry)
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
        wording = {"bound": "was derived again and holds", "proof": "is checked and holds"}
        claimed += wording.get(claim["kind"] or "", "is a statement, not checked here")
    click.echo(f"{path}: holds: initiation interval {found.ii}{claimed}")
    return ExitCode.VERIFIED


def search(loop: Loop, request: Request, cache: str | None) -> ScheduleRun:
    """Schedule the loop, or look its result up in a cache. Raises Unschedulable."""
    from titan.scheduling.cache import Cache
    from titan.scheduling.run import run

    if cache is None:
        return run(loop, request)
    with Cache(cache) as store:
        result = store.run(loop, request)
    if store.damage:
        click.echo(f"warning: {cache} is left as it is and not used: {store.damage}", err=True)
    return result


def show_pareto(loop: Loop, request: Request, format_name: str) -> int:
    """The table of regular schedules, also those of the differentiable scheduler if asked for."""
    from titan.report.schedule_pareto import as_json, render
    from titan.scheduling.gauss import TorchMissing, load_torch
    from titan.scheduling.regular import pareto

    options = request.gauss if request.solver == "gauss" else None
    try:
        if options is not None:
            load_torch()
    except TorchMissing as error:
        raise click.UsageError(str(error)) from None
    points = pareto(loop, options)
    write(as_json(points) if format_name == "json" else render(points))
    return ExitCode.VERIFIED if points else ExitCode.UNDECIDED


def _show(result: ScheduleRun, format_name: str, timings: bool) -> None:
    if format_name == "json":
        from titan.report.schedule_json import render as render_json

        write(render_json([result], timings))
        return
    from titan.report.schedule_text import render

    write(render(result, timings))


def _write_files(result: ScheduleRun, options: ScheduleOptions) -> None:
    from titan.foundation.atomic import write_text
    from titan.report.schedule_html import page, svg
    from titan.report.schedule_program import cuda_skeleton, pseudocode
    from titan.report.schedule_trace import trace
    from titan.scheduling import store

    loop, found = result.loop, result.schedule
    if found is None:
        return
    if options["save"]:
        store.write(options["save"], store.as_data(loop, found))
    if options["certificate"]:
        data = store.as_data(loop, found, result.evidence, result.refutations)
        store.write(options["certificate"], data)
    for path, text in (
        (options["svg"], lambda: svg(loop, found)),
        (options["html"], lambda: page(result)),
        (options["trace"], lambda: trace(loop, found)),
        (options["code"], lambda: pseudocode(loop, found)),
        (options["cuda"], lambda: cuda_skeleton(loop, found)),
    ):
        if path:
            write_text(path, text())
