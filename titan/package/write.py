"""Writes the package of a verified pipeline: the same bytes whenever the same thing is built.

Holds no time, no host and no path. Refuses to write what was not verified.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from titan.codegen.tile import stored
from titan.foundation.atomic import write_folder
from titan.foundation.errors import Refusal
from titan.foundation.verdict import Verdict
from titan.package import contents
from titan.package.certificate import certificate
from titan.report.schedule_trace import trace
from titan.scheduling.store import as_data

if TYPE_CHECKING:
    from titan.codegen.pipeline.model import Built
    from titan.codegen.tile.model import TileProgram


class NotPackable(Refusal):
    """The pipeline to be packed has no schedule or is not verified."""


def package_files(
    built: Built, emitted: contents.Sources, proof: str | None = None
) -> dict[str, bytes]:
    """The content of the package by file name, with the certificate of its verdict where given.

    Raises NotPackable; Broken for unfit sources.
    """
    schedule = built.result.schedule
    if built.finding.verdict is not Verdict.VERIFIED:
        raise NotPackable(f"the pipeline of {built.tile.name} is {built.finding.verdict}")
    if schedule is None:
        raise NotPackable(f"{built.tile.name} has no schedule")
    files = {name: text.encode() for name, text in sorted(emitted.files.items())}
    files[contents.TILE] = built.tile_text.encode()
    result = built.result
    stored = as_data(built.loop, schedule, result.evidence, result.refutations)
    files[contents.SCHEDULE] = contents.to_json(stored)
    files[contents.PIPELINE] = built.pipeline_text.encode()
    files[contents.MANIFEST] = contents.to_json(manifest_of(built.tile, emitted))
    files[contents.TIMELINE] = trace(built.loop, schedule).encode()
    if proof is not None:
        files[contents.PROOF] = proof.encode()
    contents.check_names(set(files))
    files[contents.CERTIFICATE] = contents.to_json(certificate(built, files))
    return files


def manifest_of(tile: TileProgram, emitted: contents.Sources) -> dict[str, object]:
    """The manifest of emission, and the tile program for checks of what a kernel computes."""
    return {**emitted.manifest, "program": stored.as_data(tile)}


def write_package(
    folder: str | Path, built: Built, emitted: contents.Sources, proof: str | None = None
) -> None:
    """Writes the folder whole or not at all. Raises NotPackable, Broken and CannotWrite."""
    write_folder(folder, package_files(built, emitted, proof), may_replace=is_ours)


def is_ours(folder: Path) -> bool:
    """Whether a folder holds a package and nothing else, so that it may be replaced."""
    names = {path.name for path in folder.iterdir()}
    known = {name for sources in contents.SOURCES for name in sources} | set(contents.FIXED)
    return contents.CERTIFICATE in names and names <= known | {contents.CERTIFICATE, contents.PROOF}
