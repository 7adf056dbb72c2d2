"""Roles that end before the last meeting of a cluster: the hardware counts them as there.

A cluster barrier waits for the threads that have not ended (PTX, barrier.cluster.wait). Agents of a
sync program that end arrive nowhere, so the arrival is written down: a role that comes to all
meetings but the last one arrives for that when it ends, with an order that makes nothing visible.
It is written where the text shows how often every role comes, outside of loops and conditions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from titan.language.protocol import model
from titan.sync import program as ir
from titan.sync.expression import Constant, Expression

_COMING = (ir.BarrierSync, ir.BarrierArrive)


def arrive_by_ending(
    roles: list[model.ProtocolRole], counted: set[str], barriers: Iterable[str], threads: int
) -> list[model.ProtocolRole]:
    """The roles, with the arrivals of those that end before the others meet for the last time.

    `counted`: those that a barrier of the cluster waits for, with so many threads in all.
    """
    for name in barriers:
        arrival = ir.BarrierArrive(ir.Reference(name), Constant(threads), ir.Order.RELAXED)
        times = {
            role.name: _times(role.body, name, arrival.threads)
            for role in roles
            if role.name in counted
        }
        most = max((number or 0 for number in times.values()), default=0)
        if None in times.values() or most < 1:
            continue
        roles = [
            replace(role, body=(*role.body, model.Primitive(arrival, span=role.span)))
            if times.get(role.name) == most - 1
            else role
            for role in roles
        ]
    return roles


def _times(body: model.Body, name: str, threads: Expression) -> int | None:
    """How often a role comes to the barrier; None where a loop or condition has a say."""
    here = [item.operation for item in _decided(body) if isinstance(item, model.Primitive)]
    coming = [item for item in here if isinstance(item, _COMING) and item.barrier.name == name]
    everywhere = sum(isinstance(x, _COMING) and x.barrier.name == name for x in _operations(body))
    plain = all(item.threads == threads and item.barrier == ir.Reference(name) for item in coming)
    if len(coming) != everywhere or not plain:
        return None
    return len(coming)


def _decided(body: model.Body) -> Iterator[model.Statement]:
    """The statements of a body, and of conditions that the sizes and the CTA decide."""
    for item in body:
        if isinstance(item, model.When) and isinstance(item.condition, Constant):
            yield from _decided(item.then if item.condition.value else item.otherwise)
        else:
            yield item


def _operations(body: model.Body) -> Iterator[ir.Operation]:
    for item in _decided(body):
        match item:
            case model.Primitive(operation=operation):
                yield operation
            case model.For(body=inner):
                yield from _operations(inner)
            case model.When(then=then, otherwise=otherwise):
                yield from _operations((*then, *otherwise))
            case model.WhenPoisoned(then=then, otherwise=otherwise):
                yield from _operations((*then, *otherwise))
