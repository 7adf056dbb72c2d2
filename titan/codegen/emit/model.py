"""The result of emission, and its refusal. Data only."""

from __future__ import annotations

from dataclasses import dataclass, field

from titan.codegen.tile.manifest import Manifest
from titan.foundation.errors import Refusal


class EmissionRefused(Refusal):
    """The program has no faithful spelling on the target, or is not safe to spell; says why."""


@dataclass(frozen=True, slots=True)
class Emitted:
    """`files`: source, device header and `launch.h` by file name. `manifest`: plain JSON data."""

    files: dict[str, str]
    manifest: Manifest
    notes: tuple[str, ...] = field(default=())
