"""Every shipped YAML file is read alike by TITAN, by PyYAML and by npm's `yaml`.

The trees are compared with all scalars as text. The readers share no code: TITAN's tree is made of
ruamel.yaml's events, PyYAML has a scanner of its own, the third is written in TypeScript. It needs
node and the package `yaml`, which is looked for where npm installs (`NODE_PATH`, `npm root -g`)
and in build/node; `npm install --prefix build/node yaml` puts it there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from titan.foundation.source.tree import Mapping, Node, Scalar
from titan.foundation.source.yaml import parse_text

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("protocols", "examples", "litmus", "backends")
NODE = """
const yaml = require('yaml');
const texts = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const options = {schema: 'failsafe', version: '1.2', uniqueKeys: false, maxAliasCount: -1};
console.log(JSON.stringify(texts.map(text => {
  const found = yaml.parseDocument(text, options);
  return found.errors.length ? String(found.errors[0]) : found.toJS();
})));
"""


def texts(*folders: str) -> dict[str, str]:
    """All YAML files below these folders, and for `docs` the blocks of the documents."""
    found = {}
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.yaml")):
            found[path.relative_to(ROOT).as_posix()] = path.read_text(encoding="utf-8")
    if "docs" in folders:
        for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
            content = path.read_text(encoding="utf-8")
            for number, block in enumerate(re.findall(r"```yaml[^\n]*\n(.*?)```", content, re.S)):
                found[f"{path.relative_to(ROOT).as_posix()} {number}"] = block
    return found


@cache
def shipped() -> dict[str, str]:
    return texts(*FOLDERS, "docs")


def tree(node: Node) -> object:
    if isinstance(node, Scalar):
        return node.text
    if isinstance(node, Mapping):
        return {entry.key.text: tree(entry.value) for entry in node}
    return [tree(item) for item in node]


def ours(text: str) -> object:
    """The tree, or None where a key is given twice: others take the last one."""
    root, errors = parse_text(text)
    assert root is not None, [error.headline for error in errors]
    assert not isinstance(root, Mapping) or root.nonstandard == ()
    return tree(root) if not errors else None


def theirs(text: str) -> object:
    return yaml.load(text, getattr(yaml, "CBaseLoader", yaml.BaseLoader))


def differing(read: dict[str, object], files: dict[str, str]) -> list[str]:
    made = {name: ours(text) for name, text in files.items()}
    return [name for name, found in made.items() if found is not None and found != read[name]]


def test_pyyaml_reads_the_same():
    files = shipped()
    assert len(files) > 130
    assert differing({name: theirs(text) for name, text in files.items()}, files) == []


@pytest.mark.heavy
def test_pyyaml_reads_the_same_of_the_tests():
    files = texts("tests")
    assert len(files) > 200
    assert differing({name: theirs(text) for name, text in files.items()}, files) == []


def test_npm_reads_the_same():
    files = shipped()
    read = with_npm(list(files.values()))
    assert differing(dict(zip(files, read, strict=True)), files) == []


def test_an_old_file_is_read_otherwise():
    """The comparison can fail: by an error of the other reader, or by another tree."""
    text = "a: {stage: min(a, b)}\n"
    root, _ = parse_text(text)
    assert isinstance(root, Mapping) and len(root.nonstandard) == 1
    assert theirs(text) != tree(root)
    with pytest.raises(yaml.YAMLError):
        theirs("a: [A[t], B[t]]\n")


def with_npm(contents: list[str]) -> list[object]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node")
    places = [os.environ.get("NODE_PATH", ""), str(ROOT / "build" / "node" / "node_modules")]
    npm = shutil.which("npm")
    if npm is not None:
        asked = subprocess.run([npm, "root", "-g"], capture_output=True, text=True, check=False)
        places.append(asked.stdout.strip())
    ran = subprocess.run(
        [node, "-e", NODE],
        input=json.dumps(contents),
        env={**os.environ, "NODE_PATH": os.pathsep.join(places)},
        capture_output=True,
        text=True,
        check=False,
    )
    if "Cannot find module 'yaml'" in ran.stderr:
        pytest.skip("npm's package yaml is not installed")
    assert ran.returncode == 0, ran.stderr
    read = as_text(json.loads(ran.stdout))
    assert isinstance(read, list)
    return read


def as_text(found: object) -> object:
    """A key without a value has none for this reader, and an empty text for the others."""
    if isinstance(found, dict):
        return {key: as_text(value) for key, value in found.items()}
    if isinstance(found, list):
        return [as_text(item) for item in found]
    return "" if found is None else found
