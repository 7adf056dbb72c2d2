"""Loops of one variable distinguished, where one of them is bounded and another is not.

A prologue `for t in 0..depth` and a main loop `for t in 0..tiles` use one variable for two numbers,
of which only the second grows. A loop with constant bounds gets a variable of its own here where
nobody could see the difference: its variable is read and set nowhere but inside loops over it,
each of which sets it first. Operations keep their number and order, so a trace of the one program
is a trace of the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TypeVar, cast

from titan.sync import program as ir
from titan.sync.expression import Constant, Name, substitute

Node = TypeVar("Node")


def separate_loops(program: ir.SyncProgram, sizes: Mapping[str, int]) -> ir.SyncProgram:
    """The same program, with variables of their own for bounded loops that share one."""
    kept = {parameter.per for parameter in program.parameters}
    roles = tuple(_separated(role, sizes, kept) for role in program.roles)
    return program if roles == program.roles else replace(program, roles=roles)


def _separated(role: ir.Role, sizes: Mapping[str, int], kept: set[str | None]) -> ir.Role:
    loops: dict[str, list[ir.Loop]] = {}
    for operation in ir.walk(role.body):
        if isinstance(operation, ir.Loop):
            loops.setdefault(operation.variable, []).append(operation)
    body = role.body
    taken = names_in(role) | set(sizes)
    for variable, entries in loops.items():
        bounded = [loop for loop in entries if _is_bounded(loop, sizes)]
        mixed = 0 < len(bounded) < len(entries)
        if not mixed or variable in kept or variable in dict(role.variables):
            continue
        if seen_outside(body, variable):
            continue
        fresh = next(name for n in range(len(taken) + 1) if (name := f"{variable}{n}") not in taken)
        taken.add(fresh)
        body = tuple(_with_own(operation, variable, fresh, sizes) for operation in body)
    return role if body == role.body else replace(role, body=body)


def _is_bounded(loop: ir.Loop, sizes: Mapping[str, int]) -> bool:
    ends = (substitute(loop.start, dict(sizes)), substitute(loop.stop, dict(sizes)))
    return all(isinstance(end, Constant) for end in ends)


def seen_outside(block: ir.Block, variable: str) -> bool:
    """Whether the variable is named outside of loops over it, or set or looped over within one."""
    for operation in block:
        if isinstance(operation, ir.Loop) and operation.variable == variable:
            if variable in names_in(operation.start):
                return True
            for inner in ir.walk(operation.body):
                if isinstance(inner, ir.Assign | ir.Loop) and inner.variable == variable:
                    return True
        elif isinstance(operation, ir.Loop):
            if variable in names_in(operation.start) | names_in(operation.stop):
                return True
            if seen_outside(operation.body, variable):
                return True
        elif isinstance(operation, ir.Branch):
            if variable in names_in(operation.condition):
                return True
            if seen_outside((*operation.then, *operation.otherwise), variable):
                return True
        elif variable in names_in(operation):
            return True
    return False


def _with_own(
    operation: ir.Operation, variable: str, fresh: str, sizes: Mapping[str, int]
) -> ir.Operation:
    """The operation with the bounded loops over `variable` in it over `fresh` instead."""

    def block(inside: ir.Block) -> ir.Block:
        return tuple(_with_own(inner, variable, fresh, sizes) for inner in inside)

    match operation:
        case ir.Loop(variable=own) if own == variable:
            return (
                renamed(operation, variable, fresh)
                if _is_bounded(operation, sizes)
                else (operation)
            )
        case ir.Loop(body=body):
            return replace(operation, body=block(body))
        case ir.Branch(then=then, otherwise=otherwise):
            return replace(operation, then=block(then), otherwise=block(otherwise))
    return operation


def renamed(value: Node, variable: str, fresh: str) -> Node:
    """The value with every name of the variable replaced, in expressions and as a loop's own."""
    if isinstance(value, Name):
        return replace(value, name=fresh) if value.name == variable else value
    if isinstance(value, tuple):
        return cast(Node, tuple(renamed(item, variable, fresh) for item in value))
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changed = {
        field.name: renamed(getattr(value, field.name), variable, fresh)
        for field in fields(value)
        if field.name not in ("span", "variable")
    }
    if isinstance(value, ir.Loop):
        changed["variable"] = fresh if value.variable == variable else value.variable
    return replace(value, **changed)


def names_in(value: object) -> set[str]:
    """Every name in the expressions of a value, and the variables that its operations set."""
    if isinstance(value, Name):
        return {value.name}
    if isinstance(value, tuple):
        return {name for item in value for name in names_in(item)}
    if not is_dataclass(value) or isinstance(value, type):
        return set()
    # A span holds the whole source: to look through it for each operation would be quadratic.
    parts = (getattr(value, field.name) for field in fields(value) if field.name != "span")
    found = {name for part in parts for name in names_in(part)}
    if isinstance(value, ir.Assign | ir.Loop):
        found.add(value.variable)
    if isinstance(value, ir.Role):
        found |= {name for name, _ in value.variables} | {value.agent_constant}
    return found
