"""Compiles an emitted kernel with the toolchain that is installed, and reads what it reports.

NVIDIA: nvcc of `PATH`, of CUDA_HOME or of a wheel, to PTX and to a cubin with the remarks of ptxas.
AMD: see `gcn_compile`.
"""

from __future__ import annotations

import hashlib
import os
import re
from functools import cache
from pathlib import Path

from titan.foundation.cuda_toolkit import toolkit_program
from titan.foundation.extras import brought_by
from titan.foundation.kept import SignedStore
from titan.foundation.scratch import scratch
from titan.target.description import target_of
from titan.validate.compare.gcn_compile import compile_hip
from titan.validate.compare.toolchain import (
    CannotCompile,
    CompiledKernel,
    Figures,
    ToolchainMissing,
    run,
)

NVCC_MISSING = f"nvcc is not installed; `{brought_by('nvcc')}` brings it"
# What nvcc takes flags from, besides its command line.
_FLAG_VARIABLES = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN")
_REMARK = re.compile(r"\(?(C75\d\d)\)?")


def nvcc() -> Path | None:
    """nvcc of `PATH`, else of CUDA_HOME or CUDA_PATH, else of the wheel nvidia-cuda-nvcc."""
    return toolkit_program("nvcc")


def compile_package(files: dict[str, str], target: str) -> CompiledKernel:
    """Compiles source and header. Raises ToolchainMissing and CannotCompile."""
    with scratch("titan-") as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        if target_of(target).nvidia:
            return compile_cuda(Path(folder) / "kernel.cu", target)
        return compile_hip(Path(folder) / "kernel.hip.cpp", target)


def compile_cuda(source: Path, target: str, includes: tuple[Path, ...] = ()) -> CompiledKernel:
    """PTX and figures of a CUDA source. Raises ToolchainMissing and CannotCompile."""
    compiler = _compiler()
    with scratch("titan-") as folder:
        ptx, cubin = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        text, log = _to_ptx(source, target, includes, ptx)
        # ptxas takes what nvcc would hand to it; the source is not compiled twice.
        log += run([str(compiler), f"-arch={target}", "-cubin", "-Xptxas", "-v,-warn-spills",
                    str(ptx), "-o", str(cubin)])  # fmt: skip
        code = cubin.read_bytes() if cubin.is_file() else b""
    return CompiledKernel(target, text, cuda_figures(log), log, code)


def ptx_of(files: dict[str, str], target: str) -> str:
    """The PTX of an emitted kernel, not assembled; kept for this user under what it depends on.

    Raises ToolchainMissing and CannotCompile.
    """
    version = _version(_compiler())
    store = SignedStore.of_user("ptx.sqlite") if version else SignedStore(None)
    parts = [version, target, *(os.environ.get(name, "") for name in _FLAG_VARIABLES)]
    parts += [part for item in sorted(files.items()) for part in item]
    key = hashlib.sha256("\0".join(f"{len(part)}:{part}" for part in parts).encode()).hexdigest()
    try:
        known = store.get(key)
        if known is not None:
            return known.decode("utf-8")
        with scratch("titan-") as folder:
            for name, text in files.items():
                (Path(folder) / name).write_text(text, encoding="utf-8")
            made = _to_ptx(Path(folder) / "kernel.cu", target, (), Path(folder) / "kernel.ptx")[0]
        store.put(key, made.encode("utf-8"))
    finally:
        store.close()
    return made


@cache
def _version(compiler: Path) -> str:
    """What the compiler says of itself; nothing where it does not."""
    try:
        return run([str(compiler), "--version"])
    except CannotCompile:
        return ""


def _compiler() -> Path:
    found = nvcc()
    if found is None:
        raise ToolchainMissing(NVCC_MISSING)
    return found


def _to_ptx(source: Path, target: str, includes: tuple[Path, ...], ptx: Path) -> tuple[str, str]:
    """Writes the PTX; gives it and the messages of the compiler."""
    flags = [f"-arch={target}", "-std=c++17", *(f"-I{path}" for path in includes)]
    log = run([str(_compiler()), *flags, "-ptx", str(source), "-o", str(ptx)])
    return ptx.read_text(encoding="utf-8", errors="replace"), log


def cuda_figures(log: str) -> Figures:
    """What `ptxas -v` reports; of several kernels the largest numbers."""

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
