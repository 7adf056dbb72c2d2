"""What events a fault that was replayed is about: copies, loads, accesses at unknown addresses."""

from __future__ import annotations

from titan.frontends.ptx.record import LaunchRecording, Member
from titan.frontends.ptx.rendering import RenderedFault
from titan.isa.simt import events as ev
from titan.isa.simt.outcome import Run

UNORDERED = ("TTN201", "TTN202")  # accesses that may not matter
IN_FLIGHT = "TTN203"  # of AMD waves each access may be in flight


def written_by_copy(rendered: RenderedFault, run: Run, recording: LaunchRecording) -> bool:
    """Whether a cp.async writes the memory that a fault is about."""
    name = rendered.replay.fault.object_name if rendered.replay is not None else ""
    if name not in recording.memory.buffers:
        return False
    number = recording.memory.region_of(name)
    return any(
        number in recording.memory.regions.of.get(effect.footprint, ())
        for event in run.events
        if isinstance(event, ev.AsynchronousEvent) and event.kind is ev.RecordedOperation.COPY
        for effect in event.effects
        if effect.mode is not ev.Mode.READ
    )


def involved(rendered: RenderedFault) -> list[Member]:
    """The events of the operations that a replayed fault is about, with their effects."""
    if rendered.replay is None:
        return []
    return [
        member
        for operation in rendered.replay.fault.operations
        for member in rendered.members.get(id(operation), ())
    ]


def loads_tensor_memory(event: ev.Event) -> bool:
    """Whether an event is a tcgen05.ld."""
    return (
        isinstance(event, ev.AsynchronousEvent) and event.kind is ev.RecordedOperation.TENSOR_LOAD
    )


def unknown_address(run: Run, rendered: RenderedFault) -> int | None:
    """The instruction with an unknown address that takes part in a race, if one does.

    Such an access may touch all memory, so the race is none that is known.
    """
    if rendered.replay is None or rendered.diagnostic.code not in (*UNORDERED, IN_FLIGHT):
        return None
    unknown = run.unknown_addresses()
    name = rendered.replay.fault.object_name
    for event, effects in involved(rendered) if unknown else ():
        if event.instruction in unknown and (
            not name or any(effect.buffer == name for effect in effects)
        ):
            return event.instruction
    return None
