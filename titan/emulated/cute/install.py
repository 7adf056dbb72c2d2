"""CuTe DSL for the length of a program: its runtime library, and what it asks of `cuda.bindings`.

Its host code is linked with the libraries of `CUTE_DSL_LIBS`, of which ours comes first. Some of
what it does goes through NVIDIA's Python package, whose functions cannot work without a driver:
those that it needs are replaced in the modules when the program imports them.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from titan.emulated.compiled import compiled_library
from titan.emulated.cute.arrays import hand_over_on_device, take_for_device
from titan.emulated.cute.calls import LAUNCH_FAILURE, CuteCalls
from titan.emulated.import_hooks import Change

NATIVE = Path(__file__).resolve().parent / "native"
NAME = "libtitan_cute.so"
KEEP, FOLDER = "CUTE_DSL_KEEP", "CUTE_DSL_DUMP_DIR"
LIBS, PACKAGE, RUNTIME = "CUTE_DSL_LIBS", "nvidia_cutlass_dsl", "libcute_dsl_runtime.so"
_Answer = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint64))


def is_there() -> bool:
    """Whether this Python has CuTe DSL."""
    return importlib.util.find_spec(PACKAGE) is not None


class CuteDevice:
    """What a program of CuTe DSL meets in the place of a GPU. Raises UserError without cc."""

    def __init__(self, calls: CuteCalls, folder: str) -> None:
        self.calls, self._folder = calls, folder
        place = compiled_library(NATIVE, "cute", NAME) / NAME
        self._place = place
        self.broken: BaseException | None = None
        self._answer = _Answer(self._answered)
        ctypes.CDLL(str(place)).titan_cute_answers(self._answer)

    def _answered(self, name: bytes, words: Sequence[int]) -> int:
        """An exception cannot pass through the host code: it is kept in `broken`."""
        try:
            return self.calls.answer(name.decode(), words)
        except BaseException as error:
            self.broken = self.broken or error
            return LAUNCH_FAILURE

    def environment(self, before: Mapping[str, str]) -> dict[str, str]:
        """The variables that CuTe DSL reads when it is imported."""
        architecture = self.calls.queue.settings.model.architecture
        libraries = [str(self._place), before.get(LIBS) or _runtime()]
        kept = [*before.get(KEEP, "").split(","), "ptx", "cubin"]
        return {
            LIBS: os.pathsep.join(filter(None, libraries)),
            KEEP: ",".join(dict.fromkeys(filter(None, kept))),
            FOLDER: before.get(FOLDER) or self._folder,
            "CUTE_DSL_ARCH": f"sm_{architecture}a", "CUTE_DSL_LINEINFO": "1",
            "CUTE_DSL_DISABLE_FILE_CACHING": "1",
        }  # fmt: skip

    def changes(self) -> dict[str, Change]:
        """Changes to modules that the program imports."""
        return {
            "cutlass.base_dsl.jit_executor": self._read_texts,
            "cutlass.cute.runtime": take_for_device,
            "cutlass.cutlass_dsl.tvm_ffi_provider": hand_over_on_device,
            "cutlass.utils.hardware_info": self._count_clusters,
            "cuda.bindings.runtime": self._change_runtime,
            "cuda.bindings.driver": self._change_driver,
        }

    def _read_texts(self, module: ModuleType) -> None:
        """Each compiled function reads what was left of it; so do we."""
        artifacts = module.JitFunctionArtifacts
        read = artifacts.__post_init__

        def read_by_both(made: object) -> None:
            path = getattr(made, "PTX", None)
            read(made)
            machine_code, ptx = getattr(made, "CUBIN", None), getattr(made, "PTX", None)
            if isinstance(machine_code, bytes) and isinstance(ptx, str) and ptx != path:
                self.calls.texts.add(machine_code, ptx, Path(str(path)).name)

        artifacts.__post_init__ = read_by_both

    def _count_clusters(self, module: ModuleType) -> None:
        """As many clusters as there are groups of so many multiprocessors."""
        processors = self.calls.queue.settings.model.multiprocessors

        def most(_: object, cluster_size: int, stream: object = None) -> int:
            return processors // cluster_size

        module.HardwareInfo.get_max_active_clusters = most

    def _change_runtime(self, module: ModuleType) -> None:
        done = (module.cudaError_t.cudaSuccess,)
        module.cudaGetDeviceCount = lambda: (*done, 1)  # type: ignore[attr-defined]
        for name in ("cudaLibraryUnload", "cudaDeviceSynchronize", "cudaStreamSynchronize"):
            setattr(module, name, lambda *_: done)

    def _change_driver(self, module: ModuleType) -> None:
        """Devices, contexts, streams; events count warp instructions, which nothing disturbs."""
        queue, success = self.calls.queue, module.CUresult.CUDA_SUCCESS
        model = queue.settings.model
        recorded: dict[int, int] = {}

        def event(*_: object) -> tuple[object, ...]:
            number = len(recorded) + 1
            recorded[number] = 0
            return success, module.CUevent(number)

        def record(which: object, *_: object) -> tuple[object, ...]:
            recorded[int(which)] = queue.instructions  # type: ignore[call-overload]
            return (success,)

        def elapsed(first: object, last: object) -> tuple[object, ...]:
            apart = recorded[int(last)] - recorded[int(first)]  # type: ignore[call-overload]
            return success, float(max(1, apart))

        answers = {
            "cuInit": (), "cuDriverGetVersion": (13000,), "cuDeviceGetCount": (1,),
            "cuDeviceGet": (module.CUdevice(0),), "cuCtxGetDevice": (module.CUdevice(0),),
            "cuCtxGetCurrent": (module.CUcontext(1),), "cuCtxSetCurrent": (),
            "cuDevicePrimaryCtxRetain": (module.CUcontext(1),), "cuDevicePrimaryCtxRelease": (),
            "cuCtxSynchronize": (), "cuStreamCreate": (module.CUstream(0),),
            "cuStreamSynchronize": (), "cuStreamDestroy": (), "cuEventDestroy": (),
            "cuEventSynchronize": (),
        }  # fmt: skip
        for name, more in answers.items():
            setattr(module, name, lambda *_, more=more: (success, *more))
        module.cuDeviceGetAttribute = (  # type: ignore[attr-defined]
            lambda number, *_: (success, model.attribute(int(number)))
        )
        module.cuEventCreate, module.cuEventRecord = event, record  # type: ignore[attr-defined]
        module.cuEventElapsedTime = elapsed  # type: ignore[attr-defined]


def _runtime() -> str:
    """The runtime library of CuTe DSL, for what ours leaves to it; empty where there is none."""
    found = importlib.util.find_spec(PACKAGE)
    for place in (found.submodule_search_locations or ()) if found is not None else ():
        for path in sorted(Path(place).glob(f"*/lib/{RUNTIME}")):
            return str(path)
    return ""
