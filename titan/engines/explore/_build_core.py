"""Builds titan.engines.explore._core, the native explorer; called by hatch_build.py.

By hand: `python titan/engines/explore/_build_core.py` from the root of the repository.
"""

import re
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
FUNCTIONS = """
typedef struct { int32_t actor, agent, ordinal; } step_t;
typedef ... search_t;
search_t *titan_new(const titan_program *p, int symmetry, int partial_order, int64_t states_max,
                    int64_t bytes_max);
int titan_run(search_t *s, int64_t slice);
void titan_numbers(const search_t *s, int64_t *out);
int64_t titan_path_length(const search_t *s);
int64_t titan_trace(search_t *s, step_t *steps, word *sizes);
int64_t titan_logged(const search_t *s);
void titan_log(const search_t *s, int64_t number, word *out);
void titan_free(search_t *s);
"""


def declarations() -> str:
    """What Python sees: the program tables as core.h declares them, and the functions."""
    header = (SOURCES / "core.h").read_text(encoding="utf-8")
    table = re.search(
        r"typedef struct \{\s*int32_t agents, roles.*?\} titan_program;", header, re.S
    )
    assert table is not None, "core.h declares titan_program"
    plain = re.sub(r"/\*.*?\*/", "", table.group(), flags=re.S)
    return "typedef int64_t word;\n" + plain + FUNCTIONS


def builder() -> FFI:
    """The configured cffi builder; sources are read when it is called."""
    ffi = FFI()
    ffi.cdef(declarations())
    source = "\n".join((SOURCES / part).read_text(encoding="utf-8") for part in PARTS)
    ffi.set_source("titan.engines.explore._core", source, extra_compile_args=["-std=c11", "-O2"])
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
