"""Which tensors no tensor map can describe: those whose rows may begin anywhere.

A tensor map takes a start and strides that are multiples of 16 bytes. Where a launch brings the row
length, the tile file says whether it keeps to that (`aligned`); a fixed length is examined. What
only threads read or write (`vector`, stores of one number a row) has no map and needs none. A store
that ends at a row of its own (`below`) is by threads, too.
Source: CUDA driver API, cuTensorMapEncodeTiled.
"""

from __future__ import annotations

from titan.codegen.tile.dtypes import bytes_of
from titan.codegen.tile.model import Tensor, TileOperation, TileProgram, ValuePlace
from titan.sync.expression import Constant, substitute

STRIDE_BYTES = 16


def unaligned(tile: TileProgram) -> dict[str, str]:
    """Tensors that are copied in tiles and have no tensor map, each with the reason."""
    tensors = {tensor.name: tensor for tensor in tile.tensors}
    found: dict[str, str] = {}
    for operation in tile.operations:
        if operation.view is None or not _in_tiles(tile, operation):
            continue
        tensor = tensors.get(operation.view.tensor)
        reason = why(tile, tensor) if tensor is not None else ""
        if operation.below is not None:
            reason = f"{operation.name} ends within a tile of {operation.view.tensor}"
        if tensor is not None and reason:
            found.setdefault(tensor.name, reason)
    return found


def unaligned_loads(tile: TileProgram) -> dict[str, str]:
    """Those of them that are loaded: the others threads may write."""
    loaded = {one.view.tensor for one in tile.operations if one.kind == "load" and one.view}
    return {name: reason for name, reason in unaligned(tile).items() if name in loaded}


def why(tile: TileProgram, tensor: Tensor) -> str:
    """Why no tensor map describes the tensor, or nothing."""
    sizes = {name: Constant(value) for name, value in tile.sizes}
    columns = substitute(tensor.shape[-1], sizes)
    if isinstance(columns, Constant):
        row = columns.value * bytes_of(tensor.dtype)
        if row % STRIDE_BYTES:
            return f"a row of {tensor.name} has {row} bytes, not a multiple of {STRIDE_BYTES}"
    if not tensor.aligned:
        return f"rows of {tensor.name} may begin at any element"
    return ""


def _in_tiles(tile: TileProgram, operation: TileOperation) -> bool:
    """Whether the operation copies a tile of rows and columns."""
    if operation.kind == "load":
        return True
    if operation.kind != "store":
        return False
    value = next(
        (
            value
            for value in (
                *(item.value for item in tile.carried),
                *(item.result for item in tile.operations),
            )
            if value is not None and value.name == operation.operands[0]
        ),
        None,
    )
    return value is not None and value.place in (ValuePlace.FRAGMENT, ValuePlace.SHARED)
