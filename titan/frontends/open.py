"""The kind of file that a path names, and its verifier: kernel files, or compiled code.

The kind is decided here and nowhere else: by the suffix, or, where that says nothing (`.mlir`,
`.txt`, standard input), by how the text begins.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import field
from pathlib import Path

from titan.foundation.records import dataclass
from titan.foundation.source.loading import head_of
from titan.verify.files import FILES_MAX, Found, TooManyFiles, find_kernels

PTX_SUFFIXES = (".ptx",)
TTGIR_SUFFIXES = (".ttgir",)
ASSEMBLY_SUFFIXES = (".s", ".amdgcn")
_SUFFIXES = (*PTX_SUFFIXES, *TTGIR_SUFFIXES, *ASSEMBLY_SUFFIXES, ".yaml", ".yml", ".json")
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
    """Whether a path names assembly for AMD GPUs."""
    return _is(path, ASSEMBLY_SUFFIXES, _AMDGCN)


def is_ttgir(path: str) -> bool:
    """Whether a path names Triton's representation."""
    return _is(path, TTGIR_SUFFIXES, _TTGIR)


def is_ttgir_text(path: str, text: str) -> bool:
    """The same for a text that was read from a path before."""
    if path.endswith(_SUFFIXES):
        return path.endswith(TTGIR_SUFFIXES)
    return _TTGIR.search(text[:_HEAD_BYTES].encode(errors="replace")) is not None


def is_code(path: str) -> bool:
    """Whether a path names code: PTX, or assembly for AMD GPUs."""
    return _is(path, PTX_SUFFIXES, _VERSION) or is_assembly(path)


def _is(path: str, suffixes: tuple[str, ...], beginning: re.Pattern[bytes]) -> bool:
    """Whether a file has one of these suffixes; where it has none that says its kind, as standard
    input and dumps of compilers may, whether its text begins so.
    """
    if Path(path).is_dir():
        return False
    if path.endswith(_SUFFIXES):
        return path.endswith(suffixes)
    return beginning.search(head_of(path, _HEAD_BYTES)) is not None


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
