"""From a kernel file to verdicts: decode, typestate, lower, engines, comparison of their answers.

A verdict is VERIFIED only with a scope that an engine has covered; a counterexample counts only
after it has been replayed by the reference interpreter; engines that contradict each other give a
verdict of their own.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.foundation.records import dataclass
from titan.foundation.source.span import Span
from titan.foundation.source.tree import Mapping, Node
from titan.foundation.source.yaml import parse_file
from titan.foundation.verdict import Verdict
from titan.language.kernel.decode import decode, size_names
from titan.language.kernel.model import Family, Kernel
from titan.language.lower.model import Note
from titan.sync.control import LocalLoopError
from titan.sync.fault import Trace
from titan.sync.program import SyncProgram
from titan.verify.coverage import coverage_of, narrowed, with_policies
from titan.verify.judge import judge
from titan.verify.legality.check import Legality, examine
from titan.verify.lowering import LoweredKernel, NotLowered, sync_program
from titan.verify.model import Decision, EngineReport, Finding, VerifyOptions
from titan.verify.tracefile import SavedTrace, save
from titan.verify.unwritten import masked_buffers, unwritten_reads
from titan.verify.vacuity import vacuous, written_fences


def read_family(
    path: str, options: VerifyOptions, only: int | None = None
) -> tuple[Family | None, list[Diagnostic], Node | None]:
    """The kernels of a file under the overrides, or what is wrong with it; and its tree."""
    root, errors = parse_file(path)
    return *decode(root, errors, path, dict(options.overrides), only), root


@dataclass(frozen=True, slots=True)
class KernelFile:
    """A kernel file, read once: its kernels or what is wrong with it, and the sizes it declares.

    `nonstandard`: what only TITAN reads as YAML.
    """

    path: str
    family: Family | None
    errors: tuple[Diagnostic, ...]
    sizes: frozenset[str]
    nonstandard: tuple[Span, ...] = ()


def read_kernel_file(path: str, options: VerifyOptions, only: int | None = None) -> KernelFile:
    """The file under the overrides, all of its kernels or the one with number `only`."""
    family, errors, root = read_family(path, options, only)
    odd = root.nonstandard if isinstance(root, Mapping) else ()
    return KernelFile(path, family, tuple(errors), frozenset(size_names(root)), odd)


def unknown_sizes(files: Iterable[KernelFile], options: VerifyOptions) -> list[str]:
    """Overridden names that no file declares."""
    known = {name for file in files for name in file.sizes}
    return [name for name, _ in options.overrides if name not in known]


def count_kernels(path: str, options: VerifyOptions) -> int:
    """How many kernels the file describes; 1 where it is faulty."""
    family = read_kernel_file(path, options).family
    return len(family.kernels) if family is not None else 1


def verify_file(path: str, options: VerifyOptions, only: int | None = None) -> list[Finding]:
    """The verdicts on all kernels of a file, or on the one with number `only`."""
    return list(verify_each(read_kernel_file(path, options, only), options))


def verify_each(file: KernelFile, options: VerifyOptions) -> Iterator[Finding]:
    """The verdicts one by one, as they come."""
    if file.family is None:
        yield refused(file)
        return
    for kernel in file.family.kernels:
        yield verify_kernel(kernel, options)


def refused(file: KernelFile) -> Finding:
    """The finding on a file that holds no kernel, with what is wrong with it."""
    return Finding(file.path, "", "", Verdict.REFUSED, diagnostics=file.errors)


def verify_kernel(kernel: Kernel, options: VerifyOptions) -> Finding:
    """The verdict on one kernel."""
    started = time.thread_time()
    kernel = with_policies(kernel, options.policies)
    try:
        lowered = sync_program(
            kernel,
            typestate=options.engine == "auto",
            rewrites=options.rewrites,
            as_written=options.as_written,
        )
        finding = _judged(kernel, lowered, options)
    except NotLowered as refusal:
        finding = _refused(kernel, refusal)
    return replace(finding, seconds=time.thread_time() - started)


def _judged(kernel: Kernel, lowered: LoweredKernel, options: VerifyOptions) -> Finding:
    """The finding on a kernel that has a form on its target."""
    legality = examine(kernel, lowered.program)
    decision = _decided(kernel, lowered.program, legality, options)
    diagnostics = list(decision.diagnostics)
    unwritten: list[Diagnostic] = []
    if decision.verdict is Verdict.VERIFIED:
        if options.examines_reads:
            masked = masked_buffers(kernel.protocol)
            unwritten = unwritten_reads(lowered.program, masked=masked)
        diagnostics += _warnings(kernel, lowered.program, legality.warnings, options)
    else:
        diagnostics += [_missing(note) for note in lowered.missing]
    diagnostics += unwritten
    verdict = Verdict.UNDECIDED if unwritten else decision.verdict
    reports = decision.engines
    if lowered.report is not None:
        verdict = _worse(verdict, lowered.report) if not legality.errors else verdict
        reports = reports if legality.errors else (lowered.report, *reports)
        diagnostics += [] if legality.errors else lowered.report.diagnostics
    path, unsaved = _saved(kernel, decision.trace, options)
    coverage = coverage_of(kernel)
    return Finding(
        kernel.path,
        kernel.name,
        kernel.target,
        verdict,
        narrowed(coverage, decision.sizes),
        reports,
        tuple(diagnostics),
        (*lowered.notes, *legality.notes, *decision.notes, *unsaved),
        program=None if legality.errors else lowered.program,
        trace=decision.trace,
        trace_path=path,
        narrowing=decision.narrowing,
        added=tuple(_added(note) for note in lowered.added),
    )


def _decided(
    kernel: Kernel, program: SyncProgram, legality: Legality, options: VerifyOptions
) -> Decision:
    """What the hardware forbids is refuted without an engine; what cannot run is refused."""
    if legality.errors:
        return Decision(Verdict.REFUTED, program, diagnostics=legality.errors)
    try:
        return judge(kernel, program, options)
    except (ZeroDivisionError, LocalLoopError) as error:
        return Decision(Verdict.REFUSED, program, diagnostics=(_cannot_run(kernel, error),))


def _refused(kernel: Kernel, refusal: NotLowered) -> Finding:
    """The finding on a kernel that has no form on its target."""
    verdict = Verdict.REFUTED if refusal.illegal else Verdict.REFUSED
    judged = () if refusal.report is None or not refusal.illegal else (refusal.report,)
    diagnostics = refusal.diagnostics + tuple(one for item in judged for one in item.diagnostics)
    return Finding(
        kernel.path, kernel.name, kernel.target, verdict, coverage_of(kernel), judged, diagnostics
    )


def _worse(verdict: Verdict, report: EngineReport) -> Verdict:
    """Typestate refutes by itself; its VERIFIED is not a verdict on a sync program."""
    if report.verdict is not Verdict.REFUTED:
        return verdict
    return verdict if verdict in (Verdict.DISAGREEMENT, Verdict.REFUSED) else Verdict.REFUTED


def _added(note: Note) -> str:
    place = f", line {note.span.start_line}" if note.span else ""
    return f"{note.adds}{place}"


def _missing(note: Note) -> Diagnostic:
    """A fence that the kernel, taken as written, lacks."""
    return diagnostic(
        "TTN430",
        f"the kernel has no fence where lowering would add {note.adds}",
        note.span,
        "the kernel is verified as written",
    )


def _cannot_run(kernel: Kernel, error: Exception) -> Diagnostic:
    if isinstance(error, ZeroDivisionError):
        headline = "an expression divides by zero for some values of the parameters"
    else:
        headline = f"the program loops without executing an operation: {error}"
    return diagnostic("TTN015", headline, kernel.span)


def _warnings(
    kernel: Kernel, program: SyncProgram, found: tuple[Diagnostic, ...], options: VerifyOptions
) -> list[Diagnostic]:
    """What weakens a VERIFIED without refuting it; allowed rules are left out."""
    allowed = {allowance.rule for allowance in kernel.allowances}
    warnings = [*found, *vacuous(program, kernel.span)]
    if options.reviews_fences and written_fences(program):
        from titan.verify.fence_review import redundant_fences  # costs a tenth of a start

        warnings += redundant_fences(kernel.target, kernel.path, program)
    return [item for item in warnings if item.code not in allowed]


def _saved(
    kernel: Kernel, trace: Trace | None, options: VerifyOptions
) -> tuple[str, tuple[str, ...]]:
    """The path of the saved trace, or a note on why there is none."""
    if trace is None or options.save_traces is None:
        return "", ()
    span = kernel.span
    saved = SavedTrace(
        str(Path(kernel.path)),
        kernel.name,
        span.source.text if span is not None and span.source is not None else "",
        tuple(kernel.sizes),
        tuple(options.policies),
        trace,
        tuple(sorted(options.rewrites)),
        options.as_written,
    )
    try:
        return save(saved, options.save_traces), ()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        return "", (f"the trace could not be saved: {reason}",)
