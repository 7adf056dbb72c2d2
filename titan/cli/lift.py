"""`titan lift`: the kernel file behind compiled code, with its loops folded."""

from __future__ import annotations

from pathlib import Path

import click

from titan.cli.exit_code import ExitCode
from titan.cli.output import colour_option, deliver, show
from titan.cli.streams import INPUT


@click.command()
@click.argument("path", metavar="FILE", type=INPUT)
@click.option(
    "-o", "--output", metavar="FILE", help="Write the kernel to this file instead of stdout."
)
@click.option(
    "--launch",
    metavar="FILE",
    help="Launch of the code (YAML or JSON); by default the file of the same name next to it.",
)
@click.option("--entry", metavar="NAME", help="The kernel to lift from a file with several.")
@click.option(
    "--policy",
    "policies",
    metavar="NAME=VALUE",
    multiple=True,
    help="Set a policy, a reading of the hardware contract, such as fence_rule=path.",
)
@click.option(
    "--cta",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="The CTA whose cluster is lifted.",
)
@colour_option
def lift(
    path: str,
    output: str | None,
    launch: str | None,
    entry: str | None,
    policies: tuple[str, ...],
    cta: int,
    colour: str,
) -> int:
    """Lift compiled code (PTX, AMD assembly) to a kernel file that represents any number of trips.

    The loops are folded from launches with several trip counts, and the file is compared with
    others, operation by operation. Exit codes: 0 lifted, 2 bad input, 3 not lifted; the reason is
    printed. Whether what the file says is right, `titan verify` decides.
    """
    from titan.cli.verify import code_policies
    from titan.foundation.diagnostics.wording import one_line
    from titan.foundation.source.loading import STDIN
    from titan.frontends.gcn.any_code import lift_any_code
    from titan.frontends.open import is_code, is_ttgir
    from titan.frontends.verify_code import CodeOptions

    if (path == STDIN or Path(path).is_file()) and not is_code(path):
        if is_ttgir(path):
            raise click.UsageError(
                f"{one_line(path)} is TTGIR, whose loops are not folded; `titan verify` takes it, "
                "for any number of trips"
            )
        raise click.UsageError(f"{one_line(path)} is neither PTX nor AMD assembly")
    options = CodeOptions(launch, entry, ctas=(cta,), policies=code_policies(policies))
    result = lift_any_code(path, options)
    if result.diagnostics:
        show(result.diagnostics, "text", colour)
    for note in result.notes:
        click.echo(f"note: {note}", err=True)
    if result.lifted is None:
        return result.verdict.exit_code
    deliver(result.lifted.text, output)
    return ExitCode.VERIFIED
