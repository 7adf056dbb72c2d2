"""Compile expressions to the bytecode of titan/engines/explore/native/expression.c.

Comparisons with a size that is not decided become tests of `rest + factor * size` against 0, which
the core answers from a lower bound of the size where that is enough.
"""

from __future__ import annotations

from collections.abc import Mapping

from titan.engines.explore.layout import Opcode
from titan.engines.explore.tables import TooLargeError
from titan.foundation.errors import UserError
from titan.foundation.records import dataclass
from titan.sync.expression import (
    Binary,
    Constant,
    Expression,
    Name,
    Not,
    binary,
    names_of,
    substitute,
)

OPERATORS = {
    "+": Opcode.ADD, "-": Opcode.SUB, "*": Opcode.MUL, "//": Opcode.DIV, "%": Opcode.MOD,
    "min": Opcode.MIN, "max": Opcode.MAX, "<": Opcode.LT, "<=": Opcode.LE, "==": Opcode.EQ,
    "!=": Opcode.NE, ">=": Opcode.GE, ">": Opcode.GT,
}  # fmt: skip
COMPARISONS = ("<", "<=", "==", "!=", ">=", ">")
STACK_MAX = 90


class UnknownNameError(UserError):
    """An expression names something that is not in scope."""


@dataclass(frozen=True, slots=True)
class RoleScope:
    """What names mean for one role: variables by place, sizes as numbers or by parameter.

    `outer` gives the variable by which a parameter has a separate number, or -1.
    """

    variables: Mapping[str, int]
    agent_constant: str
    sizes: Mapping[str, int]
    parameters: Mapping[str, int]
    outer: Mapping[str, int]


def compile_expression(expression: Expression, scope: RoleScope) -> list[int]:
    """Bytecode with OP_END. Raises UnknownNameError and TooLargeError."""
    folded = substitute(expression, dict(scope.sizes))
    if _depth(folded) > STACK_MAX:
        raise TooLargeError(f"an expression nested more than {STACK_MAX} deep")
    code: list[int] = []
    _emit(folded, scope, code)
    return [*code, Opcode.END]


def _depth(expression: Expression) -> int:
    match expression:
        case Not(operand):
            return 1 + _depth(operand)
        case Binary(_, left, right):
            return 1 + max(_depth(left), _depth(right))
    return 1


def _emit(expression: Expression, scope: RoleScope, code: list[int]) -> None:
    match expression:
        case Constant(value):
            code += [Opcode.CONSTANT, value]
        case Name(name):
            _emit_name(name, scope, code)
        case Not(operand):
            _emit(operand, scope, code)
            code.append(Opcode.NOT)
        case Binary("and" | "or" as operator, left, right):
            _emit(left, scope, code)
            inner: list[int] = []
            _emit(right, scope, inner)
            # The jump is counted from the operation itself, past the second operand.
            code += [
                Opcode.AND if operator == "and" else Opcode.OR,
                len(inner) + 3,
                *inner,
                Opcode.BOOL,
            ]
        case Binary(operator, left, right) if operator in COMPARISONS and (
            (names_of(left) | names_of(right)) & scope.parameters.keys()
        ):
            _emit_comparison(expression, scope, code)
        case Binary("min" | "max", left, right) if (
            names_of(left) | names_of(right)
        ) & scope.parameters.keys():
            _emit_extreme(expression, scope, code)
        case Binary(operator, left, right):
            _emit(left, scope, code)
            _emit(right, scope, code)
            code.append(OPERATORS[operator])


def _emit_name(name: str, scope: RoleScope, code: list[int]) -> None:
    if name in scope.parameters:
        code += [Opcode.PARAMETER, scope.parameters[name], scope.outer.get(name, -1)]
    elif name == scope.agent_constant:
        code.append(Opcode.SELF)
    elif name in scope.variables:
        code += [Opcode.VARIABLE, scope.variables[name]]
    else:
        raise UnknownNameError(f"{name} is not in scope")


def _emit_extreme(expression: Binary, scope: RoleScope, code: list[int]) -> None:
    """`min(a, b)` as a where a <= b, plus b where b < a: only the side that counts is evaluated.

    So `min(1, tiles - t - 1)` needs to know whether much is left, not the number of tiles.
    """
    strict = "<" if expression.operator == "min" else ">"
    left, right = expression.left, expression.right
    for test, value in (
        (Binary(strict + "=", left, right), left),
        (Binary(strict, right, left), right),
    ):
        _emit(test, scope, code)
        inner: list[int] = []
        _emit(value, scope, inner)
        code += [Opcode.AND, len(inner) + 2, *inner]  # without BOOL: 0, or the value
    code.append(OPERATORS["+"])


def _emit_comparison(expression: Binary, scope: RoleScope, code: list[int]) -> None:
    split = split_extremes(expression, frozenset(scope.parameters))
    if split is not expression:
        _emit(split, scope, code)
        return
    difference = binary("-", expression.left, expression.right)
    used = sorted(names_of(difference) & scope.parameters.keys())
    for name in used:
        parts = _separate(difference, name)
        if parts is None:
            continue
        factor, rest = parts
        if factor == 0:
            _emit(rest, scope, code)
            code += [Opcode.CONSTANT, 0, OPERATORS[expression.operator]]
            return
        _emit(rest, scope, code)
        number, outer = scope.parameters[name], scope.outer.get(name, -1)
        code += [Opcode.TEST_PARAMETER, OPERATORS[expression.operator], number, factor, outer]
        return
    _emit(expression.left, scope, code)
    _emit(expression.right, scope, code)
    code.append(OPERATORS[expression.operator])


def _separate(expression: Expression, name: str) -> tuple[int, Expression] | None:
    """The expression as factor * name + rest, where the rest does not mention the name."""
    if name not in names_of(expression):
        return 0, expression
    match expression:
        case Name():
            return 1, Constant(0)
        case Binary("+" | "-" as operator, left, right):
            first, second = _separate(left, name), _separate(right, name)
            if first is None or second is None:
                return None
            factor = first[0] + (second[0] if operator == "+" else -second[0])
            return factor, binary(operator, first[1], second[1])
        case Binary("*", left, right):
            if isinstance(right, Constant):
                left, right = right, left
            inner = _separate(right, name)
            if not isinstance(left, Constant) or inner is None:
                return None
            return left.value * inner[0], binary("*", left, inner[1])
    return None


def split_extremes(expression: Expression, parameters: frozenset[str]) -> Expression:
    """`e < min(a, b)` as `e < a and e < b`, where a parameter occurs below the min or max."""
    if not isinstance(expression, Binary) or expression.operator not in ("<", "<=", ">", ">="):
        return expression
    rising = expression.operator in (">", ">=")
    for side, other in (("left", expression.right), ("right", expression.left)):
        operand = expression.left if side == "left" else expression.right
        if (
            isinstance(operand, Binary)
            and operand.operator in ("min", "max")
            and names_of(operand) & parameters
        ):
            smaller_side = (side == "left") != rising
            both = (operand.operator == "min") != smaller_side
            halves = [
                Binary(expression.operator, half, other)
                if side == "left"
                else Binary(expression.operator, other, half)
                for half in (operand.left, operand.right)
            ]
            first, second = (split_extremes(half, parameters) for half in halves)
            return Binary("and" if both else "or", first, second)
    return expression
