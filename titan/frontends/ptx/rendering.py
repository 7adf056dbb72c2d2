"""A fault of a recording as a diagnostic that points at the code, and at its source.

For this, the program is cut down to the memory that the fault concerns and decided again, so that
each mark points at the very instruction that touches it, and the interleaving is short. Where that
loses the fault, the whole program is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from titan.engines.happens_before.engine import OrderResult, analyse
from titan.foundation.diagnostics.model import (
    Annotation,
    Diagnostic,
    TraceReference,
    TraceStep,
    diagnostic,
)
from titan.foundation.errors import InternalError
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.agents import Member
from titan.frontends.ptx.memory import united
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.record import LaunchRecording
from titan.report.fault import diagnose
from titan.sync import program as ir
from titan.sync.fault import Fault
from titan.sync.parts import effects_of
from titan.verify.replay import Replay, ReplayError, replay

STEPS_SHOWN_MAX = 24


class ReplayFailedError(InternalError):
    """The interleaving of the engine does not lead to its fault on the reference interpreter."""


@dataclass(frozen=True, slots=True)
class RenderedFault:
    """The diagnostic; and the interleaving on the reference interpreter, where there is one.

    `members`: what the operations of the replayed program were made of, by identity.
    """

    diagnostic: Diagnostic
    replay: Replay | None = None
    members: Mapping[int, list[Member]] = field(default_factory=dict)


def render_fault(
    recording: LaunchRecording, result: OrderResult, places: CodePlaces
) -> RenderedFault:
    """A refutation as a diagnostic. Raises ReplayFailedError."""
    assert result.fault is not None
    members: dict[int, list[Member]] = {}
    program = _reduced(recording, _concerned(result.fault), places, members)
    fewer = analyse(program)
    same = fewer.fault is not None and fewer.fault.kind is result.fault.kind
    if fewer.verdict is Verdict.REFUTED and same and fewer.trace is not None:
        result = fewer
    else:
        members.clear()
        program = _reduced(recording, None, places, members)
        result = analyse(program)
        if result.fault is None:
            raise ReplayFailedError("the whole program does not show it")
    if result.trace is None:
        assert result.fault is not None
        return RenderedFault(_render_without_trace(result.fault, places))
    try:
        played = replay(program, result.trace)
    except ReplayError as error:
        raise ReplayFailedError(str(error)) from None
    item = with_sources(_shortened(diagnose(played, ())), places)
    return RenderedFault(item, played, members)


def _concerned(fault: Fault) -> set[str]:
    """The buffers that a fault is about."""
    names = {fault.object_name}
    if not fault.object_name:
        for operation in fault.operations:
            names |= {effect.buffer for effect in effects_of(operation)}
    return names


def _reduced(
    recording: LaunchRecording,
    buffers: set[str] | None,
    places: CodePlaces,
    members: dict[int, list[Member]],
) -> ir.SyncProgram:
    """The program with these buffers only (None: all), each operation at its own instruction.

    `members` is filled: what each operation is made of, that touches these buffers.
    """
    program = recording.program
    roles = []
    for role in program.roles:
        body = []
        for operation in role.body:
            made_of = recording.members[id(operation)]
            kept = _kept(operation, made_of, buffers, places)
            if kept is not None:
                body.append(kept)
                members[id(kept)] = made_of
        roles.append(replace(role, body=tuple(body)))
    declared = program.buffers
    if buffers is not None:
        declared = tuple(item for item in declared if item.name in buffers)
    return replace(program, roles=tuple(roles), buffers=declared)


def _kept(
    operation: ir.Operation, members: list[Member], buffers: set[str] | None, places: CodePlaces
) -> ir.Operation | None:
    if not isinstance(operation, ir.Access | ir.Asynchronous):
        return operation
    touching = [
        (event, tuple(item for item in them if buffers is None or item.buffer in buffers))
        for event, them in members
    ]
    mine = {effect.buffer for effect in operation.effects}
    effects = tuple(
        effect
        for effect in united(effect for _, them in touching for effect in them)
        if effect.buffer in mine
    )
    if isinstance(operation, ir.Access) and not effects:
        return None
    first = next((event for event, them in touching if them), members[0][0])
    span = places.span(first.instruction)
    return replace(operation, effects=effects, span=span, label=places.word(first.instruction))


def _render_without_trace(fault: Fault, places: CodePlaces) -> Diagnostic:
    found = [operation.span for operation in fault.operations if operation.span]
    others = tuple(Annotation(span) for span in found[1:])
    first = found[0] if found else None
    item = diagnostic(fault.kind.value, fault.message, first, others=others)
    return with_sources(item, places)


def _shortened(item: Diagnostic) -> Diagnostic:
    """The last steps of a long interleaving."""
    if item.trace is None or len(item.trace.steps) <= STEPS_SHOWN_MAX:
        return item
    left_out = len(item.trace.steps) - STEPS_SHOWN_MAX
    first = TraceStep("", f"({left_out} steps before)")
    steps = (first, *item.trace.steps[left_out:])
    return item.with_trace(TraceReference(steps, item.trace.path))


def with_sources(item: Diagnostic, places: CodePlaces) -> Diagnostic:
    """The labels with the source lines that the marked instructions were compiled from."""
    annotations = []
    for annotation in item.annotations:
        source = places.source_of(annotation.span)
        label = annotation.label
        if source:
            label = f"{label} [{source}]" if label else f"[{source}]"
        annotations.append(replace(annotation, label=label))
    return replace(item, annotations=tuple(annotations))
