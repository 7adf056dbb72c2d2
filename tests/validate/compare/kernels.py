"""Kernels for the translation check: emitted ones with their launches, compiled where nvcc is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

from tests.validate.compare.source_mutants import Mutant, header_mutants, mutants
from titan.codegen.emit.write import emit
from titan.codegen.pipeline.build import BuildLimits, build
from titan.codegen.tile.load import parse_tile
from titan.codegen.tile.model import TileProgram
from titan.foundation.resources import root
from titan.sync.program import SyncProgram
from titan.validate.compare.compare import ComparedLaunch, compare
from titan.validate.compare.compile import ptx_of
from titan.validate.compare.launches import launches
from titan.validate.compare.threads import UnsupportedPtx, parse_kernel
from titan.validate.compare.toolchain import CannotCompile

SOURCE, HEADER = "kernel.cu", "titan_device.cuh"


@dataclass(frozen=True)
class Emission:
    files: dict[str, str]
    manifest: dict[str, Any]
    program: SyncProgram
    tile: TileProgram
    launches: list[ComparedLaunch]
    target: str = "sm_90a"

    def faults(self, files: dict[str, str]) -> list[str]:
        """What the comparison says of other files for the same program; not assembled."""
        try:
            kernel = parse_kernel(ptx_of(files, self.target), self.manifest["entry"])
            found = compare(kernel, self.program, self.manifest, self.launches)
        except (CannotCompile, UnsupportedPtx) as error:
            return [f"{type(error).__name__}: {error}"]
        return found.faults

    def mutants(self) -> list[tuple[str, Mutant]]:
        """All planted faults: of the source and of the primitives that it uses."""
        used = {*re.findall(r"titan::(\w+)", self.files[SOURCE]), "barrier_try_wait"}
        return list(
            chain(
                ((SOURCE, mutant) for mutant in mutants(self.files[SOURCE])),
                ((HEADER, mutant) for mutant in header_mutants(self.files[HEADER], used)),
            )
        )


@cache
def emission(name: str, target: str = "sm_90a", specialise: str = "always") -> Emission:
    """A tile program of the library, built and emitted."""
    text = (root("protocols") / "tiles" / f"{name}.yaml").read_text(encoding="utf-8")
    limits = BuildLimits(specialise=specialise)
    built = build(parse_tile(text, target=target), text, limits)
    emitted = emit(built.tile, built.kernel, built.program)
    found = launches(built.tile, built.program, emitted.manifest)
    return Emission(emitted.files, dict(emitted.manifest), built.program, built.tile, found, target)


def is_told(name: str, file: str, pattern: str, replacement: str, told: str) -> None:
    """The comparison names a fault in what is emitted for a tile program."""
    made = emission(name, "sm_100a")
    text, count = re.subn(pattern, replacement, made.files[file])
    assert count >= 1, "the fault changes the text"
    found = made.faults({**made.files, file: text})
    assert any(told in fault for fault in found), found
