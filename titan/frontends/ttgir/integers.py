"""Integers of TTGIR in one normal form, so that equal numbers of two partitions are equal texts.

A normal form is a sum of terms with factors. A term is a name, a product of sums, or a sum divided
by a constant with what the constant divides taken out: `(K + 191) // 64` is `(K + 63) // 64 + 2`.
Numbers do not overflow (an assumption that every verdict on TTGIR names). Division rounds to zero
in TTGIR and downwards here, so a dividend has to be known not to be negative; else the number is
not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from math import gcd

from titan.foundation.errors import TitanError
from titan.sync.expression import (
    ONE,
    ZERO,
    Binary,
    Constant,
    Expression,
    Name,
    Not,
    binary,
    names_of,
    to_text,
)

Sum = tuple[dict[Expression, int], int]
TERMS_MAX = 200


class UnknownInteger(TitanError):
    """The number is not known; the text says why."""


def split(expression: Expression) -> Sum:
    """Terms with their factors, and the constant."""
    match expression:
        case Constant(value):
            return {}, value
        case Binary("+" | "-" as operator, left, right):
            return _added(split(left), split(right), 1 if operator == "+" else -1)
        case Binary("*", left, Constant(value)):
            return scaled(split(left), value)
        case Binary("*", Constant(value), right):
            return scaled(split(right), value)
    return {expression: 1}, 0


def _added(left: Sum, right: Sum, sign: int) -> Sum:
    terms = dict(left[0])
    for term, factor in right[0].items():
        terms[term] = terms.get(term, 0) + sign * factor
    if len(terms) > TERMS_MAX:
        raise UnknownInteger("a number is a sum of too many terms")
    return {term: factor for term, factor in terms.items() if factor}, left[1] + sign * right[1]


def scaled(of: Sum, factor: int) -> Sum:
    """The sum times a constant."""
    return {term: value * factor for term, value in of[0].items() if factor}, of[1] * factor


def joined(of: Sum) -> Expression:
    """The sum as an expression, terms in the order of their texts."""
    result: Expression = ZERO
    for term, factor in sorted(of[0].items(), key=lambda item: (item[1] < 0, to_text(item[0]))):
        part = term if abs(factor) == 1 else Binary("*", Constant(abs(factor)), term)
        if result == ZERO and factor < 0:
            result = Binary("-", ZERO, part)
        else:
            result = binary("+" if factor > 0 else "-", result, part)
    constant = of[1]
    if result == ZERO:
        return Constant(constant)
    return binary("+" if constant >= 0 else "-", result, Constant(abs(constant)))


def add(left: Expression, right: Expression) -> Expression:
    """left + right."""
    return joined(_added(split(left), split(right), 1))


def subtract(left: Expression, right: Expression) -> Expression:
    """left - right; `x - x // c * c` is the remainder."""
    terms, constant = _added(split(left), split(right), -1)
    for term, factor in terms.items():
        if isinstance(term, Binary) and term.operator == "//" and factor < 0:
            divisor = term.right
            rest = _added((terms, constant), ({term: factor}, 0), -1)
            if isinstance(divisor, Constant) and divisor.value == -factor:
                dividend = split(term.left)
                if _added(rest, dividend, -1) == ({}, 0):
                    return Binary("%", term.left, divisor)
    return joined((terms, constant))


def multiply(left: Expression, right: Expression) -> Expression:
    """left * right."""
    first, second = split(left), split(right)
    if not first[0]:
        return joined(scaled(second, first[1]))
    if not second[0]:
        return joined(scaled(first, second[1]))
    pair = sorted((joined(first), joined(second)), key=to_text)
    return Binary("*", pair[0], pair[1])


def floor_divide(left: Expression, divisor: int) -> Expression:
    """left // divisor, rounded downwards, for a divisor that is greater than 0."""
    terms, constant = split(left)
    whole = {term: factor // divisor for term, factor in terms.items() if factor % divisor == 0}
    rest = {term: factor for term, factor in terms.items() if factor % divisor}
    if not rest:
        return joined((whole, constant // divisor))
    inner = joined((rest, constant % divisor))
    match inner:
        case Binary("//", dividend, Constant(value)):  # (x // a) // b
            inner, divisor = dividend, divisor * value
    term = Binary("//", inner, Constant(divisor))
    return joined(_added((whole, constant // divisor), ({term: 1}, 0), 1))


def ceiling_divide(left: Expression, divisor: int) -> Expression:
    """left / divisor, rounded upwards."""
    return floor_divide(add(left, Constant(divisor - 1)), divisor)


def remainder(left: Expression, divisor: int) -> Expression:
    """left % divisor, never negative."""
    terms, constant = split(left)
    rest = {term: factor % divisor for term, factor in terms.items() if factor % divisor}
    if not rest:
        return Constant(constant % divisor)
    return Binary("%", joined((rest, constant % divisor)), Constant(divisor))


def least(expression: Expression, minimums: Callable[[str], int | None]) -> int | None:
    """A number that the value is never below, or None."""
    match expression:
        case Constant(value):
            return value
        case Name(name):
            return minimums(name)
        case Not() | Binary("<" | "<=" | "==" | "!=" | ">=" | ">" | "and" | "or"):
            return 0
        case Binary("%", _, Constant(value)) if value > 0:
            return 0
        case Binary("//", left, Constant(value)) if value > 0:
            low = least(left, minimums)
            return None if low is None else low // value
        case Binary("max", left, right):
            known = [x for x in (least(left, minimums), least(right, minimums)) if x is not None]
            return max(known, default=None)
        case Binary("min", left, right):
            return _all_of((least(left, minimums), least(right, minimums)), min)
        case Binary("+", left, right):
            return _all_of((least(left, minimums), least(right, minimums)), sum)
        case Binary("-", left, Constant(value)):
            low = least(left, minimums)
            return None if low is None else low - value
        case Binary("*", left, right):
            first, second = least(left, minimums), least(right, minimums)
            if first is not None and second is not None and min(first, second) >= 0:
                return first * second
    return None


def _all_of(lows: tuple[int | None, ...], of: Callable[[Iterable[int]], int]) -> int | None:
    return None if any(low is None for low in lows) else of(low for low in lows if low is not None)


def compare(operator: str, left: Expression, right: Expression, fixed: Fixed) -> Expression:
    """A comparison with what all variable terms have in common divided out of it.

    `64 * t < K - 128` becomes `t < (K + 63) // 64 - 2`. `fixed` says which terms hold no variable.
    """
    terms, constant = _added(split(left), split(right), -1)
    moving = {term: factor for term, factor in terms.items() if not fixed(term)}
    rest = {term: factor for term, factor in terms.items() if fixed(term)}
    common = reduce(gcd, (abs(factor) for factor in moving.values()), 0)
    if common > 1:
        whole = {term: factor // common for term, factor in moving.items()}
        other = joined(scaled((rest, constant), -1))
        match operator:
            case "<" | ">=":
                return _sides(operator, whole, ceiling_divide(other, common))
            case "<=" | ">":
                return _sides(operator, whole, floor_divide(other, common))
            case _ if all(factor % common == 0 for factor in (*rest.values(), constant)):
                return _sides(operator, whole, floor_divide(other, common))
    return _sides(operator, moving, joined(scaled((rest, constant), -1)))


Fixed = Callable[[Expression], bool]


def _sides(operator: str, moving: Mapping[Expression, int], other: Expression) -> Expression:
    """Positive terms on the left, all else on the right."""
    up = {term: factor for term, factor in moving.items() if factor > 0}
    down = {term: -factor for term, factor in moving.items() if factor < 0}
    return binary(operator, joined((up, 0)), add(other, joined((down, 0))))


def select(condition: Expression, left: Expression, right: Expression) -> Expression:
    """left where the condition holds, else right."""
    if isinstance(condition, Constant):
        return left if condition.value else right
    if left == right:
        return left
    if (left, right) in ((ONE, ZERO), (ZERO, ONE)):
        return condition if left == ONE else Not(condition)
    difference = subtract(left, right)
    return add(multiply(condition, difference), right)


def holds_only(names: frozenset[str]) -> Fixed:
    """Whether a term holds no names but these."""

    def fixed(term: Expression) -> bool:
        return names_of(term) <= names

    return fixed
