"""Which tiles take whole rows of their tensor, and none before its first.

Of such a tile nothing but the rows behind the last are not there, and these lie behind the end of
the tensor's bytes: a buffer that ends there bounds it, and no offset has to be compared. Tiles that
move with the iteration are none: a size that changes with it is not followed in machine code for
any number of iterations (`titan verify kernel.s --require any`).
"""

from __future__ import annotations

from titan.codegen.tile.model import TileProgram, View
from titan.sync.expression import Constant, linear_form, substitute


def takes_whole_rows(tile: TileProgram, view: View, columns: int) -> bool:
    """Whether a tile of so many columns does, for all work items, the same in all iterations."""
    tensor = next((item for item in tile.tensors if item.name == view.tensor), None)
    if tensor is None or len(view.offsets) != len(tensor.shape) or len(tensor.shape) < 2:
        return False
    sizes = dict(tile.sizes)
    row = linear_form(substitute(view.offsets[-2], sizes))
    counted = {item.name for item in tile.parameters} | {item.name for item in tile.work}
    return (
        substitute(tensor.shape[-1], sizes) == Constant(columns)
        and substitute(view.offsets[-1], sizes) == Constant(0)
        and row is not None
        and row[0].keys() <= counted
        and min((*row[0].values(), row[1])) >= 0
    )
