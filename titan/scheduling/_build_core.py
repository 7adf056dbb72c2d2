"""Builds titan.scheduling._core, the C inner loops of Rau scheduling; called by hatch_build.py.

By hand: `python titan/scheduling/_build_core.py` from the root of the repository.
"""

import re
import runpy
import shutil
import tempfile
from pathlib import Path

from cffi import FFI

HERE = Path(__file__).resolve().parent
# The package may not be installed yet.
FINGERPRINT = runpy.run_path(str(HERE.parent / "foundation" / "fingerprint.py"))
PARTS = ("iterative.c", "placement.c", "reading.c")


def sources() -> str:
    """The C files as one text. They read fields of Python objects, which no stable ABI gives."""
    return "\n".join((HERE / part).read_text(encoding="utf-8") for part in PARTS)


def declarations() -> str:
    """What Python sees: the table and the functions as iterative.c declares them.

    cffi holds sizes and offsets of the table against the compiler's.
    """
    shared = re.findall(r"BEGIN SHARED WITH PYTHON \*/(.*?)/\* END SHARED", sources(), re.S)
    assert shared, "the C files mark what is shared"
    return re.sub(r"/\*.*?\*/", "", "".join(shared), flags=re.S)


def builder(*flags: str) -> FFI:
    """The configured cffi builder; `flags` are further ones of compiler and linker."""
    ffi = FFI()
    ffi.cdef(declarations() + FINGERPRINT["DECLARATION"])
    source = sources() + FINGERPRINT["definition"](HERE)
    compiling = ["-O3", "-Wall", "-Wextra", *flags]
    ffi.set_source(
        "titan.scheduling._core", source, define_macros=[("_CFFI_NO_LIMITED_API", None)],
        extra_compile_args=compiling, extra_link_args=list(flags),
    )  # fmt: skip
    return ffi


def build() -> Path:
    """Compiles the module next to this file, and returns its path.

    The work is done in a folder without a pyproject.toml, which setuptools would read.
    """
    with tempfile.TemporaryDirectory() as folder:
        made = Path(builder().compile(tmpdir=folder, verbose=False))
        return Path(shutil.copy2(made, HERE / made.name))


if __name__ == "__main__":
    print(build().name)
