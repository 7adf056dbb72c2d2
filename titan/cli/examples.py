"""`titan examples`: the files that are shipped, to look at and to copy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from titan.cli.exit_code import ExitCode

KINDS = ("examples", "protocols", "litmus")


@click.command()
@click.argument("kind", type=click.Choice(KINDS), default="examples", metavar="[KIND]")
@click.option(
    "--copy", "folder", type=click.Path(file_okay=False), help="Copy them into a new folder."
)
def examples(kind: str, folder: str | None) -> int:
    """List shipped files: examples, the library of protocols, or litmus tests; or copy them."""
    from titan.foundation.atomic import write_folder
    from titan.foundation.resources import root

    place = root(kind)
    files = sorted(path.relative_to(place) for path in shipped(place))
    if folder is None:
        for path in files:
            click.echo(f"{place / path}{_about(place / path)}")
        return ExitCode.VERIFIED
    target = Path(folder) / kind
    if target.exists():
        raise click.UsageError(f"{target} exists already")
    copied = {path.as_posix(): (place / path).read_bytes() for path in files}
    write_folder(target, copied, may_replace=lambda _: False)
    click.echo(f"{len(files)} files in {target}")
    return ExitCode.VERIFIED


def shipped(folder: Path) -> Iterator[Path]:
    """The files of a folder without the bytecode that installers put next to Python files."""
    for path in folder.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path


def _about(path: Path) -> str:
    """The first line of a kernel file that begins with a comment, or of a script's docstring."""
    if path.suffix not in {".yaml", ".py"}:
        return ""
    with path.open(encoding="utf-8") as stream:
        first = stream.readline().strip()
    if path.suffix == ".py":
        first = "# " + first.strip('"') if first.startswith('"""') else ""
    return f"  {first}" if first.startswith("#") else ""
