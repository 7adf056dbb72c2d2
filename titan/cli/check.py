"""`titan check`: certificates, re-derived line by line with the reference interpreter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from titan.cli.exit_code import ExitCode
from titan.cli.output import write
from titan.cli.streams import INPUT

if TYPE_CHECKING:
    from titan.proof.check import Covered
    from titan.proof.fence_check import CoveredFences
    from titan.proof.run_check import CoveredRun
    from titan.sync.program import SyncProgram


@click.command()
@click.argument("paths", metavar="CERTIFICATE...", nargs=-1, required=True, type=INPUT)
@click.option(
    "--kernel",
    metavar="PATH",
    help="A kernel file; the certificate must be of its sync program.",
)
def check(paths: tuple[str, ...], kernel: str | None) -> int:
    """Check certificates of `titan verify` and `titan fences`, and say what they cover.

    No solver and no engine takes part. The exit code is 0 for proved, 2 for a certificate that is
    refused.
    """
    from titan.foundation.diagnostics.wording import one_line
    from titan.proof.check import RefusedError
    from titan.proof.check import check as checked
    from titan.proof.fence_check import FENCE_HEAD, check_fences
    from titan.proof.run_check import RUN_HEAD, RunRefusedError, check_run

    wanted = None if kernel is None else _digests(kernel)
    code = ExitCode.VERIFIED
    for path in paths:
        try:
            text = _text_of(path)
            if text.startswith(f"{RUN_HEAD}\n"):
                run = check_run(text)
                digest, rendered = run.digest, _run_text(path, run)
            elif text.startswith(f"{FENCE_HEAD}\n"):
                fences = check_fences(text)
                digest, rendered = fences.digest, _fences_text(path, fences)
            else:
                covered = checked(text)
                digest, rendered = covered.digest, _text(path, covered)
        except (OSError, ValueError) as error:
            from titan.foundation.source.loading import near_if_missing

            reason = (getattr(error, "strerror", None) or "").lower() or str(error)
            hints = "".join(f"; {hint}" for hint in near_if_missing(path))
            click.echo(f"error: {path} cannot be read: {reason}{hints}", err=True)
            code = ExitCode.BAD_INPUT
            continue
        except (RefusedError, RunRefusedError) as refused:
            click.echo(one_line(f"refused: {path}: {refused}"), err=True)
            code = ExitCode.BAD_INPUT
            continue
        if wanted is not None and digest not in wanted:
            click.echo(f"refused: {path}: certifies another program than {kernel}", err=True)
            code = ExitCode.BAD_INPUT
            continue
        write(rendered)
    return code


def _text_of(path: str) -> str:
    """The text of a certificate, with its line ends. Raises OSError, ValueError."""
    from titan.foundation.source.loading import regular_bytes
    from titan.package.contents import BYTES_MAX

    data = regular_bytes(path, BYTES_MAX)
    if len(data) > BYTES_MAX:
        raise ValueError(f"it is larger than {BYTES_MAX} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        *before, line = data[: error.start].split(b"\n")
        place = f"{len(before) + 1}:{len(line.decode()) + 1}"
        raise ValueError(f"{place}: byte 0x{data[error.start]:02x} is not valid UTF-8") from None


def _digests(kernel: str) -> set[str]:
    from titan.cli.certificates import programs_of
    from titan.sync.text import digest_of, text_of
    from titan.verify.model import VerifyOptions

    programs = programs_of(kernel, VerifyOptions())
    if not programs:
        raise click.UsageError(f"{kernel} has no kernel that can be lowered")
    return {digest_of(text_of(program)) for program in programs}


def _run_text(path: str, covered: CoveredRun) -> str:
    left_out = (
        "the way from the code to this program",
        "other launches and CTAs",
        "what relaxed synchronisation fails to carry (TTN305)",
    )
    return "\n".join(
        [
            f"proved: {path}: a run of {covered.program.name} for {covered.program.target}",
            f"  program   sha256 {covered.digest}",
            "  shows     no fault and no deadlock in any interleaving of the reference interpreter",
            f"  by        {covered.steps} steps, {covered.barrier_operations} at barriers, each in "
            "the same phase in every order",
            f"  policies  {_readings(covered.program)}",
            f"  not here  {'; '.join(left_out)}",
            "",
        ]
    )


def _fences_text(path: str, covered: CoveredFences) -> str:
    return "\n".join(
        [
            f"proved: {path}: the fences of {covered.program.name} for {covered.program.target}",
            f"  program   sha256 {covered.digest}",
            f"  shows     without any one of its {covered.fences} fences an interleaving of the "
            "reference interpreter lacks it",
            f"  by        {covered.steps} steps",
            f"  policies  {_readings(covered.program)}",
            "  not here  that the program needs no more fences: the certificate of its verdict",
            "",
        ]
    )


def _readings(program: SyncProgram) -> str:
    from titan.verify.coverage import OF_TENSOR_MEMORY, policies_text

    found = policies_text(program.policies)
    return ", ".join(
        f"{name} {value}" for name, value in found if OF_TENSOR_MEMORY.get(name) != value
    )


def _text(path: str, covered: Covered) -> str:
    from titan.sync.relays import relays
    from titan.sync.weak import asks_for_tensor_fences

    sizes = [f"{name} = {value}" for name, value in covered.given]
    sizes += [f"{name} any number from {least}" for name, least in covered.open]
    left_out = [
        "the lowering of the kernel to this program",
        "visibility under relaxed synchronisation (TTN305)",
    ]
    if asks_for_tensor_fences(covered.program):
        left_out.append("fences before threads overwrite operands of tcgen05 (TTN305)")
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
            f"  policies  {_readings(covered.program)}",
            f"  not here  {'; '.join(left_out)}",
            "",
        ]
    )
