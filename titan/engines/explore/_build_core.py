"""Builds titan.engines.explore._core, the native explorer; called by hatch_build.py.

By hand: `python titan/engines/explore/_build_core.py` from the root of the repository.
"""

import runpy
import shutil
import tempfile
from pathlib import Path

from cffi import FFI

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "native"
PARTS = (
    "core.h", "search.h", "expression.c", "visible.c", "marks.c",
    "machine.c", "engine.c", "quotient.c",
    "store.c", "steps.c", "closure.c", "others.c", "beyond.c", "alone.c", "search.c", "trace.c",
)  # fmt: skip
# The package may not be installed yet.
LAYOUT = runpy.run_path(str(HERE / "layout.py"))
FINGERPRINT = runpy.run_path(str(HERE.parents[1] / "foundation" / "fingerprint.py"))
WARNINGS = ["-Wall", "-Wextra"]


def source() -> str:
    """The C source of the core as one text: what layout.py generates, then the files."""
    texts = [LAYOUT["header"]()]
    texts += [(SOURCES / part).read_text(encoding="utf-8") for part in PARTS]
    return "\n".join(texts)


def builder(*flags: str) -> FFI:
    """The configured cffi builder; `flags` are further ones of compiler and linker."""
    ffi = FFI()
    ffi.cdef(LAYOUT["declarations"]() + FINGERPRINT["DECLARATION"])
    compiling = ["-std=c11", "-O2", *WARNINGS, *flags]
    ffi.set_source(
        "titan.engines.explore._core",
        source() + FINGERPRINT["definition"](HERE),
        extra_compile_args=compiling,
        extra_link_args=list(flags),
    )
    return ffi


def build() -> Path:
    """Compiles the module next to this file, and returns its path.

    The work is done in a folder without a pyproject.toml, which setuptools would read.
    """
    with tempfile.TemporaryDirectory() as folder:
        made = Path(builder().compile(tmpdir=folder, verbose=False))
        # Replaced in one step: a process that runs the old module keeps its file.
        fresh = Path(shutil.copy2(made, HERE / f"{made.name}.new"))
        return fresh.replace(HERE / made.name)


if __name__ == "__main__":
    print(build().name)
