"""Products whose operands are scaled block by block along K: where scales lie, and what they mean.

The scales of 128 rows and four blocks of an operand are an atom of 32 x 16 bytes: row r has its
four numbers in row r % 32 from byte 4 (r // 32) on. So cuBLAS and PTX document them, and so
`tcgen05.cp.32x128b.warpx4` takes them to tensor memory, where an atom is four columns. The scales
of an operand that enters a product are one tile of atoms one behind the other along K; the right
operand has one such tile for each 128 of its rows.

Source: PTX ISA, tcgen05.mma with block scaling; OCP Microscaling formats 1.0; cuBLAS, block scaling
factors layout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from titan.codegen.tile.model import TileOperation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Wide = NDArray[np.float64]

ATOM_OPERAND_ROWS = 128  # rows of an operand whose scales one atom holds
ATOM_ROWS = 32
ATOM_COLUMNS = 16
ATOM_BLOCKS = 4  # along K
FIRST_SCALE = 3  # of a product's operands: left, right, sum, scales of left, scales of right
SUFFIX = "_in_tensor_memory"
KINDS_OF_PAIRS = ("mxf4", "mxf4nvf4")  # of the matrix unit, whose operands have two numbers a byte


@dataclass(frozen=True, slots=True)
class BlockScaling:
    """Operands of these element types take a scale of type `scale` for each `block` along K.

    `kind`: what the matrix unit calls it. Elements along K are numbers, not bytes.
    """

    elements: tuple[str, ...]
    scale: str
    block: int
    kind: str

    @property
    def atom_depth(self) -> int:
        """The elements along K whose scales one atom holds."""
        return ATOM_BLOCKS * self.block

    def depth(self, columns: int) -> int:
        """The elements along K in so many columns of an operand's tile."""
        return columns * (2 if self.kind in KINDS_OF_PAIRS else 1)


def scales_of(operation: TileOperation) -> tuple[str, ...]:
    """The tiles of scales of a product: of the left operand, and of the right one's rows."""
    return operation.operands[FIRST_SCALE:] if operation.kind == "mma" else ()


def in_tensor_memory(scales: str) -> str:
    """The buffer in tensor memory of a tile of scales."""
    return scales + SUFFIX


def by_rows(scales: Wide) -> Wide:
    """The scales [128, blocks] of 128 rows, from a tile of atoms one behind the other."""
    atoms = scales.reshape(-1, ATOM_ROWS, ATOM_BLOCKS, ATOM_BLOCKS)  # atom, r % 32, r // 32, block
    return atoms.transpose(2, 1, 0, 3).reshape(ATOM_OPERAND_ROWS, -1)


def scaled(operand: Wide, scales: Wide) -> Wide:
    """An operand [rows, K] with each block along K times its scale, whose sign does not count."""
    import numpy as np

    blocks = np.abs(scales)
    return operand * np.repeat(blocks, operand.shape[1] // blocks.shape[1], axis=1)
