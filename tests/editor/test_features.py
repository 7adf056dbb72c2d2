"""Hover, definitions, references and completion at positions of a kernel file."""

from __future__ import annotations

import pytest

from tests.language.kernel.examples import ROOT
from titan.editor import features
from titan.editor.place import place_at, word_at
from titan.language.kernel.table import SECTION_OF, SECTIONS, TARGETS, VERB_OF, VERBS

TEXT = """\
titan: 1
kernel: k
target: sm_90a
sizes: {tiles: any, depth: 4}
buffers:
  A: {tile: [64, 64], dtype: bf16, swizzle: 128B}
  B:
    tile: [64, 64]
    dtype: bf16
rings:
  operands: {buffers: [A, B], depth: depth}
roles:
  producer: {warps: 1}
  consumer: {warpgroups: 1}
program:
  producer:
    - for: t in 0..tiles
      do:
        - acquire: operands[t]
        - produce: operands[t]
          last: true
  consumer:
    - for: t in 0..tiles
      do:
        - wait: operands[t]
        - let: {s: t % depth}
        - issue: mma(A[t], B[t])
          as: group
        - drain: group
          leaving: 1
        - release: operands[t - 1]
          when: t >= 1
"""
LINES = TEXT.split("\n")


def at(needle: str, nth: int = 0, into: int = 0) -> tuple[int, int]:
    """Line and column of the nth occurrence of a text."""
    found = [(n, row.index(needle)) for n, row in enumerate(LINES) if needle in row]
    line, column = found[nth]
    return line, column + into


def test_words_and_places():
    line, column = at("release: operands")
    assert word_at(TEXT, line, column + 2) == ("release", column)
    assert word_at(TEXT, 99, 0) == ("", 0)
    assert place_at(TEXT, *at("last: true")).statement == ("produce",)
    assert place_at(TEXT, *at("last: true")).keys[:2] == ("program", "producer")
    assert place_at(TEXT, *at("    dtype: bf16")).keys == ()
    assert place_at(TEXT, *at("dtype: bf16", 1)).keys == ("buffers", "B")


@pytest.mark.parametrize(
    ("needle", "nth", "told"),
    [
        ("acquire", 0, "**acquire**: wait until a stage is free"),
        ("drain", 0, "`leaving`: newest groups that may be unfinished"),
        ("leaving", 0, "**leaving** (option of `drain`)"),
        ("when", 0, "the statement is executed where this holds"),
        ("last", 0, "**last** (option of `produce`)"),
        ("rings", 0, "keys: `buffers`"),
        ("dtype", 1, "element type"),
        ("program", 0, "for each role a list of statements"),
        ("operands[t]", 0, "**operands** (ring)\n\n```yaml\noperands: {buffers: [A, B]"),
        ("depth}", 1, "**depth** (size)"),
        ("B[t]", 0, "**B** (buffer)"),
        ("group", 2, "**group**"),
        ("sm_90a", 0, ""),
    ],
)
def test_hover(needle: str, nth: int, told: str):
    shown = features.hover(TEXT, *at(needle, nth, 1))
    assert told in shown if told else shown == ""


def test_every_verb_option_and_key_has_a_hover():
    for verb in VERBS:
        text = f"program:\n  w:\n    - {verb.name}: x\n"
        assert features.hover(text, 2, 7).startswith(f"**{verb.name}**") or " " in verb.name
        for key in verb.options:
            text = f"program:\n  w:\n    - {verb.name}: x\n      {key.name}: y\n"
            assert key.about in features.hover(text, 3, 7)
    for section in SECTIONS:
        for key in section.keys:
            text = f"{section.name}:\n  x:\n    {key.name}: 1\n"
            assert key.about in features.hover(text, 2, 5)


def test_a_rule_is_explained_where_it_fires():
    text = TEXT.replace("- acquire: operands[t]", "- acquire: operand[t]")
    found = features.faults(text, "k.yaml")
    assert [item.code for item in found] == ["TTN011"]
    shown = features.hover(text, *at("acquire: ", 0, 11), found)
    assert "**TTN011 undeclared-name**" in shown and "did you mean `operands`" in shown


