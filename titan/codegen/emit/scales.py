"""Block scales (sm_100a): their way through tensor memory, and products that take them.

A tile of scales in shared memory is a row of atoms (`titan/codegen/tile/block_scales.py`), each of
which one `tcgen05.cp` copies to four columns. A step of a product along K takes its blocks out of
one atom: a block of 32 lies in one byte of each column, which the instruction descriptor names.
Source: PTX ISA, tcgen05.cp, tcgen05.mma with block scaling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from titan.codegen.emit.layout import Tile
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.names import identifier
from titan.codegen.emit.statements import SharedOperand, SpelledStatement, SpelledTensorProduct
from titan.codegen.tile.block_scales import (
    ATOM_BLOCKS,
    ATOM_COLUMNS,
    ATOM_OPERAND_ROWS,
    ATOM_ROWS,
    BlockScaling,
    scales_of,
)
from titan.codegen.tile.model import TileOperation, TileProgram, Value
from titan.codegen.tile.rates import rates

STEP_BYTES = 32  # of K of one tcgen05.mma


@dataclass(frozen=True, slots=True)
class SpelledScaleCopy(SpelledStatement):
    """Atoms of scales from a shared tile to columns of tensor memory, every `apart`; `together`: in
    each CTA of a pair."""

    descriptor: str
    place: str
    atoms: int
    note: str
    apart: int = ATOM_BLOCKS
    together: bool = False
    kind: ClassVar[str] = "scale_copy"


@dataclass(frozen=True, slots=True)
class SpelledScaledProduct(SpelledTensorProduct):
    """A tcgen05.mma for each step along K, with scales in tensor memory.

    `blocks`: how many each step has, of `atom_blocks` in an atom. `right_tiles`: how many tiles of
    scales the right operand has, whose atoms lie side by side.
    """

    of_left: str = ""
    of_right: str = ""
    scale_type: str = ""
    blocks: int = 1
    atom_blocks: int = ATOM_BLOCKS
    right_tiles: int = 1
    kind: ClassVar[str] = "scaled_mma"


def scale_descriptor(start: str) -> str:
    """The text of the descriptor of scales that begin at `start`."""
    return f"titan::scale_descriptor({start})"


def tensor_descriptor(operand: SharedOperand, start: str) -> str:
    """The text of the descriptor of an operand that begins at `start`."""
    made = f"titan::tensor_descriptor<{operand.swizzle}>"
    return f"{made}({start}, {operand.leading}, {operand.stride})"


def scale_copy(
    name: str, tile: Tile, descriptor: str, columns: str, apart: int
) -> SpelledScaleCopy:
    """The copies of a tile of this descriptor to `columns`, atoms so many columns `apart`.
    Raises EmissionRefused."""
    if tile.columns * tile.element_bytes != ATOM_COLUMNS or tile.rows % ATOM_ROWS or tile.staged:
        raise EmissionRefused(f"{name} is no tile of scales")
    atoms = tile.rows // ATOM_ROWS
    return SpelledScaleCopy(descriptor, columns, atoms, identifier(name, "a load"), apart)


def scaling_of(tile: TileProgram, operation: TileOperation, value: Value) -> BlockScaling:
    """How the matrix unit scales an operand of a product. Raises EmissionRefused."""
    of = {one.result.dtype for one in tile.operations
          if one.name in scales_of(operation) and one.result is not None}  # fmt: skip
    found = [
        row
        for row in rates(tile.target).matrix.scaled
        if value.dtype in row.elements and of == {row.scale} and row.kind == operation.function
    ]
    tiles = 1 + max(1, operation.value.columns // ATOM_OPERAND_ROWS)
    if len(found) != 1 or len(scales_of(operation)) != tiles:
        raise EmissionRefused(f"the scales of {operation.name} have no spelling")
    return found[0]


def with_scales(
    product: SpelledTensorProduct, row: BlockScaling, columns: int, places: tuple[str, ...]
) -> SpelledScaledProduct:
    """The product along so many columns of its operands, with scales at these places."""
    if not product.left:
        raise EmissionRefused(f"{product.note} takes operands in shared memory only")
    depth = row.depth(columns)
    if depth % row.atom_depth:
        raise EmissionRefused(f"{product.note} takes no parts of an atom of scales")
    of_left, of_right, *more = places
    return SpelledScaledProduct(
        product.a, product.b, product.steps, product.type, product.transpose_b, product.columns,
        product.place, product.accumulate, product.note, product.left, product.right,
        together=product.together,
        of_left=of_left, of_right=of_right, scale_type=row.scale,
        blocks=depth // product.steps // row.block, right_tiles=1 + len(more),
    )  # fmt: skip
