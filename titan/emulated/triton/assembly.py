"""Triton's own compiler for AMD, which ends at assembly."""

from __future__ import annotations

from triton.backends.amd import compiler as amd

from titan.emulated.foreign import Foreign
from titan.emulated.triton.compiler import STAGE
from titan.foundation.version import __version__


class AssemblyCompiler(amd.HIPBackend):  # type: ignore[misc]
    """Stops at assembly: no assembler, no linker."""

    def __init__(self, target: Foreign) -> None:
        super().__init__(target)
        self.binary_ext = STAGE

    def add_stages(self, stages: dict[str, Foreign], options: Foreign, language: Foreign) -> None:
        """AMD's stages, with the text of the assembly in the place of the object."""
        super().add_stages(stages, options, language)
        del stages["hsaco"]
        stages[STAGE] = lambda text, metadata: text.encode()

    def hash(self) -> str:
        """The key of this compiler in Triton's cache."""
        return f"titan-{__version__}-{self.target}"
