"""Merge a producer role and a consumer role into one role that all agents run.

The unified time loop of seed section 2: step t fills tile t while t < N and consumes tile t - P
while t >= P, with the largest distance P below the depth for which every acquire comes after the
release it needs. Only roles that are one loop over the same range each are merged; the consumer may
have statements after its loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from titan.language.protocol import model
from titan.language.protocol.unroll import UnrollError, unroll, walk
from titan.sync.expression import (
    Binary,
    Constant,
    Expression,
    Name,
    Not,
    binary,
    substitute,
)


def unspecialise(protocol: model.Protocol) -> model.Protocol | None:
    """The merged protocol, or None if the roles have another shape."""
    if len(protocol.roles) != 2:
        return None
    ordered = sorted(protocol.roles, key=lambda role: not _fills(role))
    producer, consumer = ordered
    first, last = _parts(producer), _parts(consumer)
    if first is None or last is None or first[1]:
        return None
    fill, read = first[0], last[0]
    same = fill.start == read.start == Constant(0) and fill.stop == read.stop
    counters = producer.variables or consumer.variables
    if not same or counters or producer.cta != consumer.cta:
        return None
    depth = min((ring.depth for ring in protocol.rings), default=1)
    for distance in range(depth - 1, -1, -1):
        merged = _merge(protocol, producer, consumer, fill, read, last[1], distance)
        if _acquires_follow_releases(merged):
            return merged
    return None


def _fills(role: model.ProtocolRole) -> bool:
    return any(isinstance(item, model.Produce) for item in walk(role.body))


def _parts(role: model.ProtocolRole) -> tuple[model.For, model.Body] | None:
    body = tuple(item for item in role.body if not isinstance(item, model.Finalize))
    if not body or not isinstance(body[0], model.For):
        return None
    return body[0], body[1:]


def _merge(
    protocol: model.Protocol,
    producer: model.ProtocolRole,
    consumer: model.ProtocolRole,
    fill: model.For,
    read: model.For,
    after: model.Body,
    distance: int,
) -> model.Protocol:
    time = Name(fill.variable)
    behind = binary("-", time, Constant(distance))
    consume = rename(read.body, {read.variable: behind, consumer.agent_constant: Name("self")})
    produce = rename(fill.body, {producer.agent_constant: Name("self")})
    body: model.Body = (
        model.When(Binary("<", time, fill.stop), produce, span=fill.span),
        model.When(Binary(">=", time, Constant(distance)), consume, span=read.span),
    )
    loop = model.For(
        fill.variable, Constant(0), binary("+", fill.stop, Constant(distance)), body,
        span=fill.span,
    )  # fmt: skip
    role = model.ProtocolRole(
        f"{producer.name}_{consumer.name}",
        (loop, *rename(after, {consumer.agent_constant: Name("self")})),
        agents=producer.agents + consumer.agents,
        threads=consumer.threads,
        registers=max(producer.registers, consumer.registers),
        cta=consumer.cta,
        span=consumer.span,
    )
    return replace(protocol, roles=(role,))


def rename(body: model.Body, values: Mapping[str, Expression | int]) -> model.Body:
    """The statements with names replaced in every expression."""
    return tuple(_renamed(statement, values) for statement in body)


def _renamed(item: Any, values: Mapping[str, Expression | int]) -> Any:
    if isinstance(item, Constant | Name | Binary | Not):
        return substitute(item, values)
    if isinstance(item, tuple):
        return tuple(_renamed(part, values) for part in item)
    if is_dataclass(item) and not isinstance(item, type):
        changes = {
            field.name: _renamed(getattr(item, field.name), values)
            for field in fields(item)
            if field.name != "span"
        }
        return replace(item, **changes)
    return item


def _acquires_follow_releases(protocol: model.Protocol) -> bool:
    """In program order every acquire of index i comes after the release of i - depth."""
    depths = {ring.name: ring.depth for ring in protocol.rings}
    size = 2 * max(depths.values(), default=1) + 2
    sizes = {
        item.name: max(item.minimum, size) for item in protocol.parameters if item.value is None
    }
    try:
        traces = unroll(protocol, sizes)
    except UnrollError:
        return False
    for trace in traces:
        released: set[tuple[str, int]] = set()
        for event in trace.events:
            statement = event.statement
            if isinstance(statement, model.Release):
                released.add((statement.ring, event.value(statement.index)))
            elif isinstance(statement, model.Acquire):
                older = event.value(statement.index) - depths[statement.ring]
                if older >= 0 and (statement.ring, older) not in released:
                    return False
    return True
