"""Numbers that the text of a program names: where it may behave otherwise, and its period.

A condition such as `t != 40` changes what happens there, a quotient (`t // 16 != 3`) where it
reaches the constant. Indices of quotients and remainders repeat after some rounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from titan.sync.expression import Binary, Constant, Expression, Not
from titan.sync.parts import barriers_of, effects_of, values_of
from titan.sync.program import Branch, Loop, Operation, SyncProgram, walk

_COMPARING = ("<", "<=", "==", "!=", ">=", ">", "min", "max")


def period_of(program: SyncProgram) -> int:
    """A number of rounds after which all quotients and remainders of the program repeat.

    Quotients grow by a constant then. A multiple of the smallest such number.
    """
    return math.lcm(*(_period(one) for one in _expressions(program)))


def _expressions(program: SyncProgram) -> Iterator[Expression]:
    for role in program.roles:
        for operation in walk(role.body):
            match operation:
                case Branch(condition=condition):
                    yield condition
                case Loop(start=start, stop=stop):
                    yield from (start, stop)
            yield from (one for one in values_of(operation) if one is not None)
            yield from _places(operation)


def _places(operation: Operation) -> Iterator[Expression]:
    """Indices of barriers and buffers, and tiles."""
    for reference in barriers_of(operation):
        yield reference.index
    for effect in effects_of(operation):
        yield from (one for one in (effect.stage, effect.part, effect.tile) if one is not None)


def _period(expression: Expression) -> int:
    match expression:
        case Binary("//" | "%", left, Constant(value)) if value:
            return abs(value) * _period(left)
        case Binary(_, left, right):
            return math.lcm(_period(left), _period(right))
        case Not(operand):
            return _period(operand)
    return 1


def named_numbers(program: SyncProgram) -> frozenset[int]:
    """The constants of conditions and bounds, and of comparisons and clamps elsewhere."""
    return frozenset(_constants(program))


def _constants(program: SyncProgram) -> Iterator[int]:
    for role in program.roles:
        for operation in walk(role.body):
            if isinstance(operation, Branch):
                yield from _all_of(operation.condition)
            elif isinstance(operation, Loop):
                yield from _all_of(operation.start)
                yield from _all_of(operation.stop)
            for expression in values_of(operation):
                if expression is not None:
                    yield from _compared(expression)
            for place in _places(operation):
                yield from _compared(place)
                yield from _first_quotients(place)


def _all_of(expression: Expression) -> Iterator[int]:
    match expression:
        case Constant(value):
            yield abs(value)
        case Binary(operator, left, right):
            yield from _all_of(left)
            yield from _all_of(right)
            if operator in _COMPARING:
                yield from _reached(left, right)
                yield from _reached(right, left)
        case Not(operand):
            yield from _all_of(operand)


def _reached(quotient: Expression, limit: Expression) -> Iterator[int]:
    """The first dividend with each constant of the limit as its quotient, and the first beyond."""
    divisor = _divisor_of(quotient)
    if divisor > 1:
        for constant in _all_of(limit):
            yield from (divisor * constant, divisor * (constant + 1))


def _divisor_of(expression: Expression) -> int:
    """The product of what the expression is divided by, rounded; 1 without a quotient."""
    match expression:
        case Binary("//", left, Constant(value)) if value > 0:
            return value * _divisor_of(left)
        case Binary(_, left, right):
            return max(_divisor_of(left), _divisor_of(right))
        case Not(operand):
            return _divisor_of(operand)
    return 1


def _first_quotients(expression: Expression) -> Iterator[int]:
    """The first dividends at which quotients in it are not 0."""
    match expression:
        case Binary(operator, left, right):
            if operator == "//":
                yield _divisor_of(expression)
            yield from _first_quotients(left)
            yield from _first_quotients(right)
        case Not(operand):
            yield from _first_quotients(operand)


def _compared(expression: Expression) -> Iterator[int]:
    match expression:
        case Binary(operator, left, right):
            if operator in _COMPARING:
                yield from _all_of(expression)
            else:
                yield from _compared(left)
                yield from _compared(right)
        case Not(operand):
            yield from _compared(operand)
