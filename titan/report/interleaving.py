"""A replayed counterexample step by step: who, what with which tile and stage, what follows."""

from __future__ import annotations

from titan.foundation.diagnostics.model import TraceReference, TraceStep
from titan.foundation.source.span import Span
from titan.report.words import Words
from titan.sync.control import Agent
from titan.sync.fault import Actor
from titan.sync.state import Flight, State
from titan.verify.replay import Played, Replay

_WIDTH_MAX = 64


def told(replay: Replay, path: str = "") -> TraceReference:
    """The interleaving as a trace of a diagnostic, in columns: what, and what follows from it."""
    words = Words(replay.machine.program)
    rows = [_row(replay, words, played) for played in replay.steps]
    width = min(max((len(what) for _, what, _, _ in rows), default=0), _WIDTH_MAX)
    second = min(max((len(follows) for _, _, follows, _ in rows), default=0), _WIDTH_MAX)
    steps = []
    for who, what, follows, span in rows:
        text = f"{what:<{width}}  {follows:<{second}}" if second else what
        steps.append(TraceStep(who, text, span))
    return TraceReference(tuple(steps), path)


def _row(replay: Replay, words: Words, played: Played) -> tuple[str, str, str, Span | None]:
    machine, step = replay.machine, played.step
    agent = machine.agents[step.agent]
    follows = words.changes(played.before, played.after) if played.after is not None else ""
    if step.actor is Actor.AGENT:
        operation = machine.operation_of(played.before, step.agent)
        assert operation is not None, "a replayed step of an agent at its end"
        environment = machine.environment(agent, played.before.positions[agent.number].values)
        span = operation.span if isinstance(operation.span, Span) else None
        return agent.name, words.operation(operation, environment), follows, span
    flight = _flight(played.before, step.agent, step.ordinal)
    operation = machine.operations[flight.site]
    span = operation.span if isinstance(operation.span, Span) else None
    what = _engine_text(words, flight, step.actor)
    return f"engine of {agent.name}", what, follows, span


def _engine_text(words: Words, flight: Flight, actor: Actor) -> str:
    writes = sorted({words.cells.get(cell, str(cell)) for cell, w, _, _ in flight.accesses if w})
    reads = sorted({words.cells.get(cell, str(cell)) for cell, w, _, _ in flight.accesses if not w})
    if actor is Actor.READS:
        return f"has read {', '.join(reads)}"
    if not flight.accesses:
        return f"arrives at {', '.join(words.key(key) for key, _ in flight.completes)}"
    verb = "finishes a part of" if flight.chunks > 1 else "finishes"
    parts = []
    if reads:
        parts.append(f"reading {', '.join(reads)}")
    if writes:
        parts.append(f"writing {', '.join(writes)}")
    return f"{verb} {' and '.join(parts)}"


def _flight(state: State, agent: int, ordinal: int) -> Flight:
    flights = list(state.free_flights)
    for _, queue in state.queues:
        for group in (*queue.closed, queue.open):
            flights += group
    return next(item for item in flights if (item.agent, item.ordinal) == (agent, ordinal))


def agent_name(agents: tuple[Agent, ...], number: int) -> str:
    """The name of an agent; the engine where there is no such agent."""
    return agents[number].name if 0 <= number < len(agents) else "the engine"
