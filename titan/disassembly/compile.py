"""Compiles an emitted kernel with the toolchain that is installed, and reads what it tells.

NVIDIA: nvcc of `PATH` or of CUDA_HOME, to PTX and to a cubin with the remarks of ptxas. AMD: a
clang that knows the target, without ROCm (`-nogpulib`). No GPU is needed. A toolchain
that is not there is told by `Missing`, never guessed around.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

SECONDS_MAX = 300.0
CLANGS = ("clang-22", "clang-21", "clang-20", "clang-19", "amdclang", "clang")
_REMARK = re.compile(r"\(?(C75\d\d)\)?")


class Missing(Exception):
    """The toolchain of a target is not installed."""


class CannotCompile(Exception):
    """The toolchain refuses the source; the text is its first complaint."""

    def __init__(self, log: str) -> None:
        found = [line for line in log.splitlines() if "error" in line.lower()]
        super().__init__((found or log.splitlines() or ["no reason is told"])[0].strip())
        self.log = log


@dataclass(frozen=True, slots=True)
class Figures:
    """What the toolchain tells of one kernel; bytes of memory of one thread, or of a CTA."""

    registers: int
    spill_bytes: int
    stack_bytes: int
    shared_bytes: int  # static; dynamic shared memory is the launch's
    barriers: int
    remarks: tuple[str, ...] = ()  # codes of ptxas such as C7510, in order

    def faults(self, spills_allowed: bool = False) -> list[str]:
        """Remarks that wgmma was serialised or the like, and spills where none are allowed."""
        found = [f"ptxas remarks {code}" for code in dict.fromkeys(self.remarks)]
        if self.spill_bytes and not spills_allowed:
            found.append(f"{self.spill_bytes} bytes of registers are spilled")
        return found


@dataclass(frozen=True, slots=True)
class Compiled:
    """`text` is the PTX or the assembly."""

    target: str
    text: str
    figures: Figures
    log: str


def nvcc() -> Path | None:
    """nvcc of `PATH`, else of CUDA_HOME or CUDA_PATH."""
    found = shutil.which("nvcc")
    if found is not None:
        return Path(found)
    for name in ("CUDA_HOME", "CUDA_PATH"):
        candidate = Path(os.environ.get(name, "")) / "bin" / "nvcc"
        if os.environ.get(name) and candidate.is_file():
            return candidate
    return None


def clang(target: str) -> Path | None:
    """A clang of `PATH` (or TITAN_CLANG) that knows an AMD target."""
    for name in (os.environ.get("TITAN_CLANG", ""), *CLANGS):
        found = shutil.which(name) if name else None
        if found is not None and _knows(found, target):
            return Path(found)
    return None


def _knows(compiler: str, target: str) -> bool:
    command = [compiler, "--target=amdgcn-amd-amdhsa", "-mcpu=help", "--print-supported-cpus"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.SubprocessError):
        return False
    return re.search(rf"\b{re.escape(target)}\b", ran.stdout + ran.stderr) is not None


def compile_package(files: dict[str, str], target: str) -> Compiled:
    """Compiles source and header. Raises Missing and CannotCompile."""
    with tempfile.TemporaryDirectory(prefix="titan-") as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        if target.startswith("sm_"):
            return compile_cuda(Path(folder) / "kernel.cu", target)
        return compile_hip(Path(folder) / "kernel.hip.cpp", target)


def compile_cuda(source: Path, target: str, includes: tuple[Path, ...] = ()) -> Compiled:
    """PTX and figures of a CUDA source. Raises Missing and CannotCompile."""
    compiler = nvcc()
    if compiler is None:
        raise Missing("nvcc is not installed")
    flags = [f"-arch={target}", "-std=c++17", *(f"-I{path}" for path in includes)]
    with tempfile.TemporaryDirectory(prefix="titan-") as folder:
        ptx, cubin = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        log = _run([str(compiler), *flags, "-ptx", str(source), "-o", str(ptx)])
        text = ptx.read_text(encoding="utf-8", errors="replace")
        # ptxas takes what nvcc would hand to it; the source is not compiled twice.
        log += _run([str(compiler), f"-arch={target}", "-cubin", "-Xptxas", "-v,-warn-spills",
                     str(ptx), "-o", str(cubin)])  # fmt: skip
    return Compiled(target, text, cuda_figures(log), log)


def _run(command: list[str]) -> str:
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        raise CannotCompile(f"error: it takes more than {SECONDS_MAX:.0f} s") from None
    except OSError as error:
        raise Missing(f"{Path(command[0]).name} cannot be run: {error.strerror}") from None
    log = ran.stdout + ran.stderr
    if ran.returncode:
        raise CannotCompile(log)
    return log


def cuda_figures(log: str) -> Figures:
    """What `ptxas -v` tells; of several kernels the largest numbers."""

    def largest(pattern: str) -> int:
        return max((int(number) for number in re.findall(pattern, log)), default=0)

    stores, loads = largest(r"(\d+) bytes spill stores"), largest(r"(\d+) bytes spill loads")
    return Figures(
        registers=largest(r"Used (\d+) registers"),
        spill_bytes=max(stores, loads),
        stack_bytes=largest(r"(\d+) bytes stack frame"),
        shared_bytes=largest(r"(\d+) bytes smem"),
        barriers=largest(r"used (\d+) barriers"),
        remarks=tuple(_REMARK.findall(log)),
    )


def compile_hip(source: Path, target: str, includes: tuple[Path, ...] = ()) -> Compiled:
    """Assembly and figures of a HIP source. Raises Missing and CannotCompile."""
    compiler = clang(target)
    if compiler is None:
        raise Missing(f"no clang that knows {target} is installed")
    flags = [
        "-x", "hip", f"--offload-arch={target}", "--cuda-device-only", "--no-gpu-bundle-output",
        "-nogpulib", "-nogpuinc", "-O3", "-std=c++17", *(f"-I{path}" for path in includes),
    ]  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="titan-") as folder:
        assembly = Path(folder) / "kernel.s"
        log = _run([str(compiler), *flags, "-S", str(source), "-o", str(assembly)])
        text = assembly.read_text(encoding="utf-8", errors="replace")
    return Compiled(target, text, hip_figures(text), log)


def hip_figures(text: str) -> Figures:
    """From the metadata at the end of the assembly; VGPRs and accumulation VGPRs together."""

    def value(name: str) -> int:
        numbers = re.findall(rf"^\s*(?:-\s+)?\.{name}:\s+(\d+)\s*$", text, re.M)
        return max(map(int, numbers), default=0)

    spilled = value("vgpr_spill_count") + value("sgpr_spill_count")
    return Figures(
        registers=value("vgpr_count"),
        spill_bytes=4 * spilled,
        stack_bytes=value("private_segment_fixed_size"),
        shared_bytes=value("group_segment_fixed_size"),
        barriers=0,
    )
