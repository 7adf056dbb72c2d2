"""Accesses that overlap, are ordered by nothing, and cannot show: equal writes, unused reads.

Both are shown by the traced values of a run (`titan/isa/simt/tracing/traced.py`); equal writes of
global memory may be assumed, too.
"""

from __future__ import annotations

from dataclasses import replace

from titan.frontends.ptx.memory import MemoryUse
from titan.frontends.ptx.policies import CodePolicies
from titan.isa.simt import events as ev
from titan.isa.simt.footprints import Footprint, MemorySpace
from titan.isa.simt.outcome import Run, TracedAccesses
from titan.isa.simt.tracing.idle_reads import clashes_that_remain
from titan.isa.simt.tracing.stored_again import StoredAgain, stored_again

Uses = dict[int, list[MemoryUse]]  # of an event, by its sequence
EQUAL = "equal"
WARPS_MAX = 32  # of a CTA


def with_lane_clashes(run: Run, policies: CodePolicies) -> Run:
    """The run with the clashes of lanes that count, where some do not, or are no events of it."""
    idle, equal = policies.unused_reads == "allow", policies.equal_writes != "refuse"
    remain = clashes_that_remain(run, idle=idle, equal=equal) if idle or equal else None
    again = stored_again(run) if policies.equal_writes != "assumed" else StoredAgain()
    if again.clashes and remain is None:
        remain = tuple(event for event in run.events if isinstance(event, ev.LaneClash))
    clashes = None if remain is None else (*remain, *again.clashes)
    return replace(run, clashes=clashes, stored_again=again.open)


def worth_tracing(run: Run) -> bool:
    """Whether warps repeat each other's work, so that tracing the values may show something.

    Some bytes are stored by two warps in equal pieces, or loaded by two of which one writes there.
    """
    return stores_repeat(run) or _loads_repeat(run)


def stores_repeat(run: Run) -> bool:
    """Whether two warps store some bytes in equal pieces."""
    stored: dict[Footprint, int] = {}
    for event in run.events:
        agent = event.cta * WARPS_MAX + event.warp
        if any(stored.setdefault(footprint, agent) != agent for footprint in _stores(event)):
            return True
    return False


def _loads_repeat(run: Run) -> bool:
    """Whether two warps load some bytes to which one of them writes."""
    loaded: dict[Footprint, set[int]] = {}
    written: dict[int, set[tuple[MemorySpace, int, int, int]]] = {}
    for event in run.events:
        agent = event.cta * WARPS_MAX + event.warp
        if isinstance(event, ev.AccessEvent) and event.mode is ev.Mode.READ:
            loaded.setdefault(event.footprint, set()).add(agent)
            continue
        for footprint in _stores(event):
            memory = footprint.space, footprint.cta
            written.setdefault(agent, set()).add((*memory, *footprint.bounds))
    return any(
        at < high and low < end and (space, cta) == (footprint.space, footprint.cta)
        for footprint, agents in loaded.items()
        if len(agents) > 1
        for low, high in (footprint.bounds,)
        for agent in agents
        for space, cta, at, end in written.get(agent, ())
    )


def _stores(event: ev.Event) -> list[Footprint]:
    """What an ordinary store, or a bulk store, writes."""
    if isinstance(event, ev.AccessEvent):
        return [event.footprint] if event.mode is ev.Mode.WRITE else []
    if isinstance(event, ev.AsynchronousEvent) and not event.completes:
        spaces = (MemorySpace.GLOBAL, MemorySpace.SHARED)
        return [
            effect.footprint
            for effect in event.effects
            if effect.mode is ev.Mode.WRITE and effect.footprint.space in spaces
        ]
    return []


def leave_out_unused(of: Uses, traced: TracedAccesses) -> list[int]:
    """Take out the loads that are unused and whose bytes another agent writes; which they were."""
    spans: dict[tuple[MemorySpace, int], set[tuple[int, int, int]]] = {}
    for uses in of.values():
        for use in uses:
            if use.write:
                memory = use.footprint.space, use.footprint.cta
                spans.setdefault(memory, set()).add((*use.footprint.bounds, use.agent))
    left_out = []
    for sequence in sorted(traced.unused & of.keys()):
        (use,) = of[sequence]
        low, high = use.footprint.bounds
        others = spans.get((use.footprint.space, use.footprint.cta), ())
        if any(at < high and low < end and agent != use.agent for at, end, agent in others):
            del of[sequence]
            left_out.append(sequence)
    return left_out


def mark_shown(of: Uses, traced: TracedAccesses) -> list[int]:
    """Mark the writes of several agents that are shown to be equal; the events that have such.
    Writes of known bytes are marked with these, and so are those that are equal to them."""
    marks = {sequence: f"value {number}" for sequence, number in traced.written.items()}
    writers: dict[tuple[Footprint, str], set[int]] = {}
    known: dict[tuple[Footprint, str], bytes] = {}
    for sequence, mark in marks.items():
        for use in of.get(sequence, ()):
            if isinstance(use.strong, bytes):
                known[use.footprint, mark] = use.strong
            if use.write and (not use.strong or isinstance(use.strong, bytes)):
                writers.setdefault((use.footprint, mark), set()).add(use.agent)
    equal = {key for key, agents in writers.items() if len(agents) > 1}
    shown = []
    places: dict[Footprint, int] = {}  # the same values elsewhere are others, byte by byte
    for sequence, mark in marks.items():
        uses = of.get(sequence, [])
        found = [use.write and not use.strong and (use.footprint, mark) in equal for use in uses]
        if any(found):
            shown.append(sequence)
            of[sequence] = [
                replace(
                    use,
                    strong=known.get((use.footprint, mark))
                    or f"{mark} at {places.setdefault(use.footprint, len(places))}",
                )
                if alike
                else use
                for use, alike in zip(uses, found, strict=True)
            ]
    return sorted(shown)


def mark_assumed(of: Uses) -> list[int]:
    """Mark all plain writes of several agents to exactly the same bytes of global memory."""
    writers: dict[Footprint, set[int]] = {}
    for uses in of.values():
        for use in uses:
            if use.write and not use.strong and use.footprint.space is MemorySpace.GLOBAL:
                writers.setdefault(use.footprint, set()).add(use.agent)
    equal = {footprint for footprint, agents in writers.items() if len(agents) > 1}
    marked = []
    places = {footprint: number for number, footprint in enumerate(equal)}
    for sequence, uses in of.items():
        if any(use.footprint in equal and use.write for use in uses):
            marked.append(sequence)
            of[sequence] = [
                replace(use, strong=f"{EQUAL} at {places[use.footprint]}")
                if use.footprint in equal and use.write
                else use
                for use in uses
            ]
    return marked
