"""`titan check`: certificates, re-derived line by line with the reference interpreter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from titan.cli.exit_code import ExitCode
from titan.cli.output import write

if TYPE_CHECKING:
    from titan.proof.check import Covered


@click.command()
@click.argument("paths", metavar="CERTIFICATE...", nargs=-1, required=True)
@click.option(
    "--kernel",
    metavar="PATH",
    help="A kernel file; the certificate must be of its sync program.",
)
def check(paths: tuple[str, ...], kernel: str | None) -> int:
    """Check certificates of `titan verify --certificate`, and say what they cover.

    No solver and no engine takes part. The exit code is 0 for proved, 2 for a certificate that is
    refused.
    """
    from titan.proof.check import RefusedError
    from titan.proof.check import check as checked

    wanted = None if kernel is None else _digests(kernel)
    code = ExitCode.VERIFIED
    for path in paths:
        try:
            with open(path, encoding="utf-8", newline="") as file:
                covered = checked(file.read())
        except (OSError, UnicodeDecodeError) as error:
            click.echo(f"error: {path} cannot be read: {error}", err=True)
            code = ExitCode.BAD_INPUT
            continue
        except RefusedError as refused:
            click.echo(f"refused: {path}: {refused}", err=True)
            code = ExitCode.BAD_INPUT
            continue
        if wanted is not None and covered.digest not in wanted:
            click.echo(f"refused: {path}: certifies another program than {kernel}", err=True)
            code = ExitCode.BAD_INPUT
            continue
        write(_text(path, covered))
    return code


def _digests(kernel: str) -> set[str]:
    from titan.cli.certificates import programs_of
    from titan.proof.codec import digest_of, text_of
    from titan.verify.model import VerifyOptions

    programs = programs_of(kernel, VerifyOptions())
    if not programs:
        raise click.UsageError(f"{kernel} has no kernel that can be lowered")
    return {digest_of(text_of(program)) for program in programs}


def _text(path: str, covered: Covered) -> str:
    from titan.sync.relays import relays

    policies = covered.program.policies
    sizes = [f"{name} = {value}" for name, value in covered.given]
    sizes += [f"{name} any number from {least}" for name, least in covered.open]
    readings = ", ".join(
        f"{name} {getattr(policies, name)}"
        for name in (
            "fence_rule", "war_fence", "barrier_init", "exit_in_flight", "unobserved_phase"
        )
    )  # fmt: skip
    left_out = [
        "the lowering of the kernel to this program",
        "visibility under relaxed synchronisation (TTN305)",
    ]
    if relays(covered.program):
        left_out.append("whether a completed copy publishes more than its own accesses (TTN305)")
    return "\n".join(
        [
            f"proved: {path}: {covered.program.name} for {covered.program.target}",
            f"  program   sha256 {covered.digest}",
            f"  sizes     {', '.join(sizes) or 'none'}",
            "  shows     no fault and no deadlock in any interleaving of the reference interpreter",
            f"  by        {covered.states} configurations; in {covered.alone} one step represents "
            f"all, {covered.splits} depend on a size",
            f"  policies  {readings}",
            f"  not here  {'; '.join(left_out)}",
            "",
        ]
    )
