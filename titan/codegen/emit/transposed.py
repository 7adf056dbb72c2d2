"""The statement of a fragment that is written transposed to its staging buffer. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from titan.codegen.emit.register_array import RegisterArray
from titan.codegen.emit.statements import SpelledStatement


@dataclass(frozen=True, slots=True)
class SpelledTransposed(SpelledStatement):
    """Pairs to the shared buffer of their transpose: 64 of their rows are a row of a panel."""

    source: RegisterArray
    tile: str
    swizzle: int
    panel_stride: int
    kind: ClassVar[str] = "transposed"
