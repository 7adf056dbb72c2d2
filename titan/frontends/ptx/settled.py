"""Whether what strong accesses give is settled, although they may race.

A volatile or relaxed read does not race with strong writes, so its value may differ from one
interleaving to the next, and so may what two strong writes leave, or what an atomic finds. Where it
steers control, one run does not represent them all; where it is data, the result depends on the
interleaving. `settled_form` is the run made again with strong accesses taken as plain ones (but for
reductions, which leave the same in any order): if nothing races in it, neither between lanes nor
between agents, each of these reads is ordered against every write of its bytes, those writes
against each other, and the values are the same in every interleaving (condition (b) of
titan/isa/simt/outcome.py).

A counter of the grid in global memory that one lane alone raises in its cluster (`own_counters`)
gives a value that other clusters decide, not the interleaving inside; values are tried instead
(`Launch.in_turn`).

Left as they are, so undecided: values of global memory that steer, as other clusters may write
them. Values between clusters are a matter of `frontends/grid/races.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeGuard

from titan.isa.simt import events as ev
from titan.isa.simt.accesses import COMMUTING
from titan.isa.simt.footprints import Footprint, MemorySpace
from titan.isa.simt.operations import ATOMICS, DecodedStep, Kind, Op
from titan.isa.simt.outcome import Confluence, Run
from titan.isa.simt.run import run_again
from titan.isa.simt.tracing.stored_again import stored_again
from titan.isa.simt.written import WrittenMemories

ACCESSES = (Op.LOAD, Op.STORE, Op.ATOMIC)
# where they say by what they reduce
ENGINES = {Op.BULK_COPY: 8, Op.TENSOR_COPY: 9, Op.STORE_ASYNC: 6}
SPACES = (MemorySpace.SHARED, MemorySpace.GLOBAL)


def settled_form(run: Run) -> Run | None:
    """The run as above; None where no strong accesses meet, and none of shared memory steers."""
    if run.prepared is None or not (_steering(run) or _meeting(run)):
        return None
    again = run_again(run.prepared, strong_as_plain=True)
    if again.outcome != run.outcome:
        return None
    steering = set(_steering(again))
    others = tuple(item for item in again.confluence.steering if item.sequence not in steering)
    given = [event for event in _accesses(again) if event.returns]
    own = own_counters(again)
    left = any(
        event.footprint.space is not MemorySpace.SHARED and event.sequence not in own
        for event in given
    )
    atomics = again.confluence.atomics if left or own else ()
    return replace(again, confluence=replace(again.confluence, steering=others, atomics=atomics))


def strong_alone(form: Run) -> Run:
    """The settled form with no accesses but those of bytes that strong accesses meet in, or that
    steer.

    Where nothing races in it they are settled, whatever is wrong with other memory.
    """
    places = [event.footprint for event in _meeting(form)]
    places += [_access(form, sequence).footprint for sequence in _steering(form)]
    read = WrittenMemories((place, place) for place in places)

    def touched(footprint: Footprint) -> bool:
        return any(read.meeting(footprint))

    events: list[ev.Event] = []
    for event in form.events:
        if isinstance(event, ev.AsynchronousEvent):
            near = tuple(item for item in event.effects if touched(item.footprint))
            events.append(replace(event, effects=near))
        elif isinstance(event, ev.AccessEvent | ev.LaneClash) and not touched(event.footprint):
            header = event.sequence, event.cta, event.warp, event.lanes, event.instruction
            events.append(ev.Prefetch(*header, None))  # in its place, touching nothing
        else:
            events.append(event)
    events += [event for event in _stored_again(form) if touched(event.footprint)]
    return replace(form, events=tuple(events), confluence=Confluence())


def _stored_again(form: Run) -> list[ev.LaneClash]:
    """Strong stores of lanes over their own, of values that are not shown to be equal."""
    found = stored_again(form)
    clashes = list(found.clashes)
    for event in _accesses(form) if found.open else ():
        if event.instruction in found.open:
            header = event.sequence, event.cta, event.warp, event.lanes, event.instruction
            clashes.append(ev.LaneClash(*header, event.footprint, event.mode, event.instruction))
    return clashes


def first_unsettled(form: Run) -> int:
    """An instruction whose strong access meets others, to be named."""
    return next(event.instruction for event in (*_meeting(form), *_accesses(form)))


def commutes(run: Run, event: ev.AccessEvent | ev.AsynchronousEvent) -> str:
    """The operation of a reduction, by a thread or an engine, which leaves the same in any order
    with others that are `of_one_operation` with it; else empty. With the type, where it is known.
    """
    steps = run.prepared.code.steps if run.prepared is not None else ()
    if event.instruction >= len(steps):
        return ""
    step = steps[event.instruction]
    if isinstance(event, ev.AccessEvent):
        reduces = event.mode is ev.Mode.ATOMIC and not event.returns and step.op is Op.ATOMIC
        word = ATOMICS[step.flags[6]] if reduces else ""
        return _typed(word, *step.flags[5:3:-1]) if word in COMMUTING else ""
    word = engine_reduction(run, event)
    return word if operation_of(word) in COMMUTING else ""


def _typed(word: str, kind: int, bits: int) -> str:
    """The operation with what it takes its operands for, and of how many bits."""
    if word == "add" and kind == Kind.SIGNED:
        kind = Kind.UNSIGNED  # sums are the same
    return f"{word}.{Kind(kind).name.lower()}{bits}"


def operation_of(word: str) -> str:
    """The operation without the type."""
    return word.partition(".")[0]


def of_one_operation(one: str, other: str) -> bool:
    """Whether reductions leave the same in either order. What a tensor map says of the type is not
    compared."""
    if not one or not other:
        return False
    if "." in one and "." in other:
        return one == other
    return operation_of(one) == operation_of(other)


def engine_reduction(run: Run, event: ev.AsynchronousEvent) -> str:
    """The operation by which an engine reduces; empty where it does not. With the type, but for
    tensor copies."""
    steps = run.prepared.code.steps if run.prepared is not None else ()
    step = steps[event.instruction] if event.instruction < len(steps) else None
    if step is None or step.op not in ENGINES:
        return ""
    number = step.flags[ENGINES[step.op]]
    if number < 0:
        return ""
    if step.op is Op.STORE_ASYNC:
        return _typed(ATOMICS[number], step.kind, step.bits)
    typed = step.op is Op.BULK_COPY
    return _typed(ATOMICS[number], *step.flags[9:11]) if typed else ATOMICS[number]


def engines_reduce(run: Run) -> bool:
    """Whether the code has reductions by engines; sums by threads are taken as of their type."""
    steps = run.prepared.code.steps if run.prepared is not None else ()
    return any(step.op in ENGINES and step.flags[ENGINES[step.op]] >= 0 for step in steps)


def _steering(run: Run) -> list[int]:
    """The strong accesses of shared memory that steer, by event."""
    return [
        item.sequence
        for item in run.confluence.steering
        if item.footprint.space is MemorySpace.SHARED and is_strong(_access(run, item.sequence))
    ]


def _access(run: Run, sequence: int) -> ev.AccessEvent:
    event = run.events[sequence]
    assert isinstance(event, ev.AccessEvent)
    return event


def _meeting(run: Run) -> list[ev.AccessEvent]:
    """The strong accesses that meet a strong write, of their own lanes or others, but for
    reductions that meet reductions of the same operation."""
    words = {event.sequence: commutes(run, event) for event in _accesses(run)}
    if len(set(words.values())) < 2 and "" not in words.values():
        return []
    written = WrittenMemories(
        (event.footprint, event) for event in _accesses(run) if event.mode is not ev.Mode.READ
    )
    found = []
    for event in _accesses(run):
        several = event.lanes & (event.lanes - 1) and event.mode is not ev.Mode.READ
        word = words[event.sequence]
        if any(
            words[write.sequence] != word or (not word and (write is not event or several))
            for write in written.meeting(event.footprint)
        ):
            found.append(event)
    return found


def _accesses(run: Run) -> Iterator[ev.AccessEvent]:
    """The strong loads, stores and atomics of shared and global memory."""
    for event in run.events:
        if is_settling(event, run) and event.footprint.space in SPACES:
            yield event


def is_settling(event: ev.Event, run: Run) -> TypeGuard[ev.AccessEvent]:
    """Whether an event is a strong load, store or atomic of a run."""
    steps = run.prepared.code.steps if run.prepared is not None else ()
    if not is_strong(event) or event.instruction >= len(steps):
        return False
    return steps[event.instruction].op in ACCESSES


def own_counters(run: Run) -> set[int]:
    """The additions, by sequence number, to counters in global memory that one lane alone uses.

    None where other atomics, too, give old values: which of them steers is not kept. Of counters
    that the launch gives as tickets (`Launch.tickets`) the one atomic counts, whatever it makes of
    the number: what else touches them is judged as any other access.
    """
    found: dict[Footprint, list[ev.AccessEvent]] = {}
    others: list[ev.Event] = []
    steps = run.prepared.code.steps if run.prepared is not None else ()
    for event in run.events:
        if isinstance(event, ev.AccessEvent) and event.footprint.space is MemorySpace.GLOBAL:
            if event.mode is ev.Mode.ATOMIC and event.returns:
                found.setdefault(event.footprint, []).append(event)
            else:
                others.append(event)
        elif isinstance(event, ev.AccessEvent) and event.returns:
            return set()
        elif isinstance(event, ev.AsynchronousEvent | ev.Skipped):
            others.append(event)
    counters: set[int] = set()
    touched = [_global_bounds(event) for event in others] if found else []
    for footprint, events in found.items():
        low, high = footprint.bounds
        lanes = {(event.cta, event.warp, event.lanes) for event in events}
        alone = len(lanes) == 1 and _is_one(events[0].lanes)
        given = low in run.launch.tickets and (len(events) == 1 or run.launch.answers is not None)
        apart = given or all(
            low >= end or high <= start for pairs in touched for start, end in pairs
        )
        same = sum(other.bounds[0] < high and low < other.bounds[1] for other in found) == 1
        adds = given or all(
            event.instruction < len(steps) and _adds(steps[event.instruction]) for event in events
        )
        if not (alone and apart and same and adds):
            return set()
        counters |= {event.sequence for event in events}
    return counters


def _adds(step: DecodedStep) -> bool:
    return step.op is Op.ATOMIC and ATOMICS[step.flags[6]] == "add"


def _is_one(lanes: int) -> bool:
    return lanes & (lanes - 1) == 0


def _global_bounds(event: ev.Event) -> list[tuple[int, int]]:
    footprints: Iterable[Footprint] = ()
    if isinstance(event, ev.AccessEvent):
        footprints = (event.footprint,)
    elif isinstance(event, ev.AsynchronousEvent):
        footprints = [effect.footprint for effect in event.effects]
    elif isinstance(event, ev.Skipped):
        footprints = event.writes
    return [item.bounds for item in footprints if item.space is MemorySpace.GLOBAL]


def is_strong(event: ev.Event) -> TypeGuard[ev.AccessEvent]:
    """Whether an event is an access that is atomic or has memory semantics."""
    return isinstance(event, ev.AccessEvent) and event.semantics is not ev.AccessSemantics.WEAK
