"""Kernel files and marked tests in a pytest run of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RING = (ROOT / "examples" / "ring.yaml").read_text(encoding="utf-8")
EARLY = (ROOT / "examples" / "early_release.yaml").read_text(encoding="utf-8")
MARKED = """
import pytest

@pytest.mark.titan("kernels/good.titan.yaml")
def test_good():
    pass

@pytest.mark.titan("kernels/bad.titan.yaml")
def test_bad():
    raise SystemExit("a test whose kernel is refuted does not run")
"""


def test_files_are_collected_and_marks_verify(tmp_path: Path):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "good.titan.yaml").write_text(RING)
    (tmp_path / "kernels" / "bad.titan.yaml").write_text(EARLY)
    (tmp_path / "kernels" / "broken.titan.yaml").write_text("titan: [")
    (tmp_path / "test_marked.py").write_text(MARKED)
    alone = {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = ["-m", "pytest", "-q", "-p", "titan.pytest_plugin", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, *command],
        cwd=tmp_path, env={**os.environ, **alone}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert "3 failed, 2 passed" in done.stdout
    assert "error[TTN202]" in done.stdout and "error[TTN001]" in done.stdout
    assert "SystemExit" not in done.stdout and "Traceback" not in done.stdout
