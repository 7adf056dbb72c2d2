"""Integer expressions of loop variables and parameters: indices, guards, counts, parities, tiles.

Division and remainder round towards minus infinity (as in Python), comparisons and connectives
give 0 or 1. The module decides nothing about a kernel; every engine evaluates or translates these
expressions for itself.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Callable, Mapping
from operator import add, floordiv, mod, mul, sub

from titan.foundation.errors import UserError
from titan.foundation.records import dataclass

_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": add,
    "-": sub,
    "*": mul,
    "//": floordiv,
    "%": mod,
    "min": min,
    "max": max,
    "<": lambda left, right: int(left < right),
    "<=": lambda left, right: int(left <= right),
    "==": lambda left, right: int(left == right),
    "!=": lambda left, right: int(left != right),
    ">=": lambda left, right: int(left >= right),
    ">": lambda left, right: int(left > right),
    "and": lambda left, right: int(bool(left) and bool(right)),
    "or": lambda left, right: int(bool(left) or bool(right)),
}
BINARY_OPERATORS = tuple(_OPERATORS)
TEXT_LENGTH_MAX = 400
DEPTH_MAX = 40
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER_LIKE = re.compile(r"(?<![A-Za-z0-9_])[0-9][A-Za-z0-9_.]*")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-fA-F]+|0o[0-7]+")  # what YAML reads as one, without a sign
_NO_NAMES = frozenset(keyword.kwlist) - {"and", "or", "not", "if", "else", "in"}


class ExpressionError(UserError):
    """The text is not an expression of this language; `offset` counts characters from its start."""

    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(message)
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Constant:
    """An integer of unbounded size."""

    value: int


@dataclass(frozen=True, slots=True)
class Name:
    """A loop variable, a counter, a parameter of the program or a constant of the agent."""

    name: str


@dataclass(frozen=True, slots=True)
class Binary:
    """Two operands joined by an operator, such as `+`, `<` or `and`."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of a truth value."""

    operand: Expression


Expression = Constant | Name | Binary | Not
ZERO = Constant(0)
ONE = Constant(1)


def apply_operator(name: str, left: int, right: int) -> int:
    """The value of one binary operator. Raises ZeroDivisionError for `//` and `%` by zero."""
    if name not in _OPERATORS:
        raise ValueError(f"unknown operator {name!r}")
    return _OPERATORS[name](left, right)


def evaluate(expression: Expression, environment: Mapping[str, int]) -> int:
    """The value under `environment`. Raises KeyError for an unbound name."""
    # Types are compared, not matched: nothing is called more often.
    if type(expression) is Name:
        return environment[expression.name]
    if type(expression) is Constant:
        return expression.value
    if type(expression) is Binary:
        name, first = expression.operator, evaluate(expression.left, environment)
        # Short circuit, so that a guard such as `d > 0 and t % d == 0` may protect a division.
        if name == "and" and not first:
            return 0
        if name == "or" and first:
            return 1
        return apply_operator(name, first, evaluate(expression.right, environment))
    assert type(expression) is Not
    return int(not evaluate(expression.operand, environment))


def substitute(expression: Expression, values: Mapping[str, Expression | int]) -> Expression:
    """Replace names and fold what has become constant."""
    match expression:
        case Constant():
            return expression
        case Name(name):
            if name not in values:
                return expression
            value = values[name]
            return Constant(value) if isinstance(value, int) else value
        case Not(operand):
            inner = substitute(operand, values)
            return Constant(int(not inner.value)) if isinstance(inner, Constant) else Not(inner)
        case Binary(operator, left, right):
            return binary(operator, substitute(left, values), substitute(right, values))


def binary(operator: str, left: Expression, right: Expression) -> Expression:
    """`Binary` with constants folded and neutral elements dropped."""
    if (
        isinstance(left, Constant)
        and isinstance(right, Constant)
        and not (operator in ("//", "%") and right == ZERO)
    ):
        return Constant(apply_operator(operator, left.value, right.value))
    if operator in ("+", "-") and right == ZERO:
        return left
    if operator == "+" and left == ZERO:
        return right
    if operator in ("*", "//") and right == ONE:
        return left
    if operator == "*" and left == ONE:
        return right
    return Binary(operator, left, right)


def names_of(expression: Expression) -> frozenset[str]:
    """Every name that occurs in the expression."""
    match expression:
        case Constant():
            return frozenset()
        case Name(name):
            return frozenset((name,))
        case Not(operand):
            return names_of(operand)
        case Binary(_, left, right):
            return names_of(left) | names_of(right)


