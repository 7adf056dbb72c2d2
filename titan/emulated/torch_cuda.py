"""PyTorch without CUDA for programs that ask for a GPU: `cuda` names the CPU.

Functions of PyTorch that are given the device "cuda" make or move tensors on the CPU, whose memory
is that of the emulated device, and `torch.cuda` describes that device: one stream, on which all is
over when a call returns. Tensors have the device of the CPU; `is_cuda`, which programs assert, is
true.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial, wraps
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING

from titan.emulated.captures import CAPTURES
from titan.emulated.memory import ALIGNMENT_BYTES
from titan.emulated.replacements import Replacements
from titan.emulated.settings import DeviceModel
from titan.emulated.torch_graphs import CapturedGraph, GraphCapture

if TYPE_CHECKING:
    from titan.emulated.foreign import Foreign


ROCM = "6.4.0"  # the version of HIP that programs see


class TorchStandIn:
    """Lets programs find a GPU; nothing is changed where PyTorch has one.

    `instructions` counts the warp instructions that were executed, which events measure.
    """

    def __init__(self, model: DeviceModel, instructions: Callable[[], int]) -> None:
        self._model, self._instructions = model, instructions
        self._replaced = Replacements()
        self._kernels: Foreign = None
        self.mode: AbstractContextManager[object] | None = None

    def change(self, torch: ModuleType) -> None:
        """What is to happen when a program imports PyTorch."""
        if torch.cuda.is_available():
            return
        for name, value in _described(torch, self._model, self._instructions).items():
            self._replaced.put(torch.cuda, name, value)
        for name, value in _queried().items():
            self._replaced.put(torch._C, name, value)
        if self._model.assembly:  # by which programs know AMD's PyTorch
            self._replaced.put(torch.version, "hip", ROCM)
        self._replaced.put(
            torch._C._dynamo.guards, "_empty_strided_cuda", partial(_empty_strided, torch)
        )
        self._replaced.put(torch.Tensor, "is_cuda", property(_is_on_device))
        self._replaced.put(torch.amp.autocast, "__init__", _autocast(torch))
        self._kernels = _allocating(torch)
        self.mode = _redirecting(torch)
        self.mode.__enter__()

    def undo(self) -> None:
        """PyTorch as it was."""
        self._replaced.undo()
        if self._kernels is not None:
            self._kernels._destroy()
            self._kernels = None
        if self.mode is not None:
            self.mode.__exit__(None, None, None)
            self.mode = None


def _is_on_device(tensor: Foreign) -> bool:
    """Whether a tensor is on a GPU, as who asks for it takes it to be: PyTorch itself, for what it
    can do with the tensor, gets the truth."""
    asking = str(sys._getframe(1).f_globals.get("__name__", ""))
    return asking.partition(".")[0] != "torch"


class OneStream:
    """The one stream: what it was given is over."""

    cuda_stream = 0

    def __init__(self, *_: Foreign, **__: Foreign) -> None:
        pass

    def synchronize(self, *_: Foreign) -> None:
        """Nothing is left to wait for."""

    wait_stream = wait_event = record_event = synchronize

    def query(self) -> bool:
        """Whether all is over."""
        return True

    def __enter__(self) -> OneStream:
        return self

    def __exit__(self, *_: Foreign) -> None:
        pass


class OneDevice:
    """The device for a while: it is the one that there is."""

    idx = prev_idx = 0

    def __init__(self, *_: Foreign, **__: Foreign) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: Foreign) -> None:
        pass


class CountingEvent:
    """A point in that stream: the warp instructions until there."""

    instructions: Callable[[], int]

    def __init__(self, *_: Foreign, **__: Foreign) -> None:
        self.at = 0

    def record(self, *_: Foreign) -> None:
        """Here."""
        self.at = self.instructions()

    def elapsed_time(self, other: CountingEvent) -> float:
        """Warp instructions in the place of milliseconds."""
        return float(max(1, other.at - self.at))

    def synchronize(self, *_: Foreign) -> None:
        """Nothing is left to wait for."""

    wait = synchronize

    def query(self) -> bool:
        """Whether all before it is over."""
        return True


class DeviceGenerator:
    """Where kernels get the seed and the offset from with which they draw random numbers (Philox).
    PyTorch's own functions draw from the generator of the CPU.
    """

    def __init__(self, torch: ModuleType) -> None:
        self._torch = torch
        self.device = torch.device("cpu")
        self._seed, self._offset = torch.initial_seed(), 0

    def manual_seed(self, seed: int) -> DeviceGenerator:
        """Begin again."""
        self._seed, self._offset = seed % (1 << 63), 0
        return self

    def initial_seed(self) -> int:
        """The seed."""
        return self._seed

    def get_offset(self) -> int:
        """How many numbers each thread has drawn."""
        return self._offset

    def set_offset(self, offset: int) -> None:
        """Set that number."""
        self._offset = offset

    def get_state(self) -> Foreign:
        """Both in 16 bytes, as CUDA's generators have them."""
        torch = self._torch
        return torch.tensor([self._seed, self._offset], dtype=torch.int64).view(torch.uint8)

    def set_state(self, state: Foreign) -> None:
        """Set both."""
        self._seed, self._offset = state.view(self._torch.int64).tolist()


