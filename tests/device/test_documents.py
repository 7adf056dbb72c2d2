"""What the documents of device runs show runs; their tables name all states and variants."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from titan.cli.main import run as titan
from titan.device import probes
from titan.device.hooks import levels
from titan.device.stress import BAD, SEEDED
from titan.device.variants import VARIANTS
from titan.foundation.resources import root

DOCS = root("protocols").parent / "docs"
HOW_TO = DOCS / "how-to" / "run_on_a_gpu.md"
REFERENCE = DOCS / "reference" / "device.md"
needs_compilers = pytest.mark.skipif(
    shutil.which("cc") is None or shutil.which("g++") is None, reason="no C and C++ compiler"
)


def commands(path):
    blocks = re.findall(r"```sh\n(.*?)```", path.read_text(), re.S)
    lines = [line.partition(" #")[0].strip() for block in blocks for line in block.splitlines()]
    return [shlex.split(line) for line in lines if line.startswith("titan ")]


@needs_compilers
def test_examples_without_a_gpu_run(tmp_path, monkeypatch, capsys):
    found = [words[1:] for words in commands(HOW_TO) if {"cpu", "emulated"} & set(words)]
    assert {tuple(words[:1]) for words in found} == {("litmus",), ("stress",)}
    repository = root("protocols").parent
    monkeypatch.chdir(tmp_path)
    for words in found:
        there = [
            str(repository / w) if "/" in w and (repository / w).exists() else w for w in words
        ]
        assert titan(there) == 0, capsys.readouterr()
        for option in ("--page", "--result"):
            if option in words:
                assert Path(words[words.index(option) + 1]).stat().st_size > 100


def test_every_command_that_is_shown_is_known(capsys):
    for words in commands(HOW_TO):
        options = [word for word in words if word.startswith("--")]
        name = words[1:3] if words[1] == "litmus" else words[1:2]
        assert titan([*name, "--help"]) == 0
        told = capsys.readouterr().out
        assert all(option in told for option in options), words


def test_tables_are_complete():
    text = REFERENCE.read_text()
    names = [variant.name for variant in VARIANTS] + list(BAD) + list(SEEDED)
    names += ["finding", "decides", "seen", "not seen", "nothing observed", "not run", "open"]
    names += [path.stem for path in probes.manifests(root("litmus") / "probes")]
    roles = [{"name": "ROLE", "first_thread": 0, "threads": 256}]
    names += [level.name for level in levels({"roles": roles})]
    assert [name for name in names if f"`{name}`" not in text] == []
