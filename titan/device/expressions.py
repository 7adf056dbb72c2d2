"""Integer expressions of manifests, evaluated. They come from a file and are not trusted.

The language is that of kernel files: `+ - * // %`, `min`, `max`, comparisons, `and or not`.
Division and remainder round towards minus infinity.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import lru_cache

from titan.foundation.errors import UserError

LENGTH_MAX = 2000
VALUE_MAX = 1 << 62

_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.GtE: lambda a, b: a >= b,
    ast.Gt: lambda a, b: a > b,
}
_FUNCTIONS: dict[str, Callable[..., int]] = {"min": min, "max": max}


class BadExpression(UserError):
    """The text is not an expression, names something unknown, or divides by zero."""


def evaluate(text: str | int, names: Mapping[str, int]) -> int:
    """The value of an expression. Raises BadExpression."""
    if isinstance(text, int):
        return int(text)
    if not isinstance(text, str) or len(text) > LENGTH_MAX:
        raise BadExpression("an expression is a number or a short text")
    try:
        value = _value(_parsed(text), names)
    except (SyntaxError, RecursionError, MemoryError):
        raise BadExpression(f"not an expression: {text[:80]!r}") from None
    except ZeroDivisionError:
        raise BadExpression(f"division by zero in {text[:80]!r}") from None
    if abs(value) > VALUE_MAX:
        raise BadExpression(f"the value of {text[:80]!r} is too large")
    return value


def names_in(text: str | int) -> frozenset[str]:
    """The names that the value of an expression may depend on. Raises BadExpression."""
    if isinstance(text, int):
        return frozenset()
    try:
        tree = _parsed(text)
    except (SyntaxError, RecursionError, MemoryError):
        raise BadExpression(f"not an expression: {text[:80]!r}") from None
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


@lru_cache(maxsize=1024)
def _parsed(text: str) -> ast.expr:
    return ast.parse(text.strip(), mode="eval").body


def _value(node: ast.expr, names: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=bool(value)) | ast.Constant(value=int(value)):
            return int(value)
        case ast.Name(id=name):
            if name not in names:
                raise BadExpression(f"the name {name!r} is not known here")
            return names[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return int(not _value(operand, names))
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _BINARY:
            value = _BINARY[type(operator)](_value(left, names), _value(right, names))
            if abs(value) > VALUE_MAX:
                raise BadExpression("a value is too large")
            return value
        case ast.BoolOp(op=ast.And(), values=values):
            return int(all(_value(item, names) for item in values))
        case ast.BoolOp(op=ast.Or(), values=values):
            return int(any(_value(item, names) for item in values))
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            compare = _COMPARISONS.get(type(operator))
            if compare is not None:
                return int(compare(_value(left, names), _value(right, names)))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            if name in _FUNCTIONS and len(arguments) >= 2:
                return _FUNCTIONS[name](*(_value(item, names) for item in arguments))
    raise BadExpression("the expression uses what manifests do not have")
