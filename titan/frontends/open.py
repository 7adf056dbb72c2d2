"""The kind of file that a path names, and its verifier: kernel files, or compiled code.

The kind is decided here and nowhere else: by the suffix, or by how the text begins, as that of
standard input is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import field
from pathlib import Path

from titan.foundation.records import dataclass
from titan.foundation.source.loading import STDIN, head_of
from titan.verify.files import FILES_MAX, Found, TooManyFiles, find_kernels

PTX_SUFFIXES = (".ptx",)
TTGIR_SUFFIXES = (".ttgir",)
ASSEMBLY_SUFFIXES = (".s", ".amdgcn")
_HEAD_BYTES = 65_536
_VERSION = re.compile(rb"(?m)^\s*\.version\s+[0-9]+\.[0-9]+")
_AMDGCN = re.compile(rb"(?m)^\s*\.(?:amdgcn_target|amdhsa_kernel|amdgpu_metadata)\b")
_TTGIR = re.compile(rb"(?m)^\s*(?:#\w+ = #ttg\.|tt\.func\b|module .*\bttg?\.)")


@dataclass(slots=True)
class Opened:
    """Files by kind: kernel files with what goes with them, code (PTX, AMD assembly), TTGIR."""

    found: Found = field(default_factory=Found)
    code: list[str] = field(default_factory=list)
    ttgir: list[str] = field(default_factory=list)


def open_files(paths: Iterable[str]) -> Opened:
    """Files as they are named; of a folder its kernel files, or its code if it has none."""
    opened = Opened()
    others: list[str] = []
    seen: set[str] = set()
    for path in paths:
        if is_ttgir(path):
            opened.ttgir += [] if path in opened.ttgir else [path]
            continue
        files = [path] if is_code(path) else _code_in(path)
        if not files:
            others.append(path)
        for file in files:
            identity = os.path.realpath(file)
            if identity not in seen:
                seen.add(identity)
                opened.code.append(file)
    opened.found = find_kernels(others)
    return opened


def is_assembly(path: str) -> bool:
    """Whether a path names assembly for AMD GPUs, by its suffix."""
    if path == STDIN:
        return _AMDGCN.search(head_of(path, _HEAD_BYTES)) is not None
    return path.endswith(ASSEMBLY_SUFFIXES)


def is_ttgir(path: str) -> bool:
    """Whether a path names Triton's representation: by its suffix, standard input by its text."""
    if path == STDIN:
        return _TTGIR.search(head_of(path, _HEAD_BYTES)) is not None
    return path.endswith(TTGIR_SUFFIXES) and not Path(path).is_dir()


def is_code(path: str) -> bool:
    """Whether a path names code: by its suffix, or a regular file that begins as PTX does."""
    if Path(path).is_dir():
        return False
    if path.endswith(PTX_SUFFIXES) or is_assembly(path):
        return True
    if path.endswith((".yaml", ".yml", ".json")):
        return False
    return _VERSION.search(head_of(path, _HEAD_BYTES)) is not None


def _code_name(name: str) -> bool:
    return name.endswith((*PTX_SUFFIXES, *ASSEMBLY_SUFFIXES))


def _code_in(folder: str) -> list[str]:
    """The files of code in a folder that has no kernel file."""
    if not Path(folder).is_dir():
        return []
    found = find_kernels([folder])
    if found.kernels or found.loops or found.tiles:
        return []
    files = []
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files += [os.path.join(parent, name) for name in sorted(names) if _code_name(name)]
        if len(files) > FILES_MAX:
            raise TooManyFiles(f"{folder} holds more than {FILES_MAX} files; name folders below it")
    return files
