"""Builds titan.isa.simt._core, the native machine; called by hatch_build.py.

By hand: `python titan/isa/simt/_build_core.py` from the root of the repository.
"""

import re
import runpy
import shutil
import tempfile
from pathlib import Path

from cffi import FFI

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "native"
# The package may not be installed yet.
FINGERPRINT = runpy.run_path(str(HERE.parents[1] / "foundation" / "fingerprint.py"))
PARTS = (
    "machine.h", "base.c", "arithmetic.c", "memory.c", "lane_order.c", "accesses.c", "matrices.c",
    "joins.c", "arms.c", "control.c", "lanes.c", "barriers.c", "queues.c", "map_bytes.c",
    "copies.c", "copy_async.c", "store_async.c", "launch_control.c", "tensor.c", "execute.c",
    "clusters.c", "run.c",
)  # fmt: skip
FUNCTIONS = """
typedef ... Machine;
Machine *titan_simt_new(const titan_code *code, const titan_launch *launch);
void titan_simt_store(Machine *machine, int64_t at, const uint8_t *data, int64_t count);
int titan_simt_read(Machine *machine, int64_t at, int64_t count, uint8_t *data);
int titan_simt_run(Machine *machine);
void titan_simt_numbers(const Machine *machine, int64_t *out);
const char *titan_simt_reason(const Machine *machine);
const int64_t *titan_simt_words(const Machine *machine, int which);
int64_t titan_simt_footprints(const Machine *machine, int64_t *out);
void titan_simt_free(Machine *machine);
"""


def declarations() -> str:
    """What Python sees: the tables as machine.h declares them, and the functions."""
    header = (SOURCES / "machine.h").read_text(encoding="utf-8")
    table = re.search(r"BEGIN SHARED WITH PYTHON \*/(.*?)/\* END SHARED", header, re.S)
    assert table is not None, "machine.h marks what is shared"
    return re.sub(r"/\*.*?\*/", "", table.group(1), flags=re.S) + FUNCTIONS


def builder(*flags: str) -> FFI:
    """The configured cffi builder; sources are read when it is called.

    `flags` come after the usual ones of the compiler, and go to the linker too.
    """
    ffi = FFI()
    ffi.cdef(declarations() + FINGERPRINT["DECLARATION"])
    source = "\n".join((SOURCES / part).read_text(encoding="utf-8") for part in PARTS)
    ffi.set_source(
        "titan.isa.simt._core",
        source + FINGERPRINT["definition"](HERE),
        extra_compile_args=["-std=c11", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", *flags],
        extra_link_args=list(flags),
        libraries=["m"],
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
