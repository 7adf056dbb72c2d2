"""The library that programs are linked with instead of libcudart and libcuda.

Compiled from the C beside this file when it is first needed, and kept in the user's cache folder
under the digest of its sources. Needs a C compiler (cc), and the header driver_types.h of the CUDA
toolkit where programs ask for the properties of the device.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from titan.foundation.cuda_toolkit import toolkit_program
from titan.foundation.errors import UserError
from titan.foundation.kept import cache_folder
from titan.foundation.scratch import scratch

NATIVE = Path(__file__).resolve().parent / "native"
NAME = "libtitan_cuda.so"
# What programs of nvcc and frameworks look for; all are the one library.
NAMES = ("libcudart.so.12", "libcudart.so.13", "libcuda.so.1", "libcuda.so")
FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-fvisibility=hidden", "-shared", f"-Wl,-soname,{NAME}")
SECONDS_MAX = 120


@cache
def library() -> Path:
    """The folder of the library. Raises UserError where it cannot be compiled."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise UserError("there is no C compiler (cc) for the library of the emulated device")
    sources = sorted(NATIVE.glob("*.c"))
    digest = hashlib.sha256(" ".join((*FLAGS, str(_headers()))).encode())
    for path in sorted(NATIVE.iterdir()):
        digest.update(path.read_bytes())
    folder = cache_folder() / "cuda" / digest.hexdigest()[:32]
    if (folder / NAME).is_file():
        return folder
    included = [f"-I{_headers()}"] if _headers() else []
    with scratch("titan-cuda-") as name:
        made = Path(name)
        command = [compiler, *FLAGS, *included, *map(str, sources), "-o", str(made / NAME)]
        done = subprocess.run(
            [*command, "-ldl", "-lpthread"],
            capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
        )  # fmt: skip
        if done.returncode:
            raise UserError(f"the library of the emulated device does not compile:\n{done.stderr}")
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / f"{NAME}.{os.getpid()}"
        shutil.copy2(made / NAME, fresh)
        fresh.replace(folder / NAME)
    for other in NAMES:
        (folder / other).unlink(missing_ok=True)
        (folder / other).symlink_to(NAME)
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
