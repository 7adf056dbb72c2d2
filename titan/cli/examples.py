"""`titan examples`: the files that are shipped, to look at and to copy."""

from __future__ import annotations

import shutil
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
    from titan.foundation.resources import root

    place = root(kind)
    files = sorted(path.relative_to(place) for path in place.rglob("*") if path.is_file())
    if folder is None:
        for path in files:
            click.echo(f"{place / path}{_about(place / path)}")
        return ExitCode.VERIFIED
    target = Path(folder) / kind
    if target.exists():
        raise click.UsageError(f"{target} exists already")
    for path in files:
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(place / path, target / path)
    click.echo(f"{len(files)} files in {target}")
    return ExitCode.VERIFIED


def _about(path: Path) -> str:
    """The first line of a file where it is a comment."""
    if path.suffix != ".yaml":
        return ""
    with path.open(encoding="utf-8") as stream:
        first = stream.readline().strip()
    return f"  {first}" if first.startswith("#") else ""
