"""`titan new`: a commented kernel file to start from."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import click

from titan.cli.exit_code import ExitCode
from titan.cli.output import write


def _names(_: click.Context, option: click.Parameter, given: str) -> tuple[str, ...]:
    """Names separated by commas. Raises click.BadParameter."""
    names = tuple(name.strip() for name in given.split(",")) if given else ()
    for name in names:
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,40}", name) is None:
            raise click.BadParameter(f"{name!r} is not a valid name", param=option)
    return names


@click.command()
@click.argument("name", default="pipeline")
@click.option("--target", default="sm_90a", show_default=True, help="The hardware.")
@click.option(
    "--depth", type=click.IntRange(1, 64), default=4, show_default=True, help="Stages of rings."
)
@click.option(
    "--roles",
    callback=_names,
    default="producer,consumer",
    show_default=True,
    help="Roles, in the order in which data passes through them.",
)
@click.option(
    "--rings",
    callback=_names,
    default="",
    help="Rings from each role to the next; named after the roles by default.",
)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="The file; else stdout.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def new(
    name: str,
    target: str,
    depth: int,
    roles: tuple[str, ...],
    rings: tuple[str, ...],
    output: str | None,
    force: bool,
) -> int:
    """Write a commented kernel file that verifies as written, to be changed from there.

    NAME is the name of the kernel, or of the file to write where it ends with .yaml.
    """
    from titan.cli.output import deliver
    from titan.foundation.diagnostics.wording import listed, quoted, suggestion
    from titan.language.kernel.table import RESERVED
    from titan.language.kernel.template import (
        CHAINED,
        ROLES_MAX,
        TARGETS,
        Wishes,
        kernel_text,
    )

    if target not in TARGETS:
        hints = "".join(f"; {text}" for text in suggestion(target, TARGETS))
        raise click.UsageError(f"there is no template for the target {quoted(target)}{hints}")
    if target not in CHAINED and (rings or roles != ("producer", "consumer")):
        raise click.UsageError(f"kernels for {target} have no roles and rings here")
    if not 2 <= len(roles) <= ROLES_MAX:
        raise click.UsageError(f"there are 2 to {ROLES_MAX} roles, not {len(roles)}")
    if not rings:
        behind = [f"{first}_to_{second}" for first, second in pairwise(roles)]
        rings = ("operands",) if len(roles) == 2 else tuple(behind)
    if len(rings) != len(roles) - 1:
        raise click.UsageError(f"{len(roles)} roles have {len(roles) - 1} rings between them")
    names = [*roles, *rings, *(f"{ring}_data" for ring in rings), "tiles", "depth", "t"]
    taken = [item for item in names if names.count(item) > 1 or item in RESERVED]
    if taken:
        raise click.UsageError(
            f"{listed(sorted(set(taken)))} cannot be used as a name, or occurs twice"
        )
    (kernel,) = _names(click.get_current_context(), new.params[0], Path(name).stem)
    text = kernel_text(Wishes(kernel, target, depth, roles, rings))
    if output is None and Path(name).suffix in {".yaml", ".yml"}:
        output = name
    if output is None:
        write(text)
        return ExitCode.VERIFIED
    if Path(output).exists() and not force:
        raise click.UsageError(f"{output} exists already; --force overwrites it")
    deliver(text, output)
    click.echo(f"{output}: written; `titan verify {output}` decides it")
    return ExitCode.VERIFIED
