"""`titan export`: the sync program of a kernel in the language of another checker."""

from __future__ import annotations

import click

from titan.cli.exit_code import ExitCode
from titan.cli.settings import overrides, settings_options
from titan.cli.streams import INPUT


@click.command()
@click.argument("path", metavar="FILE", type=INPUT)
@click.option(
    "--to",
    "target",
    type=click.Choice(["promela"]),
    default="promela",
    show_default=True,
    help="The language to translate to.",
)
@settings_options("Give a size another value.", "VALUE")
@click.option("-o", "--output", metavar="FILE", help="Write to a file instead of stdout.")
def export(
    path: str,
    target: str,
    depth: str | None,
    tiles: str | None,
    settings: tuple[str, ...],
    output: str | None,
) -> int:
    """Translate a kernel for another checker; every parameter needs a value."""
    from titan.cli.output import show, write
    from titan.engines.spin.names import ExportError
    from titan.engines.spin.promela import to_promela
    from titan.verify.lowering import NotLowered, sync_program
    from titan.verify.model import VerifyOptions
    from titan.verify.pipeline import read_family

    del target
    family, errors, _ = read_family(path, VerifyOptions(overrides(settings, depth, tiles)))
    if family is None:
        show(errors)
        return ExitCode.BAD_INPUT
    if len(family.kernels) > 1:
        raise click.UsageError("the file describes several kernels; choose one with --set")
    try:
        program = sync_program(family.kernels[0]).program
        free = [item.name for item in program.parameters if item.value is None]
        if free:
            raise click.UsageError(f"{free[0]} needs a value: --set {free[0]}=4")
        text = to_promela(program, {})
    except NotLowered as refusal:
        show(refusal.diagnostics)
        return ExitCode.BAD_INPUT
    except ExportError as error:
        raise click.UsageError(str(error)) from None
    if output is None:
        write(text)
    else:
        _save(output, text)
    return ExitCode.VERIFIED


def _save(path: str, text: str) -> None:
    from titan.foundation.atomic import write_text

    try:
        write_text(path, text)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise click.UsageError(f"{path} cannot be written: {reason}") from None
