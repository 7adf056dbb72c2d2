"""One run of one cluster of a launch, judged with all its interleavings.

The machine runs the cluster once; the run becomes a sync program; the happens-before engine decides
all interleavings of it. The verdict holds for the launch only under the conditions of confluence
(titan/isa/simt/outcome.py), which are checked here; where one fails, the trial is UNDECIDED and
names it, whatever the engine says of this one run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from titan.engines.happens_before.engine import OrderResult
from titan.foundation.collector import uncollected
from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.addressed_ctas import wrong_ctas
from titan.frontends.ptx.barrier_lanes import unordered_lanes
from titan.frontends.ptx.barrier_reads import barriers_read
from titan.frontends.ptx.breaches import (
    UNFENCED,
    breaches,
    open_lanes,
    stale_stages,
    unfenced_elsewhere,
    unfenced_products,
    with_fences_followed,
)
from titan.frontends.ptx.equal_writes import stores_repeat, with_lane_clashes, worth_tracing
from titan.frontends.ptx.fault_members import (
    UNORDERED,
    involved,
    loads_tensor_memory,
    unknown_address,
    written_by_copy,
)
from titan.frontends.ptx.interleaving import MachineInterleaving, interleaving_of
from titan.frontends.ptx.lane_schedules import LANES_HELP, other_schedules
from titan.frontends.ptx.launch_control import requests_after_refusal
from titan.frontends.ptx.lone_lanes import LONE, LONE_HELP, with_lone_lanes
from titan.frontends.ptx.loops_on_data import assertions, data_loops, open_ends
from titan.frontends.ptx.map_acquires import with_own_acquires
from titan.frontends.ptx.missing import not_ended, refusal
from titan.frontends.ptx.mixed_barriers import mixed_barriers
from titan.frontends.ptx.module_variables import started_with
from titan.frontends.ptx.order_of_run import (
    WEAK_KIND,
    arrives_twice,
    by_wider_readings,
    narrow_releases,
    order_of_run,
    weak_helps,
    with_counted_arrivals,
)
from titan.frontends.ptx.out_of_order import out_of_order
from titan.frontends.ptx.peeks import left_waits
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.policies import CodePolicies
from titan.frontends.ptx.product_descriptors import malformed_products
from titan.frontends.ptx.read_only import written_read_only
from titan.frontends.ptx.record import LaunchRecording, record_together
from titan.frontends.ptx.reductions import meeting_reductions, with_one_operation
from titan.frontends.ptx.register_operands import order_with_operands
from titan.frontends.ptx.remarks import (
    COPY_HELP,
    DECIDES_MORE,
    EARLY_CHANGED,
    EARLY_READ,
    EARLY_WRITE,
    EQUAL_LANES,
    EXIT_HELP,
    LOAD_HELP,
    POLICY_OF,
    UNSETTLED,
    listed,
)
from titan.frontends.ptx.rendering import ReplayFailedError, render_fault
from titan.frontends.ptx.replay_code import shows_fault
from titan.frontends.ptx.settled import first_unsettled, own_counters, settled_form, strong_alone
from titan.frontends.ptx.shipped_readings import as_shipped, by_the_text
from titan.frontends.ptx.tensor_allocations import tensor_allocations
from titan.frontends.ptx.unplaced_lanes import unplaced_lanes
from titan.frontends.ptx.unwritten import certain_uses, perhaps_used, with_unwritten
from titan.frontends.ptx.warpgroup_waits import groups_left
from titan.frontends.ptx.warpgroups import unlike_warps
from titan.isa.ptx.module import Module
from titan.isa.simt import events as ev
from titan.isa.simt.grid_wait import EarlyAccesses, early_accesses
from titan.isa.simt.launch import Launch
from titan.isa.simt.outcome import INSTRUCTIONS_MAX, Ending, Run
from titan.isa.simt.tracing.traced import traced
from titan.sync.fault import FaultKind

STUCK = (FaultKind.DEADLOCK, FaultKind.LAPPED_WAIT)  # no faults of code that gives up its waits


@dataclass(frozen=True, slots=True)
class Trial:
    """The judgement on one run: `label` says what is changed in the launch, `cta` where it ran.

    `instructions` counts warp instructions, `operations` those of the sync program. `reason` says
    why it is undecided. `assumptions` are what it rests on: text, times used, first place. `order`
    is the engine's answer on the sync program alone. `interleaving` leads to the fault that the
    engine found. `made`: the launch, the CTA and the seed of the run. `in_tensor_memory`: the
    fault is about tensor memory alone.
    """

    label: str
    cta: str
    verdict: Verdict
    instructions: int = 0
    operations: int = 0
    diagnostics: tuple[Diagnostic, ...] = ()
    reason: str = ""
    assumptions: tuple[tuple[str, int, str], ...] = ()
    order: Verdict | None = None
    interleaving: MachineInterleaving | None = None
    made: tuple[Launch, int, int] | None = None
    in_tensor_memory: bool = False


@dataclass(slots=True)
class _Judged:
    diagnostics: list[Diagnostic] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    assumptions: dict[str, tuple[int, int]] = field(default_factory=dict)
    interleaving: MachineInterleaving | None = None
    in_tensor_memory: bool = False
    early: EarlyAccesses = field(default_factory=EarlyAccesses)
    polled: str = ""  # the reason that a test of a barrier decides more than waiting


def judge_run(
    run: Run,
    where: tuple[str, str],
    name: str,
    places: CodePlaces,
    policies: CodePolicies,
    registers_per_thread: int | None = None,
) -> Trial:
    """The judgement on a run that has been made; `where` is the label and the CTA of the trial."""
    (judged,) = judge_together([run], [where], name, places, policies, registers_per_thread)
    return judged[1]


def target_of(places: CodePlaces) -> str:
    """The target that a PTX module names; empty for other code."""
    module = places.module
    return module.target[0] if isinstance(module, Module) and module.target else ""


@uncollected
def judge_together(
    runs: Sequence[Run],
    where: Sequence[tuple[str, str]],
    name: str,
    places: CodePlaces,
    policies: CodePolicies,
    registers_per_thread: int | None = None,
) -> list[tuple[LaunchRecording, Trial]]:
    """The recordings of runs of one cluster over one set of regions, and their judgements.

    What is right where each warp waits for its own part of a wgmma group is right where it waits
    for all of the group, and code with the fences and waits that PTX names is right under every
    reading. So that is tried first, and only what is not verified so is judged as the policies
    `copy_fence`, `load_ready` and `wgmma_wait` say. Where accesses race, or lanes of one store
    write the same bytes, the runs are made again with their values traced, and judged by what is
    shown of them. What strong accesses give is settled where nothing races even if they are
    plain ones (`settled.py`), and so is what engines reduce by several operations
    (`reductions.py`).
    """
    judged = _judged_settled(runs, where, name, places, policies, registers_per_thread)
    if policies.unsettled == "allow":
        return judged
    for number, (recording, trial) in enumerate(judged):
        run = runs[number]
        meeting = meeting_reductions(run) if trial.verdict is Verdict.VERIFIED else []
        if meeting:
            form, at = with_one_operation(run, meeting), where[number]
            ((_, other),) = _judged_by_groups([form], [at], name, places, policies, None)
            if other.order is not Verdict.VERIFIED:
                judged[number] = recording, _unsettled(trial, meeting[0].instruction, places)
    return judged


def _judged_settled(
    runs: Sequence[Run],
    where: Sequence[tuple[str, str]],
    name: str,
    places: CodePlaces,
    policies: CodePolicies,
    registers_per_thread: int | None,
) -> list[tuple[LaunchRecording, Trial]]:
    """The same of the accesses of threads."""
    whole = all(run.outcome.ending in (Ending.FINISHED, Ending.HUNG) for run in runs)
    forms = [settled_form(run) if whole else None for run in runs]
    if all(form is None for form in forms):
        return _judged_traced(runs, where, name, places, policies, registers_per_thread)
    settled = [form or run for form, run in zip(forms, runs, strict=True)]
    judged = _judged_traced(settled, where, name, places, policies, registers_per_thread)
    if all(trial.verdict is Verdict.VERIFIED for _, trial in judged):
        return judged
    alone = [
        run if form is None else strong_alone(form) for form, run in zip(forms, runs, strict=True)
    ]
    # What is in flight at the end has nothing to do with whether the reads are settled.
    apart = replace(policies, exit_in_flight="allow")
    found = _judged_by_groups(alone, where, name, places, apart, registers_per_thread)
    order = [_is_settled(one, *judgement) for one, judgement in zip(alone, found, strict=True)]
    if all(order):
        return judged
    judged = _judged_traced(runs, where, name, places, policies, registers_per_thread)
    if policies.unsettled == "allow":
        return judged
    return [
        (
            recording,
            trial if ok or form is None else _unsettled(trial, first_unsettled(form), places),
        )
        for (recording, trial), ok, form in zip(judged, order, forms, strict=True)
    ]


def _is_settled(alone: Run, recording: LaunchRecording, trial: Trial) -> bool:
    clashes = any(isinstance(event, ev.LaneClash) for event in alone.events)
    ordered = trial.order is Verdict.VERIFIED
    return ordered and not clashes and EQUAL_LANES not in recording.remarks


def _unsettled(trial: Trial, instruction: int, places: CodePlaces) -> Trial:
    """The trial; undecided where nothing else is wrong."""
    if trial.verdict is not Verdict.VERIFIED:
        return trial
    place = f"line {places.span(instruction).start_line}"
    return replace(trial, verdict=Verdict.UNDECIDED, reason=f"{UNSETTLED} ({place})")


def _judged_traced(
    runs: Sequence[Run],
    where: Sequence[tuple[str, str]],
    name: str,
    places: CodePlaces,
    policies: CodePolicies,
    registers_per_thread: int | None,
) -> list[tuple[LaunchRecording, Trial]]:
    """The same of runs as they are."""
    if policies.lanes != "ordered":
        runs = [with_lane_clashes(run, policies) for run in runs]
    if policies.unwritten_reads == "refuse":
        runs = [with_unwritten(run) for run in runs]
    if policies.register_ready == "refuse":
        runs = [with_fences_followed(run) for run in runs]
    judged = _judged_by_groups(runs, where, name, places, policies, registers_per_thread)
    unordered = any(item.code in UNORDERED for _, trial in judged for item in trial.diagnostics)
    compares = policies.equal_writes == "shown"
    runs = [
        replace(run, traced=traced(run))
        if (unordered and worth_tracing(run)) or (compares and EQUAL_LANES in recording.remarks)
        else run
        for run, (recording, _) in zip(runs, judged, strict=True)
    ]
    if any(run.traced is not None for run in runs):
        judged = _judged_by_groups(runs, where, name, places, policies, registers_per_thread)
    if not unordered and policies.lanes == "ordered":
        return judged
    return [
        (
            recording,
            _of_long(run, trial) if unordered else _of_lanes(run, trial, name, places, policies),
        )
        for run, (recording, trial) in zip(runs, judged, strict=True)
    ]


def _of_long(run: Run, trial: Trial) -> Trial:
    """The trial; undecided where warps repeat each other's accesses in a run too long to trace."""
    long = run.traced is None and run.instructions > INSTRUCTIONS_MAX and worth_tracing(run)
    if not long or trial.verdict is not Verdict.REFUTED or trial.in_tensor_memory:
        return trial
    if any(item.code not in UNORDERED for item in trial.diagnostics):
        return trial
    return replace(
        trial,
        verdict=Verdict.UNDECIDED,
        reason="warps repeat accesses of each other without order, and values are compared in runs "
        f"of up to {INSTRUCTIONS_MAX:,} warp instructions only",
        interleaving=None,
    )


