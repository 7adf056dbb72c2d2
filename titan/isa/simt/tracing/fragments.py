"""Which element of a matrix each lane holds in each register of a fragment.

Sources: PTX ISA, "Matrix Fragments for mma.m16n8k*", "Register Fragments and Shared Memory Matrix
Layouts" (wgmma), "Matrix fragments for tcgen05.ld", "ldmatrix". Registers hold consecutive elements
of a row; only the row and the first column matter here. `index`: a lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from titan.isa.ptx.module import Instruction, Vector
from titan.isa.simt.values import Scalar, Value, lane

QUAD = 4  # lanes that hold one row
HALF_ROWS = 8


def sums_at(index: int, place: int, registers: int, columns: int) -> tuple[int, tuple[int, ...]]:
    """Row within the warp's 16, and columns, of register `place` of a lane's sums.

    `registers`: of the lane, for 16 rows of `columns` columns; 16-bit sums are two a register.
    """
    packed = registers * 2 < columns  # columns / 2 registers of 32-bit sums, half as many of 16
    if packed:
        first = HALF_ROWS * (place // 2) + 2 * (index % QUAD)
        return index // QUAD + HALF_ROWS * (place % 2), (first, first + 1)
    first = HALF_ROWS * (place // 4) + 2 * (index % QUAD) + place % 2
    return index // QUAD + HALF_ROWS * (place // 2 % 2), (first,)


def left_row(index: int, place: int) -> int:
    """The row within 16 of register `place` of the left operand."""
    return index // QUAD + HALF_ROWS * (place % 2)


class WarpProduct(NamedTuple):
    """How many registers a lane has of D and of the operands of an mma.sync.m16n8k*."""

    sums: int
    left: int
    right: int
    added: int

    def parts(self, operands: Sequence[Value], index: int, place: int) -> tuple[Scalar, ...]:
        """All that register `place` of a lane's D is made of: a row of A, columns of B, and C."""
        row, columns = sums_at(index, place, self.sums, 8)
        first = QUAD * (row % HALF_ROWS)
        left = operands[row // HALF_ROWS : self.left : 2]
        right = operands[self.left : self.left + self.right]
        found = [lane(value, at) for value in left for at in range(first, first + QUAD)]
        for column in columns:
            at = range(QUAD * column, QUAD * column + QUAD)
            found += [lane(value, other) for value in right for other in at]
        return (*found, lane(operands[self.left + self.right + place], index))


def warp_product(instruction: Instruction) -> WarpProduct | None:
    """The form of an mma.sync of 16 x 8 sums without sparsity and scales; None for any other."""
    sizes = [len(item.items) for item in instruction.operands if isinstance(item, Vector)]
    dense = not any(word.startswith("sp") for word in instruction.modifiers)
    shaped = any(word.startswith("m16n8k") for word in instruction.modifiers)
    if instruction.opcode != "mma" or not dense or not shaped or len(sizes) != 4:
        return None
    made = WarpProduct(*sizes)
    return made if made.sums == made.added and made.sums in (2, 4) else None


class MatrixForm(Enum):
    """How a lane has its register of a matrix of 8 by 8 elements of 16 bits."""

    ROWS = "rows"  # two elements of a row
    COLUMNS = "columns"  # two of a column, with .trans

    def bytes_of(self, index: int, matrix: int) -> tuple[tuple[int, int], ...]:
        """The four bytes of a lane's register: the lane that gives the row's address, the byte."""
        if self is MatrixForm.ROWS:
            row, first = HALF_ROWS * matrix + index // QUAD, 4 * (index % QUAD)
            return (row, first), (row, first + 1), (row, first + 2), (row, first + 3)
        row, first = HALF_ROWS * matrix + 2 * (index % QUAD), 2 * (index // QUAD)
        return (row, first), (row, first + 1), (row + 1, first), (row + 1, first + 1)


def matrix_form(instruction: Instruction) -> MatrixForm | None:
    """The form of an ldmatrix or stmatrix of m8n8 and b16; None for others."""
    if not {"m8n8", "b16"} <= set(instruction.modifiers):
        return None
    return MatrixForm.COLUMNS if "trans" in instruction.modifiers else MatrixForm.ROWS


def tensor_cell(shape: str, index: int, place: int) -> tuple[int, int] | None:
    """Lane and column of tensor memory, from those of the address, of a register of tcgen05.ld and
    .st without `.pack`; None for the shapes that are not in this table.
    """
    if shape == "32x32b":
        return index, place
    if shape == "16x256b":
        row = index // QUAD + HALF_ROWS * (place // 2 % 2)
        return row, HALF_ROWS * (place // 4) + 2 * (index % QUAD) + place % 2
    if shape == "16x128b":
        return index // QUAD + HALF_ROWS * (place % 2), 4 * (place // 2) + index % QUAD
    return None