def _described(
    torch: ModuleType, model: DeviceModel, instructions: Callable[[], int]
) -> dict[str, Foreign]:
    """What `torch.cuda` has instead, by name."""
    properties = SimpleNamespace(
        name=model.name, major=model.capability[0], minor=model.capability[1],
        multi_processor_count=model.multiprocessors, total_memory=model.memory_bytes,
        shared_memory_per_block=model.shared_bytes,
        shared_memory_per_block_optin=model.shared_bytes_max,
        shared_memory_per_multiprocessor=model.shared_bytes_of_multiprocessor,
        regs_per_multiprocessor=model.registers, warp_size=model.lanes, L2_cache_size=50 << 20,
        max_threads_per_multi_processor=2048, is_integrated=False,
        gcnArchName=model.assembly,
    )  # fmt: skip

    stream_kind = type("Stream", (OneStream,), {"device": torch.device("cpu")})
    counting = {"instructions": staticmethod(instructions)}
    event_kind = type("Event", (CountingEvent,), counting)
    stream = stream_kind()
    answers = {
        "is_available": True, "is_initialized": True, "device_count": 1, "current_device": 0,
        "get_device_name": model.name, "get_device_capability": model.capability,
        "get_device_properties": properties,
        "get_arch_list": [model.assembly or f"sm_{model.architecture}"],
        "current_stream": stream, "default_stream": stream, "is_bf16_supported": True,
        "memory_allocated": 0, "max_memory_allocated": 0, "memory_reserved": 0,
        "mem_get_info": (model.memory_bytes, model.memory_bytes),
    }  # fmt: skip
    nothing = (
        "synchronize", "set_device", "empty_cache", "init", "_lazy_init", "set_stream",
        "reset_peak_memory_stats", "ipc_collect",
    )  # fmt: skip
    generator = DeviceGenerator(torch)
    found: dict[str, Foreign] = {
        "Stream": stream_kind, "Event": event_kind, "graph": GraphCapture,
        "CUDAGraph": type("CUDAGraph", (CapturedGraph,), {"torch": torch}),
        "graph_pool_handle": partial(_given, (0, 0)),
        "is_current_stream_capturing": lambda: CAPTURES.steps is not None,
        "get_rng_state": lambda *_: torch.random.get_rng_state(),
        "set_rng_state": lambda state, *_: torch.random.set_rng_state(state),
        "default_generators": (generator,),
        "manual_seed": generator.manual_seed, "manual_seed_all": generator.manual_seed,
        "_exchange_device": partial(_given, 0), "_maybe_exchange_device": partial(_given, 0),
        "_DeviceGuard": lambda *_: contextlib.nullcontext(),
    }  # fmt: skip
    for name, value in answers.items():
        found[name] = partial(_given, value)
    for name in nothing:
        found[name] = partial(_given, None)
    for name in ("device", "device_of"):
        found[name] = OneDevice
    found["stream"] = lambda *_, **__: contextlib.nullcontext()
    return found


def _queried() -> dict[str, Foreign]:
    """What PyTorch's library for CUDA has beneath `torch.cuda`, by name: there is one device."""
    return {
        "_cuda_getCurrentRawStream": partial(_given, 0), "_cuda_getDevice": partial(_given, 0),
        "_cuda_setDevice": partial(_given, None), "_cuda_exchangeDevice": partial(_given, 0),
        "_cuda_maybeExchangeDevice": partial(_given, 0),
        "_cuda_cudaCachingAllocator_is_enabled": partial(_given, True),
    }  # fmt: skip


def _given(value: Foreign, *_: Foreign, **__: Foreign) -> Foreign:
    return value