def linear_form(expression: Expression) -> tuple[dict[str, int], int] | None:
    """Coefficients and constant of an affine expression, or None where it is not affine."""
    match expression:
        case Constant(value):
            return {}, value
        case Name(name):
            return {name: 1}, 0
        case Binary("+" | "-" as operator, left, right):
            first, second = linear_form(left), linear_form(right)
            if first is None or second is None:
                return None
            sign = 1 if operator == "+" else -1
            coefficients = dict(first[0])
            for name, coefficient in second[0].items():
                coefficients[name] = coefficients.get(name, 0) + sign * coefficient
            kept = {name: value for name, value in coefficients.items() if value}
            return kept, first[1] + sign * second[1]
        case Binary("*", left, right):
            first, second = linear_form(left), linear_form(right)
            if first is None or second is None:
                return None
            if first[0] and second[0]:
                return None
            scaled, factor = (first, second[1]) if not second[0] else (second, first[1])
            kept = {name: value * factor for name, value in scaled[0].items() if value * factor}
            return kept, scaled[1] * factor
    return None


_PRECEDENCE = {"or": 1, "and": 2, "<": 4, "<=": 4, "==": 4, "!=": 4, ">=": 4, ">": 4,
               "+": 5, "-": 5, "*": 6, "//": 6, "%": 6}  # fmt: skip


def to_text(expression: Expression, outer: int = 0) -> str:
    """The expression as `parse_expression` reads it."""
    match expression:
        case Constant(value):
            return str(value) if value >= 0 or outer == 0 else f"({value})"
        case Name(name):
            return name
        case Not(operand):
            text = f"not {to_text(operand, 3)}"
            return f"({text})" if outer > 3 else text
        case Binary("min" | "max" as operator, left, right):
            return f"{operator}({to_text(left)}, {to_text(right)})"
        case Binary(operator, left, right):
            level = _PRECEDENCE[operator]
            # A comparison in a comparison needs brackets: a < b < c means something else in Python.
            below = level + 1 if level == 4 else level
            text = f"{to_text(left, below)} {operator} {to_text(right, level + 1)}"
            return f"({text})" if outer > level else text


_BINARY_NODES: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Lt: "<", ast.LtE: "<=", ast.Eq: "==", ast.NotEq: "!=", ast.GtE: ">=", ast.Gt: ">",
    ast.And: "and", ast.Or: "or",
}  # fmt: skip


def parse_expression(text: str) -> Expression:
    """Read `t % depth`, `tiles - 1`, `t >= 1 and t < tiles`, `min(a, b)`, `t div depth` ...

    `div` and `mod` are accepted for `//` and `%`. Raises ExpressionError with an offset.
    """
    if len(text) > TEXT_LENGTH_MAX:
        raise ExpressionError(f"expression longer than {TEXT_LENGTH_MAX} characters")
    if not text.strip():
        raise ExpressionError("empty expression")
    if not text.isascii() or any(character in text for character in "\n\0\\#"):
        raise ExpressionError("expression with a character that is not allowed")
    for word in _NUMBER_LIKE.finditer(text):
        if _NUMBER.fullmatch(word.group()) is None:
            raise ExpressionError(f"`{word.group()}` is not an integer", word.start())
    words = _spell_operators(text.rstrip())
    try:
        tree = ast.parse(words.lstrip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        for word in _WORD.finditer(text):
            if word.group() in _NO_NAMES:
                raise ExpressionError(
                    f"`{word.group()}` is a reserved word", word.start()
                ) from None
        offset = (getattr(error, "offset", 1) or 1) - 1
        raise ExpressionError("invalid syntax", min(offset, len(text))) from None
    return _convert(tree.body, 0)


def _spell_operators(text: str) -> str:
    """` div ` and ` mod ` to Python's spelling with the same width, so that offsets stay true."""
    return text.replace(" div ", " //  ").replace(" mod ", " %   ")


def _convert(node: ast.expr, depth: int) -> Expression:
    if depth > DEPTH_MAX:
        raise ExpressionError("expression nested too deeply", node.col_offset)
    match node:
        case ast.Constant(value=bool() | int() as number):
            if abs(number) >= 2**31:
                raise ExpressionError("integer beyond 32 bits", node.col_offset)
            return Constant(int(number))
        case ast.Name(id=name):
            return Constant(int(name == "true")) if name in ("true", "false") else Name(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return binary("-", ZERO, _convert(operand, depth + 1))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return Not(_convert(operand, depth + 1))
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _BINARY_NODES:
            name = _BINARY_NODES[type(operator)]
            return binary(name, _convert(left, depth + 1), _convert(right, depth + 1))
        case ast.BoolOp(op=operator, values=values):
            converted = [_convert(value, depth + 1) for value in values]
            result = converted[0]
            for value in converted[1:]:
                result = binary(_BINARY_NODES[type(operator)], result, value)
            return result
        case ast.Compare(left=left, ops=operators, comparators=rights) if all(
            type(operator) in _BINARY_NODES for operator in operators
        ):
            operands = [_convert(value, depth + 1) for value in (left, *rights)]
            pairs = [
                binary(_BINARY_NODES[type(operator)], operands[i], operands[i + 1])
                for i, operator in enumerate(operators)
            ]
            result = pairs[0]
            for pair in pairs[1:]:
                result = binary("and", result, pair)
            return result
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=[first, second], keywords=[]):
            return binary(name, _convert(first, depth + 1), _convert(second, depth + 1))
    raise ExpressionError("not an expression of loop variables and parameters", node.col_offset)
