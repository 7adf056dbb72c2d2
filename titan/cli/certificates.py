"""Certificates of verified kernels: the file of each, or the reason why there is none."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from titan.foundation.errors import Refusal
from titan.foundation.verdict import Verdict

if TYPE_CHECKING:
    from titan.sync.program import SyncProgram
    from titan.verify.model import Finding, VerifyOptions

FULL_STATES_MAX = 200_000  # of a second confirmation without partial order


def write_certificates(
    place: str, paths: list[str], findings: list[Finding], options: VerifyOptions
) -> int:
    """Write a certificate of each verified kernel; returns an exit code of its own.

    One kernel: to the file `place`; several: into the folder of that name. 3: a kernel has no
    certificate; 4: the search for one, or one without partial order, came to a fault, cvc5
    contradicts z3, or a sync program makes other accesses than its protocol. The questions of
    typestate go beside the certificates, as SMT-LIB.
    """
    from titan.foundation.atomic import write_text
    from titan.proof.write import FaultyError, write
    from titan.sync.open_numbers import NotCoveredError

    programs = [program for path in paths for program in programs_of(path, options)]
    if len(programs) != len(findings):
        return _reported("no certificate: a kernel cannot be lowered", 3)
    names = _names(place, findings)
    code = max((_questions(path, names[0].parent, options) for path in paths), default=0)
    code = max(code, *(_lowered_otherwise(path, options) for path in paths))
    for name, program, finding in zip(names, programs, findings, strict=True):
        if finding.verdict.exit_code:
            continue
        try:
            text = write(program)
        except NotCoveredError as reason:
            code = max(code, _reported(f"no certificate for {finding.kernel}: {reason}", 3))
            continue
        except FaultyError as fault:
            code = max(
                code, _reported(f"{finding.kernel}: a fault where none was found: {fault}", 4)
            )
            continue
        name.parent.mkdir(parents=True, exist_ok=True)
        write_text(name, text)
        click.echo(f"certificate: {name}", err=True)
        code = max(code, confirmed(finding.kernel, program))
    return code


def confirmed(kernel: str, program: SyncProgram) -> int:
    """Search again without single steps; 4 where that finds a fault.

    A second opinion on partial order, which the certificate rests on: within `FULL_STATES_MAX`
    states, and only where the quotient applies.
    """
    from titan.engines.explore.search import Reductions, explore
    from titan.engines.result import Budget

    budget, full = Budget(states_max=FULL_STATES_MAX), Reductions(partial_order=False)
    try:
        result = explore(program, budget=budget, reductions=full)
    except Refusal as reason:
        return _reported(f"{kernel}: no search without partial order: {reason}", 0)
    if result.trace is not None:
        return _reported(f"{kernel}: without partial order a fault is found", 4)
    found = f"confirmed by {result.states:,}"
    if result.verdict is not Verdict.VERIFIED:
        found = f"not confirmed: more than {FULL_STATES_MAX:,}"
    return _reported(f"{kernel}: {found} states without partial order", 0)


def write_run_certificates(place: str, kernels: list[tuple[str, list[SyncProgram]]]) -> int:
    """Write a certificate of each different run of verified kernels of PTX; returns an exit code.

    One run in all: to the file `place`; several: into the folder of that name. 3: a run has none.
    """
    from titan.foundation.atomic import write_text
    from titan.frontends.ptx.names import short_name
    from titan.proof.run_write import write_run
    from titan.sync.open_numbers import NotCoveredError

    code, total = 0, sum(len(programs) for _, programs in kernels)
    for kernel, programs in kernels:
        for number, program in enumerate(programs, 1):
            name = Path(place)
            if total > 1:
                name /= f"{short_name(kernel)}-{number}.cert"
            try:
                text = write_run(program)
            except NotCoveredError as reason:
                code = _reported(f"no certificate for run {number} of {kernel}: {reason}", 3)
                continue
            name.parent.mkdir(parents=True, exist_ok=True)
            write_text(name, text)
            click.echo(f"certificate: {name}", err=True)
    return code


def _questions(path: str, folder: Path, options: VerifyOptions) -> int:
    """Archive the typestate questions of a file's protocols, and put the same ones to cvc5.

    Beside it the proofs of cvc5 (Alethe), and the affine times with their multipliers.
    """
    from titan.foundation.atomic import write_text
    from titan.language.protocol.affine_times import archived_times
    from titan.language.protocol.second_solver import SecondSolverMissing, contradicted, refutation
    from titan.language.protocol.solver import archived
    from titan.language.protocol.typestate import check
    from titan.verify.pipeline import read_family

    family, _, _ = read_family(path, options)
    with archived() as questions, archived_times() as times:
        for kernel in family.kernels if family is not None else ():
            if kernel.protocol is not None:
                check(kernel.protocol)
    if not questions:
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    if times:
        write_text(folder / f"{Path(path).stem}.times", "\n".join(times))
    archive = folder / f"{Path(path).stem}.smt2"
    text = "(reset)\n".join(question.text for question in questions)
    write_text(archive, text)
    try:
        wrong, open_ = contradicted(questions)
    except SecondSolverMissing as missing:
        return _reported(f"typestate: {len(questions)} questions in {archive}; {missing}", 0)
    if wrong:
        return _reported(
            f"typestate: cvc5 contradicts z3 on {len(wrong)} questions in {archive}", 4
        )
    refuted = [refutation(question) for question in questions if not question.satisfiable]
    proofs = "\n".join(f"; {number}\n{proof}" for number, proof in enumerate(refuted))
    write_text(archive.with_suffix(".alethe"), proofs + "\n")
    left = f", {open_} left open by it" if open_ else ""
    return _reported(f"typestate: {len(questions)} questions confirmed by cvc5{left}: {archive}", 0)


def _lowered_otherwise(path: str, options: VerifyOptions) -> int:
    """Compare the accesses of a file's sync programs with its protocols; 4 where they differ."""
    from titan.language.lower.recheck import NotCompared, differences
    from titan.verify.pipeline import read_family

    family, _, _ = read_family(path, options)
    code = 0
    for kernel, program in zip(
        family.kernels if family is not None else (), programs_of(path, options), strict=True
    ):
        if kernel.protocol is None:
            continue
        try:
            found = differences(kernel.protocol, program)
        except NotCompared as reason:
            _reported(f"{kernel.name}: accesses not compared with the protocol: {reason}", 0)
            continue
        if found:
            code = max(code, _reported(f"{kernel.name}: {found[0]}", 4))
        else:
            _reported(f"{kernel.name}: the sync program makes the accesses of the protocol", 0)
    return code


def programs_of(path: str, options: VerifyOptions) -> list[SyncProgram]:
    """The sync programs of a file's kernels; none if one of them cannot be lowered."""
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


def _reported(message: str, code: int) -> int:
    click.echo(message, err=True)
    return code
