"""From what a compiler wrote to listings: finds the disassembler and runs it.

nvdisasm comes with the CUDA toolkit, with Triton's wheel and as the wheel nvidia-cuda-nvdisasm; it
reads code of older compilers, not of newer ones. Nothing is assumed where a tool is missing.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from titan.foundation.cuda_toolkit import toolkit_program
from titan.foundation.scratch import scratch
from titan.inspect.listing import BadListing
from titan.validate.compare.compile import cuda_figures, nvcc
from titan.validate.compare.toolchain import CannotCompile, Figures, ToolchainMissing, run


def nvdisasm() -> Path | None:
    """nvdisasm of PATH, of CUDA_HOME or CUDA_PATH, or of an installed wheel."""
    return toolkit_program("nvdisasm")


def ptxas() -> Path | None:
    """ptxas of PATH, or beside nvcc, or as any program of the toolkit."""
    compiler = nvcc()
    beside = compiler.parent / "ptxas" if compiler is not None else None
    if shutil.which("ptxas") is None and beside is not None and beside.is_file():
        return beside
    return toolkit_program("ptxas")


def disassembled(cubin: bytes) -> str:
    """The listing of a cubin. Raises ToolchainMissing and CannotCompile."""
    tool = nvdisasm()
    if tool is None:
        raise ToolchainMissing("nvdisasm is not installed; `pip install nvidia-cuda-nvdisasm`")
    with scratch("titan-inspect-") as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        return run([str(tool), "-ndf", str(path)])  # branches through a stack are none of ours


def assembled(ptx: str, assembler: Path | None = None) -> tuple[bytes, Figures]:
    """Machine code of a PTX text for the target that it names, with what ptxas reports.

    `assembler`: another ptxas than the installed one. Raises ToolchainMissing, CannotCompile.
    """
    tool = assembler or ptxas()
    if tool is None:
        raise ToolchainMissing("ptxas is not installed")
    with scratch("titan-inspect-") as folder:
        source, made = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(ptx, encoding="utf-8")
        command = [str(tool), f"-arch={target_of_ptx(ptx)}", "-v", str(source), "-o", str(made)]
        try:
            log = run(command)
        except CannotCompile as error:
            raise type(error)(error.log.replace(f"{source}, line", "line")) from None
        return made.read_bytes(), cuda_figures(log)


def target_of_ptx(ptx: str) -> str:
    """The target of a PTX module, as `.target` names it. Raises BadListing."""
    for line in ptx.split("\n"):
        if line.startswith(".target"):
            return line.removeprefix(".target").split(",")[0].strip()
    raise BadListing("the PTX names no target")


def version_of(tool: Path) -> str:
    """The release that a tool of CUDA states, such as `13.0`."""
    for word in run([str(tool), "--version"]).replace(",", " ").split():
        if word.startswith("V") and word[1:2].isdigit():
            return ".".join(word[1:].split(".")[:2])
    return "unknown"
