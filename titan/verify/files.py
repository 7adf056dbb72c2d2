"""Which files `titan verify` examines: those named, and the kernel files in folders."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import field
from pathlib import Path

from titan.foundation.errors import UserError
from titan.foundation.records import dataclass
from titan.foundation.source.loading import BYTES_MAX, head_of
from titan.foundation.source.tree import Mapping
from titan.foundation.source.yaml import parse_bytes

FILES_MAX = 10_000
KERNEL_SUFFIXES = (".yaml", ".yml")
# A key at the beginning of a line; such a line may begin with the mark of UTF-8.
_KEY = re.compile(rb"(?:^|[\r\n])(?:\xef\xbb\xbf)?['\"]?(titan|kernel|program|loop|tile)['\"]?\s*:")
_ESCAPED = re.compile(rb"\\[xuU][0-9a-fA-F]")
_TITAN_IN_A_LINE = re.compile(rb"(?:^|[\r\n])[!&{?][^\r\n]*?\btitan['\"]?\s*:")


class TooManyFiles(UserError):
    """A folder holds more files than one command examines; none is left out silently."""


@dataclass(slots=True)
class Found:
    """Kernel files in order, files of the loop level, tile programs, and folders without any."""

    kernels: list[str] = field(default_factory=list)
    loops: list[str] = field(default_factory=list)
    tiles: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)


def find_kernels(paths: Iterable[str]) -> Found:
    """Files as they are named; of folders every file in YAML that is one (`kind_of`), sorted.

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
            if has_suffix(name, KERNEL_SUFFIXES):
                count += 1
                if count > FILES_MAX:
                    raise TooManyFiles(
                        f"{folder} holds more than {FILES_MAX} files; name folders below it"
                    )
                yield os.path.join(parent, name)


def has_suffix(name: str, suffixes: tuple[str, ...]) -> bool:
    """Whether a file's name ends so, in small letters or capitals."""
    return name.lower().endswith(suffixes)


def kind_of(path: str) -> str:
    """`kernel`, `loop`, `tile` or nothing, by the keys of the file.

    Whatever is a kernel to who names the file is one here, so that no folder hides it: one that
    lacks the version is a kernel by its `kernel` and `program`, one that is no YAML by `titan:`.
    """
    keys = _keys_of(head_of(path, BYTES_MAX + 1))
    if "kernel" in keys and keys & {"titan", "program"}:
        return "kernel"
    if "titan" not in keys:
        return ""
    return next((kind for kind in ("tile", "loop") if kind in keys), "kernel")


def _keys_of(data: bytes) -> frozenset[str]:
    """The keys of the file that say its kind; where lines do not show them, it is parsed."""
    text = data.replace(b"\0", b"")  # as UTF-16 has them
    keys = frozenset(match.decode() for match in _KEY.findall(text))
    if "titan" in keys or {"kernel", "program"} <= keys:
        return keys
    possible = b"titan" in text or (b"kernel" in text and b"program" in text)
    if not possible and _ESCAPED.search(text) is None:
        return frozenset()
    root, _ = parse_bytes(data)
    if isinstance(root, Mapping):
        return frozenset(entry.key.text for entry in root.entries)
    if root is None and _TITAN_IN_A_LINE.search(text) is not None:
        return keys | {"titan"}
    return frozenset()
