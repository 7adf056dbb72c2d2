"""Small constructors over pysmt terms that fold constants, so that formulas stay short."""

from __future__ import annotations

from collections.abc import Iterable

from pysmt.fnode import FNode
from pysmt.shortcuts import (
    FALSE,
    GE,
    GT,
    LE,
    LT,
    TRUE,
    And,
    Equals,
    Int,
    Ite,
    Minus,
    Not,
    Or,
    Plus,
    Times,
)

from titan.litmus.model.unsupported import UnsupportedTest

YES = TRUE()
NO = FALSE()


def all_of(parts: Iterable[FNode]) -> FNode:
    """Conjunction without constants and repetitions."""
    kept: dict[FNode, None] = {}
    for part in parts:
        if part.is_false():
            return NO
        if not part.is_true():
            kept[part] = None
    return And(list(kept)) if len(kept) > 1 else next(iter(kept), YES)


def any_of(parts: Iterable[FNode]) -> FNode:
    """Disjunction without constants and repetitions."""
    kept: dict[FNode, None] = {}
    for part in parts:
        if part.is_true():
            return YES
        if not part.is_false():
            kept[part] = None
    return Or(list(kept)) if len(kept) > 1 else next(iter(kept), NO)


def both(left: FNode, right: FNode) -> FNode:
    """Conjunction of two."""
    return all_of((left, right))


def negation(part: FNode) -> FNode:
    """Negation; of a negation what it negates."""
    if part.is_true():
        return NO
    if part.is_false():
        return YES
    return part.arg(0) if part.is_not() else Not(part)


def implied(condition: FNode, consequence: FNode) -> FNode:
    """The consequence where the condition holds."""
    return any_of((negation(condition), consequence))


def choose(condition: FNode, yes: FNode, no: FNode) -> FNode:
    """`yes` where the condition holds, else `no`."""
    if condition.is_true() or yes is no:
        return yes
    return no if condition.is_false() else Ite(condition, yes, no)


def compare(left: FNode, relation: str, right: FNode) -> FNode:
    """`left relation right` over integers; folds constants and identical terms."""
    if left.is_int_constant() and right.is_int_constant():
        a, b = left.constant_value(), right.constant_value()
        holds = {"==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}
        return YES if holds[relation] else NO
    if left is right:
        return YES if relation in ("==", "<=", ">=") else NO
    if relation == "==":
        return Equals(left, right)
    if relation == "!=":
        return Not(Equals(left, right))
    return {"<": LT, "<=": LE, ">": GT, ">=": GE}[relation](left, right)


def arithmetic(operation: str, operands: list[FNode]) -> FNode:
    """The value of `mov`, an arithmetic instruction, or the update of an atomic."""
    if operation in ("mov", "exch"):
        return operands[-1]
    left, right = operands
    if left.is_int_constant() and right.is_int_constant():
        return Int(concrete(operation, left.constant_value(), right.constant_value()))
    if operation == "add":
        return Plus(left, right)
    if operation == "sub":
        return Minus(left, right)
    if operation == "mul" and (left.is_int_constant() or right.is_int_constant()):
        return Times(left, right)
    if operation == "min":
        return Ite(LE(left, right), left, right)
    if operation == "max":
        return Ite(GE(left, right), left, right)
    raise UnsupportedTest(f"`{operation}` of two values that are not constants is not decided")


def concrete(operation: str, left: int, right: int) -> int:
    """The result of an operation on two numbers; raises KeyError for an unknown one."""
    table = {
        "add": left + right,
        "sub": left - right,
        "mul": left * right,
        "min": min(left, right),
        "max": max(left, right),
        "and": left & right,
        "or": left | right,
        "xor": left ^ right,
    }
    return table[operation]
