"""Indexed names in flow collections: what is hidden comes back, and nothing else is touched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from titan.foundation.source import indexed

TEXT = st.text(st.sampled_from("ab0_ ,[](){}:#'\"-+\n\r\t@%é"), max_size=60)


@given(TEXT)
def test_hiding_keeps_every_offset_and_comes_back(text):
    hidden = indexed.hide(text)
    assert len(hidden) == len(text)
    assert indexed.show(hidden) == text
    assert all(a == b or a in "[]," for a, b in zip(text, hidden, strict=True))


@pytest.mark.parametrize(
    "text",
    ["A[t]", "A[t, 1]", "min(a, b)", "f(a, g(b, c[1]))", "full[(t + 1) % depth]@peer", "x[t] = t"],
)
def test_an_index_or_call_has_nothing_left_that_yaml_would_split_at(text):
    assert not set(indexed.hide(text)) & set("[],")


@pytest.mark.parametrize(
    "text",
    [
        "[a, b]",
        "a: [1, 2]",
        "{a, b}",
        "(a, b)",
        "a [b, c]",
        "x[1",
        "x[1)",
        "x[a\n]",
        "x[a # b]",
        "x['a, b']",
        "x[" + "a" * indexed.LENGTH_MAX + ", b]",
    ],
)
def test_other_brackets_are_left_to_the_parser(text):
    shown = indexed.hide(text)
    assert {char for char in text if char in "[],"} == {char for char in shown if char in "[],"}


def test_work_is_linear_for_open_brackets():
    text = "a(" * 50_000
    assert indexed.hide(text) == text
