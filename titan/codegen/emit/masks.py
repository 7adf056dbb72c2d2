"""When a mask does anything to a tile: its condition at the elements that fail first.

A conjunction of comparisons that are affine in the row and the column holds for a whole tile where
each comparison holds at its worst corner. One branch on that, alike for all threads of a
warpgroup, leaves the mask out of most tiles: of causal attention all but those on the diagonal, of
a ragged end all but the last.
"""

from __future__ import annotations

from titan.sync.expression import (
    Binary,
    Constant,
    Expression,
    Name,
    binary,
    linear_form,
    substitute,
)

ROW, COLUMN = "row", "column"


def worst_corner(condition: Expression, rows: int, columns: int) -> Expression | None:
    """A condition without `column` that implies the given one for all elements of a tile.

    `row` is then the first of its `rows` rows. Sizes have to be numbers. None where the condition
    is no conjunction of affine comparisons.
    """
    match condition:
        case Binary("and", left, right):
            first = worst_corner(left, rows, columns)
            second = worst_corner(right, rows, columns)
            return None if first is None or second is None else binary("and", first, second)
        case Binary("<" | "<=", left, right):
            margin = linear_form(binary("-", right, left))
        case Binary(">" | ">=", left, right):
            margin = linear_form(binary("-", left, right))
        case _:
            return None
    if margin is None:
        return None
    places: dict[str, Expression] = {
        ROW: Name(ROW), COLUMN: Constant(columns - 1 if margin[0].get(COLUMN, 0) < 0 else 0)
    }  # fmt: skip
    if margin[0].get(ROW, 0) < 0:
        places[ROW] = binary("+", Name(ROW), Constant(rows - 1))
    return substitute(condition, places)
