"""`titan inspect`: what the machine code of kernels does in its loops."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from titan.cli.exit_code import ExitCode
from titan.cli.output import write
from titan.cli.paths import ExistingPath

if TYPE_CHECKING:
    from collections.abc import Iterator

    from titan.foundation.errors import Refusal
    from titan.inspect.counts import KernelCounts
    from titan.validate.compare.toolchain import Figures

_PATH = ExistingPath(exists=True, path_type=Path)


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=_PATH)
@click.option("--ptxas", "assemblers", metavar="FILE", multiple=True,
              type=ExistingPath(exists=True, dir_okay=False, path_type=Path),
              help="Assemble with this ptxas; several are compared.")  # fmt: skip
@click.option("--entry", metavar="TEXT", default="",
              help="Only kernels whose names contain this.")  # fmt: skip
@click.option("--all", "every_loop", is_flag=True, help="Show loops without products, too.")
@click.option("--format", "format_name", type=click.Choice(["text", "json"]), default="text",
              show_default=True, help="How to report what was counted.")  # fmt: skip
def inspect(
    paths: tuple[Path, ...],
    assemblers: tuple[Path, ...],
    entry: str,
    every_loop: bool,
    format_name: str,
) -> int:
    """Count what the loops of compiled kernels do: products, fences, spills, work between waits.

    PATH is a package or a folder of packages, a .ptx, a .cubin, or a listing of nvdisasm or
    llvm-objdump (.sass, .s). Exit code 1 when a loop holds a costly fence or registers are
    spilled, 2 when a file cannot be read or assembled, 3 when the tools are not installed.
    """
    from titan.foundation.errors import Refusal
    from titan.foundation.verdict import worst
    from titan.inspect.report import as_data, as_text
    from titan.validate.compare.toolchain import CannotCompile, Endless

    documents: list[dict[str, object]] = []
    codes: list[ExitCode] = []
    for path in _inputs(paths):
        for compiler, figures, kernels in _read(path, assemblers, entry):
            if isinstance(kernels, Refusal):
                click.echo(f"{path}: {kernels}", err=True)
                refused = isinstance(kernels, CannotCompile) and not isinstance(kernels, Endless)
                codes.append(ExitCode.BAD_INPUT if refused else ExitCode.UNDECIDED)
                continue
            spilled = figures.spill_bytes if figures is not None else 0
            if spilled or any(k.findings for k in kernels):
                codes.append(ExitCode.REFUTED)
            if format_name == "json":
                documents.append(
                    {
                        "path": str(path), "compiler": compiler, "spill_bytes": spilled,
                        "registers": figures.registers if figures is not None else None,
                        "kernels": [as_data(kernel) for kernel in kernels],
                    }
                )  # fmt: skip
                continue
            title = f"{path}{f', {compiler}' if compiler else ''}"
            if figures is not None:
                title += f": {figures.registers} registers, {spilled} bytes spilled"
            write(as_text(title, kernels, every_loop))
    if format_name == "json":
        write(json.dumps(documents, indent=2) + "\n")
    return ExitCode(worst(codes))


def _inputs(paths: tuple[Path, ...]) -> Iterator[Path]:
    """Packages and files, those in folders in the order of their names."""
    from titan.package.contents import is_package

    for path in paths:
        if not path.is_dir() or is_package(path):
            yield path
            continue
        inside = sorted(item for item in path.iterdir() if item.is_dir() and is_package(item))
        if not inside:
            raise click.UsageError(f"no packages in {path}")
        yield from inside


def _read(
    path: Path, assemblers: tuple[Path, ...], entry: str
) -> Iterator[tuple[str, Figures | None, tuple[KernelCounts, ...] | Refusal]]:
    """The counts under each compiler, with its figures; or why there are none."""
    from titan.foundation.diagnostics.wording import one_line
    from titan.foundation.errors import Refusal
    from titan.inspect import machine
    from titan.inspect.counts import count
    from titan.inspect.listing import BadListing

    tools = assemblers or (None,)
    for tool in tools:
        try:
            compiler, figures, functions = machine.read(path, tool)
        except Refusal as reason:
            yield "", None, reason
            continue
        except BadListing as fault:
            raise click.ClickException(f"{one_line(str(path))}: {fault}") from None
        chosen = [function for function in functions if entry in function.name]
        if not chosen:
            raise click.UsageError(f"no kernel of {path} has {entry!r} in its name")
        yield compiler, figures, tuple(count(function) for function in chosen)
        if not machine.assembles(path):
            return
