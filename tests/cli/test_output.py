"""Showing diagnostics from a command."""

import io
import sys

import pytest

from tests.foundation.diagnostics.fixture import fixture
from titan.cli.output import FORMATS, show
from titan.foundation.diagnostics import render


def test_the_choices_are_the_formats():
    assert set(FORMATS) == set(render.FORMATS)


@pytest.mark.parametrize("name", FORMATS)
def test_show_writes_what_the_renderer_gives(name, capsys):
    show(fixture(), name, "never")
    assert capsys.readouterr().out == render.render(name, fixture())


def test_colour_on_request(capsys):
    show(fixture(), "text", "always")
    assert "\x1b[1;31merror" in capsys.readouterr().out


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_that_cannot_show_a_character(monkeypatch, encoding):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
    show(fixture())
    sys.stdout.flush()
    assert b"\\u6f22\\u5b57" in raw.getvalue()
