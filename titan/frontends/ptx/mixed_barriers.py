"""Whether threads meet at a hardware barrier by instructions that may not be mixed.

"`barrier.red` should not be intermixed with `barrier.sync` or `barrier.arrive` using the same
active barrier. Execution in this case is unpredictable" (PTX, barrier). An active barrier is one
generation of it in the run.
"""

from __future__ import annotations

from titan.foundation.diagnostics.model import Annotation, Diagnostic, diagnostic
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.rendering import with_sources
from titan.isa.simt import events as ev
from titan.isa.simt.outcome import Run


def mixed_barriers(run: Run, places: CodePlaces) -> list[Diagnostic]:
    """One TTN210 for each instruction that meets others of the other kind."""
    reduces = {
        number
        for number, item in enumerate(places.module.instructions)
        if item.opcode in ("bar", "barrier") and "red" in item.modifiers
    }
    if not reduces:
        return []
    first: dict[tuple[int, int, int], ev.Event] = {}
    found: dict[int, Diagnostic] = {}
    for event in run.events:
        if not isinstance(event, ev.RendezvousEvent) or event.meeting is not ev.Meeting.NAMED:
            continue
        if event.side is ev.Side.PASS:
            continue
        other = first.setdefault((event.cta, event.number, event.generation), event)
        at, before = event.instruction, other.instruction
        if (at in reduces) is not (before in reduces) and at not in found:
            headline = f"a reduction and another instruction meet at bar {event.number}"
            item = diagnostic(
                "TTN210", headline, places.span(at), f"here, by warp {event.warp}",
                others=(Annotation(places.span(before), "the other instruction"),),
            )  # fmt: skip
            found[at] = with_sources(item, places)
    return list(found.values())
