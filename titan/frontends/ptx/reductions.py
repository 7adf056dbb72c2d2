"""Whether reductions by engines leave the same in every interleaving.

Reductions of one operation do in any order, those of different operations (a sum and a minimum of
the same bytes) only where one is complete before the other starts, and so do `inc` and `dec`,
whose bounds are data. So a run in which they meet is
judged once more with all but those of one operation taken as plain writes: where nothing races in
it, each is ordered against every reduction of another operation. The values that floating-point
sums round to in another order are not compared.

Reductions by bulk copies are of the async proxy, those of threads (and `red.async`) of the generic
one, and operations of two proxies are not atomic towards each other (PTX, memory consistency model,
"Morally strong operations"): these do not commute either.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from titan.frontends.ptx.settled import commutes, engine_reduction, of_one_operation, operation_of
from titan.isa.simt import events as ev
from titan.isa.simt.accesses import COMMUTING
from titan.isa.simt.footprints import Footprint
from titan.isa.simt.outcome import Confluence, Run
from titan.isa.simt.written import WrittenMemories

_COPIES = (ev.RecordedOperation.BULK_REDUCE, ev.RecordedOperation.TENSOR_REDUCE)
Reduction = tuple[Footprint, ev.AccessEvent | ev.AsynchronousEvent, str]


def meeting_reductions(run: Run) -> list[ev.AsynchronousEvent]:
    """The reductions by engines that meet a reduction with which they do not commute."""
    found = _reductions(run)
    written = WrittenMemories((footprint, (event, word)) for footprint, event, word in found)
    return [
        event
        for footprint, event, word in found
        if isinstance(event, ev.AsynchronousEvent)
        and any(
            by is not event
            and not (
                operation_of(word) in COMMUTING
                and of_one_operation(word, other)
                and _by_copy(by) == _by_copy(event)
            )
            for by, other in written.meeting(footprint)
        )
    ]


def with_one_operation(run: Run, meeting: list[ev.AsynchronousEvent]) -> Run:
    """The run with these as plain writes, but for those of the most frequent operation: of those
    of threads, where threads reduce the same bytes."""
    places = WrittenMemories(
        (effect.footprint, event)
        for event in meeting
        for effect in event.effects
        if effect.mode is ev.Mode.ATOMIC
    )
    words = Counter(
        (word, False)
        for footprint, event, word in _reductions(run)
        if isinstance(event, ev.AccessEvent) and any(places.meeting(footprint))
    ) or Counter((engine_reduction(run, event), _by_copy(event)) for event in meeting)
    (kept, by_copy), _ = max(words.items(), key=lambda item: (item[1], item[0]))
    kept = kept if operation_of(kept) in COMMUTING else ""
    plain = {
        event.sequence
        for event in meeting
        if _by_copy(event) != by_copy or not of_one_operation(engine_reduction(run, event), kept)
    }
    events = tuple(
        replace(event, effects=tuple(map(_as_write, event.effects)))
        if isinstance(event, ev.AsynchronousEvent) and event.sequence in plain
        else event
        for event in run.events
    )
    return replace(run, events=events, confluence=Confluence())


def _by_copy(event: ev.Event) -> bool:
    """Whether a reduction is one by a bulk copy, through the async proxy."""
    return isinstance(event, ev.AsynchronousEvent) and event.kind in _COPIES


def _as_write(effect: ev.RecordedEffect) -> ev.RecordedEffect:
    return replace(effect, mode=ev.Mode.WRITE) if effect.mode is ev.Mode.ATOMIC else effect


def _reductions(run: Run) -> list[Reduction]:
    """Of threads and engines; none where no engine reduces."""
    found: list[Reduction] = []
    engines = False
    for event in run.events:
        if isinstance(event, ev.AccessEvent) and event.mode is ev.Mode.ATOMIC:
            found.append((event.footprint, event, commutes(run, event)))
        elif isinstance(event, ev.AsynchronousEvent) and (word := engine_reduction(run, event)):
            engines = True
            found += [
                (effect.footprint, event, word)
                for effect in event.effects
                if effect.mode is ev.Mode.ATOMIC
            ]
    return found if engines else []