def _of_lanes(
    run: Run, trial: Trial, name: str, places: CodePlaces, policies: CodePolicies
) -> Trial:
    """The trial, or its refutation where lanes of a warp go on in another order."""
    if trial.verdict is Verdict.REFUTED or trial.order is not Verdict.VERIFIED:
        return trial
    for other in other_schedules(run):
        where = [(trial.label, trial.cta)]
        ((_, found),) = _judged_by_groups([other], where, name, places, policies, None)
        repeated = stores_repeat(run) and any(f.code in UNORDERED for f in found.diagnostics)
        if found.order is Verdict.REFUTED and found.verdict is Verdict.REFUTED and not repeated:
            return replace(
                trial,
                verdict=Verdict.REFUTED,
                order=Verdict.REFUTED,
                diagnostics=tuple(
                    replace(item, helps=(*item.helps, LANES_HELP)) for item in found.diagnostics
                ),
            )
    lone = with_lone_lanes(run) if trial.verdict is Verdict.VERIFIED else None
    if lone is None:
        return trial
    where = [(trial.label, trial.cta)]
    ((_, found),) = _judged_by_groups([with_unwritten(lone)], where, name, places, policies, None)
    if found.verdict is Verdict.VERIFIED:
        return trial
    items = tuple(replace(item, helps=(*item.helps, LONE_HELP)) for item in found.diagnostics)
    reason = f"{LONE}: {found.reason}" if found.reason else ""
    return replace(
        trial, verdict=found.verdict, order=found.order, diagnostics=items, reason=reason
    )


