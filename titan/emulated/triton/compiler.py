"""The compiler of the back end: Triton's own for NVIDIA, which ends at PTX.

Triton takes the one back end that supports a target. This one supports none until its driver is
the active one (`driver.TitanDriver`), which puts `PtxCompiler` in the place of NVIDIA's.
"""

from __future__ import annotations

from triton.backends.compiler import GPUTarget
from triton.backends.nvidia import compiler as nvidia

from titan.emulated.foreign import Foreign
from titan.foundation.version import __version__

STAGE = "titan"
PTX_VERSION = 87  # the first with everything that Triton uses on sm_100a


class TitanCompiler(nvidia.CUDABackend):  # type: ignore[misc]
    """Stops at PTX: no ptxas, no cubin."""

    targets: tuple[str, ...] = ()

    @classmethod
    def supports_target(cls, target: GPUTarget) -> bool:
        """Whether the driver of this back end is active, and the target one of NVIDIA."""
        return target.backend in cls.targets

    def __init__(self, target: GPUTarget) -> None:
        super().__init__(target)
        self.binary_ext = STAGE

    def parse_options(self, opts: dict[str, Foreign]) -> Foreign:
        """NVIDIA's options, with a fixed PTX version so that no ptxas is needed."""
        return super().parse_options({"ptx_version": PTX_VERSION, **opts})

    def add_stages(self, stages: dict[str, Foreign], options: Foreign, language: Foreign) -> None:
        """NVIDIA's stages, with the text of the PTX in the place of the cubin."""
        super().add_stages(stages, options, language)
        del stages["cubin"]
        stages[STAGE] = lambda text, metadata: text.encode()

    def hash(self) -> str:
        """The key of this compiler in Triton's cache."""
        return f"titan-{__version__}-{self.target.arch}"
