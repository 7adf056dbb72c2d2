"""The library that programs are linked with instead of libcudart and libcuda.

Compiled from the C beside this file when it is first needed. Needs the header driver_types.h of the
CUDA toolkit where programs ask for the properties of the device.
"""

from __future__ import annotations

import os
import re
import subprocess
from functools import cache
from pathlib import Path

from titan.emulated.compiled import SECONDS_MAX, compiled_library
from titan.foundation.cuda_toolkit import toolkit_program

NATIVE = Path(__file__).resolve().parent / "native"
NAME = "libtitan_cuda.so"
# What programs of nvcc and frameworks look for; all are the one library.
NAMES = ("libcudart.so.12", "libcudart.so.13", "libcuda.so.1", "libcuda.so")


@cache
def library() -> Path:
    """The folder of the library. Raises UserError where it cannot be compiled."""
    headers = _headers()
    included = [f"-I{headers}"] if headers else []
    folder = compiled_library(NATIVE, "cuda", NAME, included, ("-ldl", "-lpthread"))
    for other in NAMES:
        if not (folder / other).exists():
            fresh = folder / f"{other}.{os.getpid()}"
            fresh.symlink_to(NAME)
            fresh.replace(folder / other)
    return folder


@cache
def _headers() -> Path | None:
    """The folder of the toolkit's headers, as its compiler names it; None without one."""
    nvcc = toolkit_program("nvcc")
    if nvcc is None:
        return None
    command = [str(nvcc), "-dryrun", "-c", "none.cu"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    found = re.search(r'INCLUDES="-I([^"]+?)"', done.stderr + done.stdout)
    folder = Path(found.group(1)) if found else nvcc.resolve().parents[1] / "include"
    return folder if (folder / "driver_types.h").is_file() else None


def build_flags(architecture: int) -> tuple[str, ...]:
    """The flags with which nvcc builds a program for this device: PTX kept, our library linked,
    which is the last of them (a build of other tools takes it alone)."""
    folder = library()
    name = f"compute_{architecture}a"
    return (
        "-gencode", f"arch={name},code={name}", "-no-compress", "-cudart", "none",
        "-Xlinker", f"-rpath={folder}", str(folder / NAME),
    )  # fmt: skip
