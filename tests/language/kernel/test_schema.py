"""The JSON Schema: committed as it is made, valid itself, and true of every good kernel."""

from __future__ import annotations

import jsonschema
import pytest

from tests.language.kernel.examples import ROOT, documented, library
from titan.foundation.source import indexed
from titan.foundation.source.tree import Mapping, Node, Scalar, as_boolean, as_integer
from titan.foundation.source.yaml import parse_text
from titan.language.kernel.schema import json_schema

COMMITTED = ROOT / "schemas" / "kernel.schema.json"
GOOD = [*documented(), *library()]
VALIDATOR = jsonschema.Draft202012Validator(json_schema())


def plain(node: Node) -> object:
    """The tree as plain data, as another YAML reader would give it."""
    if isinstance(node, Scalar):
        if node.is_null:
            return None
        number, truth = as_integer(node), as_boolean(node)
        return number if number is not None else node.text if truth is None else truth
    if isinstance(node, Mapping):
        return {entry.key.text: plain(entry.value) for entry in node}
    return [plain(item) for item in node]


def read(text: str) -> object:
    root, errors = parse_text(text)
    assert root is not None and not errors
    return plain(root)


@pytest.mark.parametrize("text", [text for _, text in GOOD], ids=[name for name, _ in GOOD])
def test_good_kernels_are_valid(text: str):
    assert [error.message for error in VALIDATOR.iter_errors(read(text))] == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("titan: 1", "titan: 2"),
        ("target: sm_90a", "target: sm_1"),
        ("depth: 4}", "depth: {some: 1}}"),
        ("rings:", "ring:"),
        ("- acquire: operands[t]", "- aquire: operands[t]"),
        ("leaving: 1", "leavin: 1"),
        ("for: t in 0..tiles", "for: t from 0 to tiles"),
    ],
)
def test_broken_kernels_are_not_valid(old: str, new: str):
    text = documented()[0][1]
    assert old in text
    assert list(VALIDATOR.iter_errors(read(text.replace(old, new))))


def test_hiding_an_index_is_undone():
    text = 'a: [A[t], B[min(t, 1)]] # f(x, y)\n"b]": "c[d"\n'
    assert indexed.show(indexed.hide(text)) == text
    assert indexed.hide(text) != text
