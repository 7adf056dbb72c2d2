"""A replayed fault as a diagnostic: where it is, which agents take part, how it comes about."""

from __future__ import annotations

from functools import cache

from titan.foundation.diagnostics.codes import CODES
from titan.foundation.diagnostics.model import Annotation, Diagnostic, diagnostic
from titan.foundation.source.span import Span
from titan.report.cause import cause_of
from titan.report.interleaving import agent_name, trace_of
from titan.report.story import story_of
from titan.report.words import Words, lacking
from titan.sync import program as ir
from titan.sync.expression import evaluate
from titan.sync.fault import FaultKind
from titan.verify.replay import Replay

_FLIGHT_FAULTS = (FaultKind.OVERWRITE_IN_FLIGHT, FaultKind.READ_BEFORE_ARRIVAL)


def diagnose(
    replay: Replay, sizes: tuple[tuple[str, int], ...], path: str = "", *, full_trace: bool = False
) -> Diagnostic:
    """The diagnostic of a counterexample; `sizes` are the numbers of the kernel.

    Its trace holds the steps that matter, or all with `full_trace`.
    """
    fault, machine = replay.fault, replay.machine
    words = Words(machine.program)
    story = story_of(replay)
    cause = cause_of(replay, words, story)
    annotations: list[Annotation] = []
    for index, operation in enumerate(fault.operations):
        span = operation.span
        if span is not None:
            number = fault.agents[index] if index < len(fault.agents) else -1
            label = _label(replay, words, index, number)
            annotations.append(Annotation(span, label, primary=not annotations))
    annotations = _merged([*annotations, *cause.others])
    primary = annotations[0] if annotations else None
    place = primary.span if primary else machine.program.span
    found = diagnostic(
        cause.code,
        _headline(replay, cause.headline),
        place,
        primary.label if primary else "",
        others=tuple(annotations[1:]),
        notes=(*_notes(replay, words, sizes), *dict.fromkeys(cause.notes)),
        helps=_helps(cause.code),
    )
    return found.with_trace(trace_of(replay, story, path, full=full_trace))


def _headline(replay: Replay, text: str) -> str:
    fault = replay.fault
    names = ", ".join(agent_name(replay.machine.agents, number) for number in fault.agents[:1])
    if fault.kind in (FaultKind.DEADLOCK, FaultKind.DATA_RACE) or not names:
        return text
    return f"{text} ({names})"


def _label(replay: Replay, words: Words, index: int, number: int) -> str:
    """The text below the marked line."""
    fault, machine = replay.fault, replay.machine
    who = agent_name(machine.agents, number)
    operation = fault.operations[index]
    if fault.kind is FaultKind.DEADLOCK and isinstance(operation, ir.Operation):
        agent = machine.agents[number]
        environment = machine.control.environment(agent, replay.last.positions[number].values)
        return f"{who} stays here: {words.operation(operation, environment)}"
    if fault.kind is FaultKind.DATA_RACE:
        return f"{who} accesses it here"
    if index > 0 and fault.kind in _FLIGHT_FAULTS:
        return f"in flight since {who} started it here"
    return f"here, by {who}" if index == 0 else f"{who}"


def _merged(annotations: list[Annotation]) -> list[Annotation]:
    """One mark a place: labels of agents at the same place are joined."""
    merged: dict[Span, Annotation] = {}
    for item in annotations:
        first = merged.get(item.span)
        if first is None:
            merged[item.span] = item
        elif item.label != first.label:
            label = f"{first.label}; {item.label}" if len(first.label) < 160 else first.label
            merged[item.span] = Annotation(first.span, label, first.primary)
    return list(merged.values())


def _notes(replay: Replay, words: Words, sizes: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
    values = [*sizes, *replay.machine.sizes.items()]
    notes = []
    if values:
        notes.append("with " + ", ".join(f"{name} = {_shown(value)}" for name, value in values))
    if replay.fault.kind is FaultKind.DEADLOCK:
        state = dict(replay.last.barriers)
        for key in _waited(replay):
            barrier = state.get(key)
            if barrier is not None:
                done = barrier.phase
                phases = "no phase" if done == 0 else f"phases 0 to {done - 1}"
                lacks = lacking(barrier.pending, barrier.transaction)
                notes.append(f"{words.key(key)} has completed {phases}; its phase {done} {lacks}")
        notes += _short_of(replay, words)
    return tuple(notes)


def _short_of(replay: Replay, words: Words) -> list[str]:
    """What is missing at the named barriers and pools where agents are blocked."""
    machine, notes = replay.machine, []
    named, pools = dict(replay.last.named), dict(replay.last.pools)
    for number, operation in zip(replay.fault.agents, replay.fault.operations, strict=False):
        agent = machine.agents[number]
        environment = machine.control.environment(agent, replay.last.positions[number].values)
        if isinstance(operation, ir.BarrierSync | ir.BarrierWait):
            key = operation.barrier.name, words_index(operation.barrier, environment)
            there = named.get(key)
            if there is not None and there.expected_threads:
                of = f"{there.arrived_threads} of {there.expected_threads} threads"
                notes.append(f"{of} are at {words.key(key)}")
        elif isinstance(operation, ir.PoolTake):
            asked = evaluate(operation.amount, environment)
            has = pools.get(operation.pool, 0)
            notes.append(f"{operation.pool} has {has} left and {asked} are requested")
    return list(dict.fromkeys(notes))


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _waited(replay: Replay) -> list[tuple[str, int]]:
    """The mbarriers at which agents are blocked."""
    machine = replay.machine
    keys = []
    for number, operation in zip(replay.fault.agents, replay.fault.operations, strict=False):
        if isinstance(operation, ir.Wait | ir.TokenWait):
            agent = machine.agents[number]
            environment = machine.control.environment(agent, replay.last.positions[number].values)
            index = words_index(operation.barrier, environment)
            keys.append((operation.barrier.name, index))
    return list(dict.fromkeys(keys))


def words_index(reference: ir.Reference, environment: dict[str, int]) -> int:
    """The index of a reference under an environment."""
    return evaluate(reference.index, environment)


@cache
def _helps(code: str) -> tuple[str, ...]:
    """The advice of the rule, from its explanation."""
    from titan.foundation.diagnostics.rules import explanation

    text = explanation(CODES[code]).sections.get("What to do", "")
    first = " ".join(text.split("\n\n")[0].split()).rstrip(".")
    return (first[:1].lower() + first[1:],) if first else ()