def _judged_by_groups(
    runs: Sequence[Run],
    where: Sequence[tuple[str, str]],
    name: str,
    places: CodePlaces,
    policies: CodePolicies,
    registers_per_thread: int | None,
) -> list[tuple[LaunchRecording, Trial]]:
    """The same by the text of PTX first, then by the readings that the policies allow."""
    left = groups_left(runs) if policies.wgmma_wait == "warpgroup" else 0
    narrow, wide = by_the_text(policies), as_shipped(policies, name, places.module, runs)
    attempts = [(narrow, 0)]
    if wide != narrow:
        attempts.append((wide, 0))
    if left:
        attempts.append((wide, left))
    reading = narrow
    recordings: list[LaunchRecording] = []
    orders: list[OrderResult | None] = []
    for reading, groups in attempts:
        recordings = record_together(
            runs, name, target_of(places), places.span, reading, registers_per_thread, groups
        )
        last = (reading, groups) == attempts[-1]
        orders = [
            order_of_run(run, recording, reading, show=last)
            for run, recording in zip(runs, recordings, strict=True)
        ]
        if last or all(order is None or order.verdict is Verdict.VERIFIED for order in orders):
            break
    rest = name, target_of(places), places.span, wide, registers_per_thread, left
    for n, order in enumerate(orders):
        if order is not None and order.fault is not None and order.fault.kind is WEAK_KIND:
            found = order_with_operands(runs[n], rest, reading)
            wider = found or by_wider_readings(runs[n], recordings[n], order, reading)
            recordings[n], orders[n] = wider
        elif arrives_twice(order) and reading.named_arrivals == "counted":
            recordings[n], orders[n] = with_counted_arrivals(runs[n], recordings[n], order, reading)
        elif order is not None and order.fault is None:
            recordings[n], orders[n] = with_own_acquires(
                runs[n], rest, recordings[n], order, reading
            )
    return [
        (recording, judge_recording(run, recording, label, places, reading, None, order))
        for run, recording, label, order in zip(runs, recordings, where, orders, strict=True)
    ]


