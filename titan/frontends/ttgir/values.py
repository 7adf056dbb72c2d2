"""Values of TTGIR: integers, views of memory, and unknown data.

Integers are expressions of kernel arguments, loop variables and counters (`integers.py`); values of
data are never known. Overflow, and negative dividends of kernel arguments, are assumed away.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeGuard

from titan.foundation.source.span import Span
from titan.frontends.ttgir import integers
from titan.frontends.ttgir.integers import UnknownInteger
from titan.frontends.ttgir.model import MemoryType, TtgirOperation
from titan.sync.expression import (
    ONE,
    ZERO,
    Binary,
    Constant,
    Expression,
    Name,
    Not,
    binary,
    evaluate,
)

_TRUTH_MASKS = {(1 << bits) - 1: 1 << bits for bits in range(1, 32)}
_CONSTANT = re.compile(r"^(-?\d+|true|false)\b(?!\.)")
_PREDICATES = {
    "eq": "==", "ne": "!=", "slt": "<", "sle": "<=", "sgt": ">", "sge": ">=",
    "ult": "<", "ule": "<=", "ugt": ">", "uge": ">=",
}  # fmt: skip
_DIVISIONS = ("arith.divsi", "arith.divui", "arith.ceildivsi", "arith.ceildivui")
_SAME = ("arith.index_cast", "arith.extui", "arith.index_castui")
TRUTHS = ("<", "<=", "==", "!=", ">=", ">", "and", "or")


@dataclass(eq=False, slots=True)
class Root:
    """One allocation. `stages` is its first extent where it is indexed, else 1.

    `bytes_here`: what one CTA has of it. `led`: as a barrier, it is the one that CTAs use which
    share it. `maps`: tensor maps in global memory, `given` those that the launch brings.
    """

    name: str
    type: MemoryType
    stages: int
    barrier: bool = False
    count: int = 1
    span: Span | None = None
    bytes_here: int = 0
    led: bool = True
    maps: bool = False
    given: bool = False


@dataclass(frozen=True, slots=True)
class MemoryView:
    """A view of an allocation: one stage of it, or all (None). `partial`: less than all bytes."""

    root: Root
    stage: Expression | None
    type: MemoryType
    partial: bool = False

    def like(self, other: object) -> bool:
        """Whether another view is of the same allocation, and differs in its stage at most."""
        return (
            isinstance(other, MemoryView)
            and other.root is self.root
            and other.partial is self.partial
            and (other.stage is None) is (self.stage is None)
        )


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that is not followed; `reason` says why, where it is an integer."""

    reason: str = "it is data"


@dataclass(frozen=True, slots=True)
class ThreadNumber:
    """A number that differs by thread: between `low` and `high` in all threads of the draft."""

    low: int
    high: int


Value = Expression | MemoryView | Unknown | ThreadNumber


def is_integer(value: object) -> TypeGuard[Expression]:
    """Whether the value is a number that is followed."""
    return isinstance(value, Constant | Name | Binary | Not)


def why_unknown(value: Value) -> str:
    """Why a value is not a number that is followed."""
    if isinstance(value, ThreadNumber):
        return "it differs by thread"
    return value.reason if isinstance(value, Unknown) else "it is memory"


def is_scalar(type_text: str) -> bool:
    """Whether a type is that of an integer."""
    return re.fullmatch(r"i\d+|index", type_text.strip()) is not None


