"""Compiles emitted HIP with clang 22 and reads back its code: instructions and resources.

Needs clang-22, lld-22 and llvm-22 (Debian packages of these names), no ROCm and no GPU. Nothing of
the machine enters the code object.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

TOOLS = ("clang-22", "ld.lld-22", "llvm-objdump-22", "llvm-readelf-22")
FLAGS = (
    "--cuda-device-only", "--no-gpu-bundle-output", "-nogpulib", "-nogpuinc", "-O3", "-std=c++17",
    "-Wall", "-Wextra", "-Werror",
)  # fmt: skip
TARGETS = ("gfx942", "gfx950")
SECONDS_MAX = 120
_FIGURE = re.compile(r"^\s*(?:-\s*)?\.(\w+):\s*(\S+)\s*$", re.M)


class CompileFailed(Exception):
    """What the compiler said."""


@dataclass(frozen=True, slots=True)
class Resources:
    """Of one kernel. `vector_registers` counts VGPRs and AGPRs of a lane together."""

    vector_registers: int
    accumulation_registers: int
    scalar_registers: int
    shared_bytes: int
    private_bytes: int
    vector_spills: int
    scalar_spills: int


@dataclass(frozen=True, slots=True)
class Compiled:
    disassembly: str
    resources: Resources
    warnings: str = ""


def missing_tools() -> list[str]:
    """The tools that are not there."""
    return [tool for tool in TOOLS if shutil.which(tool) is None]


def compile_hip(files: Mapping[str, str], source: str, target: str) -> Compiled:
    """Compiles `source` among `files`. Raises CompileFailed, also where a tool is missing."""
    if missing := missing_tools():
        raise CompileFailed(f"{missing[0]} is not installed")
    if target not in TARGETS:
        raise CompileFailed(f"{target} is no target of this compiler here")
    with tempfile.TemporaryDirectory(prefix="titan-hip-") as folder:
        for name, text in files.items():
            if Path(name).name != name:
                raise CompileFailed("a file name with a path in it")
            (Path(folder) / name).write_text(text, encoding="utf-8")
        made = "kernel.co"
        arguments = ["clang-22", "-x", "hip", f"--offload-arch={target}", *FLAGS, source]
        warnings = _run([*arguments, "-o", made], folder)
        disassembly = _run(["llvm-objdump-22", "-d", f"--mcpu={target}", made], folder)
        notes = _run(["llvm-readelf-22", "-n", made], folder)
    return Compiled(disassembly, resources_of(notes), warnings)


def resources_of(notes: str) -> Resources:
    """The figures of the first kernel in the notes of a code object. Raises CompileFailed."""
    figures: dict[str, str] = {}
    for name, value in _FIGURE.findall(notes):
        figures.setdefault(name, value)
    try:
        return Resources(
            int(figures["vgpr_count"]),
            int(figures["agpr_count"]),
            int(figures["sgpr_count"]),
            int(figures["group_segment_fixed_size"]),
            int(figures["private_segment_fixed_size"]),
            int(figures["vgpr_spill_count"]),
            int(figures["sgpr_spill_count"]),
        )
    except (KeyError, ValueError) as error:
        raise CompileFailed(f"the notes of the code object lack a figure: {error}") from None


def over_budget(resources: Resources, registers_max: int, shared_max: int) -> list[str]:
    """What is beyond the figures of the manifest."""
    found = []
    if resources.vector_registers > registers_max:
        found.append(f"{resources.vector_registers} vector registers; {registers_max} are foreseen")
    if resources.shared_bytes > shared_max:
        found.append(f"{resources.shared_bytes} bytes of LDS; {shared_max} are foreseen")
    spills = resources.vector_spills + resources.scalar_spills
    if spills or resources.private_bytes:
        found.append(f"{spills} registers spilled, {resources.private_bytes} bytes of scratch")
    return found


def _run(arguments: list[str], folder: str) -> str:
    try:
        done = subprocess.run(
            arguments, cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CompileFailed(f"{arguments[0]}: {error}") from None
    if done.returncode:
        raise CompileFailed(done.stderr.strip()[:2000] or f"{arguments[0]} failed")
    return done.stdout if arguments[0] != "clang-22" else done.stderr