@pytest.mark.parametrize(
    ("needle", "nth", "line"),
    [("operands[t]", 1, 10), ("A[t]", 0, 5), ("B]", 0, 6), ("depth}", 1, 3), ("tiles", 1, 3),
     ("drain: group", 0, 27), ("[t - 1]", 0, 16)],
)  # fmt: skip
def test_definitions(needle: str, nth: int, line: int):
    into = {"drain: group": 8, "[t - 1]": 1}.get(needle, 0)
    span = features.definition(TEXT, *at(needle, nth, into))
    assert span is not None and span.start_line - 1 == line


def test_references():
    found = features.references(TEXT, *at("operands:"))
    assert [line for line, _, _ in found] == [10, 18, 19, 24, 30]
    assert all(LINES[line][a:b] == "operands" for line, a, b in found)
    assert features.references(TEXT, *at("sm_90a")) == []


def offered(text: str) -> set[str]:
    """What is offered at the mark in a text."""
    before, _, after = text.partition("‸")
    lines = before.split("\n")
    offers = features.completion(before + after, len(lines) - 1, len(lines[-1]))
    return {offer.text for offer in offers}


HEAD = TEXT[: TEXT.index("program:")]


def test_completion_of_keys():
    assert {"buffers", "rings", "program", "policies"} <= offered(HEAD + "‸")
    assert "titan" not in offered("titan: 1\n‸")
    assert offered(HEAD + "program:\n  w:\n    - ‸") == set(VERB_OF)
    assert offered(
        HEAD + "program:\n  w:\n    - for: t in 0..tiles\n      do:\n        - a‸"
    ) == set(VERB_OF)
    drain = HEAD + "program:\n  w:\n    - drain: group\n      ‸"
    assert offered(drain) == {"by", "leaving", "pending", "until", "when"}
    assert offered(drain.replace("‸", "until: read\n      ‸")) == {
        "by",
        "leaving",
        "pending",
        "when",
    }
    assert offered("buffers:\n  A: {‸") == {key.name for key in SECTION_OF["buffers"].keys}
    assert offered("buffers:\n  A:\n    ‸") == {key.name for key in SECTION_OF["buffers"].keys}
    assert "fence_rule" in offered("policies: {‸")


def test_completion_of_values():
    assert offered("titan: 1\nkernel: k\ntarget: ‸") == set(TARGETS)
    assert offered("buffers:\n  A:\n    swizzle: ‸") == {"none", "32B", "64B", "128B"}
    assert "async" in offered(HEAD + "program:\n  w:\n    - fence: ‸")
    names = offered(HEAD + "program:\n  w:\n    - acquire: ‸")
    assert {"operands", "A", "B", "tiles", "depth"} <= names and "producer" not in names
    assert offered(HEAD + "program:\n  w:\n    - drain: g\n      until: ‸") == {"done", "read"}
    assert offered(HEAD + "program:\n  w:\n    - produce: r\n      last: ‸") == {"true", "false"}


def test_verdicts_within_a_budget():
    text = (ROOT / "examples" / "early_release.yaml").read_text(encoding="utf-8")
    found = features.verdict(text, "k.yaml", 10_000)
    assert found[0].code == "TTN202"
    assert features.verdict("titan: 1\nkernel: [", "k.yaml", 10) != []
    loop = (ROOT / "protocols" / "loops" / "toy_gemm.yaml").read_text(encoding="utf-8")
    assert features.faults(loop, "loop.yaml") == []


def test_no_position_is_a_fault():
    """Every position of a text, also of a broken one, has an answer."""
    for text in (TEXT, TEXT.replace("{", "", 1), TEXT.replace("- ", "-"), "", "\n\n", "a"):
        for line, row in enumerate(text.split("\n")):
            for column in range(0, len(row) + 1, 7):
                features.hover(text, line, column)
                features.completion(text, line, column)
                place_at(text, line, column)
