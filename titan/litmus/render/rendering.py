"""A rendered test: its source, and what a host has to know to run it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rendering:
    """`suffix` is that of the source's file."""

    source: str
    manifest: dict[str, object]
    suffix: str = ".cu"
