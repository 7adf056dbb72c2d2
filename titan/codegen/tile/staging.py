"""Where a store is staged in shared memory, and in how many slices of its columns.

What is stored behind the loop goes through shared memory to a bulk store. A warpgroup that stays
for several work items may stage it slice by slice, in a ring of `STAGES` buffers of one slice: the
copy engine reads one while the next is converted and written, and the ring of the loop has what
whole tiles would take. A slice is a panel as wide as the widest swizzle (128 bytes), or half of
one where the panels are few or do not fill the ring.

Slice `n % slices` of work item `n // slices` has the number n in the ring.

A warpgroup that ends with its work item may stage a store where a tile lies that was loaded before
the loop and is read no more (`overlaid`): all groups meet before the first of them writes there,
and the ring of the loop has what the store would take. Where warpgroups stay, the next item's load
would wait for the store, which slices avoid.

Sources: CUTLASS, sm90 epilogues (order of stores, two to four stages); FlashAttention (the output
in the memory of the queries); PTX ISA, cp.async.bulk.wait_group.read.
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
    inside = any(operation.kind == "store" for operation in tile.body)
    stored = [value for value in _stored(tile) if slices_of(value) > 1]
    return tile.persistent and _by_own_warpgroups(tile) and not inside and bool(stored)


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


def overlaid(tile: TileProgram) -> dict[str, str]:
    """For stores behind the loop the tile loaded before it in whose place each may be staged.

    A tile is for one store, and as large as all parts of it, or several times that.
    """
    if tile.persistent or tile.cluster != 1 or not _by_own_warpgroups(tile):
        return {}
    used = {name for operation in tile.after for name in operation.operands}
    free = [
        operation
        for operation in tile.before
        if operation.kind == "load" and operation.name not in used and _is_shared(operation.value)
    ]
    values = _values(tile)
    found: dict[str, str] = {}
    for store in tile.after:
        if store.kind != "store" or values[store.operands[0]].place is not ValuePlace.FRAGMENT:
            continue
        amount = _bytes_of_all(values[store.operands[0]])
        home = next((one for one in free if _bytes_of_all(one.value) % amount == 0), None)
        if home is not None:
            free.remove(home)
            found[store.name] = home.name
    return found


def _is_shared(value: Value) -> bool:
    return value.place is ValuePlace.SHARED


def _bytes_of_all(value: Value) -> int:
    return value.rows * value.columns * bytes_of(value.dtype)


def _by_own_warpgroups(tile: TileProgram) -> bool:
    """Whether warpgroups issue products themselves, and bulk copies load and store."""
    target = target_of(tile.target)
    own = not target.amd and not target.matrix_commits_to_barriers
    return own and tile.tail == "boxes" and not unaligned(tile)


def _stored(tile: TileProgram) -> list[Value]:
    """The fragments that are stored behind the loop."""
    values = _values(tile)
    names = [item.operands[0] for item in tile.after if item.kind == "store"]
    return [values[name] for name in names if values[name].place is ValuePlace.FRAGMENT]


def _values(tile: TileProgram) -> dict[str, Value]:
    values = {carried.value.name: carried.value for carried in tile.carried}
    return values | {item.name: item.result for item in tile.operations if item.result is not None}
