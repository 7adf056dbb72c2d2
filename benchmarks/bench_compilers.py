"""Registers that spill, and products that are serialised, under each compiler that users have.

    python -m benchmarks.bench_compilers PACKAGES --nvrtc FILE [--nvrtc FILE ...] [--page FILE]

PACKAGES is a folder of packages that `titan build` wrote; those for NVIDIA are compiled as the
runner compiles them, by each NVRTC given (libnvrtc.so of the wheels `nvidia-cuda-nvrtc-cu12` and
`nvidia-cuda-nvrtc`) that knows their target, and by nvcc of this machine where there is one.
Figures are those of the compiler's own `ptxas -v`; nothing runs. Needs no GPU.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.nvrtc import Nvrtc
from benchmarks.pages import write_between
from titan.device.gpu import compiler_options
from titan.target.description import target_of
from titan.validate.compare.compile import compile_cuda, cuda_figures, nvcc
from titan.validate.compare.toolchain import Figures, run

BEGIN, END = "<!-- compilers -->\n", "<!-- end of compilers -->"
HEAD = (
    "| compiler | target | packages | compiled | spilled bytes | wgmma serialised or the like |"
    "\n| --- | --- | ---: | ---: | --- | --- |\n"
)
Compile = Callable[[Path, str], Figures]


@dataclass(slots=True)
class Tally:
    """What one compiler made of the packages for one target; names with what was wrong."""

    packages: int = 0
    compiled: int = 0
    spilled: list[str] = field(default_factory=list)
    remarked: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def add(self, name: str, figures: Figures) -> None:
        """Raises ValueError where the compiler did not say what it made."""
        if not figures.registers:
            raise ValueError("ptxas reports nothing")
        self.compiled += 1
        if figures.spill_bytes:
            self.spilled.append(f"`{name}` {figures.spill_bytes}")
        if figures.remarks:
            self.remarked.append(f"`{name}` {', '.join(dict.fromkeys(figures.remarks))}")


def packages_of(folder: Path) -> list[tuple[str, str, Path]]:
    """Tile program, target and folder of each package for NVIDIA, in order."""
    found = []
    for path in sorted(folder.glob("*/manifest.json")):
        manifest = json.loads(path.read_text(encoding="utf-8"))
        if target_of(manifest["target"]).nvidia:
            found.append((manifest["target"], manifest["kernel"], path.parent))
    return [(name, target, place) for target, name, place in sorted(found)]


def by_nvrtc(compiler: Nvrtc) -> Compile:
    def compiled(package: Path, target: str) -> Figures:
        options = (*compiler_options(target, [package], ()), "--ptxas-options=-v")
        source = (package / "kernel.cu").read_text(encoding="utf-8")
        return cuda_figures(compiler.compiled(source, options)[1])

    return compiled


def by_nvcc(package: Path, target: str) -> Figures:
    return compile_cuda(package / "kernel.cu", target).figures


def tally(
    packages: list[tuple[str, str, Path]], compiled: Compile, knows: Callable[[str], bool]
) -> dict[str, Tally]:
    """By target; targets that the compiler does not know are left out."""
    found: dict[str, Tally] = {}
    for name, target, place in packages:
        if not knows(target):
            continue
        row = found.setdefault(target, Tally())
        row.packages += 1
        try:
            row.add(name, compiled(place, target))
        except ValueError as error:
            row.refused.append(f"{name}: {error}")
    return found


def rows_of(who: str, found: dict[str, Tally]) -> str:
    text = ""
    for target, row in found.items():
        spilled, remarked = ", ".join(row.spilled) or "none", ", ".join(row.remarked) or "none"
        text += f"| {who} | {target} | {row.packages} | {row.compiled} | {spilled} | {remarked} |\n"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("packages", type=Path)
    parser.add_argument("--nvrtc", type=Path, action="append", default=[])
    parser.add_argument("--page", type=Path, help="write the table into this page")
    options = parser.parse_args()
    packages = packages_of(options.packages)
    text = HEAD
    for library in options.nvrtc:
        compiler = Nvrtc(library)
        found = tally(packages, by_nvrtc(compiler), compiler.knows)
        text += rows_of(f"NVRTC {compiler.version}", found)
        for refused in (words for row in found.values() for words in row.refused):
            print(refused, flush=True)
    if (compiler_file := nvcc()) is not None:
        version = run([str(compiler_file), "--version"]).rpartition("release ")[2].partition(",")[0]
        text += rows_of(f"nvcc {version}", tally(packages, by_nvcc, lambda target: True))
    print(text, end="")
    if options.page:
        write_between(options.page, BEGIN, END, text)


if __name__ == "__main__":
    main()
