"""All YAML that is shipped or shown has one meaning: YAML 1.1 and 1.2 read the same types.

The parsers are PyYAML (1.1) and, where there is one, `yaml` of npm (1.2). What the two read
differently (`on`, `00020000`, `1:30`) would be a trap for editors and scripts. That the texts are
read alike by TITAN is the matter of tests/language/test_other_readers.py.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("protocols", "examples", "backends", "litmus", "benchmarks")
READ = """
const {parseAllDocuments} = require('yaml');
const texts = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const told = texts.map(text => {
  const found = parseAllDocuments(text, {version: '1.2'});
  const faults = found.flatMap(one => [...one.errors, ...one.warnings]).map(one => one.message);
  return {faults, data: faults.length ? null : found.map(one => one.toJS())};
});
console.log(JSON.stringify(told));
"""


def shipped() -> Iterator[tuple[str, str]]:
    """Files, and what documents show of YAML."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.y*ml")):
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        shown = re.findall(r"```yaml\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
        for number, text in enumerate(shown):
            yield f"{path.relative_to(ROOT)}, example {number + 1}", text


FILES = list(shipped())


def keys_as_text(data: Any) -> Any:
    """As JSON has it."""
    return json.loads(json.dumps(data, default=str))


def test_pyyaml_reads_all_of_it() -> None:
    assert len(FILES) > 150
    faults = []
    for name, text in FILES:
        try:
            list(yaml.load_all(text, Loader=yaml.CSafeLoader))
        except yaml.YAMLError as error:
            faults.append(f"{name}: {error}")
    assert faults == []


def modules() -> Path | None:
    """Where npm keeps `yaml` for everybody."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        return None
    told = subprocess.run(["npm", "root", "-g"], capture_output=True, text=True, check=False)
    folder = Path(told.stdout.strip() or "/nowhere")
    return folder if (folder / "yaml").is_dir() else None


def test_npm_reads_the_same(tmp_path: Path) -> None:
    import os

    folder = Path(os.environ["NODE_PATH"]) if "NODE_PATH" in os.environ else modules()
    if folder is None or not (folder / "yaml").is_dir():
        pytest.skip("no `yaml` of npm: npm install -g yaml, or name its folder in NODE_PATH")
    script = tmp_path / "read.js"
    script.write_text(READ)
    given = json.dumps([text for _, text in FILES])
    done = subprocess.run(
        ["node", str(script)], input=given, capture_output=True, text=True, check=True,
        env={**os.environ, "NODE_PATH": str(folder)},
    )  # fmt: skip
    for (name, text), found in zip(FILES, json.loads(done.stdout), strict=True):
        assert found["faults"] == [], name
        mine = keys_as_text(list(yaml.load_all(text, Loader=yaml.CSafeLoader)))
        assert found["data"] == mine, name
