"""Integer expressions of the sync program as C++ of type int.

Division and remainder round towards minus infinity; where the dividend cannot be negative that is
what C++ does, elsewhere a function of the device header does it. Divisors are positive, proved from
the bounds given. Nothing is decided about a kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.names import INTEGER_MAX, shown
from titan.codegen.emit.ring_positions import PositionKey, position_read
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

DEPTH_MAX = 100
_SPELLED = {"+": "+", "-": "-", "*": "*", "<": "<", "<=": "<=", "==": "==", "!=": "!=",
            ">=": ">=", ">": ">", "and": "&&", "or": "||"}  # fmt: skip
_LEVEL = {"or": 1, "and": 2, "==": 3, "!=": 3, "<": 4, "<=": 4, ">": 4, ">=": 4,
          "+": 5, "-": 5, "*": 6, "//": 6, "%": 6}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SpellingScope:
    """What each name is spelled as, and the least value it takes (None: not known).

    `positions`: the places in rings that are kept beside counters, by counter, depth and lag.
    """

    spelled: Mapping[str, str]
    least: Mapping[str, int | None]
    positions: Mapping[PositionKey, str] = field(default_factory=dict)

    def plus(self, name: str, spelled: str, least: int | None) -> SpellingScope:
        """The scope with one more name, how it is spelled, and what it is at least."""
        named, least_of = {**self.spelled, name: spelled}, {**self.least, name: least}
        return replace(self, spelled=named, least=least_of)

    def keeping(self, positions: Mapping[PositionKey, str]) -> SpellingScope:
        """The scope with places in rings that are kept beside a counter of it."""
        return replace(self, positions={**self.positions, **positions})

    def where(self, condition: Expression) -> SpellingScope:
        """The scope where the condition holds: names that it bounds from below."""
        match condition:
            case Binary("and", left, right):
                return self.where(left).where(right)
            case Binary(">=" | ">" as operator, Name(name), Constant(value)):
                least = value if operator == ">=" else value + 1
                known = self.least.get(name)
                if name in self.spelled and (known is None or known < least):
                    return self.plus(name, self.spelled[name], least)
        return self

    def bound(self, expression: Expression) -> int | None:
        """A number that the expression is never below."""
        match expression:
            case Constant(value):
                return value
            case Name(name):
                return self.least.get(name)
            case Not():
                return 0
            case Binary(operator, left, right):
                return _bound(operator, self.bound(left), self.bound(right), right)
        return None

    def text(self, expression: Expression) -> str:
        """Raises EmissionRefused for a name out of scope, a number beyond 32 bits, or no tree."""
        return self._text(expression, 0, 0)

    def _text(self, expression: Expression, outer: int, depth: int) -> str:
        if depth > DEPTH_MAX:
            raise EmissionRefused("an expression is nested too deeply")
        match expression:
            case Constant(value):
                if isinstance(value, bool) or not isinstance(value, int):
                    raise EmissionRefused(f"no integer in an expression: {shown(value)}")
                if abs(value) > INTEGER_MAX:
                    raise EmissionRefused(f"a number beyond 32 bits: {shown(value)}")
                return str(value) if value >= 0 else f"({value})"
            case Name(name):
                if name not in self.spelled:
                    raise EmissionRefused(f"an expression uses {shown(name)}, out of scope here")
                return self.spelled[name]
            case Not(operand):
                return f"!({self._text(operand, 0, depth + 1)})"
            case Binary(operator, left, right):
                return self._binary(operator, left, right, outer, depth + 1)
        raise EmissionRefused(f"no expression: {shown(expression)}")

    def _binary(
        self, operator: str, left: Expression, right: Expression, outer: int, depth: int
    ) -> str:
        if operator in ("min", "max"):
            function = "titan::smaller" if operator == "min" else "titan::larger"
            return f"{function}({self._text(left, 0, depth)}, {self._text(right, 0, depth)})"
        if operator in ("//", "%"):
            kept = self._kept(operator, left, right, outer)
            return kept or self._division(operator, left, right, outer, depth)
        if operator not in _SPELLED:
            raise EmissionRefused(f"an unknown operator: {shown(operator)}")
        level = _LEVEL[operator]
        # Brackets wherever && meets ||, as compilers ask for.
        inner = 3 if operator in ("and", "or") else level
        text = (
            f"{self._text(left, inner, depth)} {_SPELLED[operator]} "
            f"{self._text(right, inner + 1, depth)}"
        )
        return f"({text})" if outer > level else text

    def _kept(self, operator: str, left: Expression, right: Expression, outer: int) -> str:
        """The expression as a position gives it; empty where none does."""
        read = position_read(Binary(operator, left, right))
        position = self.positions.get(read.key) if read is not None else None
        if read is None or position is None:
            return ""
        if read.flip is None:
            return f"{position}.stage"
        if not read.flip:
            return f"{position}.parity"
        text = f"1 - {position}.parity"
        return f"({text})" if outer > _LEVEL["-"] else text

    def _division(
        self, operator: str, left: Expression, right: Expression, outer: int, depth: int
    ) -> str:
        divisor = self.bound(right)
        if divisor is None or divisor < 1:
            raise EmissionRefused("an expression divides by what may be zero or negative")
        dividend = self.bound(left)
        if dividend is not None and dividend >= 0:
            sign = "/" if operator == "//" else "%"
            text = f"{self._text(left, 6, depth)} {sign} {self._text(right, 7, depth)}"
            return f"({text})" if outer > 6 else text
        if dividend is not None and isinstance(right, Constant):
            # A multiple of the divisor more, so that nothing is negative and C++ rounds down.
            more = -(dividend // right.value)
            raised = binary("+", left, Constant(more * right.value))
            if operator == "%":
                return self._text(binary("%", raised, right), outer, depth)
            down = binary("-", binary("//", raised, right), Constant(more))
            return self._text(down, outer, depth)
        function = "titan::floor_divide" if operator == "//" else "titan::floor_modulo"
        return f"{function}({self._text(left, 0, depth)}, {self._text(right, 0, depth)})"


def _bound(operator: str, left: int | None, right: int | None, divisor: Expression) -> int | None:
    if operator in ("<", "<=", "==", "!=", ">=", ">", "and", "or"):
        return 0
    if operator == "%":
        return 0 if right is not None and right >= 1 else None
    if operator == "max":
        known = [bound for bound in (left, right) if bound is not None]
        return max(known) if known else None
    if operator == "-":
        if left is None or not isinstance(divisor, Constant):
            return None
        return left - divisor.value
    if left is None or right is None:
        return None
    if operator == "+":
        return left + right
    if operator == "min":
        return min(left, right)
    if operator == "*":
        return left * right if left >= 0 and right >= 0 else None
    if operator == "//":
        if isinstance(divisor, Constant) and divisor.value >= 1:
            return left // divisor.value
        return 0 if left >= 0 and right >= 1 else None
    return None


def product(factors: list[Expression]) -> Expression:
    """The product of the factors; 1 for none."""
    made: Expression = Constant(1)
    for factor in factors:
        made = binary("*", made, factor)
    return made


__all__ = ["SpellingScope", "names_of", "product", "substitute"]