def judge_recording(
    run: Run,
    recording: LaunchRecording,
    where: tuple[str, str],
    places: CodePlaces,
    policies: CodePolicies,
    faults: Sequence[Diagnostic] | None = None,
    result: OrderResult | None = None,
) -> Trial:
    """The judgement on a run and its recording.

    `faults`: what the machine saw go wrong, where it is another than that of PTX. `result`: what
    the engine found on the program, if it was asked.
    """
    judged = _Judged()
    judged.diagnostics += _happened(run, places, policies) if faults is None else faults
    _conditions(run, recording, places, policies, judged)
    operations = sum(len(role.body) for role in recording.program.roles)
    left = left_waits(run)
    happened = refuted = bool(judged.diagnostics)
    order: Verdict | None = None
    result = result or order_of_run(run, recording, policies, show=True)
    if result is not None:
        order = result.verdict
        judged.diagnostics += [] if happened else out_of_order(result, recording, places)
        refuted = bool(judged.diagnostics)
        if result.narrow:
            judged.assumptions["narrow-reads"] = narrow_releases(run)
        hung = run.outcome.ending is Ending.HUNG
        if hung and result.fault is not None and result.fault.kind is FaultKind.LEAK_AT_EXIT:
            pass  # the program only ends where the run hangs
        else:
            refuted = _decide(result, run, recording, places, policies, judged) or refuted
        # A run that hangs has happened, whatever other runs may do.
        deadlock = result.fault is not None and result.fault.kind is FaultKind.DEADLOCK
        happened = happened or (hung and refuted and deadlock and not left)
        if left and (not refuted or (result.fault and result.fault.kind in STUCK)):
            place = f"line {places.span(left[0]).start_line}"
            judged.reasons.append(f"the code may go on where a wait has not passed ({place})")
        if hung and not refuted:
            judged.reasons.append(f"the run hangs: {run.outcome.reason}")
    for text, instruction in () if refuted else _left_open(run, recording, policies, judged.early):
        judged.reasons.append(f"{text} (line {places.span(instruction).start_line})")
    if refuted and not happened and judged.reasons and set(judged.reasons) == {judged.polled}:
        found = judged.interleaving
        happened = found is not None and shows_fault(run, places, found)
    if happened or (refuted and not judged.reasons):
        verdict = Verdict.REFUTED
    else:
        verdict = Verdict.UNDECIDED if judged.reasons else Verdict.VERIFIED
    return Trial(
        *where,
        verdict,
        run.instructions,
        operations,
        tuple(judged.diagnostics),
        judged.reasons[0] if judged.reasons else "",
        listed(judged.assumptions, places),
        order,
        judged.interleaving if verdict is Verdict.REFUTED else None,
        in_tensor_memory=judged.in_tensor_memory,
    )


