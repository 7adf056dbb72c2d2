"""`titan fences`: the use of each proxy fence, missing ones, and the cheapest set that suffices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from titan.cli.exit_code import ExitCode
from titan.cli.output import colour_option, show, write
from titan.cli.settings import NumberRange
from titan.cli.streams import INPUT

if TYPE_CHECKING:
    from titan.foundation.diagnostics.model import Diagnostic
    from titan.report.fences import FenceReport
    from titan.verify.model import VerifyOptions

STATES_MAX = 2_000_000  # of a search that verifies a new set of fences


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=INPUT)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How to show what was found.",
)
@colour_option
@click.option("--fix", "fixing", is_flag=True, help="Write the kernel with the fewest fences.")
@click.option(
    "--output",
    metavar="FILE",
    default=None,
    help="With --fix: write to this file and leave the kernel file unchanged.",
)
@click.option(
    "--certificate",
    metavar="PATH",
    default=None,
    help="Write for each fence an interleaving that fails without it, for `titan check`.",
)
@click.option(
    "--budget-seconds",
    type=NumberRange(0.01, 1e6),
    default=600.0,
    show_default=True,
    help="Processor time for an engine to verify a new set of fences; a backstop.",
)
def fences(
    files: tuple[str, ...],
    format_name: str,
    colour: str,
    fixing: bool,
    output: str | None,
    certificate: str | None,
    budget_seconds: float,
) -> int:
    """Show what each proxy fence is for, and where fences are missing or redundant.

    Exit codes: 0 every pair of accesses is justified (with --fix: the new kernel is verified),
    1 fences are missing, 2 bad input, 3 undecided.
    """
    import sys

    from titan.foundation.diagnostics.render.colour import wanted
    from titan.foundation.source.loading import STDIN
    from titan.report import fences as report
    from titan.verify.fences import BadInput
    from titan.verify.model import VerifyOptions

    if output is not None and not fixing:
        raise click.UsageError("--output goes with --fix")
    if STDIN in files and fixing and output is None:
        raise click.UsageError("--fix of standard input needs --output")
    if certificate is not None and (len(files) > 1 or fixing):
        raise click.UsageError("--certificate takes one file as it stands")
    if output is not None and len(files) > 1:
        raise click.UsageError("--output takes the kernel of one file")
    options = VerifyOptions(states_max=STATES_MAX, seconds_max=budget_seconds, save_traces=None)
    done: list[FenceReport] = []
    codes: list[int] = []
    errors: list[Diagnostic] = []
    for path in files:
        try:
            item = _one(path, options, fixing, output)
        except BadInput as error:
            errors += error.diagnostics
            if format_name == "text":
                show(error.diagnostics, format_name, colour)
            codes.append(int(ExitCode.BAD_INPUT))
            continue
        done.append(item)
        codes.append(_code(item, fixing))
        if format_name == "text":
            write(report.text(item, colour=wanted(sys.stdout, colour)))
            sys.stdout.flush()
    if format_name == "json":
        write(report.as_json(done, errors))
    if certificate is not None and not any(codes):
        codes.append(_write_certificates(files[0], certificate, options))
    worst_first = (2, 1, 3, 0)
    return next(code for code in worst_first if code in codes)


def _one(path: str, options: VerifyOptions, fixing: bool, output: str | None) -> FenceReport:
    """Review a file and find its cheapest fences. Raises BadInput."""
    from titan.engines.fences.synthesis import GaveUp, Unsatisfiable
    from titan.foundation.atomic import write_text
    from titan.foundation.source.loading import load_file
    from titan.report.fences import FenceReport
    from titan.verify import fences as flow
    from titan.verify.fence_review import review
    from titan.verify.fence_runs import has_fences

    source, errors = load_file(path)
    if source is None:
        raise flow.BadInput(errors)
    loaded = flow.load(source.text, path, options)
    name = loaded.kernels[0].name
    if not has_fences(loaded.kernels[0].target):
        return FenceReport(path, name, None)
    found = review(loaded)
    if not (found.missing or found.wasted or fixing):
        return FenceReport(path, name, found)
    try:
        # What is missing is added to what stands; only --fix moves the fences that stand.
        fixed = flow.fix(loaded, options, keep=bool(found.missing) and not fixing)
    except (Unsatisfiable, GaveUp) as error:
        return FenceReport(path, name, found, problem=f"no set of fences was found: {error}")
    written = ""
    if fixing and fixed.verified:
        target = output or path
        if output is not None or fixed.synthesis.text != source.text:
            try:
                write_text(target, fixed.synthesis.text, durable=True)
            except OSError as error:
                raise click.FileError(target, (error.strerror or str(error)).lower()) from None
            written = target
    return FenceReport(path, name, found, fixed, written=written, fixing=fixing)


def _write_certificates(path: str, place: str, options: VerifyOptions) -> int:
    """The certificates of the fences of a file's kernels; 3 where one has none.

    One kernel: to the file `place`; several: into the folder of that name.
    """
    from pathlib import Path

    from titan.cli.certificates import programs_of
    from titan.foundation.atomic import write_text
    from titan.proof.fence_write import write_fences
    from titan.sync.open_numbers import NotCoveredError

    programs = programs_of(path, options)
    code = ExitCode.VERIFIED
    for number, program in enumerate(programs, 1):
        name = Path(place)
        if len(programs) > 1:
            name /= f"{program.name}-{number}.cert"
        try:
            text = write_fences(program)
        except NotCoveredError as reason:
            click.echo(f"no certificate of the fences of {program.name}: {reason}", err=True)
            code = ExitCode.UNDECIDED
            continue
        name.parent.mkdir(parents=True, exist_ok=True)
        write_text(name, text)
        click.echo(f"certificate: {name}", err=True)
    return int(code)


def _code(item: FenceReport, fixing: bool) -> int:
    if item.review is None:
        return int(ExitCode.VERIFIED)
    if fixing and item.fixed is not None:
        if item.fixed.verified:
            return int(ExitCode.VERIFIED)
        refuted = any(finding.exit_code == 1 for finding in item.fixed.findings)
        return int(ExitCode.REFUTED if refuted else ExitCode.UNDECIDED)
    if item.review.missing:
        return int(ExitCode.REFUTED)
    return int(ExitCode.UNDECIDED if item.review.reason or item.problem else ExitCode.VERIFIED)
