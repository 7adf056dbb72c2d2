"""Questions to the user about what a run depends on and the launch leaves open."""

from __future__ import annotations

import re

from titan.foundation.diagnostics.model import Annotation, Diagnostic, diagnostic
from titan.foundation.source.span import Span
from titan.frontends.ptx.names import short_name
from titan.frontends.ptx.places import CodePlaces
from titan.isa.ptx.module import Address, Function, Instruction, Symbol
from titan.isa.simt import events as ev
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.launch import EVENTS_SPENT
from titan.isa.simt.layout import entry_places
from titan.isa.simt.outcome import Ending, Run


def missing_value(run: Run, function: Function, places: CodePlaces) -> Diagnostic | None:
    """The question, by name and with what is known; None if the run ended for another reason."""
    outcome = run.outcome
    if outcome.ending is not Ending.REFUSED or outcome.site < 0:
        return None
    place = places.span(outcome.site)
    if outcome.map_offset >= 0:
        return _missing_map(outcome.map_offset, function, place)
    if outcome.origin < 0:
        return None
    load = places.module.instructions[outcome.origin]
    if not isinstance(load, Instruction):
        return None
    address = load.operands[-1] if load.operands else None
    if load.opcode != "ld" or "param" not in load.modifiers or not isinstance(address, Address):
        return None
    if not isinstance(address.base, Symbol):
        return None
    for number, variable in enumerate(function.parameters):
        if variable.name == address.base.name:
            offset = address.base.offset + address.offset
            headline = (
                f"the launch lacks parameter {number} ({short_name(variable.name)}), "
                f"offset {offset}, of type {variable.type}"
            )
            others = (Annotation(places.span(outcome.origin), "it is read here"),)
            return diagnostic("TTN018", headline, place, outcome.reason, others=others)
    return None


def _missing_map(at: int, function: Function, place: Span) -> Diagnostic:
    """A tensor copy through bytes of a parameter that are no map of the launch."""
    headline = "the launch lacks a tensor map"
    for number, (variable, (start, size)) in enumerate(
        zip(function.parameters, entry_places(function), strict=True)
    ):
        if start <= at < start + size:
            offset = at - start
            headline += f": parameter {number} ({short_name(variable.name)}), offset {offset}: box?"
    return diagnostic("TTN018", headline, place, "this copy needs it")


def not_ended(run: Run) -> str:
    """What of its budget a run has used before its end, and what helps."""
    reason = f"the run has not ended after {run.instructions} warp instructions"
    if run.outcome.reason != EVENTS_SPENT:
        return reason
    return (
        f"{reason}, and what it does is recorded up to {len(run.events):,} events: launch it with "
        "fewer trips (any number of them is decided from a launch of few by `--require any`)"
    )


def refusal(run: Run, places: CodePlaces) -> str:
    """Why the machine gave up, with the line that made the value that is not known, and the bytes
    of a parameter's memory that it was loaded from, which the launch may give.
    """
    outcome = run.outcome
    if outcome.origin < 0:
        return outcome.reason
    line = f"line {places.span(outcome.origin).start_line}"
    loaded = [
        event.footprint.bounds
        for event in run.events
        if isinstance(event, ev.AccessEvent)
        and event.instruction == outcome.origin
        and (event.cta, event.warp) == (outcome.cta, outcome.warp)
        and event.footprint.space is MemorySpace.GLOBAL
    ]
    prepared = run.prepared
    made = f"made at {line}"
    if loaded and prepared is not None:
        low, _ = loaded[-1]
        starts = {item.start: item.size_bytes for item in prepared.launch.pointed}
        for number, parameter in enumerate(prepared.launch.parameters):
            value = int.from_bytes(parameter.data, "little")
            if value <= low < value + starts.get(value, 0):
                made = (
                    f"loaded at {line} from byte {low - value:,} of the memory of parameter "
                    f"{number}: the launch may give its values"
                )
    reason = re.sub(r"made at instruction \d+", made, outcome.reason)
    return re.sub(
        r"instruction (\d+) in its arms",
        lambda found: f"line {places.span(int(found[1])).start_line} in its arms",
        reason,
    )