@dataclass(slots=True)
class Arithmetic:
    """Evaluates integer operations. `arguments` are the names that no role ever changes;
    `minimums` what a name is never below.
    """

    arguments: set[str]
    minimums: dict[str, int]

    def least(self, value: Expression) -> int | None:
        """A number that the value is never below, or None."""
        return integers.least(value, self.minimums.get)

    def evaluate(self, operation: TtgirOperation, operands: list[Value]) -> Value:
        """The result of an arithmetic operation on scalars."""
        if operation.name == "arith.constant":
            return _constant(operation)
        if any(isinstance(item, ThreadNumber) for item in operands):
            return _of_threads(operation, operands)
        numbers = [item for item in operands if is_integer(item)]
        if len(numbers) < len(operands):
            return next((item for item in operands if isinstance(item, Unknown)), Unknown())
        try:
            return self._integer(operation, numbers)
        except UnknownInteger as reason:
            return Unknown(str(reason))

    def _integer(self, operation: TtgirOperation, numbers: list[Expression]) -> Value:
        name = operation.name
        if operation.types.strip() == "i1" and name in ("arith.addi", "arith.subi", "arith.muli"):
            return Unknown("booleans are added")
        if name in _SAME:
            return numbers[0]
        match name, numbers:
            case "arith.addi", [left, right]:
                return integers.add(left, right)
            case "arith.subi", [left, right]:
                return integers.subtract(left, right)
            case "arith.muli", [left, right]:
                return integers.multiply(left, right)
            case "arith.extsi", [value]:
                return integers.subtract(ZERO, value) if _is_truth(value) else value
            case "arith.trunci", [value]:
                narrow = operation.types.rpartition("to ")[2].strip() == "i1"
                return integers.remainder(value, 2) if narrow and not _is_truth(value) else value
            case "arith.cmpi", [left, right]:
                return self._compared(operation, left, right)
            case "arith.select", [condition, left, right]:
                return integers.select(condition, left, right)
            case "arith.minsi" | "arith.minui", [left, right]:
                return binary("min", left, right)
            case "arith.maxsi" | "arith.maxui", [left, right]:
                return binary("max", left, right)
            case "arith.xori", [left, right]:
                return self._xor(left, right)
            case "arith.andi", [left, right]:
                return self._and(left, right)
            case "arith.ori", [left, right] if _is_truth(left) and _is_truth(right):
                return binary("or", left, right)
            case "arith.shli", [left, Constant(places)] if 0 <= places < 32:
                return integers.multiply(left, Constant(1 << places))
        if name in _DIVISIONS or name in ("arith.remsi", "arith.remui"):
            return self._division(name, numbers[0], numbers[1])
        return Unknown(f"{name} is not supported")

    def _compared(self, operation: TtgirOperation, left: Expression, right: Expression) -> Value:
        predicate = operation.header.split(",")[0].strip()
        operator = _PREDICATES.get(predicate)
        if operator is None:
            return Unknown(f"{predicate} is not a comparison")
        if predicate.startswith("s") and operation.types.strip() == "i1":
            return Unknown("booleans are compared as signed numbers")
        if predicate.startswith("u"):
            lows = self.least(left), self.least(right)
            if any(low is None or low < 0 for low in lows):
                return Unknown("a number that may be negative is compared as unsigned")
        fixed = integers.holds_only(frozenset(self.arguments))
        return integers.compare(operator, left, right, fixed)

    def _division(self, name: str, left: Expression, right: Expression) -> Expression:
        if not isinstance(right, Constant) or right.value <= 0:
            if name.startswith("arith.div") and not (self._varies(left) or self._varies(right)):
                return Binary("//", left, Binary("max", right, ONE))  # of arguments: a size itself
            raise UnknownInteger("its divisor is not constant")
        low = self.least(left)
        if (low is None or low < 0) and self._varies(left):
            raise UnknownInteger("a dividend may be negative")
        if name.startswith("arith.rem"):
            return integers.remainder(left, right.value)
        if "ceil" in name:
            return integers.ceiling_divide(left, right.value)
        return integers.floor_divide(left, right.value)

    def _varies(self, value: Expression) -> bool:
        return not integers.holds_only(frozenset(self.arguments))(value)

    def _xor(self, left: Expression, right: Expression) -> Expression:
        if isinstance(left, Constant):
            left, right = right, left
        if right == ZERO:
            return left
        if right == ONE:
            if _is_truth(left):
                return integers.subtract(ONE, left)
            # The lowest bit is turned over, of any number.
            return integers.add(left, integers.subtract(ONE, scaled_bit(left)))
        if _is_truth(left) and _is_truth(right):
            return integers.remainder(integers.add(left, right), 2)
        raise UnknownInteger("xor of two variables is not supported")

    def _and(self, left: Expression, right: Expression) -> Expression:
        if isinstance(left, Constant):
            left, right = right, left
        if isinstance(right, Constant):
            if right.value in _TRUTH_MASKS:
                return integers.remainder(left, _TRUTH_MASKS[right.value])
            if right.value == 0:
                return ZERO
        if _is_truth(left) and _is_truth(right):
            return binary("and", left, right)
        raise UnknownInteger("and of two variables is not supported")


def _of_threads(operation: TtgirOperation, operands: list[Value]) -> Value:
    """A number of threads where it is the same in all of them, or its bounds after a division."""
    match operands:
        case [ThreadNumber(low, high), Constant(by)] if by > 0 and operation.name in _DIVISIONS[:2]:
            same = low // by == high // by
            return Constant(low // by) if same else ThreadNumber(low // by, high // by)
        case [ThreadNumber(low, high), Constant(other)] if operation.name == "arith.cmpi":
            operator = _PREDICATES.get(operation.header.split(",")[0].strip(), "")
            ends = {_holds(operator, number, other) for number in (low, high)}
            inside = operator in ("==", "!=") and low < other < high
            if operator and len(ends) == 1 and not inside:
                return Constant(int(ends.pop()))
    return Unknown("it differs by thread")


def _holds(operator: str, left: int, right: int) -> bool:
    return operator != "" and evaluate(Binary(operator, Constant(left), Constant(right)), {}) != 0


def scaled_bit(value: Expression) -> Expression:
    """Twice the lowest bit."""
    return integers.multiply(Constant(2), integers.remainder(value, 2))


def _is_truth(value: Expression) -> bool:
    """Whether a number is 0 or 1 by its form."""
    match value:
        case Constant(number):
            return number in (0, 1)
        case Not() | Binary("%", _, Constant(2)):
            return True
        case Binary("-", Constant(1), other):
            return _is_truth(other)
        case Binary(operator, _, _):
            return operator in TRUTHS
    return False


def _constant(operation: TtgirOperation) -> Value:
    found = _CONSTANT.match(operation.header.strip())
    if found is None or not is_scalar(operation.types or "i1"):
        return Unknown()
    word = found[1]
    return Constant(int(word == "true") if word in ("true", "false") else int(word))
