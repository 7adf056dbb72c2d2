"""Libraries that stand in for CUDA's, compiled from C when they are first needed.

Each is kept in the user's cache folder under the digest of its sources and flags. Needs a C
compiler (cc).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from titan.foundation.errors import UserError
from titan.foundation.kept import cache_folder
from titan.foundation.scratch import scratch

SECONDS_MAX = 120
_FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-fvisibility=hidden", "-shared")


def compiled_library(
    native: Path, kind: str, name: str, more: Sequence[str] = (), libraries: Sequence[str] = ()
) -> Path:
    """The folder of the library `name` of the C files in `native`; `kind` is its place in the
    cache. Raises UserError where it cannot be compiled.
    """
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise UserError("there is no C compiler (cc) for the library of the emulated device")
    flags = (*_FLAGS, f"-Wl,-soname,{name}", *more)
    digest = hashlib.sha256(" ".join(flags).encode())
    for path in sorted(native.iterdir()):
        digest.update(path.read_bytes())
    try:
        folder = cache_folder() / kind / digest.hexdigest()[:32]
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"{error.strerror or error}".lower()
        raise UserError(
            f"the library of the emulated device cannot be kept: {reason}; XDG_CACHE_HOME names a "
            "folder for it"
        ) from None
    if (folder / name).is_file():
        return folder
    with scratch("titan-cuda-") as place:
        made = Path(place) / name
        sources = map(str, sorted(native.glob("*.c")))
        command = [compiler, *flags, *sources, "-o", str(made), *libraries]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
        )
        if done.returncode:
            raise UserError(f"the library of the emulated device does not compile:\n{done.stderr}")
        fresh = folder / f"{name}.{os.getpid()}"
        shutil.copy2(made, fresh)
        fresh.replace(folder / name)
    return folder
