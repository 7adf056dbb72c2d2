"""A rendered test: its source, and what a host has to know to run it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Rendering:
    """`suffix` is that of the source's file."""

    source: str
    manifest: dict[str, Any]
    suffix: str = ".cu"