def _happened(run: Run, places: CodePlaces, policies: CodePolicies) -> list[Diagnostic]:
    """What went wrong in the run itself, whatever the interleaving."""
    return [
        *breaches(run, places, policies),
        *written_read_only(run, places),
        *wrong_ctas(run, places),
        *malformed_products(run, places),
        *unordered_lanes(run, places, policies),
        *requests_after_refusal(run, places),
        *barriers_read(run, places),
        *tensor_allocations(run, places),
        *unlike_warps(run, places),
        *mixed_barriers(run, places),
        *(certain_uses(run, places) if policies.unwritten_reads == "refuse" else ()),
    ]


def _left_open(
    run: Run, recording: LaunchRecording, policies: CodePolicies, early: EarlyAccesses
) -> Iterator[tuple[str, int]]:
    """What is not decided where nothing refutes the run, and at which instruction."""
    yield from open_ends(run)
    if policies.unwritten_reads == "refuse":
        yield from perhaps_used(run)
    if policies.stale_reads == "refuse":
        yield from stale_stages(run, policies)
    if policies.grid_wait != "all":
        for instruction in early.writes[:1]:
            yield EARLY_WRITE, instruction
        for instruction in early.reads[:1] if policies.grid_wait == "none" else ():
            yield EARLY_READ, instruction
        for instruction in early.changed[:1]:
            yield EARLY_CHANGED, instruction
    if policies.register_ready == "refuse":
        for instruction in unfenced_products(run, certain=False):
            yield f"on some way {UNFENCED}", instruction
    yield from open_lanes(run, recording.remarks, policies)
    yield from unplaced_lanes(run) if policies.lanes != "ordered" else ()


def _decide(
    result: OrderResult,
    run: Run,
    recording: LaunchRecording,
    places: CodePlaces,
    policies: CodePolicies,
    judged: _Judged,
) -> bool:
    """Whether the engine refutes the program; adds the diagnostic or the reason."""
    if result.verdict is Verdict.VERIFIED:
        return False
    if result.verdict is not Verdict.REFUTED:
        judged.reasons.append(result.remark)
        return False
    try:
        rendered = render_fault(recording, result, places)
    except ReplayFailedError as error:
        judged.reasons.append(f"the interleaving does not replay: {error}")
        return False
    item = rendered.diagnostic
    concerned = involved(rendered)
    judged.in_tensor_memory = bool(concerned) and all(
        effect.buffer.startswith("tensor") for _, effects in concerned for effect in effects
    )
    loads = [event for event, _ in concerned if loads_tensor_memory(event)]
    if loads and policies.load_ready == "allow":
        item = replace(item, helps=(*item.helps, LOAD_HELP))
    if item.code == FaultKind.LEAK_AT_EXIT.value:
        item = replace(item, helps=(*item.helps, EXIT_HELP))
    if item.code == FaultKind.MISSING_FENCE.value and written_by_copy(rendered, run, recording):
        item = replace(item, helps=(*item.helps, COPY_HELP))
    if item.code == WEAK_KIND.value:
        item = replace(item, helps=(*item.helps, *weak_helps(run, recording, policies)))
    if rendered.replay is not None:
        judged.interleaving = interleaving_of(run, rendered.replay, rendered.members)
    if item.code not in {known.code for known in judged.diagnostics}:
        judged.diagnostics.append(item)
    unknown = unknown_address(run, rendered)
    if unknown is not None:
        place = f"line {places.span(unknown).start_line}"
        text = "the address of an access is not known, so that it may touch all memory"
        judged.reasons.append(f"{text} ({place})")
    return True


