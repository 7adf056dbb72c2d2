"""The JSON Schemas: shipped as they are made, valid themselves, true of every good file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import jsonschema
import pytest

from titan.cli.main import run
from titan.cli.schema import MODULES, text_of
from titan.codegen.tile.load import OPTIONAL, REQUIRED
from titan.foundation.resources import root
from titan.foundation.source.tree import Mapping, Node, Scalar, as_boolean, as_integer
from titan.foundation.source.yaml import parse_text
from titan.frontends.ptx.launch import read_launch_text
from titan.scheduling.loop.load import OPERATION_KEYS, TOP

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {"kernel": "protocols", "loop": "protocols/loops", "tile": "protocols/tiles"}


@cache
def validator(kind: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads(text_of(kind)))


def plain(node: Node) -> object:
    """The tree as plain data, as another YAML reader would give it."""
    if isinstance(node, Scalar):
        if node.is_null:
            return None
        number, truth = as_integer(node), as_boolean(node)
        if number is None and node.plain and re.fullmatch(r"-?[0-9]+\.[0-9e+-]*", node.text):
            return float(node.text)
        return number if number is not None else node.text if truth is None else truth
    if isinstance(node, Mapping):
        return {entry.key.text: plain(entry.value) for entry in node}
    return [plain(item) for item in node]


def read(text: str) -> object:
    tree, errors = parse_text(text)
    assert tree is not None and not errors
    return plain(tree)


def shipped(kind: str) -> Iterator[tuple[str, str]]:
    """The files of a kind that are shipped, and those in documents."""
    for path in sorted((ROOT / FOLDERS.get(kind, "examples")).glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        if re.search(rf"(?m)^{kind}\s*:", text):
            yield path.name, text
    for path in sorted((ROOT / "docs").rglob("*.md")):
        for text in re.findall(r"```yaml\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL):
            if re.search(rf"(?m)\A(titan: 1\n{kind}\s*:|{kind}\s*:)", text):
                yield path.name, text


@pytest.mark.parametrize("kind", MODULES)
def test_the_shipped_schema_is_the_one_that_is_made(kind: str):
    path = root("schemas") / f"{kind}.schema.json"
    assert path.read_text(encoding="utf-8") == text_of(kind), f"run: titan schema {kind} > {path}"
    jsonschema.Draft202012Validator.check_schema(json.loads(text_of(kind)))


@pytest.mark.parametrize(("kind", "least"), [("kernel", 14), ("tile", 60), ("loop", 13)])
def test_shipped_files_are_valid(kind: str, least: int):
    found = list(shipped(kind))
    assert len(found) >= least
    faults = [
        f"{name}: {error.json_path}: {error.message[:200]}"
        for name, text in found
        for error in validator(kind).iter_errors(read(text))
    ]
    assert faults == []


LAUNCHES = (
    "grid: [8, 4]\nblock: 256\nshared: 98304\nparameters: [512, pointer, unknown, {bytes: '00'}]\n",
    "entry: k\nparameters: {5: 256, n: pointer}\nallocations: [[4096, 16], {start: 1, bytes: 2}]\n",
    "tensor_maps:\n  - {dimensions: [64, 64], box: [64, 8], data_type: bf16, swizzle: 128B}\n"
    "parameters: [{map: 0}, {map: {dimensions: [64], box: [64]}}]\n",
)


@pytest.mark.parametrize("text", LAUNCHES)
def test_launches_that_titan_reads_are_valid(text: str):
    described, errors = read_launch_text(text, "launch.yaml")
    assert described is not None, errors
    assert [error.message for error in validator("launch").iter_errors(read(text))] == []


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("tile", "dtype: bf16", "dtype: bf17"),
        ("tile", "work:", "works:"),
        ("tile", "mma:", "mna:"),
        ("loop", "latency:", "latencies:"),
        ("loop", "operations:", "operation:"),
        ("loop", "distance: 1", "distance: -1"),
    ],
)
def test_broken_files_are_not_valid(kind: str, old: str, new: str):
    text = next(text for _, text in shipped(kind) if old in text)
    assert list(validator(kind).iter_errors(read(text.replace(old, new, 1))))


@pytest.mark.parametrize("text", ["grids: [1]\n", "grid: [1, 1, 1, 1]\n", "parameters: [null]\n"])
def test_broken_launches_are_not_valid(text: str):
    assert list(validator("launch").iter_errors(read(text)))


def test_schemas_have_the_keys_that_the_decoders_take():
    loop = json.loads(text_of("loop"))["properties"]
    assert set(loop) == {"titan", "loop", "operations", *TOP}
    assert set(loop["operations"]["additionalProperties"]["properties"]) == set(OPERATION_KEYS)
    assert set(json.loads(text_of("tile"))["properties"]) == {*REQUIRED, *OPTIONAL}


def test_the_command_prints_a_schema_or_where_it_lies(capsys: pytest.CaptureFixture[str]):
    assert run(["schema", "loop"]) == 0
    assert capsys.readouterr().out == text_of("loop")
    assert run(["schema", "tile", "--path"]) == 0
    assert Path(capsys.readouterr().out.strip()).read_text(encoding="utf-8") == text_of("tile")
    assert run(["schema", "tiles"]) == 2
