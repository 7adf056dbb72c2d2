"""`titan examples` lists what is shipped and copies it."""

from __future__ import annotations

from pathlib import Path

import pytest

from titan.cli.examples import shipped
from titan.cli.main import run
from titan.foundation.resources import root


def test_what_is_shipped_is_listed(capsys: pytest.CaptureFixture[str]):
    assert run(["examples"]) == 0
    out = capsys.readouterr().out
    assert "ring.yaml" in out and "# " in out
    assert "triton_softmax.py  # Softmax" in out
    assert run(["examples", "litmus"]) == 0
    assert "SB.litmus" in capsys.readouterr().out


def test_copies_are_the_same(tmp_path: Path):
    assert run(["examples", "--copy", str(tmp_path / "new")]) == 0
    copied = tmp_path / "new" / "examples"
    files = list(shipped(root("examples")))
    assert len(files) >= 6
    for path in files:
        assert (copied / path.relative_to(root("examples"))).read_bytes() == path.read_bytes()
    assert run(["examples", "--copy", str(tmp_path / "new")]) == 2
    assert run(["examples", "kernels"]) == 2


def test_bytecode_is_not_shipped(tmp_path: Path):
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "script.cpython-311.pyc").write_bytes(b"")
    (tmp_path / "script.py").write_text("", encoding="utf-8")
    assert list(shipped(tmp_path)) == [tmp_path / "script.py"]
