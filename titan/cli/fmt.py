"""`titan fmt`: kernel files, loops and tile programs as YAML that every reader takes.

It rewrites the forms that only TITAN reads: options move beside their verb, lists of references
become one scalar, and other text with brackets is quoted. Comments and everything else stay as they
are.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from titan.cli.exit_code import ExitCode
from titan.cli.output import deliver, show, write
from titan.cli.streams import INPUT

if TYPE_CHECKING:
    from titan.foundation.diagnostics.model import Diagnostic


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=INPUT)
@click.option("--check", is_flag=True, help="Write nothing; exit 1 where a file would change.")
@click.option("--diff", is_flag=True, help="Write nothing; show what would change, and exit 1.")
def fmt(paths: tuple[str, ...], check: bool, diff: bool) -> int:
    """Rewrite kernel files, loops and tile programs, or those in folders, as standard YAML.

    `-` reads stdin and writes stdout.

    Exit codes: 0 done, or nothing to do; 1 with --check or --diff, a file would change; 2 a file
    cannot be read, or is none of these.
    """
    from titan.foundation.source.loading import STDIN

    files = _files(paths)
    changed, faults = 0, 0
    for path in files:
        rewritten = _rewritten(path)
        if rewritten.errors:
            show(rewritten.errors)
            faults += 1
        elif path == STDIN and not (check or diff):
            write(rewritten.new)
        elif rewritten.new != rewritten.old:
            changed += 1
            _changed(rewritten, check, diff)
    if faults:
        return ExitCode.BAD_INPUT
    if not changed:
        same = "it is" if len(files) == 1 else "they are"
        click.echo(f"{_counted(len(files))} left as {same}", err=True)
    return ExitCode.REFUTED if changed and (check or diff) else ExitCode.VERIFIED


@dataclass(frozen=True, slots=True)
class _Rewritten:
    """A file before and after formatting, or what is wrong with it."""

    path: str
    old: str
    new: str
    errors: tuple[Diagnostic, ...] = ()


def _files(paths: tuple[str, ...]) -> list[str]:
    from titan.foundation.diagnostics.wording import quoted
    from titan.verify.files import find_kernels

    found = find_kernels(paths)
    if found.empty:
        raise click.UsageError(f"no kernel files in {quoted(found.empty[0])}")
    return [*found.kernels, *found.loops, *found.tiles]


def _rewritten(path: str) -> _Rewritten:
    from titan.foundation.diagnostics.model import diagnostic
    from titan.foundation.source.loading import load_file
    from titan.foundation.source.span import whole_file
    from titan.language.kernel.standard import standard_form
    from titan.verify.files import kind_of

    source, errors = load_file(path)
    if source is None:
        return _Rewritten(path, "", "", tuple(errors))
    new, errors = standard_form(source.text, source.path)
    if not errors and not kind_of(path):
        headline = "this is no kernel file, loop or tile program: it lacks the key `titan`"
        errors = [diagnostic("TTN007", headline, whole_file(path))]
    if not errors and new != source.text:
        _check_meaning(source.text, new, source.path)
    return _Rewritten(path, source.text, new, tuple(errors))


def _check_meaning(old: str, new: str, path: str) -> None:
    """The two texts are the same kernel, or equally faulty. Raises InternalError."""
    from titan.foundation.errors import InternalError
    from titan.language.kernel.decode import decode_text

    before, faults_before = decode_text(old, path)
    after, faults_after = decode_text(new, path)
    if before != after or len(faults_before) != len(faults_after):
        raise InternalError(f"the rewritten {path} does not say the same")


def _changed(rewritten: _Rewritten, check: bool, diff: bool) -> None:
    path = rewritten.path
    if diff:
        import difflib

        lines = difflib.unified_diff(
            rewritten.old.splitlines(keepends=True),
            rewritten.new.splitlines(keepends=True),
            path,
            f"{path} (rewritten)",
        )
        write("".join(line if line.endswith("\n") else line + "\n" for line in lines))
    elif check:
        click.echo(f"{path}: would be rewritten")
    else:
        place = os.path.realpath(path)
        mode = os.stat(place).st_mode
        deliver(rewritten.new, place)
        os.chmod(place, mode)
        click.echo(f"{path}: rewritten")
    sys.stdout.flush()


def _counted(number: int) -> str:
    from titan.foundation.diagnostics.wording import counted

    return counted(number, "file")
