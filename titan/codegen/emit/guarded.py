"""Tiles that threads copy to shared memory: loads whose tensors have no tensor map.

Such a load is an `Access` of the sync program that writes the buffer of the load. All threads of
the agent share the tile by 16-byte units; `fill_tile` of the device header reads what lies inside
of the tensor element by element and writes zeros for the rest, into the places that a bulk copy
would have filled.
"""

from __future__ import annotations

from typing import Protocol

from titan.codegen.emit.expressions import SpellingScope
from titan.codegen.emit.layout import GROUP, WARP, EmissionLayout, RolePlace, Tile
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.names import identifier
from titan.codegen.emit.sites import EmissionSite, Tiles
from titan.codegen.emit.statements import GlobalRegion, SpelledTileFill
from titan.codegen.tile.model import TileProgram, View
from titan.sync import program as ir

UNIT_BYTES = 16


class RoleSpeller(Protocol):
    """What is needed of a speller of roles (titan/codegen/emit/spelling.py)."""

    place: RolePlace
    layout: EmissionLayout
    tiles: Tiles

    def stage(self, tile: Tile, effect: ir.Effect, scope: SpellingScope) -> str:
        """The address of the part of a stage that an effect means."""
        ...

    def region(self, view: View, inner: SpellingScope, what: str, dimensions: int) -> GlobalRegion:
        """The last dimensions of a tensor from where a view begins."""
        ...

    def tile_scope(self, site: EmissionSite, scope: SpellingScope) -> SpellingScope:
        """The names of the tile program at a site."""
        ...


def loaded_by(tile: TileProgram, program: ir.SyncProgram) -> tuple[frozenset[str], frozenset[str]]:
    """Names of the loads whose buffers threads write, and of those that an engine writes."""
    loads = {operation.name for operation in tile.operations if operation.kind == "load"}
    found: dict[type, set[str]] = {ir.Access: set(), ir.Asynchronous: set()}
    for role in program.roles:
        for operation in ir.walk(role.body):
            if isinstance(operation, ir.Access | ir.Asynchronous):
                written = {effect.buffer for effect in operation.effects if effect.write}
                found[ir.Access if isinstance(operation, ir.Access) else ir.Asynchronous] |= written
    return frozenset(found[ir.Access] & loads), frozenset(found[ir.Asynchronous] & loads)


def fill_statement(
    speller: RoleSpeller, site: EmissionSite, scope: SpellingScope
) -> SpelledTileFill:
    """The statement of a load by threads. Raises EmissionRefused."""
    access = site.operation
    assert isinstance(access, ir.Access)
    name = identifier(site.name, "a load")
    load, tile = speller.tiles.operations[site.name], speller.layout.tiles[site.name]
    if len(access.effects) != 1 or load.view is None:
        raise EmissionRefused(f"{name} is not one tile that is written at once")
    value = speller.tiles.value(site.name)
    if (value.rows, value.columns, value.dtype) != (tile.rows, tile.columns, tile.dtype):
        raise EmissionRefused(f"{name} has another shape than its buffer")
    if tile.parts != 1 or access.effects[0].part is not None:
        raise EmissionRefused(f"{name} has parts and is written by threads")
    if tile.columns * tile.element_bytes % UNIT_BYTES:
        raise EmissionRefused(f"a row of {name} is not a multiple of {UNIT_BYTES} bytes")
    threads = speller.place.role.threads
    if threads not in (WARP, GROUP):
        raise EmissionRefused(f"{name} is written by {threads} threads, no warp and no warpgroup")
    thread = "titan_warp % 4 * 32 + titan_lane" if threads == GROUP else "titan_lane"
    source = speller.region(load.view, speller.tile_scope(site, scope), name, 2)
    if source.type != tile.dtype:
        raise EmissionRefused(f"{name} has a buffer of another element type")
    return SpelledTileFill(
        speller.stage(tile, access.effects[0], scope), tile.panel_bytes, tile.panel_stride,
        tile.rows, tile.columns, threads, thread, source, note=name,
    )  # fmt: skip
