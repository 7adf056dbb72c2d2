"""`titan examples` lists what is shipped and copies it."""

from __future__ import annotations

from pathlib import Path

import pytest

from titan.cli.main import run
from titan.foundation.resources import root


def test_what_is_shipped_is_listed(capsys: pytest.CaptureFixture[str]):
    assert run(["examples"]) == 0
    out = capsys.readouterr().out
    assert "ring.yaml" in out and "# " in out
    assert run(["examples", "litmus"]) == 0
    assert "SB.litmus" in capsys.readouterr().out


def test_copies_are_the_same(tmp_path: Path):
    assert run(["examples", "--copy", str(tmp_path / "new")]) == 0
    copied = tmp_path / "new" / "examples"
    files = [path for path in root("examples").rglob("*") if path.is_file()]
    assert len(files) >= 6
    for path in files:
        assert (copied / path.relative_to(root("examples"))).read_bytes() == path.read_bytes()
    assert run(["examples", "--copy", str(tmp_path / "new")]) == 2
    assert run(["examples", "kernels"]) == 2
