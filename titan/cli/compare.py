"""`titan compare A B`: two loops or two solvers side by side."""

from __future__ import annotations

import click

from titan.cli.exit_code import ExitCode
from titan.cli.output import colour_option, write
from titan.cli.paths import GIVEN
from titan.cli.schedule import load
from titan.cli.settings import NumberRange

SOLVERS = ("rau", "joint", "auto", "gauss")


@click.command()
@click.argument("first", metavar="A", type=GIVEN)
@click.argument("second", metavar="B", type=GIVEN)
@click.option(
    "--loop", "path", type=click.Path(dir_okay=False), help="The loop, to compare solvers."
)
@click.option(
    "--budget", type=NumberRange(0.01, 1e6), default=60.0, show_default=True,
    help="Work that a solver may do, in seconds of an idle core of 2023; counted, not timed.",
)  # fmt: skip
@click.option("--timings", is_flag=True, help="Show processor times.")
@colour_option
def compare(
    first: str, second: str, path: str | None, budget: float, timings: bool, colour: str
) -> int:
    """Compare two loop files under one solver, or with --loop two solvers on one loop.

    A and B are loop files, or with --loop names of solvers (rau, joint, auto, gauss).
    """
    from titan.report.schedule_text import comparison
    from titan.scheduling.loop.bounds import Unschedulable
    from titan.scheduling.run import Request, run

    if path is not None:
        for name in (first, second):
            if name not in SOLVERS:
                raise click.UsageError(f"no solver `{name}`; known are {', '.join(SOLVERS)}")
        loops = [load(path, colour)] * 2
        requests = [Request(name, budget_seconds=budget) for name in (first, second)]
        titles = [first, second]
    else:
        loops = [load(first, colour), load(second, colour)]
        requests = [Request(budget_seconds=budget)] * 2
        titles = [first, second]
    if loops[0] is None or loops[1] is None:
        return ExitCode.BAD_INPUT
    try:
        results = [run(loop, r) for loop, r in zip(loops, requests, strict=True) if loop]
    except Unschedulable as error:
        click.echo(f"no initiation interval exists: {error}", err=True)
        return ExitCode.REFUTED
    write(comparison(titles, results, timings))
    found = all(result.schedule is not None for result in results)
    return ExitCode.VERIFIED if found else ExitCode.UNDECIDED
