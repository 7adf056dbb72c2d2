"""Files of code, whichever kind of code they hold: the verdicts on them, and lifting."""

from __future__ import annotations

from collections.abc import Iterator

from titan.frontends.gcn.lift import lift_assembly_file
from titan.frontends.gcn.verify import verify_assembly_file
from titan.frontends.lift.command import LiftResult, lift_file
from titan.frontends.open import is_assembly
from titan.frontends.verify_code import CodeOptions, verify_code_file
from titan.verify.model import Finding


def verify_any_code(path: str, options: CodeOptions) -> Iterator[Finding]:
    """The verdicts on the kernels of a file of PTX or AMD assembly."""
    verify = verify_assembly_file if is_assembly(path) else verify_code_file
    return verify(path, options)


def findings_on(path: str, options: CodeOptions) -> list[Finding]:
    """The same as a list, which another process can send back."""
    return list(verify_any_code(path, options))


def lift_any_code(path: str, options: CodeOptions) -> LiftResult:
    """The kernel file behind the one kernel of a file of PTX or AMD assembly."""
    return lift_assembly_file(path, options) if is_assembly(path) else lift_file(path, options)