def _conditions(
    run: Run,
    recording: LaunchRecording,
    places: CodePlaces,
    policies: CodePolicies,
    judged: _Judged,
) -> None:
    """What keeps the run from representing all interleavings, and what it assumes."""
    reasons = judged.reasons

    def at(instruction: int) -> str:
        return f"line {places.span(instruction).start_line}" if instruction >= 0 else "the launch"

    outcome = run.outcome
    if outcome.ending in (Ending.REFUSED, Ending.FAULT):
        reasons.append(f"{refusal(run, places)} ({at(outcome.site)})")
    elif outcome.ending is Ending.BUDGET:
        reasons.append(not_ended(run))
    for text, instruction in recording.problems:
        reasons.append(f"{text} ({at(instruction)})")
    for sequence in run.confluence.polls[:1]:
        place = at(run.events[sequence].instruction)
        judged.polled = f"the result of a try_wait or test_wait {DECIDES_MORE} ({place})"
        reasons.append(judged.polled)
    counters = own_counters(run) if run.confluence.atomics else set()
    if counters:
        tried = "tickets" if run.launch.tickets else "counters"
        judged.assumptions[tried] = (len(counters), run.confluence.atomics[0])
    for instruction in () if counters else run.confluence.atomics[:1]:
        reasons.append(f"the old value of an atomic decides control flow ({at(instruction)})")
    for steering in run.confluence.steering:
        access = run.events[steering.sequence]
        if steering.sequence in counters or _is_answered(run, access):
            continue
        if isinstance(access, ev.AccessEvent) and access.semantics is not ev.AccessSemantics.WEAK:
            place = at(steering.instruction)
            reasons.append(
                f"bytes that others may change at any time decide control flow ({place})"
            )
            break
    loops = data_loops(run)
    if loops:
        judged.assumptions["data-loops"] = (len(loops), loops[0])
    judged.early = early_accesses(run.events)
    early = judged.early.reads
    if early and policies.grid_wait == "reads":
        judged.assumptions["early-reads"] = (len(early), early[0])
    unfenced = unfenced_elsewhere(run)
    if unfenced:
        judged.assumptions["unfenced-elsewhere"] = (len(unfenced), unfenced[0])
    asserted = assertions(run)
    if asserted:
        judged.assumptions["assertions"] = (len(asserted), asserted[0])
    loaded: set[int] = set()  # operations that are tcgen05.ld
    for event in run.events:
        policy = event.policy if isinstance(event, ev.Assumption) else ""
        if isinstance(event, ev.AsynchronousEvent):
            if event.kind is ev.RecordedOperation.TENSOR_LOAD:
                loaded.add(event.operation)
        elif isinstance(event, ev.RegisterBreach) and policies.load_ready == "allow":
            policy = "load-ready" if event.operation in loaded else ""
        if policy:
            times, first = judged.assumptions.get(policy, (0, event.instruction))
            judged.assumptions[policy] = (times + 1, first)
    for policy, (option, text) in POLICY_OF.items():
        if policy in judged.assumptions and getattr(policies, option) == "refuse":
            place = at(judged.assumptions[policy][1])
            reasons.append(f"the policy {option}=refuse does not allow that {text} ({place})")
    judged.assumptions |= started_with(run) | recording.remarks


def _is_answered(run: Run, access: ev.Event) -> bool:
    """Whether an access is one of a word whose numbers are all tried (`word_waits.py`)."""
    if run.launch.answers is None or not isinstance(access, ev.AccessEvent):
        return False
    return access.footprint.bounds[0] in run.launch.tickets
