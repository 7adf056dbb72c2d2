"""Lookups as C++: an element of a tensor of i32 that a thread reads; outside of the tensor, 0.

Those of a work item are read once, beside its coordinates; those that change with the iteration
where they are named. They stand in coordinates of tiles, in conditions of masks, and in the trip
count, which is verified for every number. No kernel writes an input, so that all warps of a CTA
read the same number.
"""

from __future__ import annotations

from titan.codegen.emit.expressions import SpellingScope
from titan.codegen.emit.manifest import tensor_named
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.names import identifier, mangled
from titan.codegen.tile.dtypes import INDEX_TYPE
from titan.codegen.tile.model import Lookup, TileProgram


def lookups_of_item(tile: TileProgram) -> tuple[Lookup, ...]:
    """Those that no iteration changes."""
    return tuple(
        one for one in tile.lookups if tile.loop_variable not in tile.names_in(*one.view.offsets)
    )


def with_lookups(scope: SpellingScope, tile: TileProgram) -> SpellingScope:
    """The scope of an iteration with the lookups that change with it. Raises EmissionRefused."""
    for lookup in tile.lookups:
        if lookup.name not in scope.spelled:
            identifier(lookup.name, "a lookup")
            scope = scope.plus(lookup.name, spelled_lookup(scope, tile, lookup), None)
    return scope


def spelled_lookup(scope: SpellingScope, tile: TileProgram, lookup: Lookup) -> str:
    """The element, read by the thread. Raises EmissionRefused."""
    tensor = tensor_named(tile, lookup.view.tensor)
    if tensor.dtype != INDEX_TYPE or len(lookup.view.offsets) != len(tensor.shape):
        raise EmissionRefused(f"{lookup.name} is no element of a tensor of {INDEX_TYPE}")
    place, inside = "0LL", []
    for extent, offset in zip(tensor.shape, lookup.view.offsets, strict=True):
        size, at = scope.text(extent), scope.text(offset)
        place = f"({place} * ({size}) + ({at}))"
        inside.append(f"(titan::u32)({at}) < (titan::u32)({size})")
    pointer = mangled("data", tensor.name, "a tensor")
    read = f"(int)titan::load_global_bits<titan::f32>({pointer}, {place})"
    return f"({' && '.join(inside)} ? {read} : 0)"
