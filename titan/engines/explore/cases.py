"""A size of nested loops searched in two cases: none, and one or more.

`for w in 0..work`, and in it `for k in 0..n`, with one number n for all items that may be 0. With
n = 0 a producer may have nothing to do in an item in which a consumer stores a result: it is ahead
of the consumer by any number of items, and a search that holds a number for every item between the
two does not close. With n >= 1 every item ties them together, and with n = 0 the producer's loop
does nothing at all and is left out. Each choice of sizes is in one of the two cases, so a program
is right for every number if both are; a fault of a case is one of the program, for the same sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from titan.engines.explore.loops import seen_outside
from titan.engines.explore.nests import emptied, is_silent, with_own_sizes, without_empty
from titan.sync import program as ir

Sizes = Mapping[str, int | tuple[int, ...]]


def cases_of(program: ir.SyncProgram, sizes: Sizes) -> list[ir.SyncProgram]:
    """The program with none and with one or more of a size, or nothing where that gains nothing."""
    own = with_own_sizes(program, sizes)
    if own is program:
        return []
    closing = {parameter.name: parameter for parameter in without_empty(own, sizes).parameters}
    for parameter in program.parameters:
        found = closing[parameter.name]
        if parameter.per is None and found.per is not None and found.minimum == 0:
            sides = {_idles(role, parameter.name, found.per) for role in own.roles} - {None}
            if len(sides) == 2:
                return [_none(program, parameter), _some(program, parameter)]
    return []


def _idles(role: ir.Role, size: str, item: str) -> bool | None:
    """Whether the role does nothing in an item with a size of 0; None without such a loop."""
    loops = [op for op in ir.walk(role.body) if isinstance(op, ir.Loop) and op.variable == item]
    return all(is_silent(role, emptied(loop.body, size)) for loop in loops) if loops else None


def _some(program: ir.SyncProgram, parameter: ir.Parameter) -> ir.SyncProgram:
    return _with(program, replace(parameter, minimum=1))


def _none(program: ir.SyncProgram, parameter: ir.Parameter) -> ir.SyncProgram:
    roles = []
    for role in program.roles:
        body = emptied(role.body, parameter.name)
        roles.append(replace(role, body=_without_idle(replace(role, body=body), body)))
    return replace(_with(program, replace(parameter, value=0)), roles=tuple(roles))


def _with(program: ir.SyncProgram, parameter: ir.Parameter) -> ir.SyncProgram:
    parameters = (parameter if p.name == parameter.name else p for p in program.parameters)
    return replace(program, parameters=tuple(parameters))


def _without_idle(role: ir.Role, block: ir.Block) -> ir.Block:
    """The block without loops that execute no operation and change nothing that is read again."""
    made: list[ir.Operation] = []
    for operation in block:
        if isinstance(operation, ir.Loop):
            idle = is_silent(role, operation.body)
            if not (idle and not seen_outside(role.body, operation.variable)):
                made.append(replace(operation, body=_without_idle(role, operation.body)))
        elif isinstance(operation, ir.Branch):
            then = _without_idle(role, operation.then)
            otherwise = _without_idle(role, operation.otherwise)
            made.append(replace(operation, then=then, otherwise=otherwise))
        else:
            made.append(operation)
    return tuple(made)
