"""One kernel of compiled code: its module, its text, its function."""

from __future__ import annotations

from dataclasses import dataclass

from titan.foundation.source.span import Source
from titan.isa.ptx.module import Function, Module


@dataclass(frozen=True, slots=True)
class CodeKernel:
    """A kernel to be launched; `source` is the text of `module`."""

    module: Module
    source: Source
    function: Function

    @property
    def registers(self) -> int | None:
        """Registers of a thread at the launch, where the text fixes them."""
        values = self.function.performance.get("maxnreg")
        return values[0] if values else None

    @property
    def target(self) -> str:
        """The target that the text names; empty where it names none."""
        return self.module.target[0] if self.module.target else ""
