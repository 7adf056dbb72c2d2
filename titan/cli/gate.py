"""`titan gate`: may these packages, schedules and kernels pass?"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from titan.cli.exit_code import ExitCode
from titan.cli.output import CI_FORMATS, deliver, for_ci, report_options, write
from titan.cli.paths import GIVEN
from titan.cli.progress import progress
from titan.cli.settings import NumberRange
from titan.foundation.cores import cores

if TYPE_CHECKING:
    from collections.abc import Iterator

    from titan.package.gate import Judged

CACHE = ".titan/gate.sqlite"


@click.command()
@click.argument("paths", metavar="DIR|FILE...", nargs=-1, required=True, type=GIVEN)
@report_options
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1, 256),
    help="Processes that check in parallel; by default one per core, or TITAN_JOBS.",
)
@click.option(
    "--budget-seconds",
    type=NumberRange(0.01, 1e6),
    default=600.0,
    show_default=True,
    help="Processor time for the verification of one protocol; a backstop.",
)
@click.option(
    "--allow-bounded",
    is_flag=True,
    help="Accept verdicts for some numbers where any number is requested.",
)
@click.option(
    "--fresh",
    is_flag=True,
    help="Recompute every verdict; neither read nor store verdicts of other runs.",
)
@click.option(
    "--cache",
    type=click.Path(dir_okay=False),
    default=CACHE,
    show_default=True,
    help="Where verdicts are stored for later runs of the same version.",
)
@click.option(
    "--loop",
    type=click.Path(dir_okay=False, exists=True),
    help="The loop that schedule files are for.",
)
def gate(
    paths: tuple[str, ...],
    format_name: str,
    output: str | None,
    as_json: bool,
    jobs: int | None,
    budget_seconds: float,
    allow_bounded: bool,
    fresh: bool,
    cache: str,
    loop: str | None,
) -> int:
    """Check packages, schedules and kernels without searching; one line each.

    DIR is a package, or a folder with packages, certificates of verdicts (`.cert`) and kernel files
    below it. FILE is a schedule (its loop next to it), a kernel file, or a certificate. Each line
    names the scope of the verdict and policies other than the defaults; a failure has a kind and is
    explained. Exit code 1 when any fails; what is not inspected (links, hidden folders) fails, and
    a named file that is none of these is bad usage.
    """
    from titan.package.gate import GateRules, NothingThere, find
    from titan.package.gate import gate as run

    try:
        items = find(paths, loop)
    except NothingThere as error:
        raise click.UsageError(str(error)) from None
    rules = GateRules(budget_seconds, allow_bounded, loop)
    with progress() as shown:
        shown.show("checking", 0, len(items))
        found = run(
            items,
            jobs or cores(),
            rules,
            None if fresh else cache,
            lambda done, of: shown.show("checked", done, of),
        )
        judged = _delivered(found, "json" if as_json else format_name, output)
    failed = not all(item.ok for item in judged)
    return ExitCode.REFUTED if failed else ExitCode.VERIFIED


def _delivered(found: Iterator[Judged], format_name: str, output: str | None) -> list[Judged]:
    """All judgements; text for people is written as they arrive, other formats at the end."""
    from titan.package.reported import check_of, details, document, line, meanings, summary

    judged: list[Judged] = []
    text = ""
    for item in found:
        judged.append(item)
        if format_name in ("text", "concise"):
            entry = line(item) + "\n" + (details(item) if format_name == "text" else "")
            if output is None:
                write(entry)
                sys.stdout.flush()
            else:
                text += entry
    if format_name in CI_FORMATS:
        text = for_ci(map(check_of, judged), format_name)
    elif format_name == "json":
        text = document(judged)
    else:
        text += summary(judged) if len(judged) > 1 else meanings(judged)
    deliver(text, output)
    return judged
