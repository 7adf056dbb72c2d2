"""Bank conflicts of tiles in shared memory, counted: 32 banks of 4 bytes, one word a cycle each.

A tile's rows lie one after the other, a pitch apart, and within them the hardware's swizzle moves
16-byte pieces by the number of their row. Counted are the cycles of one access of a warp where all
lanes could have had theirs in `least` cycles. Source: CUDA programming guide, shared memory; PTX
ISA, swizzling modes (bits 4 to 6 of an address are changed by bits 7 to 9).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

BANKS, WORD = 32, 4
MODES = {"none": 0, "32B": 1, "64B": 3, "128B": 7}  # which of bits 7 to 9 are used


@dataclass(frozen=True, slots=True)
class BankRow:
    """Cycles of an access; `padding_share`: bytes of the pitch that hold no data."""

    access: str
    row_bytes: int
    swizzle: str
    pad_bytes: int
    cycles: int
    least: int
    padding_share: float


def address(row: int, byte: int, pitch: int, swizzle: str) -> int:
    """Where a byte of a tile lies."""
    plain = row * pitch + byte
    return plain ^ ((plain >> 7 & MODES[swizzle]) << 4)


def cycles(addresses: Iterable[int]) -> int:
    """The most different words that one bank is asked for."""
    words: dict[int, set[int]] = {}
    for at in addresses:
        words.setdefault(at // WORD % BANKS, set()).add(at // WORD)
    return max(len(found) for found in words.values())


def accesses(row_bytes: int, pitch: int, swizzle: str) -> dict[str, list[list[int]]]:
    """Each access as phases of lanes: rows of 16 bytes as matrices are read, pairs of f32 results
    of a fragment as they are stored, and a column read by one lane a row."""
    eight = [
        [
            address(row, 16 * piece + byte, pitch, swizzle)
            for row in range(8)
            for byte in range(0, 16, WORD)
        ]
        for piece in range(row_bytes // 16)
    ]
    pairs = [[address(lane // 4, 4 * (lane % 4), pitch, swizzle) for lane in range(32)]]
    column = [[address(lane, 0, pitch, swizzle) for lane in range(32)]]
    return {"8 rows of 16 bytes": eight, "pairs of a fragment": pairs, "a column": column}


LEAST = {"8 rows of 16 bytes": 1, "pairs of a fragment": 1, "a column": 1}


def table(rows: Iterable[int] = (64, 128, 256)) -> list[BankRow]:
    """Every access over row lengths, swizzles, and paddings of a row without swizzle."""
    found = []
    for row_bytes in rows:
        cases = [(mode, 0) for mode in MODES] + [("none", pad) for pad in (4, 16, 32)]
        for swizzle, pad in cases:
            if swizzle != "none" and row_bytes % {"32B": 32, "64B": 64, "128B": 128}[swizzle]:
                continue
            # A box of a copy is as wide as its swizzle: longer rows lie in several panels.
            width = row_bytes if swizzle == "none" else min(row_bytes, int(swizzle[:-1]))
            for name, phases in accesses(width, width + pad, swizzle).items():
                worst = max(map(cycles, phases))
                share = pad / (width + pad)
                found.append(BankRow(name, row_bytes, swizzle, pad, worst, LEAST[name], share))
    return found
