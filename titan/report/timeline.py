"""A run of a sync program as a timeline: steps by lane, arrows between them, tracks of state.

Data only, from executed steps: what HTML pages and Perfetto traces show. A lane is an agent, or the
asynchronous operations that it has started. An arrow leads from the step that completes a phase to
the waits that pass on it, from the start of an asynchronous operation to its end, and from its end
to the wait that drains it. A track is a barrier with its phases, or a stage of memory with its
content and the operations in flight on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from titan.foundation.diagnostics.model import TraceStep
from titan.report.interleaving import worded_step
from titan.report.story import StoryStep, flight_of, story_steps
from titan.report.words import Words
from titan.sync import program as ir
from titan.sync.fault import Actor, Step
from titan.sync.interpreter import Interpreter, State
from titan.sync.parts import queue_of
from titan.sync.state import UNDEFINED, Draft, Key
from titan.verify.replay import Played

TRACKS_MAX = 48


@dataclass(frozen=True, slots=True)
class Arrow:
    """Step `last` could not have come before step `first`; `kind` is phase, flight or drain."""

    first: int
    last: int
    kind: str
    label: str


@dataclass(frozen=True, slots=True)
class TrackSpan:
    """The state of a track from after step `first` to after step `last`.

    `mark` is the number that its colour follows, None for nothing defined; `busy` says what is in
    flight: reading, writing, both, or nothing.
    """

    first: int
    last: int
    text: str
    mark: int | None
    busy: str = ""


@dataclass(frozen=True, slots=True)
class Track:
    """A barrier or a stage of memory, and its states."""

    name: str
    kind: str
    segments: tuple[TrackSpan, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """The run: `steps` are numbered from 1, `lanes[i]` is the lane of `steps[i]`."""

    agents: tuple[str, ...]
    steps: tuple[TraceStep, ...]
    lanes: tuple[str, ...]
    arrows: tuple[Arrow, ...]
    tracks: tuple[Track, ...]

    @property
    def lane_names(self) -> tuple[str, ...]:
        """The lanes in order: each agent, and behind it its asynchronous operations if any."""
        used = set(self.lanes)
        found: list[str] = []
        for agent in self.agents:
            found += [name for name in (agent, engine_of(agent)) if name == agent or name in used]
        return tuple(found)


def engine_of(agent: str) -> str:
    """The lane of the asynchronous operations that an agent has started."""
    return f"engine of {agent}"


def timeline_of(machine: Interpreter, played: Sequence[Played], last: State) -> Timeline:
    """The timeline of executed steps that end in `last`."""
    words = Words(machine.program)
    worded = tuple(worded_step(machine, words, item, n) for n, item in enumerate(played, 1))
    steps = story_steps(machine, played)
    states = [item.after if item.after is not None else item.before for item in played]
    start = played[0].before if played else last
    arrows = [
        *_phases(words, played, steps),
        *_generations(words, played, steps),
        *_flights(machine, played),
    ]
    return Timeline(
        tuple(agent.name for agent in machine.agents),
        worded,
        tuple(step.agent for step in worded),
        tuple(sorted(arrows, key=lambda arrow: (arrow.last, arrow.first, arrow.kind))),
        tuple(_tracks(words, [start, *states])),
    )


# ------------------------------------------------------------------------------------ arrows


def _phases(words: Words, played: Sequence[Played], steps: Sequence[StoryStep]) -> Iterator[Arrow]:
    """From the step that completes a phase of an mbarrier to its waits."""
    completed: dict[tuple[Key, int], int] = {}
    for number, (item, step) in enumerate(zip(played, steps, strict=True), 1):
        before = dict(item.before.barriers)
        for key in step.waits:
            if key in before:
                passed = before[key].phase - 1
                first = completed.get((key, passed))
                if first is not None:
                    yield Arrow(first, number, "phase", f"{words.key(key)} phase {passed}")
        if item.after is None:
            continue
        for key, barrier in item.after.barriers:
            if barrier.phase > before[key].phase:
                completed[(key, before[key].phase)] = number


def _generations(
    words: Words, played: Sequence[Played], steps: Sequence[StoryStep]
) -> Iterator[Arrow]:
    """Of named barriers: from each arrival to a `sync` that is the last one, and from the last
    arrival to what those do next who have waited.
    """
    arrived: dict[Key, list[int]] = {}
    completed: dict[Key, int] = {}
    released: dict[int, tuple[int, Key]] = {}
    for number, (item, step) in enumerate(zip(played, steps, strict=True), 1):
        if item.step.actor is not Actor.AGENT or item.after is None:
            continue
        if step.agent in released:
            first, key = released.pop(step.agent)
            yield Arrow(first, number, "phase", words.key(key))
        before, after = dict(item.before.named), dict(item.after.named)
        for key in {*step.arrives, *step.waits} & set(before):
            if key not in step.arrives:
                if key in completed:
                    yield Arrow(completed[key], number, "phase", words.key(key))
                continue
            arrived.setdefault(key, []).append(number)
            if after[key].arrived_threads:
                continue
            earlier = arrived.pop(key)[:-1]
            completed[key] = number
            for first in earlier if key in step.waits else ():
                yield Arrow(first, number, "phase", words.key(key))
            released |= dict.fromkeys(before[key].waiting, (number, key))


def _flights(machine: Interpreter, played: Sequence[Played]) -> Iterator[Arrow]:
    """From the start of asynchronous operations to their end, and from there to what drains it."""
    started: dict[tuple[int, int], int] = {}
    finished: dict[tuple[int, str], list[int]] = {}
    for number, item in enumerate(played, 1):
        step = item.step
        if step.actor is not Actor.AGENT:
            flight = flight_of(item.before, step.agent, step.ordinal)
            first = started.get((step.agent, step.ordinal))
            if first is not None:
                yield Arrow(first, number, "flight", "")
            queue = queue_of(machine.operations[flight.site])
            if queue is not None:
                finished.setdefault((step.agent, queue), []).append(number)
            continue
        if item.after is not None:
            for ordinal in range(item.before.issued[step.agent], item.after.issued[step.agent]):
                started[(step.agent, ordinal)] = number
        operation = machine.control.operation_of(item.before, step.agent)
        if isinstance(operation, ir.QueueWait):
            for first in finished.pop((step.agent, operation.queue), [])[-1:]:
                yield Arrow(first, number, "drain", operation.queue)


# ------------------------------------------------------------------------------------ tracks


def _tracks(words: Words, states: Sequence[State]) -> Iterator[Track]:
    """Barriers first, then memory in the order of declaration; what never changes is left out."""
    series: dict[tuple[str, str], list[TrackSpan]] = {}
    for number, state in enumerate(states):
        for kind, name, now in (*_barriers(words, state), *_memory(words, state)):
            row = series.setdefault((kind, name), [])
            here = replace(now, first=number, last=number)
            if row and replace(row[-1], first=number, last=number) == here:
                row[-1] = replace(row[-1], last=number)
            else:
                row.append(here)
    changing = [
        Track(name, kind, tuple(row)) for (kind, name), row in series.items() if len(row) > 1
    ]
    yield from changing[:TRACKS_MAX]


def _barriers(words: Words, state: State) -> Iterator[tuple[str, str, TrackSpan]]:
    for key, barrier in state.barriers:
        text = f"phase {barrier.phase}" if barrier.status else "not initialised"
        mark = barrier.phase if barrier.status else None
        yield "barrier", words.key(key), TrackSpan(0, 0, text, mark)


def _memory(words: Words, state: State) -> Iterator[tuple[str, str, TrackSpan]]:
    tiles: dict[str, set[tuple[int, str]]] = {}
    for cell, held in state.cells:
        tiles.setdefault(words.cells.get(cell, str(cell)), set()).add((held.tile, cell[0]))
    busy: dict[str, set[str]] = {}
    for flight in Draft(state).flights():
        for access in flight.accesses:
            if access[1] or flight.reading:
                name = words.cells.get(access[0], str(access[0]))
                busy.setdefault(name, set()).add("writing" if access[1] else "reading")
    for name, held_tiles in tiles.items():
        tile, storage = next(iter(held_tiles)) if len(held_tiles) == 1 else (None, "")
        text = words.tile(tile, storage) if tile is not None else "several tiles"
        mark = tile if tile is not None and tile > UNDEFINED + 1 else None
        doing = " and ".join(sorted(busy.get(name, ())))
        yield "memory", name, TrackSpan(0, 0, text, mark, doing)


# --------------------------------------------------------------------------------- sample run


@dataclass(slots=True)
class SampleRun:
    """One run of a program without a fault, as an illustration; it proves nothing."""

    machine: Interpreter
    played: list[Played] = field(default_factory=list)
    last: State | None = None


def sample_run(program: ir.SyncProgram, trips: int, steps_max: int) -> SampleRun | None:
    """One interleaving, agents in turn, with `trips` for each open size; None if none starts.

    It ends at the end of the program, at `steps_max`, or at a fault, which it leaves out.
    """
    sizes = {
        parameter.name: parameter.value
        if parameter.value is not None
        else max(trips, parameter.minimum)
        for parameter in program.parameters
    }
    try:
        machine = Interpreter(program, sizes)
        state = machine.initial()
    except (ValueError, KeyError, ArithmeticError, TypeError):
        return None
    run = SampleRun(machine, [], state)
    turn = 0
    while len(run.played) < steps_max:
        steps = machine.steps(state)
        if not steps:
            break
        step = _next(steps, turn)
        after, fault = machine.apply(state, step)
        if after is None or fault is not None:
            break
        run.played.append(Played(step, state, after))
        turn = step.agent
        state = after
    run.last = state
    return run


def _next(steps: list[Step], turn: int) -> Step:
    """An operation in flight completes first, else the last agent continues, else the next."""
    engines = [step for step in steps if step.actor is not Actor.AGENT]
    agents = [step for step in steps if step.actor is Actor.AGENT]
    same = [step for step in agents if step.agent == turn]
    if same and not (engines and len(engines) > 2):
        return same[0]
    later = [step for step in agents if step.agent > turn]
    return next(iter((*engines, *later, *agents)))
