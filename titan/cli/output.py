"""How commands show diagnostics: their shared options, and where the output goes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

import click

from titan.cli.progress import current

if TYPE_CHECKING:
    from titan.foundation.diagnostics.model import Diagnostic
    from titan.report.checks import Check

Command = TypeVar("Command", bound=Callable[..., object])

FORMATS = ("text", "concise", "json")  # of every command that reports
CI_FORMATS = ("sarif", "junit", "github", "gitlab")  # titan/report/checks.py has their writers
PAGES = ("html", "perfetto")  # of verdicts alone


def format_option(command: Command) -> Command:
    """Adds `--format`, given to the command as `format_name`."""
    return click.option(
        "--format",
        "format_name",
        type=click.Choice(FORMATS),
        default="text",
        show_default=True,
        help="How to report what was found.",
    )(command)


def report_options(command: Command, more: tuple[str, ...] = ()) -> Command:
    """Adds `--format` with the formats of CI systems and `more`, and `--output` as `output`."""
    format_name = click.option(
        "--format",
        "format_name",
        type=click.Choice((*FORMATS, *CI_FORMATS, *more)),
        default="text",
        show_default=True,
        help=f"How to report what was found; {', '.join(CI_FORMATS)} are for CI systems.",
    )
    output = click.option(
        "--output",
        type=click.Path(dir_okay=False),
        help="Write the report to this file instead of stdout, whole or not at all.",
    )
    return format_name(output(command))


def page_options(command: Command) -> Command:
    """`report_options` with pages and traces of verdicts, and `--html`, given as `html`."""
    html = click.option(
        "--html",
        type=click.Path(dir_okay=False),
        help="Also write a page with the counterexample, or with what is covered, to this file.",
    )
    return report_options(html(command), PAGES)


def colour_option(command: Command) -> Command:
    """Adds `--color`, given to the command as `colour`."""
    return click.option(
        "--color",
        "colour",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        help="When to colour text; auto honours NO_COLOR and FORCE_COLOR.",
    )(command)


def show(
    diagnostics: Iterable[Diagnostic], format_name: str = "text", colour: str = "auto"
) -> None:
    """Write diagnostics to stdout; characters that its encoding lacks are escaped."""
    from titan.foundation.diagnostics.render import render
    from titan.foundation.diagnostics.render.colour import wanted

    text = render(format_name, diagnostics, colour=wanted(sys.stdout, colour))
    write(text)


def for_ci(checks: Iterable[Check], format_name: str) -> str:
    """The checks in a format of `CI_FORMATS`."""
    from titan.report.checks import render

    return render(checks, format_name)


def deliver(text: str, output: str | None, option: str = "--output") -> None:
    """Write text to a file, whole or not at all, or to stdout. Raises click.BadParameter."""
    if output is None:
        write(text)
        return
    from titan.foundation.atomic import write_bytes

    try:
        write_bytes(output, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise click.BadParameter(f"{output}: {reason}", param_hint=option) from None


def write(text: str) -> None:
    """Write text to stdout as it is, characters that its encoding lacks escaped."""
    current().wipe()
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
