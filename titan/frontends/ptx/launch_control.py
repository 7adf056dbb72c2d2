"""How many clusters clusterlaunchcontrol.try_cancel obtains, and that a CTA asks no more then.

A cluster that asks for another one gets it or not, depending on what has started meanwhile, so one
launch has several runs even where nothing else differs. Each number of clusters is tried as a
launch by itself: none, and some more in which rings of answers and of tiles come round.

A CTA that has observed a request as failed must not ask again (PTX, clusterlaunchcontrol.
try_cancel). It observes the answer where a thread of it reads the bytes. Whether a request comes
behind that is taken from the run that was made, so that one by another warp, which nothing orders
behind the reading, may be missed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from titan.foundation.diagnostics.model import Annotation, Diagnostic, diagnostic
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.rendering import with_sources
from titan.isa.ptx.module import Function, Module
from titan.isa.simt import events as ev
from titan.isa.simt.footprints import Footprint, MemorySpace
from titan.isa.simt.launch import Launch
from titan.isa.simt.outcome import Run

CANCELLED = (1, 2, 5)


def asks_for_clusters(module: Module, function: Function) -> bool:
    """Whether an instruction of the function, or of one that it may call, is a try_cancel."""
    return any(
        item.opcode == "clusterlaunchcontrol" and item.has("try_cancel")
        for body in module.functions
        if body is function or not body.entry
        for item in module.instructions[body.start : body.end]
    )


def with_more_clusters(
    module: Module, function: Function, launch: Launch, given: int | None = None
) -> list[tuple[str, Launch]]:
    """The launches in which each cluster that is run obtains some more, each with its label.

    `given`: how many the launch file says.
    """
    if not asks_for_clusters(module, function):
        return []
    wanted = CANCELLED if given is None else (given,)
    numbers = dict.fromkeys(min(number, launch.clusters - 1) for number in wanted)
    return [
        (f"{number} cancelled", replace(launch, cancelled=number)) for number in numbers if number
    ]


def requests_after_refusal(run: Run, places: CodePlaces) -> list[Diagnostic]:
    """One TTN221 for each instruction by which a CTA asks after it has read that none is left."""
    refusals = _Refusals(run)
    found: dict[int, Diagnostic] = {}
    for event in run.events if refusals.failed else ():
        reading = refusals.step(event)
        if reading is None or event.instruction in found:
            continue
        headline = "a cluster is asked for after the CTA has read that there is none left"
        span, who = places.span(event.instruction), f"here, by warp {event.warp}"
        others = (Annotation(places.span(reading), "the answer is read here"),)
        found[event.instruction] = with_sources(
            diagnostic("TTN221", headline, span, who, others=others), places
        )
    return list(found.values())


class _Refusals:
    """Which requests of a run fail, and which CTAs have read the answer; event by event.

    The machine grants the first requests of each cluster, as many as the launch says.
    """

    def __init__(self, run: Run) -> None:
        asked: dict[int, int] = {}
        self.failed: dict[int, ev.AsynchronousEvent] = {}  # by operation
        for event in run.events:
            if _asks(event):
                cluster = run.launch.cluster_members(event.cta)[0]
                asked[cluster] = asked.get(cluster, 0) + 1
                if asked[cluster] > run.launch.cancelled:
                    self.failed[event.operation] = event
        self._answers: dict[int, Footprint] = {}  # by CTA: where it can read one
        self._read: dict[int, int] = {}  # by CTA: the instruction that has

    def step(self, event: ev.Event) -> int | None:
        """The next event. Of a request that comes too late, where the answer before was read."""
        if _asks(event):
            return self._read.get(event.cta)
        if isinstance(event, ev.Finish) and event.operation in self.failed:
            for effect in self.failed[event.operation].effects:
                self._answers.setdefault(effect.footprint.cta, effect.footprint)
        elif isinstance(event, ev.AccessEvent) and event.mode is ev.Mode.READ:
            answer = self._answers.get(event.cta)
            if answer is not None and event.cta not in self._read and _meet(event, answer):
                self._read[event.cta] = event.instruction
        return None


def _asks(event: ev.Event) -> TypeGuard[ev.AsynchronousEvent]:
    kind = ev.RecordedOperation.TRY_CANCEL
    return isinstance(event, ev.AsynchronousEvent) and event.kind is kind


def _meet(event: ev.AccessEvent, answer: Footprint) -> bool:
    """Whether an access reads bytes of an answer."""
    footprint = event.footprint
    if footprint.space is not MemorySpace.SHARED or footprint.cta != answer.cta:
        return False
    (low, high), *_ = answer.ranges()
    return any(start < high and low < end for start, end in footprint.ranges())
