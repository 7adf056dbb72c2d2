"""Diagnostics as data: severity, primary place, fingerprint, order."""

import pickle

import pytest

from tests.foundation.diagnostics.fixture import at, fixture
from titan.foundation.diagnostics.model import Annotation, Severity, diagnostic, sort_key
from titan.foundation.diagnostics.wording import (
    counted,
    listed,
    nearest,
    printable,
    quoted,
    suggestion,
)
from titan.foundation.source.span import Source


def test_severity_comes_from_the_code():
    assert diagnostic("TTN306", "x").severity is Severity.WARNING
    assert diagnostic("TTN201", "x").severity is Severity.ERROR
    with pytest.raises(KeyError):
        diagnostic("TTN999", "x")


def test_the_primary_annotation():
    item = diagnostic("TTN201", "x", others=(Annotation(at("wait")), Annotation(at("issue"))))
    assert item.span == at("wait")
    assert diagnostic("TTN201", "x").span is None


def test_a_fingerprint_survives_lines_added_above():
    def mark(text: str, headline: str = "h") -> str:
        source = Source("k.yaml", text)
        start = text.index("b:")
        return diagnostic("TTN201", headline, source.span(start, start + 1)).fingerprint

    assert mark("a: 1\nb: 2\n") == mark("a: 1\n# more\n\nb: 2\n")
    assert mark("a: 1\nb: 2\n") != mark("a: 1\nb: 3\n")
    assert mark("a: 1\nb: 2\n") != mark("a: 1\nb: 2\n", "other")


def test_diagnostics_travel_between_processes():
    for item in fixture():
        copy = pickle.loads(pickle.dumps(item))
        assert copy == item
        assert sort_key(copy) == sort_key(item)


def test_words():
    assert nearest("operand", ["operands", "outputs"]) == "operands"
    assert nearest("xyz", ["operands"]) is None
    assert nearest("x" * 10**6, ["operands"]) is None
    assert suggestion("xyz", ["b", "a"]) == ("known here: `a` and `b`",)
    assert suggestion("xyz", [f"name{i}" for i in range(17)]) == ()
    assert listed(["a", "b", "c"]) == "`a`, `b`, and `c`"
    assert (counted(1, "error"), counted(0, "error")) == ("1 error", "0 errors")
    assert counted(2, "entry", "entries") == "2 entries"
    assert quoted("a`b\n") == "`a'b\\x0a`"
    assert len(printable("\x00" * 1000)) <= 60
