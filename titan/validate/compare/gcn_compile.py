"""Compiles emitted HIP with clang 22 and reads back its code: instructions and resources.

Needs clang-22, lld-22 and llvm-22 (Debian packages of these names), no ROCm and no GPU. Nothing of
the machine enters the code object.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from titan.foundation.scratch import scratch
from titan.validate.compare.toolchain import (
    CannotCompile,
    CompiledKernel,
    Figures,
    ToolchainMissing,
    run,
)

CLANG, OBJDUMP, READELF = "clang-22", "llvm-objdump-22", "llvm-readelf-22"
TOOLS = (CLANG, "ld.lld-22", OBJDUMP, READELF)
FLAGS = (
    "--cuda-device-only", "--no-gpu-bundle-output", "-nogpulib", "-nogpuinc", "-O3", "-std=c++17",
    "-Wall", "-Wextra", "-Werror",
)  # fmt: skip
REGISTER_BYTES = 4
_FIGURE = re.compile(r"^\s*(?:-\s*)?\.(\w+):\s*(\S+)\s*$", re.M)


def missing_tools() -> list[str]:
    """The tools that are missing."""
    return [tool for tool in TOOLS if shutil.which(tool) is None]


def compile_hip(source: Path, target: str) -> CompiledKernel:
    """Disassembly and figures of a HIP source. Raises ToolchainMissing and CannotCompile."""
    if missing := missing_tools():
        raise ToolchainMissing(f"{' and '.join(missing)} not installed")
    with scratch("titan-hip-") as folder:
        made = str(Path(folder) / "kernel.co")
        log = run([CLANG, "-x", "hip", f"--offload-arch={target}", *FLAGS, str(source),
                   "-o", made])  # fmt: skip
        disassembly = run([OBJDUMP, "-d", f"--mcpu={target}", made])
        figures = figures_of(run([READELF, "-n", made]))
    return CompiledKernel(target, disassembly, figures, log)


def hip_assembly(source: Path, target: str, defines: Sequence[str] = ()) -> str:
    """The assembly of a HIP source. Raises ToolchainMissing and CannotCompile."""
    if shutil.which(CLANG) is None:
        raise ToolchainMissing(f"{CLANG} not installed")
    with scratch("titan-hip-") as folder:
        made = Path(folder) / "kernel.s"
        macros = [f"-D{define}" for define in defines]
        run([CLANG, "-x", "hip", f"--offload-arch={target}", *FLAGS, *macros, "-S", str(source),
             "-o", str(made)])  # fmt: skip
        return made.read_text(encoding="utf-8")


def figures_of(notes: str) -> Figures:
    """The figures of the first kernel in the notes of a code object. Raises CannotCompile."""
    entries: dict[str, str] = {}
    for name, value in _FIGURE.findall(notes):
        entries.setdefault(name, value)
    try:
        spilled = int(entries["vgpr_spill_count"]) + int(entries["sgpr_spill_count"])
        return Figures(
            registers=int(entries["vgpr_count"]),
            spill_bytes=REGISTER_BYTES * spilled,
            stack_bytes=int(entries["private_segment_fixed_size"]),
            shared_bytes=int(entries["group_segment_fixed_size"]),
            barriers=0,
        )
    except (KeyError, ValueError) as error:
        text = f"error: the notes of the code object lack a figure: {error}"
        raise CannotCompile(text) from None


def over_budget(figures: Figures, registers_max: int, shared_max: int) -> list[str]:
    """Which figures exceed those of the manifest."""
    found = []
    if figures.registers > registers_max:
        found.append(f"{figures.registers} vector registers; {registers_max} are foreseen")
    if figures.shared_bytes > shared_max:
        found.append(f"{figures.shared_bytes} bytes of LDS; {shared_max} are foreseen")
    elif figures.shared_bytes:
        text = f"{figures.shared_bytes} bytes of LDS have a place; tiles are taken to begin at 0"
        found.append(text)
    if figures.stack_bytes:
        found.append(f"{figures.stack_bytes} bytes of scratch")
    return found + figures.faults()
