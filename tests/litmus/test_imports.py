"""No circle among the modules of the memory model, not even one for types or inside a function."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "titan" / "litmus"


def imports() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in FOLDER.rglob("*.py"):
        name = ".".join(["titan", "litmus", *path.relative_to(FOLDER).with_suffix("").parts])
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        found[name] = {
            node.module
            for node in nodes
            if isinstance(node, ast.ImportFrom)
            and node.module is not None
            and node.module.startswith("titan.litmus.")
        }
    return found


def test_modules_import_each_other_in_one_direction() -> None:
    assert len(imports()) > 30
    TopologicalSorter(imports()).prepare()


def test_a_circle_would_be_seen() -> None:
    with pytest.raises(CycleError):
        TopologicalSorter(
            {**imports(), "titan.litmus.language.ast": {"titan.litmus.decide"}}
        ).prepare()
