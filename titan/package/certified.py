"""Judges a certificate (`titan verify --certificate`, `titan fences`) without engine or solver.

Every line is derived again by the checker. Where a kernel file of the same name is next to it, the
certificate must be of a sync program of that file. What it does not refer to (typestate, legality,
relaxed synchronisation) is left to the kernel file itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from titan.foundation.diagnostics.wording import counted
from titan.foundation.errors import UserError
from titan.foundation.source.loading import regular_bytes
from titan.package import contents

if TYPE_CHECKING:
    from titan.proof.check import Covered
    from titan.sync.program import SyncProgram

SUFFIX = ".cert"
KERNELS = (".yaml", ".yml")


class NotProved(UserError):
    """The certificate proves nothing, or nothing of the kernel next to it; the text says why."""


@dataclass(frozen=True, slots=True)
class CertifiedClaim:
    """What a certificate shows: of which program, for which sizes; `whose` names the kernel file.

    `bounded`: an open size of the program is given.
    """

    program: SyncProgram
    digest: str
    scope: str
    bounded: bool = False
    whose: str = ""


def claim_of(path: str) -> CertifiedClaim:
    """What the certificate shows: of a verdict, of a run of compiled code, or of fences.

    Raises NotProved.
    """
    claim = _derived(_text(path))
    kernel = next((k for s in KERNELS if (k := Path(path).with_suffix(s)).is_file()), None)
    if kernel is None:
        return replace(claim, whose="no kernel file next to it")
    if claim.digest not in _digests(str(kernel)):
        raise NotProved(f"certifies another program than {contents.printable(kernel.name)}")
    return replace(claim, whose=f"of {contents.printable(kernel.name)}")


def _text(path: str) -> str:
    """Raises NotProved; a pipe is not waited for."""
    try:
        data = regular_bytes(path, contents.BYTES_MAX)
        if len(data) > contents.BYTES_MAX:
            raise NotProved("the certificate is larger than one may be")
        return data.decode("utf-8")
    except (OSError, ValueError):
        raise NotProved("the certificate cannot be read") from None


def _derived(text: str) -> CertifiedClaim:
    from titan.proof.check import RefusedError, check
    from titan.proof.fence_check import FENCE_HEAD, check_fences
    from titan.proof.run_check import RUN_HEAD, RunRefusedError, check_run

    try:
        if text.startswith(f"{RUN_HEAD}\n"):
            run = check_run(text)
            return CertifiedClaim(run.program, run.digest, "one launch of the code")
        if text.startswith(f"{FENCE_HEAD}\n"):
            found = check_fences(text)
            scope = f"that none of its {counted(found.fences, 'fence')} can be left out, no verdict"
            return CertifiedClaim(found.program, found.digest, scope)
        covered = check(text)
    except (RefusedError, RunRefusedError) as refused:
        raise NotProved(f"refused: {contents.printable(str(refused))}") from None
    open_sizes = {p.name for p in covered.program.parameters if p.value is None}
    bounded = bool(open_sizes - {name for name, _ in covered.open})
    return CertifiedClaim(covered.program, covered.digest, _scope(covered), bounded)


def written_for(program: SyncProgram, states_max: int) -> tuple[str | None, str]:
    """The certificate of a verified program, and a note; within `states_max` configurations.

    None where there is none. Raises FaultyError where the search for it comes to a fault.
    """
    from titan.package.canonical import for_engines
    from titan.proof.write import write
    from titan.sync.open_numbers import NotCoveredError

    if states_max <= 0:
        return None, "not asked for"
    try:
        text = write(for_engines(program), states_max=states_max)
    except NotCoveredError as reason:
        return None, f"none: {reason}"
    return text, f"{contents.PROOF}, {len(text):,} bytes"


def refuse_unproved(raw: bytes, program: SyncProgram) -> None:
    """The certificate is of this program, for all of its open sizes. Raises NotProved."""
    from titan.package.canonical import for_engines
    from titan.proof.check import RefusedError, check
    from titan.sync.text import digest_of, text_of

    try:
        covered = check(raw.decode("utf-8"))
    except (UnicodeDecodeError, RefusedError) as refused:
        raise NotProved(f"refused: {contents.printable(str(refused))}") from None
    if covered.digest != digest_of(text_of(for_engines(program))):
        raise NotProved("certifies another program")
    if {name for name, _ in covered.open} != {
        p.name for p in program.parameters if p.value is None
    }:
        raise NotProved("certifies fewer sizes")


def _scope(covered: Covered) -> str:
    """The sizes that the certificate refers to, in words."""
    sizes = [f"{name} = {value}" for name, value in covered.given]
    return ", ".join([*sizes, *(f"{name} any from {least}" for name, least in covered.open)])


def _digests(path: str) -> set[str]:
    from titan.sync.text import digest_of, text_of
    from titan.verify.lowering import NotLowered, sync_program
    from titan.verify.model import VerifyOptions
    from titan.verify.pipeline import read_family

    family, _, _ = read_family(path, VerifyOptions())
    try:
        programs = [sync_program(k).program for k in (family.kernels if family else ())]
    except NotLowered as refusal:
        raise NotProved(f"its kernel cannot be lowered: {refusal}") from None
    return {digest_of(text_of(program)) for program in programs}
