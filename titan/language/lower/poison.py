"""Poison that does not follow from the index of a stage: a flag in shared memory for each stage.

Where the producer decides by a separate number for every iteration (`{any: true, per: t}`: what
it finds in its data), a consumer cannot compute whether a tile is poisoned. The producer then
writes a flag beside the stage before it hands over the stage, and `when poisoned` reads it. Both
are plain accesses: that the flag is written before it is read, and read before it is written again,
is verified like any other access. The branch takes the producer's condition, in the same iteration.
Source: seed formulation, section 2 (poison semantics).
"""

from __future__ import annotations

from titan.foundation.records import dataclass
from titan.language.lower.facts import Facts
from titan.language.lower.model import refusal
from titan.language.protocol import model
from titan.language.protocol.content import poison_condition
from titan.language.protocol.unroll import walk
from titan.sync import program as ir
from titan.sync.expression import Expression, Name, names_of

FLAG_BYTES = 4


@dataclass(frozen=True, slots=True)
class Flag:
    """`condition` holds for the tile whose index is the loop variable `iteration`."""

    buffer: ir.Buffer
    iteration: str
    condition: Expression


def flags_of(protocol: model.Protocol, facts: Facts) -> dict[str, Flag]:
    """The flags of rings whose consumers ask for poison that the index does not determine."""
    asked = {
        statement.ring
        for role in protocol.roles
        for statement in walk(role.body)
        if isinstance(statement, model.WhenPoisoned)
    }
    taken = {buffer.name for buffer in protocol.buffers} | {ring.name for ring in protocol.rings}
    made: dict[str, Flag] = {}
    for name in sorted(asked):
        condition = poison_condition(protocol, name)
        if condition is None or condition.exact:
            continue
        produce = _only_produce(protocol, name)
        if produce is None or produce.poison is None:
            continue
        iteration = _iteration(protocol, produce)
        if iteration is None:
            continue
        ring, home = facts.rings[name], facts.rings[name].buffers
        if any(len(group) > 1 for group in ring.producers.values()) or not home:
            raise refusal(
                "TTN401",
                f"several agents fill a stage of {name}: which of them signals the poison?",
                produce.span,
                "fill the ring by one agent, or poison it by a condition on its index",
            )
        flag = f"{name}_poison"
        while flag in taken:
            flag += "_"
        taken.add(flag)
        buffer = ir.Buffer(
            flag, stages=ring.ring.depth, bytes_per_stage=FLAG_BYTES, cta=home[0].cta
        )
        made[name] = Flag(buffer, iteration, produce.poison)
    return made


def _only_produce(protocol: model.Protocol, ring: str) -> model.Produce | None:
    found = [
        statement
        for role in protocol.roles
        for statement in walk(role.body)
        if isinstance(statement, model.Produce) and statement.ring == ring
    ]
    return found[0] if len(found) == 1 else None


def _iteration(protocol: model.Protocol, produce: model.Produce) -> str | None:
    """The loop variable that is the index, where nothing else but sizes decides with it."""
    if not isinstance(produce.index, Name) or produce.poison is None:
        return None
    iteration = produce.index.name
    known = {item.name for item in protocol.parameters if item.per in (None, iteration)}
    return iteration if names_of(produce.poison) <= known | {iteration} else None


def in_iteration(role: model.ProtocolRole, statement: model.WhenPoisoned, iteration: str) -> bool:
    """Whether the statement asks for the tile of its own iteration of the role's loop."""
    if statement.index != Name(iteration) or any(name == iteration for name, _ in role.variables):
        return False
    return any(
        isinstance(loop, model.For)
        and loop.variable == iteration
        and any(inner is statement for inner in walk(loop.body))
        for loop in walk(role.body)
    )
