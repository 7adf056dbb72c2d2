"""Which tile programs two warpgroups may compute in turns, a whole tile each.

While one ends its work item, the products of the other run. Only where several items follow each
other in a CTA, where one warpgroup holds a whole tile, and where warpgroups issue products and
wait for them themselves (sm_90a).
"""

from __future__ import annotations

from titan.codegen.tile.alignment import unaligned
from titan.codegen.tile.model import TileProgram
from titan.target.description import target_of

WARPGROUPS = 2


def may_alternate(tile: TileProgram) -> bool:
    """Whether a pipeline may give whole tiles to warpgroups in turn."""
    products = sum(operation.kind == "mma" for operation in tile.body)
    target = target_of(tile.target)
    own = not target.amd and not target.matrix_commits_to_barriers
    by_engine = tile.tail == "boxes" and not unaligned(tile)
    alone = tile.groups == 1 and tile.cluster == 1
    return tile.persistent and alone and products == 1 and own and by_engine
