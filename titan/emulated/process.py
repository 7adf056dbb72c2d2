"""The memory of a process as that of the device, for launches of which only addresses are known.

A kernel may touch the storages of tensors, and what the program has allocated, that its parameters
and tensor maps point into; and those that tensors of 8-byte integers among these point into, as the
lists of a grouped GEMM do. PyTorch's tensors on the CPU are found wherever the program keeps them.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from titan.emulated.memory import HostMemory

POINTER_BYTES = 8


@dataclass(frozen=True, slots=True)
class Storage:
    """Bytes of the process; `pointers`: they may hold addresses."""

    start: int
    size_bytes: int
    pointers: bool


@dataclass(slots=True)
class ProcessMemory:
    """What the program has allocated itself, by address; tensors are looked for at each launch."""

    blocks: dict[int, ctypes.Array[ctypes.c_char]] = field(default_factory=dict)

    def allocate(self, size_bytes: int) -> int:
        """The address of new memory."""
        block = ctypes.create_string_buffer(max(1, size_bytes))
        self.blocks[ctypes.addressof(block)] = block
        return ctypes.addressof(block)

    def free(self, address: int) -> bool:
        """Whether an allocation began there; it is gone."""
        return self.blocks.pop(address, None) is not None

    def of_launch(self, parameters: Iterable[bytes], bases: Iterable[int]) -> HostMemory:
        """The memory that the parameters and tensor maps of a launch lead to."""
        own = [Storage(start, len(block), True) for start, block in self.blocks.items()]
        found = HostMemory()
        follow(found, [*bases, *(word for data in parameters for word in words_of(data))], own)
        return found


def follow(found: HostMemory, addresses: list[int], own: Sequence[Storage] = ()) -> None:
    """Let kernels touch the storages that the addresses point into, and so on."""
    storages = _united([*own, *tensors()])
    starts = [storage.start for storage in storages]
    waiting = list(addresses)
    seen: set[Storage] = set()
    while waiting:
        storage = _holding(storages, starts, waiting.pop())
        if storage is None or storage in seen:
            continue
        seen.add(storage)
        found.add(storage.start, storage.size_bytes)
        if storage.pointers:
            waiting += words_of(ctypes.string_at(storage.start, storage.size_bytes))


def tensors() -> Iterator[Storage]:
    """The storages of all of PyTorch's tensors on the CPU, if the program has imported it."""
    torch = sys.modules.get("torch")
    kind = getattr(torch, "Tensor", None)
    if torch is None or kind is None:
        return
    for item in gc.get_objects():
        if not issubclass(type(item), kind) or item.device.type != "cpu":
            continue
        if item.layout is not torch.strided or item.is_meta:
            continue
        try:
            storage = item.untyped_storage()
            start, size = int(storage.data_ptr()), int(storage.nbytes())
        except RuntimeError:  # a tensor of the compiler, or of a transformation, without memory
            continue
        if size:
            yield Storage(start, size, item.dtype in (torch.int64, torch.uint64))


def _united(found: Iterable[Storage]) -> list[Storage]:
    """By address; what several tensors share, once."""
    by_start: dict[int, Storage] = {}
    for storage in found:
        other = by_start.get(storage.start, storage)
        size, pointers = max(storage.size_bytes, other.size_bytes), storage.pointers
        by_start[storage.start] = Storage(storage.start, size, pointers or other.pointers)
    return sorted(by_start.values(), key=lambda storage: storage.start)


def _holding(storages: Sequence[Storage], starts: Sequence[int], address: int) -> Storage | None:
    place = bisect_right(starts, address) - 1
    if place < 0 or address >= storages[place].start + storages[place].size_bytes:
        return None
    return storages[place]


def words_of(data: bytes) -> Iterator[int]:
    """The 8-byte numbers at places that are aligned to them."""
    for at in range(0, len(data) - POINTER_BYTES + 1, POINTER_BYTES):
        word = int.from_bytes(data[at : at + POINTER_BYTES], "little")
        if word:
            yield word
