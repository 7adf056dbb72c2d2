"""docs/reference/seeds.md: every place, test and command that it names exists."""

from __future__ import annotations

import ast
import re

import pytest

from titan.cli.main import COMMANDS
from titan.foundation.resources import root

ROOT = root("protocols").parent
PAGE = ROOT / "docs" / "reference" / "seeds.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith(("| section", "| ---"))
]
PLACES = ("titan/", "tests/", "docs/", "protocols/", "benchmarks/", "backends/", "litmus/")


def quoted(cell):
    return re.findall(r"`([^`]+)`", cell)


def names_in(path):
    """Functions and classes that a module defines."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, kinds)
    }


def fault(text):
    """What is wrong with a place, test or command; None where it exists."""
    if text.startswith("titan "):
        words = text.split()
        if words[1] not in COMMANDS:
            return f"no command {words[1]}"
        files = [word for word in words[2:] if "/" in word]
        return next((f"no file {f}" for f in files if not (ROOT / f).exists()), None)
    path, _, name = text.partition("::")
    if not (ROOT / path).exists():
        return f"no file {path}"
    return f"{path} has no {name}" if name and name not in names_in(ROOT / path) else None


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}: {row[1][:40]}")
def test_every_row_names_what_exists(row):
    section, feature, place, shown, state = row
    assert section and feature
    for cell in (place, shown):
        named = quoted(cell)
        assert named
        for text in named:
            assert text.startswith((*PLACES, "titan ")), text
            assert fault(text) is None
    assert not shown.startswith("`titan/")
    assert state == "whole" or re.fullmatch(r"partly: .{10,}", state)


def test_faults_are_seen():
    assert fault("titan/nowhere.py") and fault("titan fly") and fault("titan schedule a/b.yaml")
    assert fault("titan/scheduling/rau.py::no_such_thing")
    assert fault("titan/scheduling/rau.py::gallop") is None


def test_the_page_has_all_four_documents():
    text = PAGE.read_text(encoding="utf-8")
    assert len(re.findall(r"^## \"", text, re.M)) == 4
    assert len(ROWS) > 70
