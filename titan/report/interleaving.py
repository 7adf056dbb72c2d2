"""A replayed counterexample step by step: agent, operation with tile and stage, effect."""

from __future__ import annotations

from titan.foundation.diagnostics.model import TraceReference, TraceStep
from titan.report.story import StoryStep, attempted, flight_of, relevant
from titan.report.words import Words
from titan.sync.control import Agent
from titan.sync.fault import Actor, FaultKind
from titan.sync.interpreter import Interpreter
from titan.sync.state import Flight
from titan.verify.replay import Played, Replay


def trace_of(
    replay: Replay, story: list[StoryStep], path: str = "", *, full: bool = False
) -> TraceReference:
    """The interleaving as the trace of a diagnostic: the steps that matter, or all.

    Accesses that race are added at the end: no step of the interleaving executes both.
    """
    words = Words(replay.machine.program)
    kept = relevant(replay, story) if not full else frozenset(range(1, len(story) + 1))
    steps = []
    for number, played in enumerate(replay.steps, 1):
        if number in kept:
            steps.append(worded_step(replay.machine, words, played, number))
    if replay.fault.kind is FaultKind.DATA_RACE:
        steps += _pending(replay, words)
    return TraceReference(tuple(steps), path, len(replay.steps))


def _pending(replay: Replay, words: Words) -> list[TraceStep]:
    """The accesses that agents of the fault are about to make, in either order."""
    found = []
    for index in range(len(replay.fault.operations)):
        step = attempted(replay, index)
        if step is not None:
            span = step.operation.span
            text = f"may {words.operation(step.operation, dict(step.environment))}"
            name = agent_name(replay.machine.agents, step.agent)
            found.append(TraceStep(name, text, span, "now, in either order"))
    return found


def worded_step(machine: Interpreter, words: Words, played: Played, number: int) -> TraceStep:
    """One step of a run in words: the agent, its operation and the effect."""
    step = played.step
    agent = machine.agents[step.agent]
    follows = words.changes(played.before, played.after) if played.after is not None else ""
    if step.actor is Actor.AGENT:
        operation = machine.control.operation_of(played.before, step.agent)
        assert operation is not None, "a replayed step of an agent at its end"
        environment = machine.control.environment(
            agent, played.before.positions[agent.number].values
        )
        span = operation.span
        what = words.operation(operation, environment)
        return TraceStep(agent.name, what, span, follows, number)
    flight = flight_of(played.before, step.agent, step.ordinal)
    operation = machine.operations[flight.site]
    span = operation.span
    what = _engine_text(words, flight, step.actor)
    return TraceStep(f"engine of {agent.name}", what, span, follows, number)


def _engine_text(words: Words, flight: Flight, actor: Actor) -> str:
    writes = sorted({words.cells.get(cell, str(cell)) for cell, w, *_ in flight.accesses if w})
    reads = sorted({words.cells.get(cell, str(cell)) for cell, w, *_ in flight.accesses if not w})
    if actor is Actor.READS:
        return f"has read {', '.join(reads)}"
    if not flight.accesses:
        return f"arrives at {', '.join(words.key(key) for key, _ in flight.completes)}"
    verb = "completes a part of" if flight.chunks > 1 else "finishes"
    parts = []
    if reads:
        parts.append(f"reading {', '.join(reads)}")
    if writes:
        parts.append(f"writing {', '.join(writes)}")
    return f"{verb} {' and '.join(parts)}"


def agent_name(agents: tuple[Agent, ...], number: int) -> str:
    """The name of an agent; that of the engine if there is no such agent."""
    return agents[number].name if 0 <= number < len(agents) else "the engine"
