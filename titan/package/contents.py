"""What a package is made of: the names of its files, their limits, and reading them without trust.

The names are fixed here and never come from an input. A package is read once, as a whole, so that
what is checked is what was read, whatever happens to the folder meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, Protocol

from titan.foundation.errors import UserError
from titan.package.failures import GateFailure

CERTIFICATE = "certificate.json"
TILE = "tile.yaml"
SCHEDULE = "schedule.json"
PIPELINE = "pipeline.yaml"
MANIFEST = "manifest.json"
TIMELINE = "timeline.json"
PROOF = "verdict.cert"  # only where one was found
FIXED = (TILE, SCHEDULE, PIPELINE, MANIFEST, TIMELINE)
# The source, the header of device primitives that it includes, and the header for host programs.
SOURCES = (
    ("kernel.cu", "titan_device.cuh", "launch.h"),
    ("kernel.hip.cpp", "titan_device.hip.h", "launch.h"),
)
BYTES_MAX = 16 << 20
DEPTH_MAX = 64


class Broken(UserError):
    """A package that does not pass; the text says why, `failure` of which kind that is."""

    failure = GateFailure.MALFORMED


class Altered(Broken):
    """A file is not what TITAN derives from the others."""

    failure = GateFailure.ALTERED


class Unsound(Broken):
    """The schedule checker, a rule of the target or lowering refuses what the package holds."""

    failure = GateFailure.UNSOUND


class Sources(Protocol):
    """The result of emission: texts by file name, and the manifest."""

    @property
    def files(self) -> Mapping[str, str]:
        """Texts by file name."""
        ...

    @property
    def manifest(self) -> Mapping[str, object]:
        """The manifest as plain data."""
        ...


def sha256(data: bytes) -> str:
    """The digest as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def to_json(data: object) -> bytes:
    """The one way in which JSON is written: no NaN, ASCII, keys in the order of `data`."""
    return (json.dumps(data, indent=2, allow_nan=False) + "\n").encode("ascii")


def from_json(data: bytes, name: str) -> Any:
    """Plain JSON; keys that stand twice, NaN and deep nesting are refused. Raises Broken."""

    def pairs(items: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(items)
        if len(found) != len(items):
            raise Broken(f"{name} has a key twice")
        return found

    def constant(text: str) -> NoReturn:
        raise Broken(f"{name} holds {text}")

    try:
        text = data.decode("utf-8")
        read = json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
        _limit(read, name, DEPTH_MAX)
    except (ValueError, RecursionError):
        raise Broken(f"{name} is not JSON") from None
    return read


def _limit(data: object, name: str, depth: int) -> None:
    if depth == 0:
        raise Broken(f"{name} is nested too deeply")
    for inner in (
        data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    ):
        _limit(inner, name, depth - 1)


def is_package(folder: str | Path) -> bool:
    """Whether a folder holds a certificate."""
    return (Path(folder) / CERTIFICATE).is_file()


def check_names(names: set[str]) -> None:
    """The set of file names of a package, the certificate left out. Raises Broken."""
    for sources in SOURCES:
        if names - {PROOF} == {*FIXED, *sources}:
            return
    known = {name for sources in SOURCES for name in sources} | {*FIXED, PROOF}
    if strange := sorted(names - known):
        raise Broken(f"{printable(strange[0])} is not a file of a package")
    if missing := sorted(set(FIXED) - names):
        raise Broken(f"the package lacks {missing[0]}")
    raise Broken("the package does not hold one source and its headers")


def read_package(folder: str | Path) -> dict[str, bytes]:
    """All files of a package, read once. Raises Broken; no link is followed inside the folder."""
    found: dict[str, bytes] = {}
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries)
        if CERTIFICATE not in names:
            raise Broken(f"the package lacks {CERTIFICATE}")
        check_names(set(names) - {CERTIFICATE})
        for name in names:
            found[name] = _read(os.path.join(folder, name), name)
    except OSError as error:
        raise Broken(f"it cannot be read: {(error.strerror or str(error)).lower()}") from None
    return found


def _read(path: str, name: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Broken(f"{name} is not a regular file")
        data = stream.read(BYTES_MAX + 1)
    if len(data) > BYTES_MAX:
        raise Broken(f"{name} is larger than {BYTES_MAX} bytes")
    return data


def printable(text: str) -> str:
    """A name from outside, fit for one line of a report."""
    from titan.foundation.diagnostics.wording import printable as shown

    return shown(text, 80)
