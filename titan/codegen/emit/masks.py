"""When a mask does anything to a tile: its condition at the elements that fail first.

A conjunction of comparisons that are affine in the row and the column, and in remainders that are
anything from 0 up to their divisor, holds for a whole tile where
each comparison holds at its worst corner. One branch on that, alike for all threads of a
warpgroup, leaves the mask out of most tiles: of causal attention all but those on the diagonal, of
a ragged end all but the last. Where all comparisons are of the column alone, the columns that a row
keeps are a range.
"""

from __future__ import annotations

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


def worst_corner(condition: Expression, rows: int, columns: int) -> Expression | None:
    """A condition without `column` that implies the given one for all elements of a tile.

    `row` is then the first of its `rows` rows. Sizes have to be numbers. None where the condition
    is no conjunction of affine comparisons.
    """
    if isinstance(condition, Binary) and condition.operator == "and":
        first = worst_corner(condition.left, rows, columns)
        second = worst_corner(condition.right, rows, columns)
        return None if first is None or second is None else binary("and", first, second)
    replaced, remainders = _without_remainders(condition)
    found = _margin(replaced)
    margin = linear_form(found) if found is not None else None
    if margin is None:
        return None
    places: dict[str, Expression] = {
        ROW: Name(ROW), COLUMN: Constant(columns - 1 if margin[0].get(COLUMN, 0) < 0 else 0)
    }  # fmt: skip
    if margin[0].get(ROW, 0) < 0:
        places[ROW] = binary("+", Name(ROW), Constant(rows - 1))
    for name, remainder in remainders.items():
        largest = binary("-", remainder.right, Constant(1))
        places[name] = Constant(0) if margin[0].get(name, 0) > 0 else largest
    return substitute(replaced, places)


def column_range(condition: Expression) -> tuple[Expression | None, Expression | None] | None:
    """The first column that a row keeps and the first behind them, without `column`; None for one
    that nothing bounds, and None alone where the kept columns are no range.
    """
    if isinstance(condition, Binary) and condition.operator == "and":
        first, second = column_range(condition.left), column_range(condition.right)
        if first is None or second is None:
            return None
        return _both("max", first[0], second[0]), _both("min", first[1], second[1])
    replaced, remainders = _without_remainders(condition)
    margin = _margin(replaced)
    form = linear_form(margin) if margin is not None else None
    if any(COLUMN in names_of(remainder) for remainder in remainders.values()):
        return None
    if margin is None or form is None or abs(form[0].get(COLUMN, 0)) != 1:
        return None
    rest = substitute(margin, {COLUMN: Constant(0), **remainders})
    if form[0][COLUMN] < 0:  # kept where the margin is not below 0: column <= rest
        return None, binary("+", rest, Constant(1))
    return binary("-", Constant(0), rest), None


def _without_remainders(condition: Expression) -> tuple[Expression, dict[str, Binary]]:
    """The condition with a name for each remainder in which the row or the column is divided, and
    what each such name is."""
    found: dict[str, Binary] = {}

    def replaced(expression: Expression) -> Expression:
        if not isinstance(expression, Binary):
            return expression
        divided = expression.operator == "%" and {ROW, COLUMN} & names_of(expression.left)
        if divided and not {ROW, COLUMN} & names_of(expression.right):
            name = next((n for n, one in found.items() if one == expression), "")
            name = name or f"remainder {len(found)}"
            found[name] = expression
            return Name(name)
        left, right = replaced(expression.left), replaced(expression.right)
        return binary(expression.operator, left, right)

    return replaced(condition), found


def _both(function: str, one: Expression | None, other: Expression | None) -> Expression | None:
    if one is None or other is None:
        return other if one is None else one
    return binary(function, one, other)


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
