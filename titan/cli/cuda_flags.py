"""`titan cuda-flags`: the flags with which nvcc builds a program that `titan run` can run."""

from __future__ import annotations

import shlex

import click

from titan.cli.exit_code import ExitCode


@click.command()
@click.option(
    "--device", type=click.Choice(("h100", "b200")), default="h100", show_default=True,
    help="The device that the program is compiled for.",
)  # fmt: skip
def cuda_flags(device: str) -> int:
    """Print the flags for nvcc: `nvcc program.cu $(titan cuda-flags) -o program`.

    They keep the PTX of the kernels and link the library of the emulated device, which is compiled
    when it is first needed (a C compiler is needed).
    """
    from titan.emulated.cuda.library import build_flags
    from titan.emulated.settings import DEVICES

    click.echo(shlex.join(build_flags(DEVICES[device].architecture)))
    return ExitCode.VERIFIED
