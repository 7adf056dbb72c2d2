"""`titan table`: the packages of a folder as a table for C++ programs."""

from __future__ import annotations

from pathlib import Path

import click

from titan.cli.exit_code import ExitCode
from titan.cli.paths import ExistingPath


@click.command()
@click.argument(
    "folder", metavar="FOLDER", type=ExistingPath(exists=True, file_okay=False, path_type=Path)
)
def table(folder: Path) -> int:
    """Write packages_cuda.h and packages_hip.h: the packages below FOLDER as a C++ table.

    A program includes the header and picks a package by shape. Each package has a launch.h, which
    needs the headers of the CUDA driver or of HIP, and no others.
    """
    from titan.runtime.arrays import CallError
    from titan.runtime.table import write_tables

    try:
        for path in write_tables(folder):
            click.echo(path)
    except (CallError, OSError) as error:
        raise click.UsageError(str(error)) from None
    return ExitCode.VERIFIED
