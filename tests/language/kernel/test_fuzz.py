"""Broken and hostile kernel files: always diagnostics with places, never an exception, bounded."""

from __future__ import annotations

import random
import re
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.language.kernel.examples import documented, library
from tests.sampling import part
from titan.foundation.diagnostics.render import render
from titan.language.kernel.decode import decode_text
from titan.language.lower import LoweringRefused
from titan.verify.lowering import NotLowered, sync_program

GOOD = [text for _, text in (*documented(), *library())]
SECONDS_MAX = 5.0
HOSTILE = (
    "", "null", "~", "[]", "{}", "-1", "0", "99999999999999999999", "4097", "1e9", "0x7fffffff",
    "any", "t", "t[", "]", "A[", "A[t", "A[t]]", "A[t, t, t]", "A[t]@", "A[t]@9", "A[t] =", "= t",
    "operands[t * t]", "operands[t // 2]", "operands", "ring[t]", "t in 0..", "t in ..",
    "in in 0..1",
    "x in 0..x", "0..tiles", "1 // 0", "t % 0", "2 ** 9 ** 9", "(" * 60, "not " * 50 + "t",
    "t + " * 120 + "t", "*a", "&a [*a]", "!!python/object:os.system x", "'", '"', "\\u0000",
    "\u202e", "\U0001f600", "é", "<<", "? a", "|", ">", "%", "@", "`", "true", "self", "cta",
    "__import__('os')", "lambda: 0", "depth depth", "9" * 400, "a" * 5000, "{a: {b: {c: 1}}}",
)  # fmt: skip


def check(text: str) -> None:
    """Decode, and lower what decodes; whatever is wrong is told with a place."""
    started = time.process_time()
    family, errors = decode_text(text, "fuzz.yaml")
    assert (family is None) == bool(errors)
    for item in errors:
        assert item.span is not None and item.code.startswith("TTN0"), item
        assert item.headline and "\n" not in item.headline
    assert "Traceback" not in render("text", errors[:5])
    for kernel in family.kernels[:2] if family is not None else ():
        try:
            sync_program(kernel)
        except (NotLowered, LoweringRefused) as refused:
            assert refused.diagnostics
    assert time.process_time() - started < SECONDS_MAX


def values(text: str) -> list[tuple[int, int]]:
    """Where scalars of the file are, roughly: words, numbers and references."""
    return [found.span() for found in re.finditer(r"[A-Za-z0-9_][A-Za-z0-9_.\[\]]*", text)]


@st.composite
def mutants(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(GOOD))
    for _ in range(draw(st.integers(1, 4))):
        text = MUTATIONS[draw(st.integers(0, len(MUTATIONS) - 1))](draw, text)
    return text


def _replace_value(draw: st.DrawFn, text: str) -> str:
    places = values(text)
    if not places:
        return text
    start, end = draw(st.sampled_from(places))
    return text[:start] + draw(st.sampled_from(HOSTILE)) + text[end:]


def _exchange_values(draw: st.DrawFn, text: str) -> str:
    places = values(text)
    if len(places) < 2:
        return text
    start, end = draw(st.sampled_from(places))
    other = draw(st.sampled_from(places))
    return text[:start] + text[other[0] : other[1]] + text[end:]


def _delete_line(draw: st.DrawFn, text: str) -> str:
    lines = text.splitlines(keepends=True)
    number = draw(st.integers(0, max(0, len(lines) - 1)))
    return "".join(lines[:number] + lines[number + 1 :])


def _repeat_line(draw: st.DrawFn, text: str) -> str:
    lines = text.splitlines(keepends=True)
    number = draw(st.integers(0, max(0, len(lines) - 1)))
    return "".join(lines[: number + 1] + lines[number:])


def _insert_text(draw: st.DrawFn, text: str) -> str:
    place = draw(st.integers(0, len(text)))
    return text[:place] + draw(st.text(max_size=6)) + text[place:]


def _indent(draw: st.DrawFn, text: str) -> str:
    lines = text.splitlines(keepends=True)
    number = draw(st.integers(0, max(0, len(lines) - 1)))
    return "".join(lines[:number] + ["  " + line for line in lines[number : number + 1]]
                   + lines[number + 1 :])  # fmt: skip


MUTATIONS = (
    _replace_value, _replace_value, _exchange_values, _delete_line, _repeat_line, _insert_text,
    _indent,
)  # fmt: skip


@settings(max_examples=part(500), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutants())
def test_mutants_of_good_kernels(text: str):
    check(text)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=300))
def test_any_text(text: str):
    check("titan: 1\n" + text)


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
def test_every_hostile_value_at_some_places(value: str):
    text = GOOD[0]
    for start, end in random.Random(value).sample(values(text), part(12)):
        check(text[:start] + value + text[end:])


HEAD = "titan: 1\nkernel: k\ntarget: sm_90a\nroles: {r: {}}\nbarriers: {b: 1}\n"


def refused_with(text: str, code: str) -> None:
    started = time.process_time()
    family, errors = decode_text(text)
    assert family is None and code in [item.code for item in errors], errors[:3]
    assert time.process_time() - started < SECONDS_MAX


def test_too_many_statements():
    refused_with(HEAD + "program:\n  r:\n" + "    - arrive: b\n" * 10_001, "TTN003")


def test_nesting():
    text = "".join(f"{'  ' * n}- if: 1 < x\n{'  ' * n}  then:\n" for n in range(2, 24))
    refused_with(HEAD.replace("{r: {}}", "{r: {}}\nsizes: {x: any}") + "program:\n  r:\n" + text
                 + "  " * 24 + "- arrive: b\n", "TTN003")  # fmt: skip


def test_huge_sizes():
    refused_with(HEAD + "buffers: {A: {stages: 5000}}\nprogram: {r: []}\n", "TTN009")
    refused_with(HEAD + "buffers: {A: {stages: 4096, parts: 4096}}\nprogram: {r: []}\n", "TTN003")
    refused_with(HEAD.replace("{r: {}}", "{r: {warps: 257}}") + "program: {r: []}\n", "TTN009")
    refused_with(HEAD + "sizes: {a: 0..255, b: 0..255, c: 0..255}\nprogram: {r: []}\n", "TTN009")
    refused_with(HEAD + "sizes: {a: 0..99999999}\nprogram: {r: []}\n", "TTN009")


def test_names_that_grow_without_end():
    lets = "".join(f"    - let: {{x{n}: x{n - 1} + x{n - 1}}}\n" for n in range(1, 60))
    text = HEAD + "sizes: {x: any}\nprogram:\n  r:\n    - let: {x0: x + 1}\n" + lets
    refused_with(text + "    - {arrive: b, count: x59}\n", "TTN003")


def test_sizes_in_a_circle():
    refused_with(HEAD + "sizes: {a: b + 1, b: a + 1}\nprogram: {r: []}\n", "TTN014")


def test_cyclic_anchors():
    refused_with(HEAD + "program: &a {r: [*a]}\n", "TTN005")


def test_all_faults_are_told_at_once():
    text = HEAD + "program:\n  r:\n" + "    - arrive: c\n    - wiat: b\n    - {wait: b}\n" * 3
    _, errors = decode_text(text)
    assert len(errors) == 9
    assert len({item.span for item in errors}) == 9
