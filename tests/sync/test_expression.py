"""Expressions: printing and reading back, evaluation, and refusal of everything else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from titan.sync.expression import (
    BINARY_OPERATORS,
    Binary,
    Constant,
    ExpressionError,
    Name,
    Not,
    evaluate,
    linear_form,
    names_of,
    parse_expression,
    substitute,
    to_text,
)

LEAVES = st.one_of(
    st.integers(-9, 9).map(Constant), st.sampled_from(["t", "depth", "tiles"]).map(Name)
)
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(Not),
        st.builds(Binary, st.sampled_from(BINARY_OPERATORS), inner, inner),
    ),
    max_leaves=8,
)
ENVIRONMENT = {"t": 7, "depth": 3, "tiles": 11}


@given(EXPRESSIONS)
def test_text_reads_back_with_the_same_value(expression):
    again = parse_expression(to_text(expression))
    try:
        value = evaluate(expression, ENVIRONMENT)
    except ZeroDivisionError:
        return
    assert evaluate(again, ENVIRONMENT) == value


@given(EXPRESSIONS)
def test_substitution_keeps_the_value(expression):
    try:
        value = evaluate(expression, ENVIRONMENT)
    except ZeroDivisionError:
        return
    replaced = substitute(expression, {"t": 7, "depth": Constant(3)})
    assert names_of(replaced) <= {"tiles"}
    assert evaluate(replaced, {"tiles": 11}) == value


@given(EXPRESSIONS)
def test_linear_form_evaluates_to_the_same(expression):
    form = linear_form(expression)
    if form is None:
        return
    coefficients, constant = form
    value = constant + sum(k * ENVIRONMENT[name] for name, k in coefficients.items())
    assert value == evaluate(expression, ENVIRONMENT)


def test_divisions_round_down():
    assert evaluate(parse_expression("(t - 8) div depth"), ENVIRONMENT) == -1
    assert evaluate(parse_expression("(t - 8) mod depth"), ENVIRONMENT) == 2


def test_a_chain_of_comparisons_is_a_conjunction():
    assert evaluate(parse_expression("0 <= t < tiles"), ENVIRONMENT) == 1
    assert evaluate(parse_expression("0 <= t < 7"), ENVIRONMENT) == 0


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "t +", "t ** 2", "t / 2", "f(t)", "__import__('os')", "t.real", "a[0]", "'x'",
        "1.5", "lambda: 1", "t if t else 1", "min(1)", "min(1, 2, 3)", "[t]", "99999999999999",
        "(" * 250 + "t" + ")" * 250, "t\n+1", "t\0", "ü", "1 +" * 200, "t := 1", "-" * 300 + "1",
    ],
)  # fmt: skip
def test_everything_else_is_refused(text):
    with pytest.raises(ExpressionError):
        parse_expression(text)


@pytest.mark.parametrize("number", ["1_0", "0b10", "0X10", "0O7", "1e3", "1.0", "1j", "1or"])
@pytest.mark.parametrize("context", ["{}", "t + {}", "min(t, {})", "t % ({} + 1)"])
def test_numbers_are_those_of_yaml(number, context):
    with pytest.raises(ExpressionError) as caught:
        parse_expression(context.format(number))
    assert caught.value.offset == context.index("{")
    assert f"`{number}` is not an integer" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"), [("0x10", 16), ("0o17", 15), ("t1_0 + 2", 5), ("t0b10", 7), ("00", 0)]
)
def test_integers_and_names_that_only_look_like_others(text, value):
    assert evaluate(parse_expression(text), {"t1_0": 3, "t0b10": 7}) == value
