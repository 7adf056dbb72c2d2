"""Where a program of the CUDA toolkit is: of PATH, of an environment variable, of a wheel.

The wheel nvidia-cuda-nvcc brings nvcc and ptxas, nvidia-cuda-nvdisasm and Triton's nvdisasm.
"""

from __future__ import annotations

import os
import re
import shutil
import sysconfig
from pathlib import Path

VARIABLES = ("CUDA_HOME", "CUDA_PATH")
WHEELS = ("nvidia/*/bin", "triton/backends/nvidia/bin")
_NUMBERS = re.compile(r"\d+")


def toolkit_program(name: str) -> Path | None:
    """The program, or None where it is not installed; of several wheels the newest toolkit's."""
    found = shutil.which(name)
    if found is not None:
        return Path(found)
    for variable in VARIABLES:
        candidate = Path(os.environ.get(variable, "")) / "bin" / name
        if os.environ.get(variable) and candidate.is_file():
            return candidate
    packages = Path(sysconfig.get_path("purelib"))
    for pattern in WHEELS:
        made = [path for path in packages.glob(f"{pattern}/{name}") if path.is_file()]
        if made:
            return max(made, key=_release)
    return None


def _release(path: Path) -> tuple[list[int], str]:
    """By the numbers of the toolkit's folder: cu13 before cu9."""
    return [int(word) for word in _NUMBERS.findall(path.parts[-3])], str(path)
