"""One run of an emitted kernel without a GPU, compared with what its tile program means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from titan.codegen.tile.model import TileProgram
from titan.codegen.tile.outputs import OutputComparison, furthest, sample_inputs
from titan.codegen.tile.semantics import run
from titan.device.emulated import EmulatedPackage, runnable
from titan.device.platforms import AMD_TARGETS
from titan.emulated.faults import LaunchFault
from titan.isa.numbers.device import LaunchError
from titan.validate.compare.compile import nvcc
from titan.validate.hip.run import EmulationError, KernelFault, compiler

SCHEDULES = ("shuffled", "starved", "ahead", "mixed")  # policies that decide nothing besides
SHOWN = (LaunchFault, LaunchError, KernelFault)  # what a run that goes wrong raises
SOURCES = (".cu", ".cuh", ".cpp", ".h")


def launchable(manifest: Any, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes, rounded up where a kernel asks for multiples."""
    multiples = [re.fullmatch(r"(\w+) % (\d+) == 0", text) for text in manifest["constraints"]]
    units = {found.group(1): int(found.group(2)) for found in multiples if found}
    return {
        name: -(-size // units.get(name, 1)) * units.get(name, 1) for name, size in sizes.items()
    }


def needs_toolchain(target: str) -> None:
    """Skip the test where there is no compiler for the emulation of a target."""
    if not target.startswith(AMD_TARGETS):
        if nvcc() is None:
            pytest.skip("nvcc is not installed")
        return
    try:
        compiler()
    except EmulationError as error:
        pytest.skip(str(error))


def outputs(
    manifest: Any, files: Mapping[str, str] | Path, sizes: Mapping[str, int],
    inputs: Mapping[str, Any], seed: int = 0, policy: str = SCHEDULES[0], processors: int = 2,
) -> dict[str, Any]:  # fmt: skip
    """What a kernel writes, by tensor. Raises what a run that goes wrong raises."""
    needs_toolchain(manifest["target"])
    if isinstance(files, Path):
        files = {path.name: path.read_text() for path in files.iterdir() if path.suffix in SOURCES}
    package = runnable(manifest, files)
    if isinstance(package, EmulatedPackage):
        package.processors = processors
    return package.outputs({"sizes": dict(sizes), "seed": seed, "policy": policy}, inputs)


def compare(
    tile: TileProgram, files: Mapping[str, str] | Path, manifest: Any, sizes: Mapping[str, int],
    **options: Any,
) -> OutputComparison:  # fmt: skip
    """The output that is furthest from what it should be; `options` as for `outputs`."""
    inputs = sample_inputs(tile, sizes, options.get("seed", 0))
    got = outputs(manifest, files, sizes, inputs, **options)
    return furthest(tile, got, run(tile, inputs, dict(tile.sizes) | dict(sizes)))


def shown(tile: TileProgram, files: Any, manifest: Any, sizes: Any, **options: Any) -> str:
    """How a run shows that the kernel is wrong; nothing where it does not."""
    try:
        found = compare(tile, files, manifest, sizes, **options)
    except SHOWN as error:
        return str(error)
    return "" if found.same else f"wrong numbers: {found.describe()}"
