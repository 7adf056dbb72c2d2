"""Compiles an emitted kernel for this machine: g++ with the emulation's header.

The emulation itself is compiled once, each kernel then in a fraction of a second. Programs are
cached under the digest of everything that they depend on.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from titan.codegen.tile.manifest import Manifest
from titan.foundation.errors import Refusal
from titan.foundation.scratch import scratch

NATIVE = Path(__file__).resolve().parent / "native"
HEADER = "titan_device.cuh"
MAIN = "emulated_main.cpp"
FLAGS = ("-std=c++17", "-O2", "-ffp-contract=off", "-fno-strict-aliasing", "-w")
SECONDS_MAX = 300
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


class EmulationError(Refusal):
    """The kernel cannot be emulated: no compiler, it does not compile, the manifest is wrong."""


def compiler() -> str:
    """The C++ compiler. Raises EmulationError where there is none."""
    for name in (os.environ.get("CXX", ""), "g++", "c++", "clang++"):
        found = shutil.which(name) if name else None
        if found:
            return found
    raise EmulationError("no C++ compiler; emulation needs g++ or clang++")


@cache
def _version(path: str) -> str:
    return subprocess.run(
        [path, "--version"], capture_output=True, text=True, timeout=60, check=False
    ).stdout


def _program(manifest: Manifest) -> str:
    """A main function around the kernel; its text goes to the compiler beside the kernel's."""
    entry, launch = manifest["entry"], manifest["launch"]
    if not _NAME.fullmatch(entry):
        raise EmulationError(f"entry {entry!r} of the manifest is not a name")
    count = len(manifest["arguments"])
    given = ", ".join(f"titan::emulation::Given{{{number}}}" for number in range(count))
    block, cluster = int(launch["block"]), int(launch.get("cluster", 1))
    return (
        f'#include "{manifest["source"]}"\n#include "given.h"\n'
        f'static_assert(titan_emulation_block == {block}, "threads of the launch");\n'
        f'static_assert(titan_emulation_cluster == {cluster}, "cluster of the launch");\n'
        f"static void start() {{ {entry}({given}); }}\n"
        "int main(int count, char **words) "
        "{ return titan::emulation::run(count, words, start); }\n"
    )


def cache_folder() -> Path:
    """Where programs are cached: the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "titan" / "emulation"


def build(files: Mapping[str, str], manifest: Manifest) -> Path:
    """The program for the CUDA kernel of a package.

    The device header of the package is left out: the emulation's own takes its place. Raises
    EmulationError with the compiler's message.
    """
    source = manifest["source"]
    if source not in files:
        raise EmulationError(f"the package has no {source}")
    texts = {
        Path(name).name: text
        for name, text in sorted(files.items())
        if name.endswith((".cu", ".cuh", ".h")) and Path(name).name != HEADER
    }
    main = _program(manifest)
    path = compiler()
    own = (_version(path), " ".join(FLAGS), *_native_texts())
    runtime = cache_folder() / f"{_digest(*own)}.o"
    if not runtime.is_file():
        _compile([path, *FLAGS, "-c", str(NATIVE / "runtime.cpp")], {}, runtime)
    made = cache_folder() / _digest(*own, main, *(part for pair in texts.items() for part in pair))
    if not made.is_file():
        command = [path, *FLAGS, "-I", ".", "-I", str(NATIVE), MAIN, str(runtime)]
        _compile(command, {**texts, MAIN: main}, made)
    return made


def _native_texts() -> list[str]:
    paths = sorted(path for path in NATIVE.iterdir() if path.is_file())
    return [part for path in paths for part in (path.name, path.read_text(encoding="utf-8"))]


def _digest(*parts: str) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(f"{len(part)}:{part}".encode())
    return whole.hexdigest()[:32]


def _compile(command: list[str], texts: Mapping[str, str], made: Path) -> None:
    with scratch("titan-emulation-") as name:
        folder = Path(name)
        for file, text in texts.items():
            (folder / file).write_text(text, encoding="utf-8")
        done = subprocess.run(
            [*command, "-o", "made"],
            cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise EmulationError(f"the kernel does not compile:\n{done.stderr[:4000]}")
        made.parent.mkdir(parents=True, exist_ok=True)
        # Renamed within the folder of the cache: another process sees all of it or nothing.
        fresh = made.with_name(f"{made.name}.{os.getpid()}")
        shutil.copy2(folder / "made", fresh)
        fresh.replace(made)
