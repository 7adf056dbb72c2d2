"""The action, the hook and the image for CI systems, as far as they run without servers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from titan.cli.main import run

ROOT = Path(__file__).resolve().parents[2]


def read(name: str):
    return YAML(typ="safe").load((ROOT / name).read_text(encoding="utf-8"))


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize(("example", "code"), [("ring.yaml", 0), ("early_release.yaml", 1)])
def test_the_shell_lines_of_the_action(example: str, code: int, tmp_path: Path):
    step = next(s for s in read("action.yml")["runs"]["steps"] if s.get("name") == "Verify")
    shutil.copy(ROOT / "examples" / example, tmp_path / "kernel.yaml")
    command = tmp_path / "titan"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m titan "$@"\n')
    command.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "TITAN_PATHS": "kernel.yaml",
        "TITAN_REQUIRE": "any",
        "TITAN_SARIF": "titan.sarif",
    }
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", step["run"]],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert (tmp_path / "titan.sarif").is_file()
    assert done.stdout.startswith("::error title=TTN202") == bool(code)


def test_inputs_reach_the_shell_through_the_environment_only():
    for step in read("action.yml")["runs"]["steps"]:
        assert "${{" not in step.get("run", "")


def test_the_hook_calls_a_command_that_is_there(tmp_path: Path, monkeypatch):
    (hook,) = read(".pre-commit-hooks.yaml")
    assert re.search(hook["files"], "kernels/gemm.titan.yaml")
    assert not re.search(hook["files"], "compose.yaml")
    monkeypatch.chdir(tmp_path)
    words = hook["entry"].split()
    assert words[0] == "titan"
    assert run([*words[1:], str(ROOT / "examples" / "ring.yaml")]) == 0


def test_the_image_is_built_from_what_is_there():
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith("FROM ") for line in lines) == 2
    assert lines[-1] == 'ENTRYPOINT ["titan"]'
