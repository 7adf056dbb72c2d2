"""Which files `titan verify` examines: those named, and the kernel files in folders."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import field
from pathlib import Path

from titan.foundation.records import dataclass
from titan.foundation.source.loading import head_of

FILES_MAX = 10_000
KERNEL_SUFFIXES = (".yaml", ".yml")
_HEAD_BYTES = 65_536
_TITAN = re.compile(rb"(?m)^['\"]?titan['\"]?\s*:")
_LOOP = re.compile(rb"(?m)^['\"]?loop['\"]?\s*:")
_TILE = re.compile(rb"(?m)^['\"]?tile['\"]?\s*:")


@dataclass(slots=True)
class Found:
    """Kernel files in order, files of the loop level, tile programs, and folders without any."""

    kernels: list[str] = field(default_factory=list)
    loops: list[str] = field(default_factory=list)
    tiles: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)


def find_kernels(paths: Iterable[str]) -> Found:
    """Files as they are named; of folders every `*.yaml` that says `titan:`, sorted.

    A file that is named is a kernel file unless it says `loop:` or `tile:`, so that faults in it
    are reported.
    """
    found = Found()
    seen: set[str] = set()
    for path in paths:
        named = not Path(path).is_dir()
        before = len(seen)
        for file in [path] if named else _files_in(path):
            identity = os.path.realpath(file)
            if identity in seen:
                continue
            kind = kind_of(file)
            if named or kind:
                seen.add(identity)
            if kind == "loop":
                found.loops.append(file)
            elif kind == "tile":
                found.tiles.append(file)
            elif named or kind == "kernel":
                found.kernels.append(file)
        if not named and len(seen) == before:
            found.empty.append(path)
    return found


def _files_in(folder: str) -> Iterator[str]:
    count = 0
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if name.endswith(KERNEL_SUFFIXES):
                count += 1
                if count > FILES_MAX:
                    return
                yield os.path.join(parent, name)


def kind_of(path: str) -> str:
    """`kernel`, `loop`, `tile` or nothing, from the beginning of the file."""
    head = head_of(path, _HEAD_BYTES)
    if _TITAN.search(head) is None:
        return ""
    if _TILE.search(head) is not None:
        return "tile"
    return "loop" if _LOOP.search(head) is not None else "kernel"
