"""The corner of a tile that a mask fails at first, against all of the tile's elements."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from titan.codegen.emit.expressions import SpellingScope
from titan.codegen.emit.masks import (
    column_range,
    holds_below,
    solved,
    worst_corner,
)
from titan.sync.expression import evaluate, parse_expression, to_text

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


QUOTIENT = "(j * 5 // 3 + i) * 3 + column >= j * 5 + row"
LARGER = "(row + column) // 2 * 3 - (2 * column - row + j) // 3 <= 4 + min(j, i) * keys"


def quotients():
    """Random comparisons, each with up to two quotients, in and out of one another."""
    draw = Random(7)

    def affine():
        row, column = draw.randrange(-2, 3), draw.randrange(-2, 3)
        return f"{row}*row + {column}*column + {draw.choice(('j', 'j*i', 'i'))}"

    def quotient(depth):
        inner = affine()
        if depth and draw.random() < 0.5:
            inner += f" + {quotient(depth - 1)}"
        kind = draw.choice(("//", "//", "%"))
        return f"{draw.randrange(-2, 3)} * (({inner}) {kind} {draw.randrange(1, 7)})"

    for _ in range(150):
        parts = []
        for _ in range(draw.randrange(1, 3)):
            terms = " + ".join([affine(), *(quotient(1) for _ in range(draw.randrange(1, 3)))])
            parts.append(f"{terms} {draw.choice(('<', '<=', '>', '>='))} {draw.randrange(-8, 9)}")
        yield " and ".join(parts)


@pytest.mark.parametrize("text", [QUOTIENT, LARGER, *quotients()])
def test_the_corner_holds_where_quotients_do_in_a_whole_tile(text):
    condition = parse_expression(text)
    corner = worst_corner(condition, ROWS, COLUMNS)
    assert corner is not None
    for j, i, first, keys in product(range(4), range(3), (0, 5), (1, 11)):
        names = {"j": j, "i": i, "keys": keys}
        if evaluate(corner, {**names, "row": first}):
            for row, column in product(range(ROWS), range(COLUMNS)):
                assert evaluate(condition, {**names, "row": first + row, "column": column})


@pytest.mark.parametrize(
    "text", [QUOTIENT, "(2 * row - column + j) // 3 < 4", "5 - column // 2 >= (i + j) // 3 * keys"]
)
def test_the_corner_with_one_quotient_is_exact(text):
    """With one part the bound is met by an element of the tile: no tile is masked for nothing."""
    condition = parse_expression(text)
    corner = worst_corner(condition, ROWS, COLUMNS)
    assert corner is not None
    held = 0
    for j, i, first in product(range(4), range(6), (0, 5)):
        names = {"j": j, "i": i, "keys": 2}
        everywhere = all(
            evaluate(condition, {**names, "row": first + row, "column": column})
            for row, column in product(range(ROWS), range(COLUMNS))
        )
        held += everywhere
        assert bool(evaluate(corner, {**names, "row": first})) == everywhere
    assert held


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("j * 80 + 79 < keys", "j < keys // 80"),
        ("j * 80 <= i * 128 + row", "j < (128 * i + row + 80) // 80"),
        ("3 * j >= i - 2", "j > (i - 3) // 3"),
        ("j + 7 < keys", "j + 7 < keys"),
        ("j * i < keys", "j * i < keys"),
        ("j * 4 + j // 2 < keys", "j * 4 + j // 2 < keys"),
        ("j * 4 == keys", "j * 4 == keys"),
    ],
)
def test_comparisons_are_solved_for_the_variable_of_the_loop(text, expected):
    assert to_text(solved(parse_expression(text), "j")) == expected


@pytest.mark.parametrize("text", [CAUSAL, GROUP, QUOTIENT, LARGER, *conditions(), *quotients()])
def test_solved_comparisons_say_the_same_of_any_integers(text):
    condition = parse_expression(text.replace("column", "2 * j").replace("+ j", "- 3 * j"))
    found = solved(condition, "j")
    for j, row, keys in product(range(-7, 8), range(-4, 5), (-5, 0, 11)):
        names = {"j": j, "i": 1, "keys": keys, "row": row, "m": 3, "k": 2}
        assert bool(evaluate(found, names)) == bool(evaluate(condition, names)), names


@pytest.mark.parametrize("text", [CAUSAL, "j + 7 < keys", "keys - 2 * i >= j", *conditions()])
def test_below_a_number_a_condition_holds_and_from_there_on_it_does_not(text):
    condition = solved(parse_expression(text.replace("+ j", "+ 2 * j")), "j")
    bound = holds_below(condition, "j")
    comparisons = text.replace("column", "").split(" and ")
    if bound is None:  # one of them holds above a number
        assert any(">" in one for one in comparisons)
        return
    for j, row, column, keys in product(range(-7, 8), (0, 3), (0, 2), (-5, 0, 11)):
        names = {"i": 1, "keys": keys, "row": row, "column": column}
        assert bool(evaluate(condition, {**names, "j": j})) == (j < evaluate(bound, names))


@pytest.mark.parametrize(
    "text",
    ["j > keys", "keys >= row", "j * i < keys", "j < j * keys", "j < 3 or j < keys", "j == 2",
     "j < keys and keys < 3", "j // 2 < keys"],
)  # fmt: skip
def test_other_conditions_hold_below_no_number(text):
    assert holds_below(solved(parse_expression(text), "j"), "j") is None


def test_what_two_bounds_have_in_common_stands_apart():
    """The lesser of the two is then the same in all iterations of a loop over `j`."""
    first, end = column_range(parse_expression(CAUSAL)) or (None, None)
    assert first is None and end is not None
    assert to_text(end) == "min(keys, 10 * i + row + 1) + (-4) * j"


@pytest.mark.parametrize(
    "text", [CAUSAL, GROUP, QUOTIENT, "column > row - 3 and row >= column", *conditions()]
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


@pytest.mark.parametrize(
    "text",
    [
        "row == column",
        "row < 3 or column < 2",
        "row * column < 5",
        "row // n < 3",
        "row // -2 < 3",
        "min(row, column) < 3",
        "5 // (row + 1) < 3",
    ],
)
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
