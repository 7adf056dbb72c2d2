"""What a library that is not installed is reported as, and that the extras are there."""

from __future__ import annotations

import re
import tomllib

import pytest

from titan.cli.main import run
from titan.foundation import extras
from titan.foundation.resources import root

TOP = root("protocols").parent
_NAMED = re.compile(r"brought_by\(['\"](\w+)['\"]\)|require\(\s*\"\w+\", \"(\w+)\"")
_WRITTEN = re.compile(r"pip install '?titan\b|titan-verify\[")


def test_extras_that_messages_name_are_there():
    known = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = set()
    for path in sorted((TOP / "titan").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        named |= {one or other for one, other in _NAMED.findall(text)}
        assert path.name == "extras.py" or not _WRITTEN.search(text), f"{path}: see extras.py"
    assert len(named) >= 6
    assert named <= set(known)


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        (["stress", "--backend", "emulated", str(TOP / "protocols/tiles/gemm.yaml")], "run"),
        (["schedule", "--solver", "joint", "--engine", "sat",
          str(TOP / "protocols/loops/gemm_hopper.yaml")], "sched"),
    ],
)  # fmt: skip
def test_a_library_that_is_not_there_is_bad_usage(command, extra, monkeypatch, capsys):
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    assert run(command) == 2
    assert f"pip install 'titan-verify[{extra}]'" in capsys.readouterr().err
