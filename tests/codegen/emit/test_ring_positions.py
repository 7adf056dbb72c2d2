"""Places in rings kept beside counters: read off only where they are what the program says."""

from __future__ import annotations

import random

import pytest

from tests.codegen.emit.cuda_kernels import emitted
from titan.codegen.emit import ring_positions
from titan.codegen.emit.ring_positions import (
    PositionRead,
    advanced,
    agrees,
    computed,
    position_at,
    position_read,
    steps_by_one,
)
from titan.sync import program as ir
from titan.sync.expression import Expression, evaluate
from titan.sync.expression import parse_expression as parse


def read(text: str) -> PositionRead | None:
    return position_read(parse(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n % 4", PositionRead("n", 4, 0, None)),
        ("(n - 1) % 3", PositionRead("n", 3, 1, None)),
        ("(n + 2) % 3", PositionRead("n", 3, 1, None)),
        ("n // 3 % 2", PositionRead("n", 3, 0, 0)),
        ("(n // 3 - 1) % 2", PositionRead("n", 3, 0, 1)),
        ("(n // 3 + 2) % 2", PositionRead("n", 3, 0, 0)),
        ("(n - 1) // 2 % 2", PositionRead("n", 2, 1, 0)),
        ("(n + 1) // 2 % 2", PositionRead("n", 2, 1, 1)),
        ("(n - 2) % 4", None),
        ("2 * n % 4", None),
        ("n % m", None),
        ("n // 3", None),
        ("(n + m) % 4", None),
    ],
)
def test_forms(text, expected):
    assert read(text) == expected


def along(found: PositionRead, start: int, steps: int) -> list[int]:
    """What the position shows from `start` on."""
    shown, position = [], position_at(start - found.lag, found.depth)
    for _ in range(steps):
        shown.append(position[0] if found.flip is None else position[1] ^ found.flip)
        position = advanced(position, found.depth)
    return shown


def test_positions_are_the_expressions_far_beyond_the_round_of_the_proof():
    chosen = random.Random(7)
    kinds = 0
    for _ in range(300):
        depth, more, rounds = chosen.randint(2, 9), chosen.randint(-9, 9), chosen.randint(-3, 3)
        stage = chosen.random() < 0.5
        text = f"(n + {more}) % {depth}" if stage else f"((n + {more}) // {depth} + {rounds}) % 2"
        expression: Expression = parse(text.replace("+ -", "- "))
        found = position_read(expression)
        if found is None:
            continue
        kinds += 1
        start = chosen.randint(0, 5)
        expected = [evaluate(expression, {"n": n}) for n in range(start, start + 7 * depth)]
        assert along(found, start, 7 * depth) == expected
        assert agrees(found, expression, start)
    assert kinds > 60


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (PositionRead("n", 4, 0, None), "(n - 1) % 4"),
        (PositionRead("n", 4, 0, None), "n % 3"),
        (PositionRead("n", 3, 0, 1), "n // 3 % 2"),
        (PositionRead("n", 3, 1, 0), "n // 3 % 2"),
    ],
)
def test_another_position_is_refuted(wrong, text):
    assert not agrees(wrong, parse(text), 0)


def test_a_step_that_forgets_the_parity_is_refuted(monkeypatch):
    monkeypatch.setattr(ring_positions, "advanced", lambda at, depth: ((at[0] + 1) % depth, at[1]))
    assert not agrees(PositionRead("n", 3, 0, 0), parse("n // 3 % 2"), 0)


def test_a_place_before_that_is_another_one_is_refuted(monkeypatch):
    found = PositionRead("n", 2, 1, None)
    assert agrees(found, parse("(n - 1) % 2"), 0)
    monkeypatch.setattr(ring_positions, "before", lambda at: (at[0] ^ 1, at[1]))
    assert not agrees(found, parse("(n - 1) % 2"), 0)


def test_loops_over_two_stages_compute_the_place_before():
    assert computed({("t", 2, 0): "r", ("t", 2, 1): "r_before"}) == {("t", 2, 1): "r"}
    assert not computed({("t", 2, 1): "r_before"})
    assert not computed({("t", 3, 0): "r", ("t", 3, 1): "r_before"})
    text = emitted("attention_forward", depth=2).files["kernel.cu"]
    assert "const titan::RingPosition<2> r_t_2_before = titan::before(r_t_2);" in text
    assert "r_t_2_before = r_t_2;" not in text
    text = emitted("attention_forward_64", depth=3).files["kernel.cu"]
    assert "r_t_3_before = r_t_3;" in text


def test_counters_that_go_up_otherwise_have_none():
    assert steps_by_one((ir.Assign("n", parse("n + 1")),), "n")
    assert not steps_by_one((ir.Assign("n", parse("n + 2")),), "n")
    assert not steps_by_one((ir.Assign("n", parse("n + 1")), ir.Assign("n", parse("0"))), "n")


def test_main_loops_divide_nothing():
    """No remainder where warpgroups multiply; stages and parities come from positions."""
    for name in ("gemm", "gemm_persistent", "attention_forward"):
        text = emitted(name).files["kernel.cu"].split("---- role_consumer")[-1]
        loop = text[: text.index("titan::advance(")]
        waits = [line for line in loop.split("\n") if "titan::barrier_wait(" in line]
        assert waits and "r_" in waits[-1] and "%" not in waits[-1], waits