def _redirecting(torch: ModuleType) -> AbstractContextManager[object]:
    """A mode that turns "cuda" into the CPU in all calls of PyTorch's functions.

    What is made for a GPU or moved there, or back, is a copy, as it would be with two memories.
    """
    cpu = torch.device("cpu")

    def is_cuda(value: Foreign) -> bool:
        if isinstance(value, torch.device):
            return bool(value.type == "cuda")
        return isinstance(value, str) and (value == "cuda" or value.startswith("cuda:"))

    def is_device(place: int | str, value: Foreign, function: Foreign) -> bool:
        """Whether an argument names the GPU, by its number, too, where a device stands."""
        to_module = getattr(function, "__name__", "") == "_parse_to"  # what Module.to is given
        numbered = place == "device" or (place == 1 and function is torch.Tensor.to)
        return is_cuda(value) or (type(value) is int and (numbered or (to_module and place == 0)))

    def is_cpu(value: Foreign) -> bool:
        return value == "cpu" if isinstance(value, str) else value == cpu

    class CudaIsTheCpu(torch.overrides.TorchFunctionMode):  # type: ignore[misc, name-defined]
        """Sees each call."""

        def __torch_function__(
            self, function: Foreign, types: Foreign, args: Foreign = (), kwargs: Foreign = None
        ) -> Foreign:
            given = [*args, *(kwargs or {}).values()]
            if function is torch.device and (is_cuda(given[0]) or type(given[0]) is int):
                return cpu  # whichever number is given
            named = [*enumerate(args), *(kwargs or {}).items()]
            moves = any(is_device(place, value, function) for place, value in named)
            args = [cpu if is_device(n, v, function) else v for n, v in enumerate(args)]
            kwargs = {k: cpu if is_device(k, v, function) else v for k, v in (kwargs or {}).items()}
            kwargs.pop("pin_memory", None)
            if function is torch.Tensor.pin_memory:
                return args[0]
            if function is torch.Tensor.cuda:
                return _moved(torch, args[0])
            found = function(*args, **kwargs)
            if moves and isinstance(found, torch.Tensor):
                is_moved = function is torch.Tensor.to
                return (_moved if is_moved else _on_device)(torch, found)
            back = function is torch.Tensor.to and any(map(is_cpu, given))
            return found.clone() if back or function is torch.Tensor.cpu else found

    made: AbstractContextManager[object] = CudaIsTheCpu()
    return made


def _autocast(torch: ModuleType) -> Foreign:
    """Regions of other precision for "cuda" are those for the CPU."""
    before = torch.amp.autocast.__init__

    @wraps(before)
    def begin(
        region: Foreign, device_type: str, dtype: Foreign = None, *more: Foreign, **options: Foreign
    ) -> None:
        if device_type == "cuda":
            device_type, dtype = "cpu", dtype or torch.get_autocast_dtype("cuda")
        before(region, device_type, dtype, *more, **options)

    return begin


def _allocating(torch: ModuleType) -> Foreign:
    """Kernels of PyTorch that allocate on "cuda", for calls that the mode does not see."""

    def empty(size: Foreign, **options: Foreign) -> Foreign:
        return _on_device(torch, torch.empty(size, **{**options, "device": "cpu"}))

    def strided(size: Foreign, stride: Foreign, **options: Foreign) -> Foreign:
        made = torch.empty_strided(size, stride, **{**options, "device": "cpu"})
        return _on_device(torch, made)

    kernels = torch.library.Library("aten", "IMPL")
    kernels.impl("empty.memory_format", empty, "CUDA")
    kernels.impl("empty_strided", strided, "CUDA")
    return kernels


def _empty_strided(torch: ModuleType, size: Foreign, stride: Foreign, dtype: Foreign) -> Foreign:
    """What compiled programs allocate with."""
    return _on_device(torch, torch.empty_strided(size, stride, dtype=dtype, device="cpu"))


def _moved(torch: ModuleType, tensor: Foreign) -> Foreign:
    """A copy on the device of a tensor, through which gradients come back to it."""
    followed = tensor.requires_grad and torch.is_grad_enabled()
    return tensor.clone() if followed else _on_device(torch, tensor)


def _on_device(torch: ModuleType, tensor: Foreign) -> Foreign:
    """A copy, aligned as allocations of a GPU are; where it has a gradient, as PyTorch aligns."""
    if tensor.requires_grad and not tensor.is_leaf:
        return tensor.clone()
    source = tensor.detach()
    size = source.untyped_storage().nbytes()
    if source.layout is not torch.strided or source.is_meta or not size:
        return tensor.clone()
    block = bytearray(size + ALIGNMENT_BYTES)
    start = -ctypes.addressof(ctypes.c_char.from_buffer(block)) % ALIGNMENT_BYTES
    held = torch.frombuffer(memoryview(block)[start : start + size], dtype=torch.uint8)
    made = torch.empty(0, dtype=source.dtype).set_(
        held.untyped_storage(), source.storage_offset(), source.size(), source.stride()
    )
    return made.copy_(source).requires_grad_(tensor.requires_grad)
