"""When a mask does anything to a tile: its condition at the elements that fail first.

A conjunction of comparisons that are affine in the row and the column, in quotients rounded down,
and in remainders that are anything from 0 up to their divisor, holds for a whole tile where
each comparison holds at its worst corner (divisors are above 0). One branch on that, alike for all
threads of a warpgroup, leaves the mask out of most tiles: of causal attention all but those on the
diagonal, of a ragged end all but the last. A loop then compares its variable with a bound that
stays as it is (`solved`), and may be two loops (`holds_below`). Where all comparisons are of the
column alone, the columns that a row keeps are a range.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from titan.sync.expression import (
    Binary,
    Constant,
    Expression,
    Name,
    binary,
    linear_form,
    names_of,
    substitute,
)

ROW, COLUMN = "row", "column"


@dataclass(frozen=True, slots=True)
class MaskCondition:
    """The condition of a mask for the even and the odd column of a pair.

    `whole` implies it for all elements of the agent's rows; empty where that is not known. `until`:
    the number of the loop's counter `counter` below which `whole` holds, and from which on it does
    not; both empty where there is none. `begin`, `end`: the first column that a row keeps and the
    first behind them; both are empty where the condition says it of each column, one where nothing
    bounds it.
    """

    even: str
    odd: str
    whole: str = ""
    begin: str = ""
    end: str = ""
    counter: str = ""
    until: str = ""


def worst_corner(condition: Expression, rows: int, columns: int) -> Expression | None:
    """A condition without `column` that implies the given one for all elements of a tile.

    `row` is then the first of its `rows` rows. Sizes have to be numbers. None where the condition
    is no conjunction of such comparisons.
    """
    if isinstance(condition, Binary) and condition.operator == "and":
        first = worst_corner(condition.left, rows, columns)
        second = worst_corner(condition.right, rows, columns)
        return None if first is None or second is None else binary("and", first, second)
    replaced, parts = _without_parts(condition)
    margin = _margin(replaced)
    places = _places(margin, parts, rows, columns, least=True) if margin is not None else None
    return substitute(replaced, places) if places is not None else None


def solved(condition: Expression, variable: str) -> Expression:
    """The same condition of integers where comparisons that are affine in the variable say below or
    above which number it is: what is multiplied by the variable is divided by instead, once. Those
    with remainders and quotients stay as they are: their bounds would take more registers."""
    if isinstance(condition, Binary) and condition.operator == "and":
        return binary("and", solved(condition.left, variable), solved(condition.right, variable))
    margin = _margin(condition)
    form = linear_form(margin) if margin is not None else None
    if form is None:
        return condition
    factor = form[0].get(variable, 0)
    sign = 1 if factor < 0 else -1  # below a number, or above one
    if abs(factor) < 2:
        return condition
    rest = _sum({name: sign * one for name, one in form[0].items() if name != variable})
    more = form[1] - factor if sign > 0 else -form[1] - 1
    rest = binary("+" if more > 0 else "-", rest, Constant(abs(more)))
    bound = binary("//", rest, Constant(abs(factor)))
    return binary("<" if sign > 0 else ">", Name(variable), bound)


def holds_below(condition: Expression, variable: str) -> Expression | None:
    """Below which number of the variable the condition holds, from which on it does not; None for
    a condition of integers that is no such bound, or no conjunction of them."""
    if isinstance(condition, Binary) and condition.operator == "and":
        first = holds_below(condition.left, variable)
        second = holds_below(condition.right, variable)
        return None if first is None or second is None else binary("min", first, second)
    match condition:
        case Binary("<", Name(name), bound) if name == variable and name not in names_of(bound):
            return bound
    margin = _margin(condition)
    form = linear_form(margin) if margin is not None else None
    if margin is None or form is None or form[0].get(variable, 0) != -1:
        return None
    return binary("+", substitute(margin, {variable: Constant(0)}), Constant(1))


def column_range(condition: Expression) -> tuple[Expression | None, Expression | None] | None:
    """The first column that a row keeps and the first behind them, without `column`; None for one
    that nothing bounds, and None alone where the kept columns are no range.
    """
    if isinstance(condition, Binary) and condition.operator == "and":
        first, second = column_range(condition.left), column_range(condition.right)
        if first is None or second is None:
            return None
        return _both("max", first[0], second[0]), _both("min", first[1], second[1])
    replaced, parts = _without_parts(condition)
    margin = _margin(replaced)
    form = linear_form(margin) if margin is not None else None
    if any(COLUMN in names_of(part) for part in parts.values()):
        return None
    if margin is None or form is None or abs(form[0].get(COLUMN, 0)) != 1:
        return None
    rest = substitute(margin, {COLUMN: Constant(0), **parts})
    if form[0][COLUMN] < 0:  # kept where the margin is not below 0: column <= rest
        return None, binary("+", rest, Constant(1))
    return binary("-", Constant(0), rest), None


def _places(
    form: Expression, parts: Mapping[str, Binary], rows: int, columns: int, *, least: bool
) -> dict[str, Expression] | None:
    """Of row, column and parts, what makes the form least (or largest) in a tile, each for itself;
    None where the form is not affine in them or a part has no such bound."""
    affine = linear_form(form)
    if affine is None:
        return None
    down = {name: (factor < 0) == least for name, factor in affine[0].items()}  # largest is taken
    places: dict[str, Expression] = {COLUMN: Constant(columns - 1 if down.get(COLUMN) else 0)}
    places[ROW] = Name(ROW)
    if down.get(ROW):
        places[ROW] = binary("+", Name(ROW), Constant(rows - 1))
    for name, part in parts.items():
        bound = _bound(part, rows, columns, least=not down.get(name, False))
        if bound is None:
            return None
        places[name] = bound
    return places


def _bound(part: Binary, rows: int, columns: int, *, least: bool) -> Expression | None:
    """What the part is not below (or above) in a tile: a remainder is anything from 0 up to its
    divisor, and a quotient rounded down by a number above 0 grows with what is divided."""
    if not {ROW, COLUMN} & names_of(part):
        return part
    if part.operator == "%":
        return Constant(0) if least else binary("-", part.right, Constant(1))
    if part.operator != "//" or not isinstance(part.right, Constant) or part.right.value < 1:
        return None
    divided, parts = _without_parts(part.left)
    places = _places(divided, parts, rows, columns, least=least)
    return binary("//", substitute(divided, places), part.right) if places is not None else None


def _without_parts(condition: Expression) -> tuple[Expression, dict[str, Binary]]:
    """The condition with a name for each part that is not affine and either a remainder or a
    quotient, or the same for all elements; and what each such name is."""
    found: dict[str, Binary] = {}

    def replaced(expression: Expression) -> Expression:
        if not isinstance(expression, Binary):
            return expression
        if _is_part(expression):
            name = next((n for n, one in found.items() if one == expression), "")
            name = name or f"part {len(found)}"
            found[name] = expression
            return Name(name)
        left, right = replaced(expression.left), replaced(expression.right)
        return binary(expression.operator, left, right)

    return replaced(condition), found


def _is_part(expression: Binary) -> bool:
    if expression.operator in ("%", "//"):
        return not {ROW, COLUMN} & names_of(expression.right)
    if {ROW, COLUMN} & names_of(expression):
        return False
    factors = (expression.left, expression.right)
    scaled = any(isinstance(factor, Constant) for factor in factors)
    return expression.operator in ("min", "max") or (expression.operator == "*" and not scaled)


def _both(function: str, one: Expression | None, other: Expression | None) -> Expression | None:
    """The lesser or the larger, what both have in common added behind: it is often of a loop's
    variable, and what is left is then the same in all iterations."""
    if one is None or other is None:
        return other if one is None else one
    first, second = linear_form(one), linear_form(other)
    if first is None or second is None:
        return binary(function, one, other)
    common = {name: k for name, k in first[0].items() if second[0].get(name) == k}
    apart = (
        binary("+", _sum({n: k for n, k in form[0].items() if n not in common}), Constant(form[1]))
        for form in (first, second)
    )
    return binary("+", binary(function, *apart), _sum(common))


def _sum(coefficients: Mapping[str, int]) -> Expression:
    found: Expression = Constant(0)
    for name, factor in coefficients.items():
        found = binary("+", found, binary("*", Constant(factor), Name(name)))
    return found


def _margin(condition: Expression) -> Expression | None:
    """What is not below 0 where a comparison of integers holds; None for other conditions."""
    match condition:
        case Binary("<", left, right):
            return binary("-", binary("-", right, left), Constant(1))
        case Binary("<=", left, right):
            return binary("-", right, left)
        case Binary(">", left, right):
            return binary("-", binary("-", left, right), Constant(1))
        case Binary(">=", left, right):
            return binary("-", left, right)
    return None
