"""Builds titan.isa.numbers._core: the native machine of titan.isa.simt with the domain of numbers.

The sources of both packages are one compilation unit; the loops over lanes stand in it once for
each level of instruction sets. Called by hatch_build.py; by hand:
`python titan/isa/numbers/_build_core.py` from the root of the repository.
"""

import re
import runpy
import shutil
import tempfile
from pathlib import Path

from cffi import FFI

HERE = Path(__file__).resolve().parent
SIMT = HERE.parent / "simt"
FINGERPRINT = runpy.run_path(str(HERE.parents[1] / "foundation" / "fingerprint.py"))
MACHINE = runpy.run_path(str(SIMT / "_build_core.py"))
# What follows each part of the machine.
ADDED = {
    "machine.h": ("numbers.h", "levels.h"),
    "memory.c": ("allocations.c",),
    "arithmetic.c": ("formats.c",),
    "control.c": (),
    "tensor.c": (
        "forms.c",
        "kernels.c",
        "transfers.c",
        "boxes.c",
        "products.c",
        "wgmma.c",
        "tensor_cells.c",
        "scales.c",
        "tensor_memory.c",
        "quick.c",
        "schedules.c",
    ),
    "run.c": ("pool.c",),
}
FUNCTIONS = """
typedef ... Computation;
Computation *titan_numbers_new(const titan_code *code, const titan_launch *launch,
                               const titan_numbers *given);
int titan_numbers_run(Computation *shared);
void titan_numbers_outcome(const Computation *shared, int64_t *out);
const char *titan_numbers_reason(const Computation *shared);
const int64_t *titan_numbers_waiters(const Computation *shared);
int64_t titan_numbers_pages(const Computation *shared, int64_t *out);
void titan_numbers_read(const Computation *shared, int64_t at, int64_t count, uint8_t *data,
                        uint8_t *state);
void titan_numbers_free(Computation *shared);
"""
# Levels of instruction sets beside the one that the compiler takes by itself.
LEVELS = """
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \\
    !defined(__SANITIZE_ADDRESS__) /* which checks each of them, for minutes */
#define TITAN_LEVELS 1
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
#define LEVEL _v3
{kernels}
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4")
#define LEVEL _v4
{kernels}
#pragma GCC pop_options
#endif
#define LEVEL _base
{kernels}
{choice}
"""


def _part(folder: Path, name: str) -> str:
    return (folder / "native" / name).read_text(encoding="utf-8")


def _shared(header: str) -> str:
    table = re.search(r"BEGIN SHARED WITH PYTHON \*/(.*?)/\* END SHARED", header, re.S)
    assert table is not None, "the header marks what is shared"
    return re.sub(r"/\*.*?\*/", "", table.group(1), flags=re.S)


def source() -> str:
    """The compilation unit."""
    parts = ["#define NUMBERS 1\n"]
    for part in MACHINE["PARTS"]:
        parts.append(_part(SIMT, part))
        for added in ADDED.get(part, ()):
            text = _part(HERE, added)
            if added == "kernels.c":
                text = LEVELS.format(kernels=text, choice=_part(HERE, "level.c"))
            parts.append(text)
    return "\n".join(parts)


def builder(*flags: str) -> FFI:
    """The configured cffi builder; sources are read when it is called.

    `flags` come after the usual ones of the compiler, and go to the linker too.
    """
    ffi = FFI()
    declared = _shared(_part(SIMT, "machine.h")) + _shared(_part(HERE, "numbers.h"))
    ffi.cdef(declared + FUNCTIONS + FINGERPRINT["DECLARATION"])
    ffi.set_source(
        "titan.isa.numbers._core",
        source() + FINGERPRINT["definition"](HERE, SIMT),
        extra_compile_args=[
            "-std=c11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math",
            "-pthread", "-Wall", "-Wextra", *flags,
        ],
        extra_link_args=["-pthread", *flags],
        libraries=["m"],
    )  # fmt: skip
    return ffi


def build() -> Path:
    """Compiles the module next to this file, and returns its path."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(builder().compile(tmpdir=folder, verbose=False))
        # Replaced in one step: a process that runs the old module keeps its file.
        fresh = Path(shutil.copy2(made, HERE / f"{made.name}.new"))
        return fresh.replace(HERE / made.name)


if __name__ == "__main__":
    print(build().name)
