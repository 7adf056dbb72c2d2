"""Kernels for AMD from tile program to source, for tests of emission and of what came out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import pytest

from tests.codegen.pipeline.cdna_programs import copy, elementwise, gemm, row_sum
from tests.codegen.pipeline.written import construct
from titan.codegen.emit.hip import HEADER, SOURCE, emit
from titan.codegen.emit.model import Emitted
from titan.codegen.pipeline.model import Shape
from titan.codegen.tile.model import TileProgram
from titan.isa.gcn.listing import read
from titan.language.kernel.decode import decode_text
from titan.language.kernel.model import Kernel
from titan.sync.program import SyncProgram
from titan.validate.compare.compile import compile_package
from titan.validate.compare.gcn_check import Language, LanguageMismatch, compare, language_of
from titan.validate.compare.gcn_compile import missing_tools
from titan.validate.compare.gcn_package import faults
from titan.validate.compare.toolchain import CannotCompile, CompiledKernel

needs_clang = pytest.mark.skipif(
    bool(missing_tools()), reason=f"not installed: {', '.join(missing_tools())}"
)


def shape(depth: int, **more: bool) -> Shape:
    return Shape(f"depth {depth}", depth, specialised=False, **more)


@dataclass(frozen=True)
class Made:
    tile: TileProgram
    kernel: Kernel
    program: SyncProgram
    emitted: Emitted

    def language(self) -> Language:
        copies = self.emitted.manifest["copies"]
        assert isinstance(copies, dict)
        kinds = dict(self.kernel.placement.kinds)
        return language_of(self.program, self.tile, kinds, copies)

    def edited(self, old: str, new: str, name: str = SOURCE) -> Made:
        files = dict(self.emitted.files)
        assert old in files[name], f"{old!r} is not in {name}"
        files[name] = files[name].replace(old, new)
        return replace(self, emitted=replace(self.emitted, files=files))

    def compiled(self) -> CompiledKernel:
        return compile_package(self.emitted.files, self.tile.target)

    def faults(self) -> list[str]:
        manifest, kinds = self.emitted.manifest, dict(self.kernel.placement.kinds)
        try:
            compiled = self.compiled()
        except CannotCompile as error:
            return [str(error)]
        return faults(compiled, manifest, self.tile, self.program, kinds)

    def mismatches(self) -> list[LanguageMismatch]:
        entry = self.emitted.manifest["entry"]
        assert isinstance(entry, str)
        return compare(read(self.compiled().text)[entry], self.language())


def make(tile: TileProgram, form: Shape, staged: bool | None = None) -> Made:
    text = construct(tile, form, staged=staged)
    family, errors = decode_text(text, "pipeline.yaml", computations=True)
    assert family is not None, [item.headline for item in errors]
    kernel = family.kernels[0]
    assert kernel.program is not None
    return Made(tile, kernel, kernel.program, emit(tile, kernel, kernel.program))


FORMS = {
    "gemm of 4 waves": lambda: make(gemm(), shape(4)),
    "gemm of 4 waves, vmcnt(0)": lambda: make(gemm(), shape(2, overlapped=False)),
    "gemm of 8 waves": lambda: make(gemm(rows=256, groups=8), shape(2)),
    "gemm of 8 waves that take turns": lambda: make(
        gemm(rows=256, columns=64, groups=8), shape(3, ping_pong=True)
    ),
    "gemm through registers": lambda: make(gemm(), shape(2, staged=True)),
    "gemm through registers, one stage": lambda: make(gemm(k_tile=64), shape(1, staged=True)),
    "gemm through registers on gfx950": lambda: make(
        gemm(k_tile=64, target="gfx950"), shape(1, staged=True)
    ),
    "gemm in f16, blocks of 16": lambda: make(
        gemm(rows=64, columns=64, k_tile=32, dtype="f16", function="silu"), shape(3)
    ),
    "gemm on gfx950": lambda: make(gemm(k_tile=64, target="gfx950"), shape(4)),
    "gemm in e4m3 on gfx950": lambda: make(
        gemm(k_tile=64, target="gfx950", dtype="e4m3"), shape(4)
    ),
    "gemm of waves alone": lambda: make(
        gemm(rows=256, columns=256, k_tile=32), shape(2, staged=True)
    ),
    "gemm of waves alone on gfx950": lambda: make(
        gemm(rows=256, columns=256, k_tile=64, target="gfx950"), shape(2)
    ),
    "elementwise": lambda: make(elementwise(columns=64), shape(3)),
    "row statistics": lambda: make(row_sum(), shape(2)),
    "copy": lambda: make(copy(), shape(4)),
    "copy of odd tiles": lambda: make(copy(columns=12), shape(2)),
}


@cache
def form(name: str) -> Made:
    return FORMS[name]()


__all__ = ["FORMS", "HEADER", "SOURCE", "Made", "form", "make", "needs_clang", "shape"]
