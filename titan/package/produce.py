"""From a tile file to a package on disk: read, build, emit, write; or why there is none.

A pipeline that is verified but that its target cannot spell sends the build to the next shape.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from titan.emit.write import EmissionRefused, Emitted, emit
from titan.package.write import write_package
from titan.pipeline.build import Limits, build
from titan.pipeline.model import Built
from titan.tile.model import TileProgram


@dataclass(frozen=True, slots=True)
class Produced:
    """A package that was written to `folder`."""

    built: Built
    emitted: Emitted
    folder: Path


def produce(
    tile: TileProgram,
    text: str,
    parent: Path,
    limits: Limits,
    tell: Callable[[str], None] = lambda text: None,
) -> Produced:
    """The package of a tile program, in a folder of `parent` named for kernel and target.

    Raises BuildRefused, and CannotWrite where the folder cannot be made.
    """
    spelled: dict[str, Emitted] = {}

    def accept(built: Built) -> str | None:
        try:
            spelled[built.pipeline_text] = emit(built.tile, built.kernel, built.program)
        except EmissionRefused as refused:
            return str(refused)
        return None

    built = build(tile, text, limits, accept, tell)
    emitted = spelled[built.pipeline_text]
    folder = parent / f"{tile.name}-{tile.target}"
    write_package(folder, built, emitted)
    return Produced(built, emitted, folder)
