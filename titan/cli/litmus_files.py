"""Litmus files given to commands, and how faults in them are reported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from titan.cli.paths import ExistingPath

if TYPE_CHECKING:
    from titan.foundation.source.span import Span
    from titan.litmus.language.suite import SuiteEntry

MESSAGE_MAX = 400
FOUND = ExistingPath(exists=True, path_type=Path)
PATHS = click.argument("paths", metavar="[FILE|DIR]...", nargs=-1, type=FOUND)


def entries_of(paths: tuple[Path, ...]) -> list[SuiteEntry]:
    """The tests below the paths, by default all of litmus/. Raises click exceptions."""
    from titan.foundation.resources import root
    from titan.litmus.language.condition import LitmusError
    from titan.litmus.language.suite import find_tests

    try:
        entries = list(find_tests(paths or (root("litmus"),)))
    except LitmusError as error:
        raise click.ClickException(located(str(error), error.span)) from None
    if not entries:
        raise click.UsageError("no litmus tests there")
    return entries


def located(text: str, span: Span | None) -> str:
    """The message with the line of the file, the faulty part underlined."""
    from titan.foundation.diagnostics.wording import clean, one_line

    excerpt = clean(span.excerpt()) if span is not None else ""
    text = one_line(text)
    text = text if len(text) <= MESSAGE_MAX else text[:MESSAGE_MAX] + " ..."
    if span is None or not excerpt:
        return text
    if len(excerpt) > MESSAGE_MAX:  # a mark below it would not stand where it belongs
        return text
    width = max(1, span.end_column - span.start_column) if span.end_line == span.start_line else 1
    mark = " " * (span.start_column - 1) + "^" * width
    return f"{text}\n  {excerpt}\n  {mark}"


def shown_path(path: Path) -> str:
    """The path, relative to the working folder if it is inside of it, on one line."""
    from titan.foundation.diagnostics.wording import one_line

    try:
        return one_line(path.resolve().relative_to(Path.cwd()).as_posix())
    except ValueError:
        return one_line(path.as_posix())
