"""What is one number for a cluster, beside its values one by one."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from titan.codegen.tile.clusters import alike
from titan.codegen.tile.load import load_tile
from titan.codegen.tile.model import Lookup, View
from titan.foundation.resources import root
from titan.sync.expression import (
    Binary,
    Constant,
    Expression,
    Name,
    evaluate,
    parse_expression,
    to_text,
)

TILE = load_tile(root("protocols") / "tiles" / "attention_forward_pair_sm_100a.yaml")
SIZES = {**dict(TILE.sizes), "heads": 3, "queries": 3000, "keys": 700, "h": 1}


@pytest.mark.parametrize(
    ("text", "ctas", "meant"),
    [
        ("(keys + columns - 1) // columns", 2, True),
        ("((i // 2 + 1) * 2 * rows + columns - 1) // columns", 2, True),
        ("h + i // 4", 2, True),
        ("i // rows", 2, True),  # 256
        ("i // 2", 4, False),
        ("i // 3", 2, False),
        ("i // h", 2, False),
        ("(i + 1) // 2", 2, False),
        ("i - i % 2", 2, False),  # it is one number, which is not seen
        ("i // 2 + i", 2, False),
        ("h", 2, True),
        ("i", 1, True),
    ],
)
def test_what_is_alike(text, ctas, meant):
    assert alike(TILE, parse_expression(text), ctas) is meant


def test_the_coordinate_is_followed_through_lookups():
    for name, same in (("i", False), ("h", True)):
        lookup = Lookup("length", View("lengths", (Name(name),)))
        assert alike(replace(TILE, lookups=(lookup,)), Name("length"), 2) is same


def drawn(source: random.Random, depth: int) -> Expression:
    if depth == 0 or source.random() < 0.2:
        return source.choice([Name("i"), Name("i"), Name("h"), Name("rows"), Constant(2),
                              Constant(source.randrange(1, 9))])  # fmt: skip
    operator = source.choice(["+", "-", "*", "//", "//", "//", "%", "min", "max", "<", "and"])
    return Binary(operator, drawn(source, depth - 1), drawn(source, depth - 1))


def test_whatever_is_alike_has_one_value():
    """Random expressions, at all values of the coordinate in clusters of 2 and 4."""
    source, found = random.Random(11), 0
    for _ in range(3000):
        expression = drawn(source, 4)
        for ctas in (2, 4):
            if "i" not in to_text(expression) or not alike(TILE, expression, ctas):
                continue
            for first in range(0, 24, ctas):
                try:
                    values = {
                        evaluate(expression, {**SIZES, "i": first + cta}) for cta in range(ctas)
                    }
                except ArithmeticError:
                    continue
                assert len(values) == 1, to_text(expression)
                found += 1
    assert found > 300
