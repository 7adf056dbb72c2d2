"""Numbers beyond the bound at which a program may behave otherwise: those that its text names.

A condition such as `t != 40` or `2 * t < n + 20`, or a loop from 1000 on, changes what happens
beyond the numbers that a bounded check tries. Where no engine covers every number, happens-before
runs the numbers around each constant that conditions, bounds of loops and clamps compare with, and
where a quotient reaches it (`t // 16 != 3`). What it finds refutes; what it does not find proves
nothing, and is not part of the verdict.
"""

from __future__ import annotations

from collections.abc import Iterator

from titan.sync.expression import Binary, Constant, Expression, Not
from titan.sync.parts import values_of
from titan.sync.program import Branch, Loop, SyncProgram, walk
from titan.verify.sizes import ROUNDS, Values, bound_of

FAR_MAX = 8192
_OTHERS = 2  # of a parameter that is not tried beyond the bound
_COMPARING = ("<", "<=", "==", "!=", ">=", ">", "min", "max")


def far_size_sets(program: SyncProgram) -> list[Values]:
    """Sizes around the constants of the text, the small ones first; each parameter, and all."""
    free = [item for item in program.parameters if item.value is None]
    bound = bound_of(program)
    found: dict[tuple[tuple[str, int], ...], None] = {}
    for constant in sorted({c for c in _constants(program) if bound < 2 * c + 2 and c <= FAR_MAX}):
        for value in _around(constant, bound):
            for name in [item.name for item in free]:
                sizes = {item.name: max(item.minimum, _OTHERS) for item in free}
                sizes[name] = max(sizes[name], value)
                found[tuple(sizes.items())] = None
            found[tuple((item.name, max(item.minimum, value)) for item in free)] = None
    return [dict(item) for item in sorted(found, key=lambda item: sum(v for _, v in item))]


def _around(constant: int, bound: int) -> list[int]:
    """The number, the first rounds with it, one ring later, and where half the rounds pass it."""
    ring = bound // ROUNDS
    near = {constant, constant + 1, constant + 2, constant + 2 + ring, 2 * constant + 2}
    return sorted(value for value in near if bound < value <= FAR_MAX)


def _constants(program: SyncProgram) -> Iterator[int]:
    """The constants of conditions and bounds, and of comparisons and clamps elsewhere."""
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
