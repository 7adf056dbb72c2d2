"""The last iteration handed over as poison, and the safe path on which it is computed.

`tail: poison` in a tile file: the role that loads hands over the stage of the last iteration
unfilled. Who waits for it branches. A filled stage is multiplied as always; on poison the products
of the iteration take their operands from global memory, element by element within the extents of
the tensors, and add to the same sums. No box then reaches beyond a tensor, and neither a warpgroup
that copies nor a barrier is added.

Whether a stage is poisoned follows from its index alone, so that nothing is communicated. Decides
no correctness: what is printed of it is verified like any pipeline, and a consumer that reads the
poisoned stage is refuted. Source: seed formulation, section 2 (poison semantics).
"""

from __future__ import annotations

from titan.codegen.pipeline import document as doc
from titan.codegen.pipeline.filling import refuse_cluster, refuse_unmapped
from titan.codegen.pipeline.indices import inner
from titan.codegen.pipeline.model import FormRefused
from titan.codegen.tile.model import TileOperation, TileProgram


def poisoned(index: str) -> str:
    """The condition under which the stage of an iteration is poisoned."""
    return f"{inner(index)} + 1 == tiles"


def refuse_poison(tile: TileProgram) -> None:
    """Raises FormRefused where an iteration has no safe path, or its stages no bulk copies."""
    refuse_unmapped(tile)
    refuse_cluster(tile)
    for operation in tile.body:
        if operation.kind != "load" and not sums_loaded_tiles(tile, operation):
            raise FormRefused(
                f"{operation.name} is no product of two loaded tiles that adds to a sum: of a "
                "poisoned iteration nothing else is computed"
            )


def sums_loaded_tiles(tile: TileProgram, operation: TileOperation) -> bool:
    """Whether the operation adds the product of two loaded tiles to a carried sum."""
    loaded = {item.name for item in tile.operations if item.kind == "load"}
    sums = {item.value.name for item in tile.carried if item.next == operation.name}
    return (
        operation.kind == "mma"
        and set(operation.operands[:2]) <= loaded
        and set(operation.operands[2:]) == sums
        and len(sums) == 1
    )


def on_safe_path(stage: doc.Slot, issue: doc.IssueStatement, iteration: str) -> doc.Block:
    """The product of an iteration: issued, or on poison computed once its sum is complete."""
    safe = (doc.DrainStatement(issue.name), doc.ComputeStatement(issue.name, iteration))
    return (doc.WhenPoisonedStatement(slot=stage, then=safe, otherwise=(issue,)),)
