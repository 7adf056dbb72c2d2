"""In how many slices of its columns a store is staged in shared memory.

What is stored behind the loop goes through shared memory to a bulk store. A warpgroup that stays
for several work items may stage it slice by slice, in a ring of `STAGES` buffers of one slice: the
copy engine reads one while the next is converted and written, and the ring of the loop has what
whole tiles would take. A slice is a panel as wide as the widest swizzle (128 bytes), or half of
one where the panels are few or do not fill the ring.

Slice `n % slices` of work item `n // slices` has the number n in the ring. Sources: CUTLASS, sm90
epilogues (order of stores, two to four stages); PTX ISA, cp.async.bulk.wait_group.read.
"""

from __future__ import annotations

from titan.codegen.tile.alignment import unaligned
from titan.codegen.tile.dtypes import bytes_of
from titan.codegen.tile.model import TileProgram, Value, ValuePlace
from titan.target.description import target_of

STAGES = 2
PANELS_BYTES = (128, 64)
LEAST = 4  # slices: with fewer, the ring is no smaller than the tile
COLUMNS_TOGETHER = 16  # that a warp stores at once


def may_slice(tile: TileProgram) -> bool:
    """Whether warpgroups may stage their stores in slices: where they issue products themselves,
    stay for several work items, and store by bulk copies behind the loop alone."""
    target = target_of(tile.target)
    own = not target.amd and not target.matrix_commits_to_barriers
    by_engine = tile.tail == "boxes" and not unaligned(tile)
    inside = any(operation.kind == "store" for operation in tile.body)
    stored = [value for value in _stored(tile) if slices_of(value) > 1]
    return tile.persistent and own and by_engine and not inside and bool(stored)


def slices_of(value: Value) -> int:
    """In how many slices a fragment would be staged; 1 for whole."""
    row_bytes = value.columns * bytes_of(value.dtype)
    for panel in PANELS_BYTES:
        slices = row_bytes // panel
        fits = row_bytes % panel == 0 and slices % STAGES == 0 and slices >= LEAST
        if fits and panel // bytes_of(value.dtype) % COLUMNS_TOGETHER == 0:
            return slices
    return 1


def slices_in(tile: TileProgram, value: Value, stage_bytes: int) -> int:
    """In how many slices a fragment is staged in a buffer with stages of so many bytes."""
    whole = value.rows * value.columns * bytes_of(value.dtype)
    if not may_slice(tile) or stage_bytes <= 0 or whole % stage_bytes:
        return 1
    slices = whole // stage_bytes
    return slices if value.columns % slices == 0 else 1


def _stored(tile: TileProgram) -> list[Value]:
    """The fragments that are stored behind the loop."""
    values = {carried.value.name: carried.value for carried in tile.carried}
    values |= {item.name: item.result for item in tile.operations if item.result is not None}
    names = [item.operands[0] for item in tile.after if item.kind == "store"]
    return [values[name] for name in names if values[name].place is ValuePlace.FRAGMENT]
