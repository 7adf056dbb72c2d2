"""Which values of the parameters a bounded check explores.

A parameter of unknown value is tried from its minimum up to three rounds of the deepest ring and
two more: 3 D + 2. That is a bound and is reported as one; it proves nothing about larger values.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from titan.sync.expression import Binary, Constant, Expression, Not
from titan.sync.program import Branch, Loop, SyncProgram, Wait, walk

ROUNDS = 3
BOUND_MIN = 5
TURNS_MAX = 2  # of a parameter with `per`, above its minimum: values that are tried in turn
Values = dict[str, int | tuple[int, ...]]


def depth_of(program: SyncProgram) -> int:
    """The deepest array that is used cyclically: barriers, buffers, and divisors of indices."""
    depths = [barrier.stages for barrier in program.barriers]
    depths += [buffer.stages for buffer in program.buffers]
    for role in program.roles:
        for operation in walk(role.body):
            if isinstance(operation, Wait):
                depths += _divisors(operation.barrier.index)
            elif isinstance(operation, Branch):
                depths += _divisors(operation.condition)
            elif isinstance(operation, Loop):
                depths += _divisors(operation.stop)
    return min(max(depths, default=1), 64)


def _divisors(expression: Expression) -> list[int]:
    match expression:
        case Binary("//" | "%", left, Constant(value)):
            return [value, *_divisors(left)]
        case Binary(_, left, right):
            return _divisors(left) + _divisors(right)
        case Not(operand):
            return _divisors(operand)
    return []


def bound_of(program: SyncProgram) -> int:
    """The bound on values tried of a free parameter: grows with the depth, never below 5."""
    return max(ROUNDS * depth_of(program) + 2, BOUND_MIN)


def free_parameters(program: SyncProgram) -> list[str]:
    """Parameters without a fixed value."""
    return [parameter.name for parameter in program.parameters if parameter.value is None]


def equal_sizes(program: SyncProgram, size: int) -> dict[str, int]:
    """The same size for every free parameter, or its minimum where that is more."""
    return {item.name: max(size, item.minimum) for item in program.parameters if item.value is None}


def size_sets(program: SyncProgram) -> Iterator[Values]:
    """All values of the free parameters up to the bound, small sums first.

    A parameter with `per` is tried with one value for all, with two, and with three in turn.
    Several parameters are combined, each up to two more than the depth.
    """
    bound = bound_of(program)
    several = max(BOUND_MIN + 1, depth_of(program) + 2)
    ranges: list[list[int | tuple[int, ...]]] = []
    names = []
    for parameter in program.parameters:
        if parameter.value is not None:
            continue
        names.append(parameter.name)
        first = parameter.minimum
        last = max(bound, first)
        if len(free_parameters(program)) > 1:
            last = max(first + 3, min(last, several))
        values: list[int | tuple[int, ...]] = list(range(first, last + 1))
        if parameter.per is not None:
            small = range(first, min(last, first + TURNS_MAX) + 1)
            values += [(a, b) for a in small for b in small if a != b]
            values += [(a, b, c) for a in small for b in small for c in small if b != c]
        ranges.append(values)
    sets = [dict(zip(names, values, strict=True)) for values in itertools.product(*ranges)]
    yield from sorted(sets, key=_weight)


def _weight(values: Values) -> int:
    return sum(max(value) if isinstance(value, tuple) else value for value in values.values())
