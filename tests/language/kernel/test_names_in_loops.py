"""Names mean one thing where they are used: variables of loops in loops, `let` behind `count`."""

from __future__ import annotations

import pytest

from titan.foundation.source.span import Span
from titan.language.kernel.decode import decode_text

HEAD = """
titan: 1
kernel: k
target: sm_90a
sizes: {n: any}
buffers: {A: {stages: 2, bytes: 16}}
roles: {r: {warps: 1, counters: {i: 0, j: 0}}}
program: {r: [
"""


def faults(*statements: str) -> list[tuple[str, str]]:
    """The codes of what is wrong with a role of these statements, with what they point at."""
    family, errors = decode_text(HEAD + ",\n".join(f"{{{one}}}" for one in statements) + "]}\n")
    assert (family is None) == bool(errors)
    return [(item.code, _marked(item.span)) for item in errors]


def _marked(span: Span | None) -> str:
    assert span is not None
    return span.excerpt()[span.start_column - 1 : span.end_column - 1]


USE = "store: 'A[s] = 0'"
STEP = "count: {i: i + 1}"
LET = "let: {s: i % 2}"


def test_an_inner_loop_has_a_variable_of_its_own():
    inner = "for: {} in 0..2, do: [{{store: 'A[{}] = 0'}}]"
    around = "for: t in 0..n, do: [{%s}]"
    assert faults(around % inner.format("t", "t")) == [("TTN013", "t")]
    deeper = "for: u in 0..2, do: [{if: n > 1, then: [{" + inner.format("t", "t") + "}]}]"
    assert faults(around % deeper) == [("TTN013", "t")]
    assert faults(around % inner.format("u", "t % 2")) == []
    again = "for: t in 0..2, do: []"
    assert faults(again, again) == [], "one loop behind the other"
    hidden = "let: {t: 0}}, {" + inner.format("t", "t")
    assert ("TTN013", "t") in faults(around % hidden)


@pytest.mark.parametrize(
    "statements",
    [
        (LET, STEP, USE),
        (LET, "if: n > 1, then: [{" + STEP + "}]", USE),
        (LET, "if: n > 1, then: [], else: [{" + STEP + "}]", USE),
        (LET, "for: t in 0..n, do: [{" + USE + "}, {" + STEP + "}]"),
        (LET, "for: t in 0..n, do: [{" + STEP + "}]", USE),
        (LET, "let: {q: s}", STEP, "store: 'A[q] = 0'"),
        (LET, "count: {i: i + 1, j: s}"),
        (LET, "for: t in 0..s, do: [{" + STEP + "}]"),
        (LET, STEP, "store: 'A[0] = s'"),
        (LET, STEP, "store: 'A[0] = 0', when: s == 0"),
    ],
    ids=str,
)
def test_a_name_is_not_used_behind_a_change_of_its_counter(statements: tuple[str, ...]):
    found = faults(*statements)
    assert {code for code, _ in found} == {"TTN017"}
    assert {text for _, text in found} <= {"s", "q"}


@pytest.mark.parametrize(
    "statements",
    [
        (LET, USE, STEP),
        (LET, STEP, LET, USE),
        (LET, "count: {j: j + 1}", USE),
        ("let: {s: n % 2}", STEP, USE),
        ("for: t in 0..n, do: [{" + LET + "}, {" + USE + "}, {" + STEP + "}]",),
        (LET, "count: {i: i + 1, j: j + 1}"),
        (LET, "count: {j: s, i: i + 1}"),
        (LET, "if: n > 1, then: [{" + USE + "}, {" + STEP + "}]"),
        (LET, "store: 'A[0] = i', when: s == 0", STEP, "store: 'A[0] = i'"),
    ],
    ids=str,
)
def test_other_uses_are_taken(statements: tuple[str, ...]):
    assert faults(*statements) == []


@pytest.mark.parametrize("text", ["A[0 # + 1] = 0", "A[0] = 0 # + 1"])
def test_nothing_of_an_expression_is_hidden(text: str):
    assert {code for code, _ in faults(f"store: '{text}'")} == {"TTN015"}
