"""Questions to the user about what a run depends on and the launch leaves open."""

from __future__ import annotations

from titan.foundation.diagnostics.model import Annotation, Diagnostic, diagnostic
from titan.foundation.source.span import Span
from titan.frontends.ptx.names import short_name
from titan.frontends.ptx.places import CodePlaces
from titan.isa.ptx.module import Address, Function, Instruction, Symbol
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
    for number, variable in enumerate(function.parameters):
        if variable.offset <= at < variable.offset + variable.size_bytes:
            offset = at - variable.offset
            headline += f": parameter {number} ({short_name(variable.name)}), offset {offset}: box?"
    return diagnostic("TTN018", headline, place, "this copy needs it")
