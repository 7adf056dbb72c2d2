"""From a file of TTGIR to the verdict on each of its kernels, for any number of trips where it can.

Assumed, and named with every verdict: the threads of a partition are one agent, as Triton places
the barriers between them later; allocations do not overlap; no number overflows. Accesses to global
memory are not compared.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from titan.engines.explore.search import CoreMissingError
from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.foundation.diagnostics.wording import quoted, suggestion
from titan.foundation.source.loading import load_file
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ttgir.assemble import Assembled, assemble
from titan.frontends.ttgir.clusters import (
    one_for_all,
    place_cluster_barriers,
    without_cluster_barriers,
)
from titan.frontends.ttgir.definitions import undefined_values
from titan.frontends.ttgir.drafts import FunctionDraft
from titan.frontends.ttgir.model import TtgirFunction, TtgirModule
from titan.frontends.ttgir.parse import parse_ttgir
from titan.frontends.ttgir.pending_sums import used_sums
from titan.frontends.ttgir.places import DraftPlace
from titan.frontends.ttgir.samples import counted_to, dependent, largest, samples
from titan.frontends.ttgir.translate import FAULTS_MAX, draft
from titan.frontends.ttgir.waves import alternate, meetings
from titan.language.kernel.model import Kernel
from titan.sync.expression import Name, to_text
from titan.sync.program import Policies, SyncProgram
from titan.verify.coverage import with_policies
from titan.verify.engines import VerifyBudget, run_explorer
from titan.verify.model import Finding, VerifyOptions
from titan.verify.pipeline import verify_kernel
from titan.verify.reopen import TraceRefused
from titan.verify.sizes import bound_of, equal_sizes
from titan.verify.tracefile import SavedTrace
from titan.verify.unwritten import unwritten_reads
from titan.verify.vacuity import VACUOUS, vacuous

ANY_STATES_MAX = 300_000  # of a search for any numbers of sizes that rest on one argument
TEXT_BYTES_MAX = 16 << 20
TARGETS = {
    "cuda:90": "sm_90a", "cuda:100": "sm_100a", "cuda:103": "sm_103a",
    "hip:gfx90a": "gfx90a", "hip:gfx942": "gfx942", "hip:gfx950": "gfx950",
}  # fmt: skip
CLUSTERS = (1, 2, 4, 8, 16)
POLICIES = Policies(war_fence=False, barrier_init="assumed", tensor_pipe="in_order")
ASSUMED = (
    "assumed: the threads of a partition act as one, and allocations share memory only where one "
    "has no use behind the other (Triton places barriers and memory later). Accesses to global "
    "memory are not compared"
)


def verify_ttgir_file(path: str, options: VerifyOptions, entry: str | None) -> Iterator[Finding]:
    """The verdicts on the kernels of a file, or on the one named `entry`."""
    source, errors = load_file(path, TEXT_BYTES_MAX)
    if source is None:
        yield _refused(path, errors)
        return
    yield from verify_ttgir(source, options, entry)


def verify_ttgir(
    source: Source, options: VerifyOptions, entry: str | None = None
) -> Iterator[Finding]:
    """The same for a text."""
    module, errors = parse_ttgir(source)
    if module is None:
        yield _refused(source.path, errors)
        return
    for function in module.functions:
        if entry in (None, function.name):
            yield _verified(module, function, source.path, options)


def _refused(path: str, errors: list[Diagnostic], kernel: str = "") -> Finding:
    return Finding(path, kernel, "", Verdict.REFUSED, diagnostics=tuple(errors))


def assembled(
    module: TtgirModule, function: TtgirFunction, path: str, either_way: bool = False
) -> tuple[Assembled | None, list[Diagnostic]]:
    """The kernel of a function, or what is wrong with it; `either_way` as of `draft`."""
    word = module.attributes.get("ttg.target", "").strip('"')
    if word not in TARGETS:
        known = ", ".join(TARGETS)
        headline = f"the target {word or 'is not given'} is none of {known}"
        return None, [diagnostic("TTN016", headline, function.span)]
    ctas = module.integer("ttg.num-ctas", 1)
    if ctas not in CLUSTERS:
        known = ", ".join(map(str, CLUSTERS))
        headline = f"a cluster has {known} CTAs, and not {ctas}"
        return None, [diagnostic("TTN010", headline, function.span)]
    drafts = [draft(module, function, place, either_way) for place in _places(module, function)]
    refused = [fault for made in drafts for fault in made.faults]
    faults = list(dict.fromkeys([*_undefined(function), *refused]))
    notes: tuple[str, ...] = ()
    if not faults and drafts[0].place.ctas > 1:
        if one_for_all(drafts):
            notes = (f"one of {len(drafts)} CTAs represents all: they do not touch each other",)
            drafts = drafts[:1]
            for role in drafts[0].roles:
                role.body = without_cluster_barriers(role.body)
        else:
            faults = place_cluster_barriers(drafts)
    if not faults and drafts[0].place.half is not None:
        faults = _uneven(drafts, function)
    if faults:
        return None, faults
    made, lost = assemble(drafts, function, path, TARGETS[word], POLICIES, either_way)
    return (made and replace(made, notes=(*made.notes, *notes))), lost


def kernel_of_trace(saved: SavedTrace) -> Kernel:
    """The kernel of a trace whose text is TTGIR. Raises TraceRefused."""
    module, errors = parse_ttgir(Source(saved.path, saved.text))
    for function in module.functions if module is not None else ():
        if module is not None and function.name == saved.kernel:
            made, errors = assembled(module, function, saved.path)
            if made is not None:
                return made.kernel
    raise TraceRefused(tuple(errors))


def _undefined(function: TtgirFunction) -> list[Diagnostic]:
    """The values that are used and not defined."""
    found = []
    for operation, name, known in itertools.islice(undefined_values(function), FAULTS_MAX):
        headline = f"{quoted(operation.name)} uses {quoted(name)}, which nothing defines before it"
        helps = suggestion(name, sorted(known))
        found.append(diagnostic("TTN011", headline, operation.span, helps=helps))
    return found


def _places(module: TtgirModule, function: TtgirFunction) -> list[DraftPlace]:
    """Whose threads the function is read for."""
    ctas = module.integer("ttg.num-ctas", 1)
    if alternate(function.body) and module.integer("ttg.num-warps", 4) % 2 == 0:
        return [DraftPlace(cta, ctas, half) for cta in range(ctas) for half in (0, 1)]
    return [DraftPlace(cta, ctas) for cta in range(ctas)]


def _uneven(drafts: Sequence[FunctionDraft], function: TtgirFunction) -> list[Diagnostic]:
    """Whether the halves of the waves do not come to the same barriers."""
    lower, upper = (meetings(made.roles[0].body) for made in drafts[:2])
    if lower == upper:
        return []
    headline = "the halves of the waves come to different numbers of barriers"
    return [diagnostic("TTN010", headline, function.span)]


def _verified(
    module: TtgirModule, function: TtgirFunction, path: str, options: VerifyOptions
) -> Finding:
    started = time.thread_time()
    made, errors = assembled(module, function, path)
    if made is None:
        return _refused(path, errors, function.name)
    made = replace(made, kernel=with_policies(made.kernel, options.policies))
    plain = replace(options, examines_reads=False, reviews_fences=False)  # lowering adds most
    finding = None if dependent(made.sizes) else verify_kernel(made.kernel, plain)
    if finding is None or not _for_any(finding):
        free = _free(module, function, made, options)
        found = None if free is None else verify_kernel(free.kernel, replace(plain, require="any"))
        if free is not None and found is not None and found.verdict is Verdict.VERIFIED:
            made, finding = free, found
    if finding is None:
        finding = _together(made, plain) or verify_kernel(made.kernel, plain)
    if finding.verdict is Verdict.VERIFIED:
        finding = _filled(made, finding)
    if used := used_sums(function):
        diagnostics = (*finding.diagnostics, *used)
        finding = replace(finding, verdict=Verdict.REFUTED, diagnostics=diagnostics)
    meanings = [f"{name} is {to_text(value)}" for name, value in made.sizes if value != Name(name)]
    meanings = [item for item in meanings if item.split(" is ")[0] not in made.decided]
    meanings += [
        f"{name} may be any number: not 0 where the condition in line {span.start_line} holds"
        for name, span in made.decided.items()
    ]
    notes = (*finding.notes, *meanings, *made.notes, ASSUMED)
    return replace(finding, notes=notes, seconds=time.thread_time() - started)


def _for_any(finding: Finding) -> bool:
    """Whether nothing is left to find: refuted, or verified for any numbers."""
    if finding.verdict is not Verdict.VERIFIED:
        return finding.verdict is Verdict.REFUTED
    return all(values is None for _, values in finding.coverage.parameters)


def _free(
    module: TtgirModule, function: TtgirFunction, made: Assembled, options: VerifyOptions
) -> Assembled | None:
    """The kernel whose branches outside of loops may go either way; None where it is the same.

    It has all runs of the other and more, so what is verified of it holds.
    """
    free, _ = assembled(module, function, made.kernel.path, either_way=True)
    if free is None or free.sizes == made.sizes:
        return None
    return replace(free, kernel=with_policies(free.kernel, options.policies))


def _filled(made: Assembled, finding: Finding) -> Finding:
    """The finding on a verified kernel: undecided where it reads what nothing has written."""
    program = made.kernel.program
    if program is None:
        return finding
    bound = bound_of(program)
    sizes = equal_sizes(program, bound)
    if dependent(made.sizes):
        sizes = largest(made.sizes, bound, counted_to(program))
    unwritten = [
        item
        for holds in ((0, 1) if made.decided else (0,))
        for item in unwritten_reads(
            program, sizes | dict.fromkeys(made.decided.keys() & sizes, holds), made.sums
        )
    ]
    verdict = Verdict.UNDECIDED if unwritten else finding.verdict
    diagnostics = (*_idle(made, program, finding), *unwritten)
    return replace(finding, verdict=verdict, diagnostics=diagnostics)


def _idle(made: Assembled, program: SyncProgram, finding: Finding) -> list[Diagnostic]:
    """The diagnostics of a finding; roles do nothing only where they do not whichever
    condition on data holds.

    What does nothing was looked for in runs in which all of them hold, such as that of an early
    return.
    """
    kept = [item for item in finding.diagnostics if item.code != VACUOUS]
    if not made.decided or len(kept) == len(finding.diagnostics):
        return list(finding.diagnostics)
    found: list[Diagnostic] = []
    for holds in ("", *sorted(made.decided)):
        parameters = tuple(
            replace(item, value=int(item.name == holds)) if item.name in made.decided else item
            for item in program.parameters
        )
        found = vacuous(replace(program, parameters=parameters), made.kernel.span)
        if not found:
            break
    return [*kept, *found]


def _together(made: Assembled, options: VerifyOptions) -> Finding | None:
    """The verdict where sizes rest on one argument; None where it holds for any numbers anyhow."""
    program = made.kernel.program
    if program is None:
        return None
    try:
        report = run_explorer(program, VerifyBudget(min(options.states_max, ANY_STATES_MAX)))
    except CoreMissingError:
        return None
    if report.verdict is Verdict.VERIFIED:
        return None
    minimums = {item.name: item.minimum for item in program.parameters}
    chosen = samples(made.sizes, minimums, counted_to(program))
    findings: list[Finding] = []
    for values in chosen:
        fixed = tuple(replace(item, value=values[item.name]) for item in program.parameters)
        kernel = replace(made.kernel, program=replace(program, parameters=fixed))
        findings.append(verify_kernel(kernel, options))
        if findings[-1].verdict is not Verdict.VERIFIED:
            return findings[-1]
    if not findings:
        return None
    covered = tuple(
        (item.name, tuple(sorted({values[item.name] for values in chosen})))
        for item in program.parameters
    )
    last = findings[-1]
    why = report.remark or "set independently they give runs that no arguments produce"
    note = f"of these sizes {len(chosen)} combinations that occur together; any number: {why}"
    verdict = Verdict.UNDECIDED if options.require == "any" else Verdict.VERIFIED
    words = f"{len(chosen)} combinations of these values" if len(covered) > 1 else ""
    engines = tuple(replace(item, sizes=covered, remark=words) for item in last.engines)
    coverage = replace(last.coverage, parameters=covered, combinations=words)
    return replace(last, verdict=verdict, engines=engines, coverage=coverage, notes=(note,))
