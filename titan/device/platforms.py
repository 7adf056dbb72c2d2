"""Which driver a target is run by, and which device is there: NVIDIA's by CUDA, AMD's by ROCm.

Both have the same few functions and classes (`gpu`, `rocm`); everything that runs a kernel asks
here for those of its target. Nothing is imported before it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

from titan.device.driver import NoDevice
from titan.device.manifests import LitmusManifest
from titan.device.records import DeviceFacts

if TYPE_CHECKING:
    from titan.device.rocm import HipLibrary

AMD_TARGETS = "gfx"


@dataclass(frozen=True, slots=True)
class Platform:
    """The functions and classes of one driver. `library`: arrays and events, as CuPy has them."""

    library: Callable[[], ModuleType | HipLibrary]
    facts: Callable[[], DeviceFacts]
    machine_code: Callable[..., bytes]
    module: type
    shared_file: type


def platform_of(target: str) -> Platform:
    """The driver for code of a target."""
    if target.startswith(AMD_TARGETS):
        from titan.device import rocm

        return Platform(
            rocm.library, rocm.facts, rocm.machine_code, rocm.HipModule, rocm.HipSharedFile,
        )  # fmt: skip
    from titan.device import gpu

    return Platform(gpu.library, gpu.facts, gpu.machine_code, gpu.GpuModule, gpu.SharedFile)


def facts() -> DeviceFacts:
    """The GPU that is there. Raises NoDevice with the reasons of both drivers."""
    reasons = []
    for target in ("sm_90a", AMD_TARGETS):
        try:
            return platform_of(target).facts()
        except NoDevice as error:
            reasons.append(str(error))
    raise NoDevice("; ".join(reasons))


def runs_on(target: str, device: DeviceFacts) -> bool:
    """Whether code for the target is for a device of this vendor."""
    return target.startswith(AMD_TARGETS) == ("architecture" in device)


def target_here(manifest: LitmusManifest) -> str:
    """Of the targets of a test that of the device, where it is one of them."""
    targets = manifest.get("targets", [str(manifest["target"])])
    if len(targets) > 1:
        here = platform_of(targets[0]).facts().get("architecture", "")
        if here in targets:
            return here
    return targets[0]
