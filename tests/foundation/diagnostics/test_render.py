"""Every format on the same diagnostics, against files; TITAN_UPDATE_GOLDEN=1 rewrites them."""

import io
import json
import os
from pathlib import Path

import pytest

from tests.foundation.diagnostics.fixture import KERNEL, fixture
from titan.foundation.diagnostics.model import Annotation, diagnostic
from titan.foundation.diagnostics.render import FORMATS, render
from titan.foundation.diagnostics.render.colour import wanted

GOLDEN = Path(__file__).parent / "golden"
CASES = [("text", False), ("text", True), ("concise", False), ("json", False)]


@pytest.mark.parametrize(("name", "colour"), CASES)
def test_golden(name, colour):
    shown = render(name, fixture(), colour=colour)
    path = GOLDEN / f"{name}{'_colour' if colour else ''}.txt"
    if os.environ.get("TITAN_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(shown, encoding="utf-8")
    assert shown == path.read_text(encoding="utf-8")


def test_every_format_has_a_golden_file():
    assert {name for name, _ in CASES} == set(FORMATS)


@pytest.mark.parametrize("name", FORMATS)
def test_the_order_is_that_of_the_places(name):
    assert render(name, fixture()) == render(name, reversed(fixture()))


@pytest.mark.parametrize("name", FORMATS)
def test_no_control_character_of_the_input_gets_through(name):
    shown = render(name, fixture())
    assert all(char.isprintable() or char == "\n" for char in shown)


def test_colour_changes_no_character():
    plain, coloured = render("text", fixture()), render("text", fixture(), colour=True)
    pieces = coloured.split("\x1b[")
    stripped = pieces[0] + "".join(piece.split("m", 1)[1] for piece in pieces[1:])
    assert stripped == plain


def test_json_has_everything():
    content = json.loads(render("json", fixture()))
    assert len(content["diagnostics"]) == len(fixture())
    found = next(item for item in content["diagnostics"] if item["code"] == "TTN202")
    assert found["rule"] == "overwrite-while-in-flight"
    assert found["annotations"][0]["start"] == {"line": 8, "column": 7}
    assert [step["agent"] for step in found["trace"]["steps"]][2] == "copy engine"


def test_spans_outside_the_text_do_not_break_the_excerpt():
    for start, end in [(0, 10**6), (10**6, 10**6 + 5)]:
        item = diagnostic("TTN001", "outside", KERNEL.span(start, end))
        assert "outside" in render("text", [item])


def test_labels_of_one_line_are_all_shown_under_their_marks():
    line = KERNEL.line(6)
    words = ["issue", "mma", "as", "group"]
    notes = tuple(
        Annotation(KERNEL.span(at, at + len(word)), f"the word {word}")
        for word in words
        for at in [KERNEL.text.index(word, KERNEL.line_starts[5])]
    )
    shown = render("text", [diagnostic("TTN001", "x", others=notes)]).split("\n")
    offset = next(row for row in shown if "issue" in row and "mma:" in row).index(line)
    for word in words[:-1]:
        row = next(row for row in shown if row.endswith(f"the word {word}"))
        assert row.index("the word") == offset + line.index(word)


def test_when_to_colour(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert wanted(Terminal()) and not wanted(io.StringIO())
    assert wanted(io.StringIO(), "always") and not wanted(Terminal(), "never")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert wanted(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wanted(Terminal()) and wanted(Terminal(), "always")
