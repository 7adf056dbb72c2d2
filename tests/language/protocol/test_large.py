"""Protocols with many statements: the work is counted, and what divides indices is taken first."""

from __future__ import annotations

from random import Random

import pytest

from titan.language.kernel.decode import decode_text
from titan.language.protocol import solver
from titan.language.protocol.solver import SolverArithmetic, apart, residue
from titan.language.protocol.typestate import TypestateReport, TypestateResult, check
from titan.sync.expression import Binary, Constant, Expression, Name, evaluate


def unrolled(waits: int) -> TypestateReport:
    """What typestate says of a ring whose loop is unrolled so many times."""
    fill = [f"        - acquire: r[{waits} * t + {i}]\n        - produce: r[{waits} * t + {i}]"
            for i in range(waits)]  # fmt: skip
    use = [f"        - wait: r[{waits} * t + {i}]\n        - read: r[{waits} * t + {i}]\n"
           f"        - release: r[{waits} * t + {i}]" for i in range(waits)]  # fmt: skip
    text = "\n".join([
        "titan: 1\nkernel: unrolled\ntarget: sm_90a\nsizes: {tiles: any, depth: 4}",
        "buffers:\n  b: {space: shared, stages: depth, bytes: 128}",
        "rings:\n  r: {buffers: [b], depth: depth}",
        "roles:\n  producer: {warps: 1}\n  consumer: {warps: 1}\nprogram:",
        "  producer:\n    - for: t in 0..tiles\n      do:", *fill, "    - finalize",
        "  consumer:\n    - for: t in 0..tiles\n      do:", *use, "    - finalize\n",
    ])  # fmt: skip
    family, errors = decode_text(text, "unrolled.yaml")
    assert family is not None and family.kernels[0].protocol is not None, errors
    return check(family.kernels[0].protocol)


def test_an_unrolled_loop_is_verified() -> None:
    assert unrolled(4).answer is TypestateResult.VERIFIED


def test_many_waits_are_left_to_the_exploration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "TERMS_MAX", 2_000)
    report = unrolled(30)
    assert report.answer is TypestateResult.UNDECIDED
    assert report.open[0].reason == "the questions of its rules have more than 2,000 terms"


def drawn(random: Random, names: str) -> Expression:
    total: Expression = Constant(random.randint(-6, 6))
    for name in names:
        factor = random.choice((0, 0, 2, 3, 4, 6))
        total = Binary("+", total, Binary("*", Constant(factor), Name(name)))
    return total


def test_indices_that_are_apart_never_meet() -> None:
    random, told = Random(5), 0
    for _ in range(300):
        one, other = drawn(random, "ab"), drawn(random, "cd")
        if not apart(residue(one), residue(other)):
            continue
        told += 1
        for _ in range(40):
            values = {name: random.randint(-9, 9) for name in "abcd"}
            assert evaluate(one, values) != evaluate(other, values)
    assert told > 40


def test_questions_agree_with_evaluation() -> None:
    """Random comparisons, with quotients, remainders, minima: true somewhere just when z3 says."""
    random = Random(8)
    for _ in range(60):
        left, right = drawn(random, "ab"), drawn(random, "a")
        operator, divisor = random.choice(("//", "%")), random.choice((1, 2, 3, 5))
        left = Binary(operator, left, Constant(divisor))
        if random.random() < 0.5:
            left = Binary(random.choice(("min", "max")), left, right)
        question = Binary(random.choice(("<", "<=", "==", "!=", ">", ">=")), left, right)
        arithmetic = SolverArithmetic()
        for name in "ab":
            arithmetic.assume(Binary(">=", Name(name), Constant(0)))
            arithmetic.assume(Binary("<=", Name(name), Constant(5)))
        found = arithmetic.example(arithmetic.truth(question), "ab")
        grid = ({"a": a, "b": b} for a in range(6) for b in range(6))
        assert (found is not None) == any(evaluate(question, values) for values in grid)
        if found is not None:
            assert evaluate(question, {"a": 0, "b": 0} | found)
