"""The translation check of one emitted kernel: compile, run the PTX beside the sync program, judge.

The one call for builds and benchmarks. What cannot be compared (no toolchain, a branch on data)
raises `ToolchainMissing` or `UnsupportedPtx`, and does not pass.
"""

from __future__ import annotations

from titan.codegen.tile.manifest import Manifest
from titan.codegen.tile.model import TileProgram
from titan.sync.program import SyncProgram
from titan.target.completion import Vendor
from titan.target.description import generated_targets
from titan.validate.compare.compare import TranslationComparison, compare
from titan.validate.compare.launches import launches
from titan.validate.compare.threads import UnsupportedPtx, parse_kernel
from titan.validate.compare.toolchain import CompiledKernel


def translation(
    tile: TileProgram, program: SyncProgram, manifest: Manifest, compiled: CompiledKernel
) -> TranslationComparison:
    """Faults of what was compiled against the program it was emitted for. Raises UnsupportedPtx."""
    if compiled.target not in generated_targets(Vendor.NVIDIA):
        raise UnsupportedPtx(f"code for {compiled.target} is not compared here")
    through = launches(tile, program, manifest)
    if not through:
        raise UnsupportedPtx("no launch is small enough to be compared")
    kernel = parse_kernel(compiled.text, manifest["entry"])
    found = compare(kernel, program, manifest, through)
    for text in compiled.figures.faults():
        found.fault(text)
    return found
