"""Which element of a matrix each lane holds in each register of a fragment.

Sources: PTX ISA, "Matrix Fragments for mma.m16n8k*", "Register Fragments and Shared Memory Matrix
Layouts" (wgmma), "Matrix fragments for tcgen05.ld", "ldmatrix". Registers hold consecutive elements
of a row; only the row and the first column matter here.
"""

from __future__ import annotations

QUAD = 4  # lanes that hold one row
HALF_ROWS = 8
WARP_ROWS = 16


def sums_at(lane: int, place: int, registers: int, columns: int) -> tuple[int, tuple[int, ...]]:
    """Row within the warp's 16, and columns, of register `place` of a lane's sums.

    `registers`: of the lane, for 16 rows of `columns` columns; 16-bit sums are two a register.
    """
    packed = registers * 2 < columns  # columns / 2 registers of 32-bit sums, half as many of 16
    if packed:
        first = HALF_ROWS * (place // 2) + 2 * (lane % QUAD)
        return lane // QUAD + HALF_ROWS * (place % 2), (first, first + 1)
    first = HALF_ROWS * (place // 4) + 2 * (lane % QUAD) + place % 2
    return lane // QUAD + HALF_ROWS * (place // 2 % 2), (first,)


def left_row(lane: int, place: int) -> int:
    """The row within 16 of register `place` of the left operand."""
    return lane // QUAD + HALF_ROWS * (place % 2)


def right_column(lane: int) -> int:
    """The column within 8 of any register of the right operand of mma.sync."""
    return lane // QUAD


def tensor_cell(shape: str, lane: int, place: int) -> tuple[int, int] | None:
    """Lane and column of tensor memory, from those of the address, of a register of tcgen05.ld and
    .st without `.pack`; None for the shapes that are not in this table.
    """
    if shape == "32x32b":
        return lane, place
    if shape == "16x256b":
        row = lane // QUAD + HALF_ROWS * (place // 2 % 2)
        return row, HALF_ROWS * (place // 4) + 2 * (lane % QUAD) + place % 2
    if shape == "16x128b":
        return lane // QUAD + HALF_ROWS * (place % 2), 4 * (place // 2) + lane % QUAD
    return None
