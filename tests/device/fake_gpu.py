"""A GPU that computes nothing: CuPy as far as the runner uses it, and a driver library from C.

`fake_driver.c` is compiled against the cuda.h of the toolkit, so that argument types, structures
and numbers are those of CUDA; memory of the device is memory of this process.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy

SOURCE = Path(__file__).with_name("fake_driver.c")
PROPERTIES = {
    "name": b"Fake H100", "major": 9, "minor": 0, "multiProcessorCount": 132,
    "clockRate": 1_980_000, "memoryClockRate": 2_619_000, "totalGlobalMem": 80 << 30,
    "l2CacheSize": 50 << 20, "sharedMemPerBlockOptin": 232_448,
    "sharedMemPerMultiprocessor": 233_472, "maxThreadsPerMultiProcessor": 2048,
}  # fmt: skip


@cache
def include() -> Path | None:
    """The folder of cuda.h, by CUDA_HOME or beside the compiler."""
    known = [Path(os.environ[name]) / "include" for name in ("CUDA_HOME", "CUDA_PATH")
             if name in os.environ]  # fmt: skip
    if nvcc := shutil.which("nvcc"):
        known.append(Path(nvcc).resolve().parents[1] / "include")
        told = subprocess.run(
            ["nvcc", "--dryrun", "-x", "cu", "/dev/null"],
            capture_output=True, text=True, check=False,
        ).stderr  # fmt: skip
        known += [
            Path(line.partition("TOP=")[2].strip()) / "include"
            for line in told.splitlines()
            if "TOP=" in line
        ]
    return next((folder for folder in known if (folder / "cuda.h").is_file()), None)


def build(folder: Path) -> ctypes.CDLL:
    """The driver library of the fake; its functions have no types yet."""
    made = folder / "libcuda.so"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-Wall", "-Werror", f"-I{include()}", str(SOURCE), "-o",
         str(made)],
        check=True, capture_output=True,
    )  # fmt: skip
    library = ctypes.CDLL(str(made))
    for name in ("fake_log", "fake_layout", "fake_numbers"):
        getattr(library, name).restype = ctypes.c_char_p
    library.fake_globals.restype = ctypes.c_void_p
    return library


class Array:
    """A cupy.ndarray as far as it is used: memory at an address that is a multiple of 512."""

    def __init__(self, values: numpy.ndarray) -> None:
        store = numpy.zeros(values.nbytes + 512, numpy.uint8)
        start = -store.ctypes.data % 512
        self.values = store[start : start + values.nbytes].view(values.dtype)
        self.values[:] = values.reshape(-1)
        self.data = SimpleNamespace(ptr=self.values.ctypes.data)

    @property
    def T(self) -> Array:
        return self

    def get(self) -> numpy.ndarray:
        return self.values.copy()

    def fill(self, value: int) -> None:
        self.values[:] = value

    def __getitem__(self, item: slice) -> Array:
        return Array(self.values[item])

    def view(self, kind: str) -> Array:
        return Array(self.values.view(kind))


class NVRTCError(RuntimeError):
    pass


class _Nvrtc(SimpleNamespace):
    """The functions of `cupy.cuda.nvrtc` that are called; a program is its source."""

    NVRTCError = NVRTCError

    def createProgram(self, source: str, name: str, headers: tuple, names: tuple) -> list:
        assert headers == names == ()
        return [source, name, None]

    def compileProgram(self, program: list, options: tuple[str, ...]) -> None:
        assert all(isinstance(option, str) for option in options)
        architectures = [o for o in options if o.startswith(("-arch", "--gpu-architecture"))]
        if len(architectures) != 1 or "#error" in program[0]:
            raise NVRTCError("NVRTC_ERROR_COMPILATION (6)")
        program[2] = options

    def getProgramLog(self, program: list) -> str:
        return f"{program[1]}(1): error: told by the source"

    def getCUBIN(self, program: list) -> bytes:
        return b"\x7fELF" + "\n".join(program[2]).encode()

    def destroyProgram(self, program: list) -> None:
        program.clear()

    def getVersion(self) -> tuple[int, int]:
        return 13, 0


class _Event:
    def record(self) -> None:
        pass

    def synchronize(self) -> None:
        pass


def cupy() -> ModuleType:
    """The module, to stand in `sys.modules`."""
    made = ModuleType("cupy")
    runtime = SimpleNamespace(
        getDeviceCount=lambda: 1, getDeviceProperties=lambda number: PROPERTIES,
        driverGetVersion=lambda: 13000, runtimeGetVersion=lambda: 13000, free=lambda pointer: None,
        getDevice=lambda: 0, CUDARuntimeError=RuntimeError,
    )  # fmt: skip
    device = SimpleNamespace(id=0, synchronize=lambda: None)
    made.cuda = SimpleNamespace(
        runtime=runtime, nvrtc=_Nvrtc(), Device=lambda: device, Event=_Event,
        get_current_stream=lambda: SimpleNamespace(ptr=0),
        get_elapsed_time=lambda begin, end: 2.0,
    )  # fmt: skip
    made.asarray = Array
    made.zeros = lambda size, dtype: Array(numpy.zeros(size, dtype))
    made.empty = lambda size, dtype: Array(numpy.zeros(min(size, 1 << 12), dtype))
    made.matmul = lambda first, second: first
    made.__version__ = "0"
    return made
