"""Whether the warps of a warpgroup execute what they have to execute together alike.

Every wgmma instruction is one of all four warps of a warpgroup, and the contents of a matrix
descriptor are the same in all of them (PTX, wgmma.mma_async: `.aligned`, and "must be same across
all the warps in the warpgroup"). The same setmaxnreg is executed by all four (PTX, setmaxnreg: else
"the behavior is undefined"); it may stand at several places, as in the arms that a compiler makes
for warps of different work, if the numbers are the same. Before another one "all warps in the
warpgroup must synchronize explicitly": each has to come through a barrier or a wait in between,
for which alone it is looked here, and not with whom it meets there. One that asks for the number
that the warp has changes nothing, and Triton's workers execute such a one at once.

Decided on the run: what a warp executes does not depend on the order of the others where the
verdict holds. Of a run that hangs only what all four have executed is compared.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from titan.foundation.diagnostics.model import Annotation, Diagnostic, diagnostic
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.rendering import with_sources
from titan.isa.simt import events as ev
from titan.isa.simt.outcome import Ending, Run
from titan.isa.simt.queues import WARPGROUP_WARPS

Step = tuple[ev.Event, Hashable]  # an instruction of a warp, and what has to be equal of it


def unlike_warps(run: Run, places: CodePlaces) -> list[Diagnostic]:
    """The first difference of each warpgroup, of products and of numbers of registers."""
    products: dict[tuple[int, int], list[Step]] = {}
    registers: dict[tuple[int, int], list[Step]] = {}
    # The last setmaxnreg of a warp, if it has met nobody since.
    moved: dict[tuple[int, int], ev.RegisterCount] = {}
    found: dict[int, Diagnostic] = {}
    for event in run.events:
        key = event.cta, event.warp
        match event:
            case ev.AsynchronousEvent(kind=ev.RecordedOperation.WGMMA, effects=effects):
                what = event.instruction, tuple((e.footprint, e.mode) for e in effects)
                products.setdefault(key, []).append((event, what))
            case ev.RegisterCount(registers=count, increase=increase):
                registers.setdefault(key, []).append((event, (count, increase)))
                if key in moved and moved[key].registers != count:
                    fault = _too_soon(event, moved[key], places)
                    found.setdefault(event.instruction, fault)
                moved[key] = event
            case _ if _meets(event):
                moved.pop(key, None)
    finished = run.outcome.ending is Ending.FINISHED
    for steps in (products, registers):
        for group in sorted({(cta, warp // WARPGROUP_WARPS) for cta, warp in steps}):
            for item in _difference(group, steps, finished, places):
                found.setdefault(item[0], item[1])
    return list(found.values())


def _meets(event: ev.Event) -> bool:
    """Whether a warp has learnt of another one."""
    match event:
        case ev.RendezvousEvent(meeting=meeting, side=ev.Side.PASS):
            return meeting in (ev.Meeting.NAMED, ev.Meeting.CLUSTER)
        case ev.AccessEvent(mode=mode, semantics=semantics):
            return mode is not ev.Mode.WRITE and semantics is not ev.AccessSemantics.WEAK
    return isinstance(event, ev.WaitEvent)


def _too_soon(event: ev.Event, before: ev.Event, places: CodePlaces) -> Diagnostic:
    headline = "setmaxnreg follows another one, and the warps have not met in between"
    others = (Annotation(places.span(before.instruction), "the one before"),)
    span, who = places.span(event.instruction), f"here, by warp {event.warp}"
    return with_sources(diagnostic("TTN220", headline, span, who, others=others), places)


def _difference(
    group: tuple[int, int],
    steps: dict[tuple[int, int], list[Step]],
    finished: bool,
    places: CodePlaces,
) -> Iterator[tuple[int, Diagnostic]]:
    """The instruction and the fault where the warps of a group part, if they do."""
    cta, first = group[0], group[1] * WARPGROUP_WARPS
    members = [steps.get((cta, first + n), []) for n in range(WARPGROUP_WARPS)]
    lengths = [len(member) for member in members]
    for at in range(max(lengths) if finished else min(lengths)):
        here = [member[at] if at < len(member) else None for member in members]
        one = next(step for step in here if step is not None)
        other = next((n for n, step in enumerate(here) if step is None or step[1] != one[1]), None)
        if other is not None:
            yield one[0].instruction, _fault(one[0], here[other], first + other, places)
            return


def _fault(event: ev.Event, other: Step | None, warp: int, places: CodePlaces) -> Diagnostic:
    what = "setmaxnreg" if isinstance(event, ev.RegisterCount) else "wgmma"
    headline = f"warps of a warpgroup do not execute the same {what}"
    others: tuple[Annotation, ...] = ()
    if other is None:
        headline += f": warp {warp} executes none"
    elif other[0].instruction != event.instruction:
        others = (Annotation(places.span(other[0].instruction), f"here, by warp {warp}"),)
    else:
        headline += f": the operands of warp {warp} are others"
    span, who = places.span(event.instruction), f"here, by warp {event.warp}"
    return with_sources(diagnostic("TTN220", headline, span, who, others=others), places)
