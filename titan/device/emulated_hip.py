"""Packages for AMD without a GPU: their HIP source on the CPU, under one interleaving of waves.

Waves are chosen at random under every policy; when copies land follows from the policy: late where
a warp would starve, early where one would run ahead, else at any time between.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from titan.codegen.tile.manifest import Manifest
from titan.device.records import RunCase
from titan.validate.hip.run import emulate_hip

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

LANDINGS = {"starved": "lazy", "ahead": "eager"}


class EmulatedHipPackage:
    """A package's HIP source, compiled once in this process."""

    def __init__(self, manifest: Manifest, files: Mapping[str, str]) -> None:
        self.manifest, self.files = manifest, files

    def outputs(
        self, case: RunCase, inputs: Mapping[str, NDArray[numpy.float64]]
    ) -> dict[str, NDArray[numpy.float32]]:
        """What the kernel writes. Raises KernelFault, LaunchRefused, EmulationError."""
        mode = LANDINGS.get(case["policy"], "mixed")
        return emulate_hip(
            self.files, self.manifest, inputs, case["sizes"], int(case["seed"]), mode
        )
