"""Left operands of products on AMD that waves hold in registers for the whole loop.

A tile that is loaded before the loop and is nothing but a left operand, row by row (the queries of
attention), need not pass through LDS: each wave multiplies its own rows only, so it reads them from
global memory to registers once, and the loop does not read them again. That holds where 16 bytes of
a row are there or not as one, for as many registers as `HELD_BYTES_MAX` allows.

Nor need a tile that is loaded behind the loop and only `read` there (a residual): each wave reads
the elements that it computes on, once, and LDS keeps its room for the stages.
"""

from __future__ import annotations

from titan.codegen.tile.dtypes import bytes_of
from titan.codegen.tile.model import TileOperation, TileProgram
from titan.sync.expression import Constant, linear_form, substitute
from titan.target.description import target_of

LANES = 64
UNIT_BYTES = 16  # that a lane loads at once
HELD_BYTES_MAX = 512  # of a lane, of all tiles: accumulators and right operands need the rest


def held_operands(tile: TileProgram) -> frozenset[str]:
    """The loads before the loop whose tiles are held; none on targets of NVIDIA."""
    if not target_of(tile.target).amd or tile.tail == "poison":
        return frozenset()
    found: set[str] = set()
    left = HELD_BYTES_MAX
    for item in tile.before:
        if item.kind != "load" or not _only_left(tile, item) or not _whole(tile, item):
            continue
        value = item.value
        used = value.rows * value.columns * bytes_of(value.dtype) // (LANES * tile.groups)
        if used <= left:
            left -= used
            found.add(item.name)
    return frozenset(found)


def loads_of(tile: TileProgram) -> list[TileOperation]:
    """The operations that fill shared memory, in order."""
    straight = held_operands(tile) | tiles_behind(tile)
    return [item for item in tile.operations if item.kind == "load" and item.name not in straight]


def tiles_behind(tile: TileProgram) -> frozenset[str]:
    """The loads behind the loop whose tiles go straight to registers; none on targets of NVIDIA."""
    if not target_of(tile.target).amd:
        return frozenset()
    return frozenset(
        item.name
        for item in tile.after
        if item.kind == "load"
        and all(one.kind == "read" for one in tile.after if item.name in one.operands)
    )


def _only_left(tile: TileProgram, load: TileOperation) -> bool:
    users = [item for item in tile.operations if load.name in item.operands]
    inside = {item.name for item in tile.body}
    return bool(users) and all(
        item.kind == "mma"
        and item.name in inside
        and item.operands.index(load.name) == 0
        and load.name not in item.operands[1:]
        and not item.transpose[0]
        for item in users
    )


def _whole(tile: TileProgram, load: TileOperation) -> bool:
    """Whether 16 bytes of a row begin at a multiple of 16 bytes and are all there or all not."""
    tensor = next(item for item in tile.tensors if item.name == load.tensor_view.tensor)
    several = UNIT_BYTES // bytes_of(tensor.dtype)
    sizes = dict(tile.sizes)
    columns = substitute(tensor.shape[-1], sizes)
    form = linear_form(substitute(load.tensor_view.offsets[-1], sizes))
    return (
        tensor.aligned
        and len(tensor.shape) >= 2
        and isinstance(columns, Constant)
        and columns.value % several == 0
        and load.value.columns % several == 0
        and form is not None
        and not any(number % several for number in (*form[0].values(), form[1]))
    )
