"""Global memory of the emulated device, for programs that provide it in different ways."""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from titan.isa.simt.launch import Allocation


class GlobalMemory(Protocol):
    """What a launch needs of it."""

    def allocations(self) -> tuple[Allocation, ...]:
        """What kernels may touch, by address."""

    def read(self, address: int, count: int) -> bytes:
        """Bytes of one allocation."""

    def write(self, address: int, data: bytes) -> None:
        """Write bytes to one allocation."""


@dataclass(slots=True)
class HostMemory:
    """Memory of this process as global memory of one launch: what its arguments point at."""

    found: dict[int, int] = field(default_factory=dict)  # bytes by address

    def add(self, address: int, size_bytes: int) -> None:
        """Let kernels touch these bytes."""
        if size_bytes > 0:
            self.found[address] = max(size_bytes, self.found.get(address, 0))

    def allocations(self) -> tuple[Allocation, ...]:
        """Arrays that overlap, as views of one do, are one allocation."""
        return merged(self.found.items())

    def read(self, address: int, count: int) -> bytes:
        """Bytes of the process."""
        return ctypes.string_at(address, count)

    def write(self, address: int, data: bytes) -> None:
        """Write bytes; unchanged ones are left alone, since they may be read-only."""
        if data != ctypes.string_at(address, len(data)):
            ctypes.memmove(address, data, len(data))


def merged(ranges: Iterable[tuple[int, int]]) -> tuple[Allocation, ...]:
    """Ranges of (address, bytes) as allocations, those that overlap united."""
    found: list[list[int]] = []
    for start, size in sorted(ranges):
        if found and start < found[-1][1]:
            found[-1][1] = max(found[-1][1], start + size)
        else:
            found.append([start, start + size])
    return tuple(Allocation(start, end - start) for start, end in found)


FIRST_ADDRESS = 0x7_0000_0000
ALIGNMENT_BYTES = 512  # as cudaMalloc gives at least 256
FRESH = 0xFF  # memory that nobody wrote holds NaN in every format


@dataclass(slots=True)
class OwnMemory:
    """Memory that exists on the emulated device alone, as a program allocates it.

    There are guard bytes between allocations, and no address is given twice: what is freed is in
    no allocation any more.
    """

    blocks: dict[int, bytearray] = field(default_factory=dict)
    starts: list[int] = field(default_factory=list)
    end: int = FIRST_ADDRESS

    def allocate(
        self, size_bytes: int, data: bytes | None = None, alignment: int = ALIGNMENT_BYTES
    ) -> int:
        """The address of new memory, with these bytes or with FRESH ones."""
        start = -(-(self.end + 1) // alignment) * alignment
        self.blocks[start] = bytearray(bytes((FRESH,)) * size_bytes if data is None else data)
        self.starts.append(start)
        self.end = start + size_bytes
        return start

    def free(self, address: int) -> bool:
        """Whether an allocation began there; it is gone."""
        if address not in self.blocks:
            return False
        del self.blocks[address]
        self.starts.remove(address)
        return True

    def holds(self, address: int, count: int) -> bool:
        """Whether one allocation has all of these bytes."""
        start = self.start_of(address)
        return start is not None and address + count <= start + len(self.blocks[start])

    def start_of(self, address: int) -> int | None:
        """The first address of the allocation that holds an address."""
        place = bisect_right(self.starts, address)
        return self.starts[place - 1] if place else None

    def allocations(self) -> tuple[Allocation, ...]:
        return tuple(Allocation(start, len(self.blocks[start])) for start in self.starts)

    def read(self, address: int, count: int) -> bytes:
        """Bytes of one allocation. Raises KeyError where there is none."""
        start = self._start(address, count)
        return bytes(self.blocks[start][address - start : address - start + count])

    def write(self, address: int, data: bytes) -> None:
        """Put bytes into one allocation. Raises KeyError where there is none."""
        start = self._start(address, len(data))
        self.blocks[start][address - start : address - start + len(data)] = data

    def _start(self, address: int, count: int) -> int:
        start = self.start_of(address)
        if start is None or not self.holds(address, count):
            raise KeyError(address)
        return start
