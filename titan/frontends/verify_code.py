"""From a file of code and a launch to the verdict on each kernel that it launches.

A verdict covers the launches that it names, each cluster by itself, in all interleavings. The
clusters that are run are then compared: whether they race in global memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.foundation.source.span import Source, whole_file
from titan.foundation.verdict import Verdict
from titan.frontends.combine import JudgedKernel, combined
from titan.frontends.grid.asked_words import question_of
from titan.frontends.grid.drawn_numbers import DrawnNumbers
from titan.frontends.grid.hand_over import HandOver, draws, handed_over
from titan.frontends.grid.lock_words import may_lock
from titan.frontends.grid.locks import locked
from titan.frontends.grid.races import GridAccesses, judge_grid, neighbours
from titan.frontends.grid.word_waits import asks_in, may_wait, waited_for
from titan.frontends.ptx.code import CodeKernel
from titan.frontends.ptx.decided import judged_ways, ways_of
from titan.frontends.ptx.launch import LaunchDescription, completed
from titan.frontends.ptx.launch_control import with_more_clusters
from titan.frontends.ptx.machine import Runner
from titan.frontends.ptx.missing import missing_value
from titan.frontends.ptx.names import short_name
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.policies import CodePolicies
from titan.frontends.ptx.remarks import COUNTERS, ONE_GRID, TICKETS
from titan.frontends.ptx.sweep import sweep
from titan.frontends.ptx.trial import Trial, judge_run
from titan.frontends.read_code import ReadCode, named, read_file, refused, verdicts
from titan.isa.ptx.parse import parse_source
from titan.isa.simt.launch import EVENTS_SPENT, Launch
from titan.isa.simt.outcome import Ending, Run
from titan.verify.model import Finding, Narrowing, VerifyOptions

if TYPE_CHECKING:
    from titan.frontends.lift.any_number import AnyNumber

TEXT_BYTES_MAX = 16 << 20
STEPS_MAX = 20_000_000
WAITING_STEPS_MAX = 200_000  # of a run in which a CTA waits for another one, which is not there
ALL_ASKED_MAX = 64  # CTAs of a grid that are all tried, to find one that asks for a word
SCHEDULES = 4  # further schedules that are tried where one run does not decide
ONE_AT_A_TIME = "one of these numbers at a time, the others as launched"
ANY_NUMBER = VerifyOptions(require="any", save_traces=None)


@dataclass(frozen=True, slots=True)
class CodeOptions:
    """What the user asked for. `launch` None: the file beside the code; `entry` None: every entry.

    `ctas`: the CTAs whose clusters are run; None takes the first, the middle and the last.
    `steps_max` counts warp instructions of one run. `require` "any": a verdict for some launches
    only is not enough; `engines` is then what the engines may spend on lifted kernels.
    `save_traces`: the folder for interleavings that lead to a fault.
    """

    launch: str | None = None
    entry: str | None = None
    sweep: bool = False
    ctas: tuple[int, ...] | None = None
    policies: CodePolicies = field(default_factory=CodePolicies)
    steps_max: int = STEPS_MAX
    schedules: int = SCHEDULES
    require: str = "bounded"
    save_traces: str | None = None
    engines: VerifyOptions = field(default_factory=lambda: ANY_NUMBER)


def read_code(path: str, options: CodeOptions) -> ReadCode[CodeKernel]:
    """A PTX file and what says how it is launched."""
    return read_file(path, options.launch, TEXT_BYTES_MAX, partial(_kernels_of, options))


def _kernels_of(
    options: CodeOptions, source: Source, description: LaunchDescription | None
) -> tuple[list[CodeKernel], list[Diagnostic]]:
    module, errors = parse_source(source)
    if module is None:
        return [], errors
    entries = {function.name: function for function in module.entries()}
    if not entries:
        headline = "the module has no entry"
        return [], [diagnostic("TTN007", headline, whole_file(source.path))]
    chosen, errors = named(entries, options.entry, description, source, "module has no entry")
    return [CodeKernel(module, source, function) for function in chosen], errors


def verify_code_file(path: str, options: CodeOptions) -> Iterator[Finding]:
    """The verdicts on the kernels of a PTX file."""
    started = time.process_time()
    yield from _verify_all(path, read_code(path, options), options, started)


def findings_on(path: str, options: CodeOptions) -> list[Finding]:
    """The same as a list, which another process can send back."""
    return list(verify_code_file(path, options))


def verify_code(
    source: Source,
    description: LaunchDescription | None,
    options: CodeOptions,
    notes: list[str],
    started: float,
) -> Iterator[Finding]:
    """The verdicts on the kernels of a PTX text, launched as described."""
    kernels, errors = _kernels_of(options, source, description)
    read = ReadCode(kernels, description, errors, notes)
    yield from _verify_all(source.path, read, options, started)


def _verify_all(
    path: str, read: ReadCode[CodeKernel], options: CodeOptions, started: float
) -> Iterator[Finding]:
    def verify(code: CodeKernel, begun: float) -> Finding:
        return _verify_entry(code, read.description, options, read.notes, begun)

    return verdicts(path, read, started, verify)


def _verify_entry(
    code: CodeKernel,
    description: LaunchDescription | None,
    options: CodeOptions,
    notes: list[str],
    started: float,
) -> Finding:
    place = whole_file(code.source.path)
    launch, errors, filled = completed(description, code.function, place)
    if launch is None:
        finding = refused(code.source.path, errors, started)
        return replace(finding, kernel=code.function.name)
    places = CodePlaces(code.module, code.source)
    launch = replace(launch, in_turn=True)
    launches = [("", launch)]
    if options.sweep:
        runner = Runner(code.module, code.source, options.steps_max)
        launches, remarks = sweep(runner, code.function, launch)
        filled = [*filled, *remarks]
    given = None if description is None else description.cancelled
    launches += with_more_clusters(code.module, code.function, launch, given)
    trials: list[Trial] = []
    for label, one in launches:
        made, notes_on_grid = _trials(code, one, label, places, options, given=one is launch)
        trials += made
        filled += [text for text in notes_on_grid if text not in filled]
        if made[-1].verdict in (Verdict.REFUTED, Verdict.REFUSED):
            break
    else:
        alone = _alone(code, launch, trials, places, options)
        launches += [(trial.label, launch) for trial in alone]
        trials += alone
    found = None
    if options.require == "any" and any(
        text == TICKETS for trial in trials for text, _, _ in trial.assumptions
    ):
        ctas = ", ".join(trial.cta for trial in trials[:1])
        trials.append(Trial("", ctas, Verdict.UNDECIDED, reason=ONE_GRID))
    if options.require == "any" and all(item.verdict is Verdict.VERIFIED for item in trials):
        found = _any_number(code, launch, places, options)
        trials += found.trials
        filled = [*filled, *found.notes]
    finding = combined(_judged(code, launch), launches, trials, options.policies, started)
    if found is not None and finding.verdict is Verdict.VERIFIED:
        finding = for_any(finding, found)
    if finding.verdict is Verdict.REFUTED and options.save_traces is not None:
        finding = _saved(finding, code, trials, options.save_traces)
    return replace(finding, notes=(*notes, *filled, *finding.notes))


def verify_launch(
    code: CodeKernel, launch: Launch, options: CodeOptions, places: CodePlaces
) -> Finding:
    """The verdict on one launch that is known as a whole, as by the program that makes it.

    `places` are those of the code; they know the places of the diagnostics afterwards.
    """
    started = time.process_time()
    launch = replace(launch, in_turn=True)
    trials, notes = _trials(code, launch, "", places, options)
    if all(trial.verdict is Verdict.VERIFIED for trial in trials):
        trials += _alone(code, launch, trials, places, options)
    more = with_more_clusters(code.module, code.function, launch)
    for label, one in more:
        if all(trial.verdict is Verdict.VERIFIED for trial in trials):
            trials += _trials(code, one, label, places, options, given=False)[0]
    kernel = _judged(code, launch)
    finding = combined(kernel, [("", launch), *more], trials, options.policies, started)
    return replace(finding, notes=(*notes, *finding.notes))


def _trials(
    code: CodeKernel, launch: Launch, label: str, places: CodePlaces, options: CodeOptions,
    *, given: bool = True,
) -> tuple[list[Trial], list[str]]:  # fmt: skip
    """Clusters of one launch, each by itself and then together, until one goes wrong; notes.

    `given`: the user's launch. In one that a sweep has made each cluster is judged by itself: grid
    and strides stay those of the user's, so that more trips may reach into the next one's memory.
    """
    policies = options.policies
    accesses = GridAccesses(launch, policies.equal_writes, policies.unsettled == "refuse")
    runner = Runner(code.module, code.source, options.steps_max)
    trials: list[Trial] = []
    drawing: Run | None = None
    waited = HandOver()
    if given and options.ctas is None:
        waited = _waited(code, launch, label, places, options)
        if waited.trials:
            return waited.trials, waited.notes
        if waited.waits:
            # Nothing of what follows answers a wait: it would poll to the end of its budget.
            steps = min(options.steps_max, WAITING_STEPS_MAX)
            options = replace(options, steps_max=steps, schedules=0)
            runner = Runner(code.module, code.source, steps)
    for cta in ctas_of(launch, options):
        runs, trial = _trial(code, runner, (launch, cta, label), places, options)
        trials.append(trial)
        if trial.verdict in (Verdict.REFUTED, Verdict.REFUSED):
            return trials, waited.texts()
        accesses.add_ways(runs, cta)
        drawing = drawing or next((run for run in runs if draws(run)), None)
    handed = HandOver()
    if given and drawing is not None and options.ctas is None and launch.ctas > 1:
        handed = handed_over(drawing, label, places, _judge_of(code, places, policies))
        if handed.trials:
            return handed.trials, handed.notes
    if not given or any(trial.verdict is not Verdict.VERIFIED for trial in trials):
        return trials, [*handed.texts(), *waited.texts()]
    for cta in neighbours(launch) if options.ctas is None else ():
        if cta not in accesses.runs:
            run, _ = runner.run(launch, cta)
            runs = [] if run is None else ways_of(run)
            if any(way.outcome.ending is not Ending.FINISHED for way in runs):
                where = f"({', '.join(map(str, launch.coordinates(cta)))})"
                reason = f"the run of CTA {where} does not come to its end"
                return [*trials, Trial(label, where, Verdict.UNDECIDED, reason=reason)], [
                    *handed.texts(),
                    *waited.texts(),
                ]
            accesses.add_ways(runs, cta)
    together, notes = judge_grid(accesses, label, places)
    if together is not None:
        notes = [*notes, *handed.texts(), *waited.texts()]
    return [*trials, *([together] if together is not None else [])], notes


def _waited(
    code: CodeKernel, launch: Launch, label: str, places: CodePlaces, options: CodeOptions
) -> HandOver:
    """What locks and waits for words of global memory decide, where a CTA asks for one."""
    asking = replace(launch, answers=(), in_turn=False)
    runner = Runner(code.module, code.source, options.steps_max)
    if may_lock(code.module):
        run, _ = runner.run(asking, 0)
        if run is not None and run.prepared is not None:
            made = replace(run, prepared=replace(run.prepared, launch=launch))
            found = locked(made, label, places, _judge_of(code, places, options.policies))
            if found.trials or found.waits:
                return found
    if not may_wait(code.module):
        return HandOver()
    some = [*ctas_of(launch, options), *neighbours(launch)]
    every = range(launch.ctas if launch.ctas <= ALL_ASKED_MAX and launch.cluster_size == 1 else 0)
    for cta in dict.fromkeys([*some, *every]):
        run, _ = runner.run(asking, cta)
        if run is None or run.prepared is None or not asks_in(run.prepared.code):
            return HandOver()
        if question_of(run) is not None:
            made = replace(run, prepared=replace(run.prepared, launch=launch))
            return waited_for(made, label, places, _judge_of(code, places, options.policies))
    return HandOver()


def _judge_of(
    code: CodeKernel, places: CodePlaces, policies: CodePolicies
) -> Callable[[Run, str, str], Trial]:
    """The judgement on a run of a launch of the code, for a label and the name of a CTA."""

    def judge(run: Run, label: str, cta: str) -> Trial:
        name, registers = code.function.name, code.registers
        return judge_run(run, (label, cta), name, places, policies, registers)

    return judge


def _alone(
    code: CodeKernel, launch: Launch, trials: list[Trial], places: CodePlaces, options: CodeOptions
) -> list[Trial]:
    """The first cluster as the only one that raises counters of the grid, where there are any."""
    if not any(text == COUNTERS for trial in trials for text, _, _ in trial.assumptions):
        return []
    alone = replace(launch, in_turn=False)
    ctas = replace(options, ctas=options.ctas or (0,))
    if any(trial.verdict is Verdict.UNDECIDED for trial in trials):
        # It may poll, and can only be refuted: not to the end of its budget.
        steps = min(options.steps_max, WAITING_STEPS_MAX)
        ctas = replace(ctas, steps_max=steps, schedules=0)
    found = _trials(code, alone, "counters raised by it alone", places, ctas, given=False)[0]
    right = all(trial.verdict is Verdict.VERIFIED for trial in (*trials, *found))
    if not right or options.ctas is not None or launch.cancelled or launch.clusters < 2:
        return found
    runner = Runner(code.module, code.source, options.steps_max)
    chosen = dict.fromkeys([*ctas_of(launch, options), *neighbours(launch)])
    return found + DrawnNumbers(runner, launch, places, options.policies).trials([*chosen])


def _judged(code: CodeKernel, launch: Launch) -> JudgedKernel:
    name = short_name(code.function.name)
    warps = launch.warps * launch.cluster_size
    return JudgedKernel(code.source.path, name, code.target, "warp", warps, 32)


def _saved(finding: Finding, code: CodeKernel, trials: list[Trial], folder: str) -> Finding:
    """The finding with the file of its interleaving, which `titan replay` takes."""
    from titan.frontends.ptx.code_trace import CodeTrace, save_code_trace

    trial = next(item for item in trials if item.verdict is Verdict.REFUTED)
    if trial.interleaving is None or trial.made is None:
        return finding
    launch, cta, seed = trial.made
    text, name = code.source.text, code.function.name
    path = str(code.source.path)
    trace = CodeTrace(path, name, text, launch, cta, seed, trial.interleaving)
    try:
        saved = save_code_trace(trace, folder)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        note = f"the interleaving could not be saved: {reason}"
        return replace(finding, notes=(*finding.notes, note))
    marked = tuple(
        item.with_trace(replace(item.trace, path=saved))
        if item.trace is not None and item.code == trial.interleaving.code
        else item
        for item in finding.diagnostics
    )
    return replace(finding, diagnostics=marked, trace_path=saved)


def _any_number(
    code: CodeKernel, launch: Launch, places: CodePlaces, options: CodeOptions
) -> AnyNumber:
    """What lifting the kernel along the integers that drive its loops finds out."""
    from titan.frontends.lift.any_number import any_number
    from titan.frontends.lift.launched import LaunchedPtx

    launched = LaunchedPtx(code, launch, places, options.policies, options.steps_max)
    return any_number(launched, ctas_of(launch, options), options.engines)


def for_any(finding: Finding, found: AnyNumber) -> Finding:
    """The finding with what holds for any number; undecided where something that loops does not."""
    coverage = replace(
        finding.coverage,
        parameters=tuple((name, None) for name, _ in found.parameters),
        minimums=tuple(found.parameters),
        combinations=ONE_AT_A_TIME if len(found.parameters) > 1 else "",
    )
    finding = replace(finding, coverage=coverage, engines=(*found.engines, *finding.engines))
    if not found.missing:
        return finding
    names = tuple(dict.fromkeys(name for name, _ in found.missing))
    because = "; ".join(dict.fromkeys(reason for _, reason in found.missing))
    narrowing = Narrowing(names, found.reason, because, "")
    return replace(finding, verdict=Verdict.UNDECIDED, narrowing=narrowing)


def ctas_of(launch: Launch, options: CodeOptions) -> tuple[int, ...]:
    """The CTAs whose clusters are run: as asked for, or the first, the middle and the last.

    One that obtains more clusters runs what is theirs, so that the first one is enough.
    """
    if options.ctas:
        return options.ctas
    if launch.cancelled:
        return (0,)
    chosen = (0, launch.ctas // 2, launch.ctas - 1)
    return tuple(dict.fromkeys(launch.cluster_members(cta)[0] for cta in chosen))


def _trial(
    code: CodeKernel,
    runner: Runner,
    what: tuple[Launch, int, str],
    places: CodePlaces,
    options: CodeOptions,
) -> tuple[Sequence[Run], Trial]:
    """The first run of one cluster of one launch, or those of all ways that data may choose in it,
    and the judgement; where that does not decide, more schedules are tried.
    """
    launch, cta, label = what

    def judged(seed: int) -> tuple[Run | None, Trial]:
        run, errors = runner.run(launch, cta, seed)
        if run is None:
            return None, Trial(*where, Verdict.REFUSED, diagnostics=tuple(errors))
        missing = missing_value(run, code.function, places)
        if missing is not None:
            return None, Trial(*where, Verdict.REFUSED, run.instructions, 0, (missing,))
        name = code.function.name
        trial = judge_run(run, where, name, places, options.policies, code.registers)
        return run, replace(trial, made=(launch, cta, seed))

    where = label, f"({', '.join(map(str, launch.coordinates(cta)))})"
    run, first = judged(0)
    runs = [] if run is None else [run]
    if first.verdict is not Verdict.UNDECIDED:
        return runs, first
    if run is not None and run.outcome.reason == EVENTS_SPENT:
        return runs, first  # as in any schedule: what one takes in memory, others do
    if run is not None:
        name = code.function.name

        def judge(way: Run) -> Trial:
            return judge_run(way, where, name, places, options.policies, code.registers)

        ways = judged_ways(run, first, judge, places)
        if ways is not None and ways.runs and not any(map(draws, ways.runs)):
            return ways.runs, ways.trial
        # Tickets are handed over along one run, which would leave the other ways out.
        first = first if ways is None or ways.runs else ways.trial
    tried = 1
    for seed in range(1, options.schedules + 1):
        run, more = judged(seed)
        tried += 1
        if more.verdict is Verdict.REFUTED:
            return [] if run is None else [run], more
    reason = f"{first.reason}; {tried} schedules were tried, and none of them is refuted"
    return runs, replace(first, reason=reason)
