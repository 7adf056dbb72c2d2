"""Forbidden behaviour seen on a device, kept so that it can be run again.

A finding is a folder, written whole or not at all: `finding.json` (what was seen, seed, launch,
device), the sources and manifest that were run, and the machine code as it was loaded. Its name
names its content, so the same finding is kept once. `replay.py` runs it again from that folder.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from titan.device.documents import FindingRecord
from titan.device.records import DeviceFacts
from titan.foundation.atomic import CannotWrite, write_folder
from titan.foundation.errors import UserError

FORMAT = "1"
RECORD = "finding.json"
SOURCES, BINARIES = "sources", "binaries"
MOST = 5  # of one package or test in one run
FILE_BYTES_MAX = 64 << 20


@dataclass(frozen=True, slots=True)
class Keep:
    """Where findings are kept, and on which device they were made."""

    folder: Path
    device: DeviceFacts


class BadFinding(UserError):
    """The folder is not a finding, or is not as it was written; the text says why."""


def save(
    root: Path,
    of: str,
    name: str,
    device: DeviceFacts,
    data: Mapping[str, object],
    sources: Mapping[str, bytes],
    binaries: Path | None = None,
) -> Path:
    """The folder of a finding. `of`: stress or litmus; `binaries`: a folder of machine code.

    Raises CannotWrite, and then leaves nothing behind.
    """
    files = {f"{SOURCES}/{Path(file).name}": content for file, content in sources.items()}
    if binaries is not None and binaries.is_dir():
        for path in sorted(binaries.iterdir()):
            if path.is_file() and path.stat().st_size <= FILE_BYTES_MAX:
                files[f"{BINARIES}/{path.name}"] = path.read_bytes()
    record = {
        "titan": FORMAT,
        "finding": name,
        "of": of,
        "date": datetime.date.today().isoformat(),
        "device": dict(device),
        **data,
        "files": {file: hashlib.sha256(content).hexdigest() for file, content in files.items()},
    }
    text = (json.dumps(record, indent=1, allow_nan=False) + "\n").encode()
    return _write(root, folder_name(record), {**files, RECORD: text})


def keep(
    where: Keep, of: str, name: str, data: Mapping[str, object], sources: Mapping[str, bytes],
    binaries: Path | None,
) -> Path | None:  # fmt: skip
    """`save`; where nothing can be written the run continues, and the reason goes to stderr."""
    try:
        return save(where.folder, of, name, where.device, data, sources, binaries)
    except (OSError, CannotWrite) as error:
        print(f"a finding of {name} cannot be kept: {error}", file=sys.stderr)
        return None


def folder_name(record: Mapping[str, object]) -> str:
    """`2026-01-02-stress-gemm-0123abcd`."""
    digest = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:8]
    name = re.sub(r"[^a-z0-9]+", "-", str(record["finding"]).lower()).strip("-")[:60] or "x"
    return f"{record['date']}-{record['of']}-{name}-{digest}"


def _write(root: Path, name: str, files: Mapping[str, bytes]) -> Path:
    made = root / name
    if made.is_dir():
        return made
    try:
        write_folder(made, files, may_replace=lambda folder: False)
    except CannotWrite:
        if not made.is_dir():  # else somebody else has just written the same
            raise
    return made


def read(folder: Path) -> FindingRecord:
    """The record of a finding whose files are as they were written. Raises BadFinding."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        known = dict(record["files"])
        if record["titan"] != FORMAT or record["of"] not in ("stress", "litmus"):
            raise BadFinding(f"{folder}: another format")
        for file, digest in known.items():
            inner, _, name = str(file).partition("/")
            if inner not in (SOURCES, BINARIES) or name != Path(name).name:
                raise BadFinding(f"{folder}: a file in a strange place")
            if hashlib.sha256((folder / inner / name).read_bytes()).hexdigest() != digest:
                raise BadFinding(f"{folder}: {file} is not as it was written")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadFinding(f"{folder}: {error}") from None
    return cast(FindingRecord, record)


@contextmanager
def kept(wanted: bool) -> Iterator[Path | None]:
    """A folder for what a child compiles, removed at the end; None where nothing is to be kept."""
    if not wanted:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="titan-keep-") as folder:
        yield Path(folder)
