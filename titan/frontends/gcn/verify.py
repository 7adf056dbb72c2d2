"""From a file of AMD assembly and a launch to the verdict on each kernel.

The same launches, verdicts and exit codes as for PTX. A verdict covers the launches that it names,
each work-group by itself, in all interleavings of its waves.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.foundation.diagnostics.wording import listed
from titan.foundation.errors import UserError
from titan.foundation.source.span import Source, whole_file
from titan.foundation.verdict import Verdict
from titan.frontends.combine import JudgedKernel, combined
from titan.frontends.gcn.code import (
    TARGETS,
    AssemblyCode,
    WaveRunner,
    close_pairs_of,
    launched,
)
from titan.frontends.gcn.faults import missing_argument
from titan.frontends.gcn.grid import add_group, stores_meet
from titan.frontends.gcn.launched import LaunchedWaves, judge_waves
from titan.frontends.gcn.record import lanes_of_wave, may_be_unused, worth_tracing
from titan.frontends.gcn.tokens import stage_texts
from titan.frontends.grid.races import GridAccesses, judge_grid, neighbours
from titan.frontends.lift.any_number import AnyNumber, any_number
from titan.frontends.ptx.decided import judged_paths
from titan.frontends.ptx.launch import LaunchDescription
from titan.frontends.ptx.names import short_name
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.sweep import sweep
from titan.frontends.ptx.trial import Trial
from titan.frontends.read_code import ReadCode, named, read_file, refused, verdicts
from titan.frontends.verify_code import CodeOptions, ctas_of, for_any
from titan.isa.gcn.assembly import named_target, parse_assembly
from titan.isa.gcn.names_gfx1250 import TARGET as GFX1250
from titan.isa.simt.launch import Launch
from titan.isa.simt.outcome import Ending, Run
from titan.isa.waves.events import WaitStatesMissing
from titan.verify.model import Finding

TEXT_BYTES_MAX = 64 << 20
STAGES_SHOWN_MAX = 6
NOT_LIFTED = f"assembly for {GFX1250} is verified for launches, and not lifted"


def read_assembly(path: str, options: CodeOptions) -> ReadCode[AssemblyCode]:
    """A file of assembly and what says how it is launched."""
    return read_file(path, options.launch, TEXT_BYTES_MAX, partial(_kernels_of, options))


def _kernels_of(
    options: CodeOptions, source: Source, description: LaunchDescription | None
) -> tuple[list[AssemblyCode], list[Diagnostic]]:
    target = named_target(source.text)
    if target and target not in TARGETS:  # its instructions have other names
        return [], [_other_target(target, source)]
    assembly, errors = parse_assembly(source)
    if assembly is None:
        return [], errors
    if assembly.target not in TARGETS:
        return [], [_other_target(assembly.target, source)]
    known = {kernel.name: kernel for kernel in assembly.kernels}
    chosen, errors = named(known, options.entry, description, source, "file has no kernel")
    return [AssemblyCode(assembly, source, kernel) for kernel in chosen], errors


def verify_assembly_file(path: str, options: CodeOptions) -> Iterator[Finding]:
    """The verdicts on the kernels of an assembly file."""
    started = time.process_time()
    yield from _verify_all(path, read_assembly(path, options), options, started)


def verify_assembly(
    source: Source,
    description: LaunchDescription | None,
    options: CodeOptions,
    notes: list[str],
    started: float,
) -> Iterator[Finding]:
    """The verdicts on the kernels of a text, launched as described."""
    kernels, errors = _kernels_of(options, source, description)
    read = ReadCode(kernels, description, errors, notes)
    yield from _verify_all(source.path, read, options, started)


def _verify_all(
    path: str, read: ReadCode[AssemblyCode], options: CodeOptions, started: float
) -> Iterator[Finding]:
    def verify(code: AssemblyCode, begun: float) -> Finding:
        return _verify_kernel(code, read.description, options, read.notes, begun)

    return verdicts(path, read, started, verify)


def _other_target(target: str, source: Source) -> Diagnostic:
    place = whole_file(source.path)
    known = listed(list(TARGETS))
    if not target:
        return diagnostic("TTN007", f"the file names no target; {known} are read", place)
    return diagnostic("TTN010", f"assembly of {target} is not read, only of {known}", place)


def _verify_kernel(
    code: AssemblyCode,
    description: LaunchDescription | None,
    options: CodeOptions,
    notes: list[str],
    started: float,
) -> Finding:
    place = whole_file(code.source.path)
    launch, errors, filled = launched(code, description, place)
    if launch is None:
        return replace(refused(code.source.path, errors, started), kernel=code.kernel.name)
    places = CodePlaces(code.assembly, code.source)
    launches = [("", launch)]
    stalls = options.policies.counter_full == "stalls"
    runner = WaveRunner(code, options.steps_max, close_pairs_of(code), stalls)
    if options.sweep:
        launches, remarks = sweep(runner, code.function, launch)
        filled = [*filled, *remarks]
    trials: list[Trial] = []
    seen = _Seen()
    for label, one in launches:
        more, remarks = _trials(runner, one, label, places, options, seen, one is launch)
        trials += more
        filled = [*filled, *remarks]
        if trials[-1].verdict in (Verdict.REFUTED, Verdict.REFUSED):
            break
    found: AnyNumber | None = None
    verified = all(item.verdict is Verdict.VERIFIED for item in trials)
    if options.require == "any" and verified and code.assembly.target == GFX1250:
        trials.append(Trial("any number of trips", "", Verdict.UNDECIDED, reason=NOT_LIFTED))
    elif options.require == "any" and verified:
        lifted = LaunchedWaves(code, launch, places, options.policies, runner)
        found = any_number(lifted, ctas_of(launch, options), options.engines)
        trials += found.trials
        filled = [*filled, *found.notes]
    kernel = _judged_kernel(code, launch)
    finding = combined(kernel, launches, trials, options.policies, started)
    if found is not None and finding.verdict is Verdict.VERIFIED:
        finding = for_any(finding, found)
    tokens = [
        f"line {places.span(instruction).start_line}: {text}"
        for instruction, text in list(seen.stages.items())[:STAGES_SHOWN_MAX]
    ]
    early = _not_taken(runner, seen, places)
    return replace(finding, notes=(*notes, *filled, *finding.notes, *tokens, *early))


def verify_waves(
    code: AssemblyCode, launch: Launch, options: CodeOptions, places: CodePlaces
) -> Finding:
    """The verdict on one launch that is known as a whole, as by the program that makes it."""
    started = time.process_time()
    stalls = options.policies.counter_full == "stalls"
    runner = WaveRunner(code, options.steps_max, close_pairs_of(code), stalls)
    trials, notes = _trials(runner, launch, "", places, options, _Seen(), True)
    kernel = _judged_kernel(code, launch)
    finding = combined(kernel, [("", launch)], trials, options.policies, started)
    return replace(finding, notes=(*notes, *finding.notes))


def _judged_kernel(code: AssemblyCode, launch: Launch) -> JudgedKernel:
    lanes = lanes_of_wave(code.assembly.target)
    waves = (launch.threads + lanes - 1) // lanes
    name = short_name(code.kernel.name)
    return JudgedKernel(code.source.path, name, code.assembly.target, "wave", waves, lanes)


def _trials(
    runner: WaveRunner, launch: Launch, label: str, places: CodePlaces, options: CodeOptions,
    seen: _Seen, given: bool,
) -> tuple[list[Trial], list[str]]:  # fmt: skip
    """Work-groups of one launch, each by itself and then together, until one goes wrong; notes.

    `given`: the user's launch, and none that a sweep has made.
    """
    accesses = _no_accesses(launch, options)
    trials: list[Trial] = []
    for group in ctas_of(launch, options):
        runs, trial = _trial(runner, (launch, group, label), places, options, seen)
        trials.append(trial)
        if trial.verdict in (Verdict.REFUTED, Verdict.REFUSED):
            return trials, []
        add_group(accesses, runs, group)
    if not given or any(trial.verdict is not Verdict.VERIFIED for trial in trials):
        return trials, []
    for group in neighbours(launch) if options.ctas is None else ():
        if group not in accesses.runs:
            runs = _ways_of(runner, launch, group)
            if any(run.outcome.ending is not Ending.FINISHED for run in runs):
                where = f"({', '.join(map(str, launch.coordinates(group)))})"
                reason = f"the run of work-group {where} does not come to its end"
                return [*trials, Trial(label, where, Verdict.UNDECIDED, reason=reason)], []
            add_group(accesses, runs, group)
    if not accesses.ways and stores_meet(accesses):
        accesses = _with_values(runner, accesses, options)
    together, notes = judge_grid(accesses, label, places)
    return [*trials, *([together] if together is not None else [])], notes


def _with_values(runner: WaveRunner, accesses: GridAccesses, options: CodeOptions) -> GridAccesses:
    """The same accesses, with numbers for what is stored."""
    numbered = _no_accesses(accesses.launch, options)
    for group in accesses.runs:
        run, stored = runner.numbered(accesses.launch, group)
        if run.outcome.ending is not Ending.FINISHED:
            return accesses  # numbers are not given to all of it
        add_group(numbered, [run], group, stored)
    return numbered


def _no_accesses(launch: Launch, options: CodeOptions) -> GridAccesses:
    policies = options.policies
    return GridAccesses(launch, policies.equal_writes, policies.unsettled == "refuse", exact=False)


@dataclass(slots=True)
class _Seen:
    """What the runs show beside their verdicts: waits in words, pairs that were too close."""

    stages: dict[int, str] = field(default_factory=dict)
    close: set[tuple[int, int]] = field(default_factory=set)


def _not_taken(runner: WaveRunner, seen: _Seen, places: CodePlaces) -> list[str]:
    """Instructions that are too close to each other on paths that no run has taken."""
    left = [pair for pair in runner.close if (pair.first, pair.second) not in seen.close]
    if not left:
        return []
    pair = left[0]
    first, second = (places.span(one).start_line for one in (pair.first, pair.second))
    return [
        f"wait states are missing on paths that no launch takes: {len(left)}, the first between "
        f"lines {first} and {second} ({pair.passed} of {pair.needed}, {pair.register})"
    ]


def _trial(
    runner: WaveRunner,
    what: tuple[Launch, int, str],
    places: CodePlaces,
    options: CodeOptions,
    seen: _Seen,
) -> tuple[Sequence[Run], Trial]:
    """One work-group of one launch."""
    (launch, cta, label), code = what, runner.code
    where = label, f"({', '.join(map(str, launch.coordinates(cta)))})"
    try:
        run, errors = runner.run(launch, cta)
    except UserError as error:
        missing = diagnostic("TTN002", str(error), whole_file(code.source.path))
        run, errors = None, [missing]
    if run is None:
        return (), Trial(*where, Verdict.REFUSED, diagnostics=tuple(errors))
    question = missing_argument(run, code, places)
    if question is not None:
        return (), Trial(*where, Verdict.REFUSED, run.instructions, 0, (question,))

    def judge(way: Run) -> Trial:
        _note(seen, way)
        return _judged_run(runner, way, cta, where, places, options)

    trial = judge(run)
    if trial.verdict is Verdict.UNDECIDED and run.outcome.ending is Ending.REFUSED:
        found = runner.ways(launch, cta)
        if found is not None and found.why:
            return (), replace(trial, reason=f"{trial.reason}; {found.why}")
        if found is not None:
            ways = _runs_of(runner, found.launches, cta)
            decided = judged_paths(ways, found.branches[0], trial, judge, places)
            return decided.runs, decided.trial
    return (run,), trial


def _ways_of(runner: WaveRunner, launch: Launch, group: int) -> Sequence[Run]:
    """The runs of a work-group, one for each way that data may choose, where these are shown."""
    (run,) = _runs_of(runner, [launch], group)
    found = runner.ways(launch, group) if run.outcome.ending is Ending.REFUSED else None
    if found is None or found.why:
        return (run,)
    return tuple(_runs_of(runner, found.launches, group))


def _runs_of(runner: WaveRunner, launches: Iterable[Launch], group: int) -> Iterator[Run]:
    for launch in launches:
        run, _ = runner.run(launch, group)
        if run is not None:
            yield run


def _note(seen: _Seen, run: Run) -> None:
    for instruction, text in stage_texts(run).items():
        known = seen.stages.get(instruction)
        if known is None or "stage" in text:
            seen.stages[instruction] = text
    for event in run.events:
        if isinstance(event, WaitStatesMissing):
            seen.close.add((event.first, event.instruction))


def _judged_run(
    runner: WaveRunner, run: Run, cta: int, where: tuple[str, str], places: CodePlaces,
    options: CodeOptions,
) -> Trial:  # fmt: skip
    """The judgement on a run, with numbers for what it stores where these may decide."""
    code = runner.code
    ((_, trial),) = judge_waves([run], [where], code, places, options.policies)
    wrong = trial.verdict in (Verdict.REFUTED, Verdict.UNDECIDED)
    unused = options.policies.unused_reads == "allow" and may_be_unused(run)
    if wrong and (unused or (options.policies.equal_writes == "shown" and worth_tracing(run))):
        again = runner.traced(run.launch, cta, unused)
        if again.outcome.ending is run.outcome.ending:  # else it shows less than the run has
            ((_, trial),) = judge_waves([again], [where], code, places, options.policies)
    return trial
