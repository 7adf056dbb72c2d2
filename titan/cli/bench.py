"""`titan bench`: how fast packages are, next to the vendor's library."""

from __future__ import annotations

import json
from pathlib import Path

import click

from titan.cli.exit_code import ExitCode


@click.command()
@click.argument(
    "paths", metavar="DIR...", nargs=-1, required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)  # fmt: skip
@click.option(
    "--size", "texts", metavar="M=8192,N=8192,K=8192", multiple=True,
    help="Sizes of a launch; by default those of the kernel's family.",
)  # fmt: skip
@click.option("--launches", type=click.IntRange(1, 10_000), default=20, show_default=True,
              help="Launches that a median is taken over.")  # fmt: skip
@click.option("--result", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Write the result as JSON.")  # fmt: skip
@click.option("--page", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Write the result as an HTML page.")  # fmt: skip
def bench(
    paths: tuple[Path, ...],
    texts: tuple[str, ...],
    launches: int,
    result: Path | None,
    page: Path | None,
) -> int:
    """Time packages on a GPU; each is checked for small sizes first.

    Exit code 1 means that a package computes something wrong or fails, 2 that there is no device.
    """
    from titan.device import bench as module
    from titan.device import litmus
    from titan.device.__main__ import write_whole
    from titan.device.page import page as page_of

    sizes = [_size(text) for text in texts]
    folders = [p.parent for path in paths for p in sorted(path.rglob("manifest.json"))]
    if not folders:
        raise click.UsageError("no packages there")
    try:
        facts = litmus.machine("gpu")
    except RuntimeError as error:
        click.echo(f"no device: {error}", err=True)
        return ExitCode.BAD_INPUT
    rows = list(
        module.bench(folders, facts, sizes, launches, lambda row: click.echo(module.line(row)))
    )
    data = module.document(facts, rows)
    if result is not None:
        write_whole(result, json.dumps(data, indent=1) + "\n")
    if page is not None:
        write_whole(page, page_of(data))
    bad = any(row.state in ("wrong", "failed") for row in rows)
    return ExitCode.REFUTED if bad else ExitCode.VERIFIED


def _size(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or not name.strip().isidentifier() or not value.strip().isdecimal():
            raise click.UsageError(f"not sizes of the form M=1,N=2: {text}")
        found[name.strip()] = int(value)
    return found
