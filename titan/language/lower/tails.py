"""The producer's tail: after its last tile it waits until every stage has come back.

Needed where readers of another CTA arrive on the producer's barriers: its CTA must not end before.
The index after the last one is read off unrolled runs and expressed by a counter or a loop bound.
"""

from __future__ import annotations

from titan.language.lower.facts import Facts
from titan.language.protocol import model
from titan.language.protocol.unroll import AgentTrace, walk
from titan.sync.expression import Expression, Name, binary, evaluate, names_of


def readers_elsewhere(facts: Facts, role: model.ProtocolRole, ring: str) -> bool:
    """Whether agents of another CTA release stages that the role acquires."""
    acquires = any(
        isinstance(item, model.Acquire) and item.ring == ring for item in walk(role.body)
    )
    releasing = {number for group in facts.rings[ring].releasers.values() for number in group}
    return acquires and any(facts.agent_roles[number][0].cta != role.cta for number in releasing)


def next_index(facts: Facts, role: model.ProtocolRole, ring: str) -> Expression | None:
    """The index after the last acquired one, over what is in scope at the role's end."""
    stops = [item.stop for item in walk(role.body) if isinstance(item, model.For)]
    candidates: list[Expression] = [Name(name) for name, _ in role.variables]
    candidates += stops
    candidates += [
        binary("*", first, second)
        for number, first in enumerate(stops)
        for second in stops[number + 1 :]
    ]
    scope = {name for name, _ in role.variables}
    scope |= {parameter.name for parameter in facts.protocol.parameters}
    for candidate in candidates:
        traces = list(facts.role_traces(role))
        if names_of(candidate) <= scope and all(_fits(trace, ring, candidate) for trace in traces):
            return candidate
    return None


def _fits(trace: AgentTrace, ring: str, candidate: Expression) -> bool:
    indices = [
        event.value(event.statement.index)
        for event in trace.events
        if isinstance(event.statement, model.Acquire) and event.statement.ring == ring
    ]
    ends = [event for event in trace.events if isinstance(event.statement, model.Finalize)]
    if not ends:
        return False
    return evaluate(candidate, ends[-1].environment) == max(indices, default=-1) + 1
