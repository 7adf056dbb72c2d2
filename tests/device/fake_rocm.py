"""An AMD GPU that is this process: a library of HIP and hipRTC from C++ (`fake_hip.cpp`).

It is compiled against hip_runtime_api.h and hiprtc.h where they are installed (ROCM_PATH, or the
system's), so that types and numbers are those of HIP. Rendered source tests are computed, one
thread a coroutine; kernels with matrix instructions do nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("fake_hip.cpp")
DEVICE = Path(__file__).with_name("fake_hip_device.h")
AVAILABLE = shutil.which("g++") is not None


def include() -> list[str]:
    """Options that find the headers of HIP."""
    rocm = os.environ.get("ROCM_PATH")
    return [f"-I{rocm}/include"] if rocm else []


def build(folder: Path) -> Path:
    """The folder with both libraries."""
    made = folder / "libamdhip64.so"
    names = [f'-DFAKE_HIP_DEVICE="{DEVICE}"', f'-DFAKE_HIP_LIBRARY="{made}"']
    subprocess.run(
        ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", "-Wno-attributes", *names, *include(),
         str(SOURCE), "-o", str(made)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    shutil.copyfile(made, folder / "libhiprtc.so")
    return folder
