"""Builds titan.scheduling._core, the C inner loops of Rau scheduling; called by hatch_build.py.

By hand: `python titan/scheduling/_build_core.py` from the root of the repository.
"""

import runpy
import shutil
import tempfile
from pathlib import Path

from cffi import FFI

HERE = Path(__file__).resolve().parent
# The package may not be installed yet.
FINGERPRINT = runpy.run_path(str(HERE.parent / "foundation" / "fingerprint.py"))
DECLARATIONS = """
typedef struct {
    int n, m, units, teams;
    const int *source, *sink, *distance;
    const int64_t *delay;
    const int *use_begin;
    const int *use_unit, *use_first, *use_cycles, *use_amount;
    const int *capacity;
    const int *team, *window, *waits;
} problem;
int64_t titan_recurrence(const problem *p, int *cycle, int *cycle_length);
int titan_heights(const problem *p, int ii, int64_t *height);
int64_t titan_iterative(const problem *p, int ii, int64_t budget, const int64_t *priority,
                        int64_t *start);
"""


def builder(*flags: str) -> FFI:
    """The configured cffi builder; `flags` are further ones of compiler and linker."""
    ffi = FFI()
    ffi.cdef(DECLARATIONS + FINGERPRINT["DECLARATION"])
    source = (HERE / "iterative.c").read_text(encoding="utf-8") + FINGERPRINT["definition"](HERE)
    compiling = ["-O2", "-Wall", "-Wextra", *flags]
    ffi.set_source(
        "titan.scheduling._core", source, extra_compile_args=compiling, extra_link_args=list(flags)
    )
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
