"""Memory with contents, for runs that compute: global memory in parts, and LDS, by bytes.

A run without it follows addresses and control alone. With it every value is known; what is not is
refused where it would be stored. Lanes whose address is negative touch nothing: they load zeros
(raw buffers beyond their end; CDNA3, 9.1.5).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from titan.isa.gcn.module import AssemblyInstruction
from titan.isa.waves.state import LANES, OpaqueWord, Refused, Wave, Words

Places = NDArray[np.int64]
Bytes = NDArray[np.uint8]
_UNSET = 0xFF  # LDS at the start: numbers that no one wrote are NaN in every format


class Contents:
    """Parts of global memory by their addresses, which a run changes, and the bytes of LDS."""

    def __init__(self, parts: Sequence[tuple[int, Bytes]]) -> None:
        self.parts = tuple(parts)
        self.lds: Bytes = np.zeros(0, np.uint8)

    def begin_group(self, lds_bytes: int) -> None:
        """A work-group starts, with LDS that nobody has written."""
        self.lds = np.full(lds_bytes + 16, _UNSET, np.uint8)

    def read(self, places: Places, size: int) -> Bytes:
        """`size` bytes at each place, as rows; zeros where a place is negative. Raises Refused."""
        found = np.zeros((len(places), size), np.uint8)
        left = places >= 0
        for start, data in self.parts:
            here = left & (places >= start) & (places + size <= start + len(data))
            index = (places[here] - start)[:, None] + np.arange(size)
            found[here] = data[index]
            left &= ~here
        if left.any():
            raise Refused(f"a load at {int(places[left][0]):#x}, outside of all tensors")
        return found

    def write(self, places: Places, rows: Bytes) -> None:
        """A row of bytes to each place that is not negative. Raises Refused."""
        left, size = places >= 0, rows.shape[1]
        for start, data in self.parts:
            here = left & (places >= start) & (places + size <= start + len(data))
            data[(places[here] - start)[:, None] + np.arange(size)] = rows[here]
            left &= ~here
        if left.any():
            raise Refused(f"a store at {int(places[left][0]):#x}, outside of all tensors")

    def read_lds(self, places: Places, size: int) -> Bytes:
        """`size` bytes of LDS at each place; zeros beyond its end."""
        inside = (places >= 0) & (places + size <= len(self.lds))
        index = np.where(inside, places, 0)[:, None] + np.arange(size)
        return np.where(inside[:, None], self.lds[index], np.uint8(0))

    def write_lds(self, places: Places, rows: Bytes) -> None:
        """A row of bytes of LDS to each place within it."""
        size = rows.shape[1]
        inside = (places >= 0) & (places + size <= len(self.lds))
        self.lds[places[inside][:, None] + np.arange(size)] = rows[inside]


def set_registers(
    wave: Wave, registers: Sequence[int], rows: Bytes, item: AssemblyInstruction
) -> None:
    """What the lanes have loaded, widened to registers as the name of the load says."""
    name, size = item.base, rows.shape[1]
    if size < 4:
        words: Words = np.zeros((LANES, 1), np.uint32)
        words[:, 0] = np.ascontiguousarray(rows).view(np.uint8 if size == 1 else np.uint16)[:, 0]
        if any(part in name for part in ("sbyte", "sshort", "_i8", "_i16")):
            sign = np.uint32(1 << (8 * size - 1))
            words = (words ^ sign) - sign
        if "_d16" in name:
            # The other half is zero: registers with ECC are written as a whole.
            words &= np.uint32(0xFFFF)
            words <<= np.uint32(16 if name.endswith("_hi") else 0)
    else:
        words = np.ascontiguousarray(rows).view(np.uint32)
    for at, register in enumerate(registers):
        wave.set_vector(register, words[:, at], wave.exec, _KNOWN)


def register_rows(
    wave: Wave, registers: Sequence[int], size: int, item: AssemblyInstruction
) -> Bytes:
    """The bytes that the lanes store. Raises Refused for a value that is not known."""
    words = np.zeros((LANES, len(registers)), np.uint32)
    for at, register in enumerate(registers):
        if wave.known[register] & wave.exec != wave.exec:
            raise Refused(f"what {item.opcode} stores", wave.origins[register])
        words[:, at] = wave.vectors[register]
    if item.base.endswith("_d16_hi"):
        words >>= np.uint32(16)
    return words.view(np.uint8)[:, :size]


_KNOWN = OpaqueWord("nothing", -1)
