"""How the waves of AMD share the fragments of a tile program, and the blocks that they multiply.

By rows; where no value spans the columns of a tile, in both dimensions, if the waves read fewer
rows of both operands of products so. A fragment is made of 32 x 32 blocks, or of 16 x 16 where the
rows of a wave, the columns or the contraction require it. Emission and the model of costs both ask
here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from titan.codegen.tile.dtypes import bytes_of
from titan.codegen.tile.model import TileOperation, TileProgram, Value, ValuePlace

LANES = 64
BLOCKS = (32, 16)
MORE_TO_THE_RIGHT = (2, 4)  # waves, beside one
ALONE_REGISTERS = 256  # of sums: all accumulation registers of a lane


@dataclass(frozen=True, slots=True)
class WaveSplit:
    """`parts`: waves down and to the right; `block`: rows and columns of a block."""

    parts: tuple[int, int]
    block: int

    def operand_rows(self, product: Value, side: int) -> int:
        """Rows of the left (0) or right (1) operand that one wave reads for a product."""
        return (product.rows, product.columns)[side] // self.parts[side]


def values_by_name(tile: TileProgram) -> dict[str, Value]:
    """All values of a tile program, those that are carried too."""
    results = (item.result for item in tile.operations)
    values = (*(item.value for item in tile.carried), *(item for item in results if item))
    return {value.name: value for value in values}


def wave_split(tile: TileProgram, found: Mapping[str, Value] | None = None) -> WaveSplit | None:
    """The split with the larger blocks, of these the one that reads least; None where blocks do
    not fit. `found`: the values by name, where the caller has them."""
    found = values_by_name(tile) if found is None else found
    splits = [(tile.groups, 1)]
    products = [item for item in tile.operations if item.kind == "mma"]
    if products and _columns_stay(tile, found):
        splits += [(tile.groups // n, n) for n in MORE_TO_THE_RIGHT if tile.groups % n == 0]
    best: tuple[int, WaveSplit] | None = None
    for down, right in splits:
        block = _block(tile, found, down, right)
        if block is None or (best is not None and block < best[1].block):
            continue
        read = sum(
            found[item.name].rows // down + found[item.name].columns // right for item in products
        )
        if best is None or block > best[1].block or read < best[0]:
            best = read, WaveSplit((down, right), block)
    return best[1] if best is not None else None


def accumulators(tile: TileProgram, found: Mapping[str, Value] | None = None) -> int:
    """Registers of a lane that the sums of the loop's products take."""
    found = values_by_name(tile) if found is None else found
    numbers = sum(
        found[item.name].rows * found[item.name].columns for item in tile.body if item.kind == "mma"
    )
    return numbers // (LANES * tile.groups)


def lone_product(tile: TileProgram) -> TileOperation | None:
    """The product that is all of the loop beside loads; None where there is more, or none."""
    found = [item for item in tile.body if item.kind != "load"]
    return found[0] if len(found) == 1 and found[0].kind == "mma" else None


def alone_on_simd(tile: TileProgram) -> bool:
    """Whether the sums of the one product of the loop take all accumulation registers, so that no
    other wave is on the SIMD."""
    return lone_product(tile) is not None and accumulators(tile) >= ALONE_REGISTERS


def contraction_bytes(operation: TileOperation, found: Mapping[str, Value]) -> int:
    """Bytes of one row along the contraction of a product."""
    left = found[operation.operands[0]]
    length = left.rows if operation.transpose[:1] == (True,) else left.columns
    return length * bytes_of(left.dtype)


def _columns_stay(tile: TileProgram, found: Mapping[str, Value]) -> bool:
    """Whether no operation joins columns that two waves would have."""
    for item in tile.operations:
        if item.kind in ("row_max", "row_sum", "read"):
            return False
        left = found[item.operands[0]] if item.operands else None
        if item.kind == "mma" and left is not None and left.place is not ValuePlace.SHARED:
            return False
    return tile.tail != "poison"


def _block(tile: TileProgram, found: Mapping[str, Value], down: int, right: int) -> int | None:
    """32 where the parts of all values are made of such blocks, or 16."""
    for block in BLOCKS:
        fits = all(
            (value.place is ValuePlace.COLUMN or value.rows % (block * down) == 0)
            and (value.place is ValuePlace.ROW or value.columns % (block * right) == 0)
            for value in found.values()
            if value.place is not ValuePlace.SHARED
        ) and all(
            contraction_bytes(item, found) % (8 * LANES // block) == 0
            for item in tile.operations
            if item.kind == "mma"
        )
        if fits:
            return block
    return None
