"""Certificates of verified kernels: which file each goes to, what is said where there is none."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from titan.sync.program import SyncProgram
    from titan.verify.model import Finding, VerifyOptions


def write_certificates(
    place: str, paths: list[str], findings: list[Finding], options: VerifyOptions
) -> int:
    """Write a certificate of each verified kernel; returns an exit code of its own.

    One kernel: to the file `place`; several: into the folder of that name. 3: a kernel has no
    certificate; 4: the search for one came to a fault.
    """
    from titan.proof.open_sizes import NotCoveredError
    from titan.proof.write import FaultyError, write

    programs = [program for path in paths for program in programs_of(path, options)]
    if len(programs) != len(findings):
        return _told("no certificate: a kernel cannot be lowered", 3)
    code, names = 0, _names(place, findings)
    for name, program, finding in zip(names, programs, findings, strict=True):
        if finding.verdict.exit_code:
            continue
        try:
            text = write(program)
        except NotCoveredError as reason:
            code = max(code, _told(f"no certificate for {finding.kernel}: {reason}", 3))
            continue
        except FaultyError as fault:
            code = max(code, _told(f"{finding.kernel}: a fault where none was found: {fault}", 4))
            continue
        name.parent.mkdir(parents=True, exist_ok=True)
        name.write_text(text, encoding="utf-8", newline="\n")
        click.echo(f"certificate: {name}", err=True)
    return code


def programs_of(path: str, options: VerifyOptions) -> list[SyncProgram]:
    """The sync programs of a file's kernels; none where one of them cannot be lowered."""
    from titan.verify.coverage import with_policies
    from titan.verify.lowering import NotLowered, sync_program
    from titan.verify.pipeline import read_family

    family, _, _ = read_family(path, options)
    try:
        return [
            sync_program(
                with_policies(kernel, options.policies),
                rewrites=options.rewrites,
                as_written=options.as_written,
            ).program
            for kernel in (family.kernels if family is not None else ())
        ]
    except NotLowered:
        return []


def _names(place: str, findings: list[Finding]) -> list[Path]:
    if len(findings) == 1:
        return [Path(place)]
    counted = Counter(finding.kernel for finding in findings)
    seen: Counter[str] = Counter()
    names = []
    for finding in findings:
        seen[finding.kernel] += 1
        number = f"-{seen[finding.kernel]}" if counted[finding.kernel] > 1 else ""
        names.append(Path(place) / f"{finding.kernel}{number}.cert")
    return names


def _told(message: str, code: int) -> int:
    click.echo(message, err=True)
    return code
