"""`titan run`: a program on the emulated device instead of a GPU, every launch checked."""

from __future__ import annotations

import click

from titan.cli.exit_code import ExitCode
from titan.cli.paths import GIVEN

# What `titan.emulated.settings` has, so that `--help` imports nothing.
_CHECKS = ("all", "first", "off")
_DEVICES = ("h100", "b200", "mi300x", "mi355x")


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("program", metavar="PROGRAM", type=GIVEN)
@click.argument("arguments", metavar="[ARGUMENT]...", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--check", type=click.Choice(_CHECKS), default="all", show_default=True,
    help="Which launches are decided in all interleavings: all, the first of each kernel, none.",
)  # fmt: skip
@click.option(
    "--device", type=click.Choice(_DEVICES), default="h100", show_default=True,
    help="The device that the program sees; AMD's (mi300x, mi355x) run Triton's kernels.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True,
    help="Chooses the interleaving that is computed.",
)  # fmt: skip
@click.option(
    "--schedules", type=click.IntRange(1, 1000), default=1, show_default=True, metavar="N",
    help="Compute each launch under N seeds; those whose results differ are counted.",
)  # fmt: skip
@click.option(
    "--policy", "policies", metavar="NAME=VALUE", multiple=True,
    help="Another reading of the hardware contract, such as fence_rule=writer.",
)  # fmt: skip
def run(
    program: str,
    arguments: tuple[str, ...],
    check: str,
    device: str,
    seed: int,
    schedules: int,
    policies: tuple[str, ...],
) -> int:
    """Run PROGRAM, a Python script (.py) or a CUDA program, without a GPU.

    Scripts may use Triton, Gluon, CuTe DSL and PyTorch on "cuda".

    Exit code 1 means that a launch is wrong or that the program failed (its exit code is printed),
    2 that it cannot be run here, 3 that a launch is undecided.
    """
    from titan.emulated.programs import run_program
    from titan.emulated.settings import CheckMode, EmulationSettings, policies_of

    settings = EmulationSettings(
        CheckMode(check), device, seed, schedules, policies=policies_of(policies)
    )
    return ExitCode(run_program(program, arguments, settings))
