"""The driver of the back end: Triton's queries, answered by the emulated device."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from math import prod
from types import SimpleNamespace

import triton.backends as discovered
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from titan.emulated.assembly import AssemblyQueue, LoadedAssembly, load_assembly
from titan.emulated.foreign import Foreign
from titan.emulated.machine import LaunchQueue
from titan.emulated.modules import LoadedModule, load
from titan.emulated.settings import EmulationSettings, from_environment
from titan.emulated.torch_cuda import CountingEvent
from titan.emulated.triton.launcher import TitanLauncher

BACKEND = "titan"
THREADS_MAX, REGISTERS_MAX = 1024, 255


class TitanUtils:
    """Modules and properties of the device."""

    def __init__(self, settings: EmulationSettings, queue: LaunchQueue) -> None:
        self.settings, self.queue = settings, queue

    def load_binary(
        self, name: str, kernel: bytes, shared: int, device: int
    ) -> tuple[Foreign, Foreign, int, int, int]:
        """The module of a text and its function, registers and spills of a thread.

        Registers are not known: as many as a thread of such a block can have.
        """
        loaded: LoadedModule | LoadedAssembly
        if self.settings.model.assembly:
            loaded = load_assembly(kernel.decode(), f"{name}.s")
        else:
            loaded = load(kernel.decode(), f"{name}.ptx")
        threads = prod(loaded.entry(name).performance.get("reqntid", (THREADS_MAX,)))
        registers = min(REGISTERS_MAX, self.settings.model.registers // threads // 8 * 8)
        return loaded, (loaded, name, self.queue), registers, 0, THREADS_MAX

    def unload_module(self, module: Foreign) -> None:
        """Modules stay cached by their text."""

    def get_device_properties(self, device: int) -> dict[str, Foreign]:
        """Those that Triton's own driver gives."""
        model = self.settings.model
        return {
            "max_shared_mem": model.shared_bytes_max,
            "max_num_regs": model.registers,
            "multiprocessor_count": model.multiprocessors,
            "warpSize": model.lanes,
            "max_threads_per_sm": 2048,
            "arch": model.assembly,
            "sm_clock_rate": 1_755_000,
            "mem_clock_rate": 2_619_000,
            "mem_bus_width": 5120,
        }


class TitanDriver(DriverBase):  # type: ignore[misc]
    """One emulated device, its settings from the environment (`titan/emulated/settings.py`)."""

    def __init__(self) -> None:
        super().__init__()
        self.settings = from_environment(os.environ)
        assembly = self.settings.model.assembly
        self.queue = (AssemblyQueue if assembly else LaunchQueue).of(self.settings)
        self.utils = TitanUtils(self.settings, self.queue)
        self.launcher_cls = TitanLauncher
        _take_over(bool(assembly))

    @staticmethod
    def is_active() -> bool:
        """Whether it was asked for, or no other back end finds a device."""
        if os.environ.get("TRITON_DEFAULT_BACKEND") == BACKEND:
            return True
        known = getattr(discovered, "backends", {})
        return not any(
            backend.driver.is_active() for name, backend in known.items() if name != BACKEND
        )

    def get_current_target(self) -> GPUTarget:
        """A GPU of its maker, so that libraries compile for one."""
        model = self.settings.model
        if model.assembly:
            return GPUTarget("hip", model.assembly, model.lanes)
        return GPUTarget("cuda", model.architecture, model.lanes)

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        """Major and minor number."""
        return self.settings.model.capability

    def get_current_device(self) -> int:
        """There is one."""
        return 0

    def set_current_device(self, device: int) -> None:
        """There is one."""

    def get_current_stream(self, device: int = 0) -> int:
        """There is one: launches run in order, each to its end."""
        return 0

    def map_python_to_cpp_type(self, ty: str) -> str:
        """As for that maker."""
        if self.settings.model.assembly:
            from triton.backends.amd.driver import ty_to_cpp
        else:
            from triton.backends.nvidia.driver import ty_to_cpp

        return str(ty_to_cpp(ty))

    def get_active_torch_device(self) -> Foreign:
        """Tensors are those of the CPU."""
        import torch

        return torch.device("cpu")

    def get_device_interface(self) -> Foreign:
        """PyTorch's functions for the CPU, and what `triton.testing.do_bench` measures with."""
        import torch

        instructions = partial(getattr, self.queue, "instructions")
        event = type("Event", (CountingEvent,), {"instructions": staticmethod(instructions)})
        return SimpleNamespace(**{**vars(torch.cpu), "Event": event})

    def allocate_default_profile_scratch(
        self, size: int, alignment: int, stream: Foreign
    ) -> Foreign:
        """Zeros that a profiler of Triton writes to."""
        import numpy as np

        return np.zeros(size + alignment, dtype=np.int8)

    def get_benchmarker(self) -> Callable[..., Foreign]:
        """Warp instructions in place of milliseconds, which no load of the computer changes."""

        def counted(
            kernel_call: Callable[[], Foreign], *, quantiles: Foreign = None, **_: Foreign
        ) -> Foreign:
            before = self.queue.instructions
            kernel_call()
            count = float(self.queue.instructions - before)
            return [count] * len(quantiles) if quantiles else count

        return counted

    def get_empty_cache_for_benchmark(self) -> Foreign:
        """There is no cache to clear."""
        return None

    def clear_cache(self, cache: Foreign) -> None:
        """There is none."""


def _take_over(assembly: bool) -> None:
    """Replace the compiler of a maker by that of this back end, and let kernels take arrays.

    Triton has no other way to compile for a target of NVIDIA and not to end with ptxas, or for one
    of AMD and not to end with a linked object.
    """
    from triton.runtime import jit

    from titan.emulated.triton.arguments import specialised

    known = discovered.backends
    if assembly:
        from titan.emulated.triton.assembly import AssemblyCompiler

        known["amd"] = discovered.Backend(AssemblyCompiler, known["amd"].driver)
    else:
        from titan.emulated.triton.compiler import TitanCompiler

        class PtxCompiler(TitanCompiler):
            targets = ("cuda",)

        known["nvidia"] = discovered.Backend(PtxCompiler, known["nvidia"].driver)
    if not hasattr(jit.native_specialize_impl, "__wrapped__"):
        wrapped = specialised(jit.native_specialize_impl)
        wrapped.__wrapped__ = jit.native_specialize_impl  # type: ignore[attr-defined]
        jit.native_specialize_impl = wrapped
