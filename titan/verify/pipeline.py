"""From a kernel file to verdicts: decode, typestate, lower, engines, comparison of what they say.

A verdict is VERIFIED only with a scope that an engine has covered; a counterexample counts only
after it has been replayed by the reference interpreter; engines that contradict each other give a
verdict of their own.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from pathlib import Path

from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.foundation.source.span import Span
from titan.foundation.source.tree import Node
from titan.foundation.source.yaml import parse_file
from titan.foundation.verdict import Verdict
from titan.language.kernel.decode import decode, size_names
from titan.language.kernel.model import Family, Kernel
from titan.sync.control import LocalLoopError
from titan.sync.program import Policies, SyncProgram
from titan.verify.judge import judge
from titan.verify.legality.check import examine
from titan.verify.lowering import Refusal, sync_program
from titan.verify.model import Coverage, EngineReport, Finding, VerifyOptions
from titan.verify.tracefile import SavedTrace, save
from titan.verify.vacuity import vacuous


def read_family(
    path: str, options: VerifyOptions, only: int | None = None
) -> tuple[Family | None, list[Diagnostic], Node | None]:
    """The kernels of a file under the overrides, or what is wrong with it; and its tree."""
    root, errors = parse_file(path)
    return *decode(root, errors, path, dict(options.overrides), only), root


def unknown_sizes(paths: Iterable[str], options: VerifyOptions) -> list[str]:
    """Overridden names that no file declares."""
    known: set[str] = set()
    for path in paths:
        root, _ = parse_file(path)
        known |= size_names(root)
    return [name for name, _ in options.overrides if name not in known]


def count_kernels(path: str, options: VerifyOptions) -> int:
    """How many kernels the file stands for; 1 where it is faulty."""
    family, _, _ = read_family(path, options)
    return len(family.kernels) if family is not None else 1


def verify_file(path: str, options: VerifyOptions, only: int | None = None) -> list[Finding]:
    """The verdicts on all kernels of a file, or on the one with number `only`."""
    return list(verify_each(path, options, only))


def verify_each(path: str, options: VerifyOptions, only: int | None = None) -> Iterator[Finding]:
    """The verdicts one by one, as they come."""
    started = time.thread_time()
    family, errors, _ = read_family(path, options, only)
    if family is None:
        seconds = time.thread_time() - started
        yield Finding(path, "", "", Verdict.REFUSED, diagnostics=tuple(errors), seconds=seconds)
        return
    for kernel in family.kernels:
        yield verify_kernel(kernel, options)


def verify_kernel(kernel: Kernel, options: VerifyOptions) -> Finding:
    """The verdict on one kernel."""
    started = time.thread_time()
    kernel = with_policies(kernel, options.policies)
    finding = Finding(kernel.path, kernel.name, kernel.target, Verdict.UNDECIDED)
    finding = replace(finding, coverage=coverage_of(kernel))
    try:
        lowered = sync_program(
            kernel, typestate=options.engine == "auto", rewrites=options.rewrites
        )
    except Refusal as refusal:
        return _refused(finding, refusal, started)
    legality = examine(kernel, lowered.program)
    finding = replace(finding, notes=lowered.notes + legality.notes)
    if legality.errors:
        finding = replace(_with(finding, *legality.errors), verdict=Verdict.REFUTED)
        return replace(finding, seconds=time.thread_time() - started)
    try:
        finding = judge(finding, kernel, lowered.program, options)
    except (ZeroDivisionError, LocalLoopError) as error:
        finding = replace(finding, verdict=Verdict.REFUSED, trace=None)
        finding = _with(finding, _cannot_run(kernel, error))
    if finding.verdict is Verdict.VERIFIED:
        finding = _with(finding, *_warnings(kernel, lowered.program, legality.warnings))
    if lowered.report is not None:
        finding = _with_typestate(finding, lowered.report)
    if finding.trace is not None and options.save_traces is not None:
        finding = _saved(finding, kernel, options, options.save_traces)
    return replace(finding, seconds=time.thread_time() - started)


def _refused(finding: Finding, refusal: Refusal, started: float) -> Finding:
    """The finding on a kernel that has no form on its target."""
    verdict = Verdict.REFUTED if refusal.illegal else Verdict.REFUSED
    finding = _with(finding, *refusal.diagnostics)
    if refusal.report is not None and verdict is Verdict.REFUTED:
        finding = _with_typestate(finding, refusal.report)
    return replace(finding, verdict=verdict, seconds=time.thread_time() - started)


def _with_typestate(finding: Finding, report: EngineReport) -> Finding:
    """Typestate refutes by itself; its VERIFIED is no verdict on a sync program."""
    finding = replace(finding, engines=(report, *finding.engines))
    finding = _with(finding, *report.diagnostics)
    worse = (Verdict.DISAGREEMENT, Verdict.REFUSED)
    if report.verdict is Verdict.REFUTED and finding.verdict not in worse:
        finding = replace(finding, verdict=Verdict.REFUTED)
    return finding


def _with(finding: Finding, *diagnostics: Diagnostic) -> Finding:
    return replace(finding, diagnostics=(*finding.diagnostics, *diagnostics))


def _cannot_run(kernel: Kernel, error: Exception) -> Diagnostic:
    if isinstance(error, ZeroDivisionError):
        headline = "an expression divides by zero for some values of the parameters"
    else:
        headline = f"the program runs on without an operation: {error}"
    return diagnostic("TTN015", headline, kernel.span)


def with_policies(kernel: Kernel, chosen: tuple[tuple[str, str], ...]) -> Kernel:
    """The kernel under the policies of the command line."""
    if not chosen:
        return kernel
    values: dict[str, object] = {}
    for name, text in chosen:
        values[name] = text == "true" if text in ("true", "false") else text
    if kernel.protocol is not None:
        policies = replace(kernel.protocol.policies, **values)  # type: ignore[arg-type]
        return replace(kernel, protocol=replace(kernel.protocol, policies=policies))
    assert kernel.program is not None
    policies = replace(kernel.program.policies, **values)  # type: ignore[arg-type]
    return replace(kernel, program=replace(kernel.program, policies=policies))


def coverage_of(kernel: Kernel) -> Coverage:
    """What a verdict on the kernel covers; parameters are narrowed to what engines have done."""
    level = kernel.protocol if kernel.protocol is not None else kernel.program
    assert level is not None
    agents: Counter[str] = Counter()
    for role in level.roles:  # one for each CTA that has it: `producer@1`
        agents[role.name.partition("@")[0]] += role.agents
    return Coverage(
        kernel.sizes,
        tuple(
            (parameter.name, (parameter.value,) if parameter.value is not None else None)
            for parameter in level.parameters
        ),
        tuple((parameter.name, parameter.minimum) for parameter in level.parameters),
        tuple((role.name, agents[role.name] or role.agents, role.threads) for role in kernel.roles),
        kernel.ctas,
        policies_text(level.policies),
    )


def policies_text(policies: Policies) -> tuple[tuple[str, str], ...]:
    """The policies as words, in the spelling of the language."""
    return tuple(
        (item.name, str(getattr(policies, item.name)).lower()) for item in fields(policies)
    )


def _warnings(
    kernel: Kernel, program: SyncProgram, found: tuple[Diagnostic, ...]
) -> list[Diagnostic]:
    """What weakens a VERIFIED without refuting it; allowed rules are left out."""
    allowed = {allowance.rule for allowance in kernel.allowances}
    from titan.verify.fence_review import redundant_fences  # which verifies kernels itself

    told = (*found, *vacuous(program, kernel.span))
    told += tuple(redundant_fences(kernel.target, kernel.path, program))
    return [item for item in told if item.code not in allowed]


def _saved(finding: Finding, kernel: Kernel, options: VerifyOptions, folder: str) -> Finding:
    assert finding.trace is not None
    span = kernel.span
    text = span.source.text if isinstance(span, Span) and span.source is not None else ""
    sizes = tuple(kernel.sizes)
    policies = tuple(options.policies)
    saved = SavedTrace(
        str(Path(kernel.path)), kernel.name, text, sizes, policies, finding.trace,
        tuple(sorted(options.rewrites)),
    )  # fmt: skip
    try:
        return replace(finding, trace_path=save(saved, folder))
    except OSError as error:
        note = f"the trace could not be saved: {(error.strerror or str(error)).lower()}"
        return replace(finding, notes=(*finding.notes, note))
