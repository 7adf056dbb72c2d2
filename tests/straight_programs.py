"""Programs as straight lines: loops unrolled, branches taken, tiles forgotten."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import cast

from titan.sync import program as ir
from titan.sync.expression import Constant, Expression, evaluate

Environment = dict[str, int]


def straight(program: ir.SyncProgram, size: int = 2) -> ir.SyncProgram:
    """The program with open sizes `size`, one role an agent, under policies that runs follow."""
    sizes = {item.name: size if item.value is None else item.value for item in program.parameters}
    roles = [
        replace(
            role,
            name=f"{role.name}{agent}",
            agents=1,
            variables=(),
            body=tuple(
                unrolled(role.body, {**sizes, **dict(role.variables), role.agent_constant: agent})
            ),
        )
        for role in program.roles
        for agent in range(role.agents)
    ]
    policies = replace(program.policies, barrier_init="assumed", fence_rule="writer")
    return replace(program, roles=tuple(roles), parameters=(), policies=policies)


def unrolled(block: ir.Block, environment: Environment) -> list[ir.Operation]:
    """The operations of a block, in their order."""
    found: list[ir.Operation] = []
    for operation in block:
        match operation:
            case ir.Loop(variable=name, start=start, stop=stop, body=body):
                environment[name] = evaluate(start, environment)
                while environment[name] < evaluate(stop, environment):
                    found += unrolled(body, environment)
                    environment[name] += 1
            case ir.Branch(condition=condition, then=then, otherwise=otherwise):
                taken = then if evaluate(condition, environment) else otherwise
                found += unrolled(taken, environment)
            case ir.Assign(variable=name, value=value):
                environment[name] = evaluate(value, environment)
            case _:
                found.append(cast(ir.Operation, _constant(operation, environment)))
    return found


def _constant(value: object, environment: Environment) -> object:
    """A value whose expressions are numbers."""
    if isinstance(value, ir.Effect):
        value = replace(value, tile=None)
    if isinstance(value, ir.Operation | ir.Effect | ir.Reference | ir.Completion):
        left = ("span", "label", "by")
        names = [item.name for item in fields(value) if item.name not in left]
        return replace(value, **{n: _constant(getattr(value, n), environment) for n in names})
    if isinstance(value, tuple):
        return tuple(_constant(item, environment) for item in value)
    if type(value).__module__ == Constant.__module__:
        return Constant(evaluate(cast(Expression, value), environment))
    return value
