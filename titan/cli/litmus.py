"""`titan litmus`: what the memory model of PTX or AMDGPU allows; tests as kernels."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from titan.cli.exit_code import ExitCode
from titan.cli.litmus_check import check
from titan.cli.litmus_files import FOUND, PATHS, entries_of, located, shown_path
from titan.cli.litmus_run import run
from titan.cli.progress import progress, show_part


@click.group()
def litmus() -> None:
    """Decide litmus tests under the memory models of PTX (with proxies) and AMDGPU."""


@litmus.command(name="list")
@PATHS
def list_(paths: tuple[Path, ...]) -> None:
    """List the tests with their recorded verdicts, by default all of litmus/; `?` without one.

    A file that is no litmus test is an error, and then nothing is listed.
    """
    from titan.litmus.language.condition import LitmusError
    from titan.litmus.language.suite import read_test

    entries = entries_of(paths)
    try:
        for entry in entries:
            read_test(entry.path)
    except LitmusError as error:
        raise click.ClickException(located(str(error), error.span)) from None
    for entry in entries:
        verdict = entry.expected.verdict if entry.expected is not None else "?"
        others = entry.expected.exceptions if entry.expected is not None else ()
        notes = [
            ",".join(f"{key}={value}" for key, value in reading.items()) + f":{other}"
            for reading, other in others
        ]
        click.echo(" ".join([f"{verdict:<9}", shown_path(entry.path), *notes]))


@litmus.command()
@click.argument("paths", metavar="FILE|DIR...", nargs=-1, required=True, type=FOUND)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the sources and .json files; created if missing.",
)
@click.option(
    "--language",
    type=click.Choice(["cuda", "hip", "c11"]),
    help="CUDA or HIP, by default as the test asks; or C11 with atomics and threads for a CPU.",
)
def render(paths: tuple[Path, ...], output: Path, language: str | None) -> int:
    """Write tests as kernels with a manifest each; nothing is launched.

    Tests below a folder that have no rendering are named on stderr with the reason; a test that is
    named itself and has none is an error, and then nothing is written. Exit code 2 if so.
    """
    from titan.litmus.language.condition import LitmusError
    from titan.litmus.render.files import render_all, write_all

    named = {path for path in paths if not path.is_dir()}
    try:
        tests = [entry.path for entry in entries_of(paths)]
        with progress():
            report = partial(show_part, "rendering litmus tests")
            rendered, refused = render_all(tests, language, report)
    except LitmusError as error:
        raise click.ClickException(located(str(error), error.span)) from None
    for path, refusal in refused:
        if path in named:
            raise click.ClickException(located(str(refusal), refusal.span))
        click.echo(f"{shown_path(path)}: not rendered: {refusal.message}", err=True)
    if not rendered:
        raise click.ClickException("none of the tests has a rendering")
    try:
        write_all(output, rendered)
    except OSError as error:
        raise click.ClickException(f"cannot write to {output}: {error.strerror}") from None
    click.echo(f"{len(rendered) // 2} rendered, {len(refused)} not")
    return ExitCode.VERIFIED


litmus.add_command(run)
litmus.add_command(check)
