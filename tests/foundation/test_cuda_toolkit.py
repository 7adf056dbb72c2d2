"""Where programs of the CUDA toolkit are looked for, and in which order."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from titan.foundation.cuda_toolkit import toolkit_program


def program(folder: Path, name: str = "nvcc") -> Path:
    folder.mkdir(parents=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    """A folder of installed packages; nothing in PATH and the variables."""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / name))
    return tmp_path / "purelib"


def test_nothing_is_installed(wheels):
    assert toolkit_program("nvcc") is None


def test_the_newest_of_the_wheels(wheels):
    program(wheels / "nvidia" / "cu9" / "bin")
    newest = program(wheels / "nvidia" / "cu13" / "bin")
    program(wheels / "nvidia" / "cuda_nvcc" / "bin")
    assert toolkit_program("nvcc") == newest


def test_a_wheel_of_triton_brings_other_programs(wheels):
    made = program(wheels / "triton" / "backends" / "nvidia" / "bin", "nvdisasm")
    assert toolkit_program("nvdisasm") == made
    assert toolkit_program("nvcc") is None


def test_path_and_variables_come_first(wheels, tmp_path, monkeypatch):
    program(wheels / "nvidia" / "cu13" / "bin")
    given = program(tmp_path / "toolkit" / "bin")
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "toolkit"))
    assert toolkit_program("nvcc") == given
    first = program(tmp_path / "first")
    monkeypatch.setenv("PATH", str(tmp_path / "first"))
    assert toolkit_program("nvcc") == first
