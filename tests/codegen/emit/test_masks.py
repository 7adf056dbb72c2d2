"""The corner of a tile that a mask fails at first, against all of the tile's elements."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from titan.codegen.emit.expressions import SpellingScope
from titan.codegen.emit.masks import column_range, worst_corner
from titan.sync.expression import evaluate, parse_expression

ROWS, COLUMNS = 5, 4
GROUP = "j * 4 + column <= keys - 5 + (i * 10 + row) % m and column + k > m - (row + i) % 3"
CAUSAL = "j * 4 + column < keys and j * 4 + column <= i * 10 + row"


def conditions():
    draw = Random(5)
    for _ in range(60):
        parts = []
        for _ in range(draw.randrange(1, 4)):
            row, column = draw.randrange(-2, 3), draw.randrange(-2, 3)
            left = f"{row} * row + {column} * column + j"
            parts.append(f"{left} {draw.choice(('<', '<=', '>', '>='))} {draw.randrange(-6, 9)}")
        yield " and ".join(parts)


@pytest.mark.parametrize("m", [1, 3, 7])
def test_the_corner_holds_for_any_remainder(m):
    condition = parse_expression(GROUP)
    corner = worst_corner(condition, ROWS, COLUMNS)
    assert corner is not None
    held = 0
    for j, first, keys in product(range(4), (0, 5), range(4, 20)):
        names = {"j": j, "i": 1, "keys": keys, "m": m, "k": 9}
        if evaluate(corner, {**names, "row": first}):
            held += 1
            for row, column in product(range(ROWS), range(COLUMNS)):
                assert evaluate(condition, {**names, "row": first + row, "column": column})
    assert held


@pytest.mark.parametrize("text", [CAUSAL, *conditions()])
def test_the_corner_holds_where_all_elements_hold(text):
    condition = parse_expression(text)
    corner = worst_corner(condition, ROWS, COLUMNS)
    assert corner is not None
    for j, first in product(range(4), (0, 5)):
        names = {"j": j, "i": 1, "keys": 11}
        everywhere = all(
            evaluate(condition, {**names, "row": first + row, "column": column})
            for row in range(ROWS)
            for column in range(COLUMNS)
        )
        assert bool(evaluate(corner, {**names, "row": first})) == everywhere


@pytest.mark.parametrize(
    "text", [CAUSAL, GROUP, "column > row - 3 and row >= column", *conditions()]
)
def test_the_columns_that_a_row_keeps_are_a_range(text):
    condition = parse_expression(text)
    found = column_range(condition)
    if found is None:
        assert any(f"{number} * column" in text for number in (-2, 0, 2))
        return
    for j, row in product(range(4), range(9)):
        names = {"j": j, "i": 1, "keys": 11, "row": row, "m": 3, "k": 2}
        first, end = (evaluate(one, names) if one is not None else None for one in found)
        for column in range(-3, 12):
            kept = (first is None or column >= first) and (end is None or column < end)
            assert kept == bool(evaluate(condition, {**names, "column": column})), column


@pytest.mark.parametrize(
    "text",
    [
        "(row + column) % 3 > column",
        "row < 3 and column < 2",
        "2 * column < n",
        "row == column",
        "column < 2 or row < 2",
    ],
)
def test_other_columns_are_no_range(text):
    assert column_range(parse_expression(text)) is None


@pytest.mark.parametrize("text", ["row == column", "row < 3 or column < 2", "row * column < 5"])
def test_other_conditions_have_no_corner(text):
    assert worst_corner(parse_expression(text), ROWS, COLUMNS) is None


@pytest.mark.parametrize("text", ["(n - 1) % 4", "(n - 9) // 4", "(n // 3 - 1) % 2", "n % 3"])
def test_remainders_and_quotients_round_down_without_a_correction(text):
    """What is spelled has no operand below zero, where C++ and Python divide alike."""
    spelled = SpellingScope({"n": "n"}, {"n": 0}).text(parse_expression(text))
    assert "floor" not in spelled
    for n in range(20):
        assert eval(spelled.replace("/", "//"), {"n": n}) == evaluate(
            parse_expression(text), {"n": n}
        )
