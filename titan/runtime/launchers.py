"""Where a launch goes: the emulated device for arrays of the CPU, a GPU for those on one.

A launcher compiles a package once and keeps the machine code (on a GPU also in a folder, under a
digest of all that it depends on). The emulated device takes the settings of `titan run` from the
environment: TITAN_CHECK=1 verifies each launch in all interleavings before it is computed.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from titan.codegen.tile.manifest import Manifest
from titan.device.plan import BYTES, LaunchPlan
from titan.device.platforms import Platform, platform_of
from titan.foundation.errors import Refusal
from titan.foundation.kept import cache_folder
from titan.runtime.arrays import ArrayFacts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from titan.device.gpu import GpuModule

MACHINE_CODE = "cubins"  # in the cache folder of the user: none comes with a checkout
EMULATED_PROCESSORS = 2
LAUNCHES_KEPT = 256  # tensor maps that are encoded already, by shape and address
TARGETS = {"sm_90a": "h100", "sm_100a": "b200"}


class CannotLaunch(Refusal):
    """There is no device here for the kernel; the text says what is missing."""


class Launcher(Protocol):
    """Runs launches of one package."""

    @property
    def processors(self) -> int:
        """Multiprocessors of the device: grids of persistent kernels depend on them."""

    def run(self, launch: LaunchPlan, arrays: Mapping[str, ArrayFacts], stream: int) -> None:
        """Put a launch on a stream. Raises what the device reports."""

    def wait(self) -> None:
        """Wait for all that was launched. Raises what the device reports."""


class EmulatedLauncher:
    """The package's PTX on the emulated device; arrays are copied to it and back."""

    processors = EMULATED_PROCESSORS

    def __init__(self, manifest: Manifest, files: Mapping[str, str]) -> None:
        self.target = str(manifest["target"])
        if self.target not in TARGETS:
            raise CannotLaunch(f"the emulated device does not run {self.target}")
        source = Path(manifest["source"]).name
        self.files = {"kernel.cu" if name == source else name: text for name, text in files.items()}

    @cached_property
    def ptx(self) -> str:
        """Compiled when it is first asked for. Raises ToolchainMissing and CannotCompile."""
        from titan.validate.compare.compile import ptx_of

        return ptx_of(dict(self.files), self.target)

    @cached_property
    def _module(self) -> object:
        from titan.emulated.modules import load

        return load(self.ptx, "kernel.ptx")

    def run(self, launch: LaunchPlan, arrays: Mapping[str, ArrayFacts], stream: int) -> None:
        """One launch, to its end. Raises LaunchFault and LaunchError."""
        from dataclasses import replace

        import numpy

        from titan.device.emulated import arguments_of, shape_of
        from titan.emulated.machine import Emulated
        from titan.emulated.modules import LoadedModule
        from titan.emulated.settings import from_environment

        settings = replace(from_environment(os.environ), device=TARGETS[self.target])
        device = Emulated(settings)
        held = {}
        sizes = {item.name: arrays[item.name].span * BYTES[item.dtype] for item in launch.tensors}
        for tensor in launch.tensors:
            memory = (ctypes.c_uint8 * sizes[tensor.name]).from_address(arrays[tensor.name].address)
            held[tensor.name] = device.array(
                numpy.frombuffer(memoryview(memory).cast("B"), numpy.uint8)
            )
        module = self._module
        assert isinstance(module, LoadedModule)
        device.launch(module, shape_of(launch), arguments_of(launch, held), launch.entry)
        for tensor in launch.tensors:
            if tensor.output:  # the elements alone: what lies in gaps may be another output's
                facts = arrays[tensor.name]
                made = numpy.ascontiguousarray(held[tensor.name].values)
                _elements(facts.address, facts)[...] = _elements(made.ctypes.data, facts)

    def wait(self) -> None:
        """Nothing to wait for: a launch has ended when `run` returns."""


def _elements(address: int, facts: ArrayFacts) -> NDArray[np.unsignedinteger]:
    """The elements of such an array as bits, the first of them at an address."""
    import numpy

    size = facts.element_bytes
    memory = (ctypes.c_uint8 * (facts.span * size)).from_address(address)
    strides = [stride * size for stride in facts.strides]
    return numpy.ndarray(facts.shape, f"u{size}", memoryview(memory).cast("B"), strides=strides)


class GpuLauncher:
    """The package on an NVIDIA GPU, by NVRTC and the driver library (needs CuPy), or on an AMD
    GPU by hipRTC and the HIP runtime."""

    def __init__(self, manifest: Manifest, folder: Path) -> None:
        self.manifest, self.folder = manifest, folder
        self._prepared: dict[tuple[object, ...], object] = {}

    @property
    def _platform(self) -> Platform:
        return platform_of(str(self.manifest["target"]))

    @cached_property
    def processors(self) -> int:
        """Raises NoDevice."""
        return int(self._platform.facts()["multiprocessors"])

    @cached_property
    def _module(self) -> GpuModule:
        source = self.folder / Path(self.manifest["source"]).name
        target = str(self.manifest["target"])
        cache = cache_folder() / MACHINE_CODE
        module: GpuModule = self._platform.module(source, target, cache=cache)
        return module

    def wait(self) -> None:
        """Wait for all that was launched. Raises DeviceError."""
        self._module.call("cuCtxSynchronize", what="the launch")

    def run(self, launch: LaunchPlan, arrays: Mapping[str, ArrayFacts], stream: int) -> None:
        """One launch on the stream. Raises NoDevice, OtherDevice and DeviceError."""
        from titan.device.gpu import Prepared

        places = {tensor.name: arrays[tensor.name].address for tensor in launch.tensors}
        key = (launch, tuple(places.items()))
        made = self._prepared.get(key)
        if made is None:
            made = Prepared(
                self._module.function(launch.entry, launch.shared_bytes), launch, places
            )
            if len(self._prepared) >= LAUNCHES_KEPT:
                self._prepared.clear()
            self._prepared[key] = made
        assert isinstance(made, Prepared)
        made.run(stream)
