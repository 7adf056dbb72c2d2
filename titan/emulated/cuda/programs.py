"""A CUDA program as a process of its own, its library answered by this one."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from titan.emulated.cuda.library import NAME, NAMES, library
from titan.emulated.cuda.server import DeviceServer
from titan.emulated.machine import LaunchQueue
from titan.emulated.settings import EmulationSettings
from titan.foundation.errors import UserError

SOCKET = "TITAN_EMULATED_SOCKET"
_WITH_KERNELS = b".nv_fatbin"


def run_executable(
    path: Path, arguments: Sequence[str], settings: EmulationSettings
) -> tuple[int, DeviceServer]:
    """Run a program to its end; returns its exit code and its device.

    Raises UserError for one that holds a runtime library of its own.
    """
    _check(path)
    folder = library()
    ours, theirs = socket.socketpair()
    known = os.environ.get("LD_LIBRARY_PATH")
    environment = {
        **os.environ,
        SOCKET: str(theirs.fileno()),
        "LD_LIBRARY_PATH": f"{folder}:{known}" if known else str(folder),
    }
    server = DeviceServer(LaunchQueue.of(settings))
    with ours:
        process = subprocess.Popen(
            [str(path.resolve()), *arguments], env=environment, pass_fds=(theirs.fileno(),)
        )
        theirs.close()
        try:
            server.serve(ours)
        finally:
            ours.close()
            code = process.wait()
    return code, server


def _check(path: Path) -> None:
    """Raises UserError for a program with kernels that is linked to NVIDIA's static runtime."""
    content = path.read_bytes()
    if _WITH_KERNELS not in content:
        return
    if not any(name.encode() in content for name in (NAME, *NAMES[:2])):
        raise UserError(
            f"{path}: it is linked with the static runtime library, which talks to the driver in "
            "its own way: link with the flags of `titan cuda-flags`"
        )
