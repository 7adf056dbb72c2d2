"""What a launch must keep to so that no number of a kernel leaves 32 bits.

Kernels compute with `int`. Sizes and the extents of tensors may have up to 2^30, which leaves room
for rounding up to whole tiles and for the offsets of the last ones; so may the number of work
items, to which a persistent kernel adds the size of the grid. A counter that runs on over work
items (the position in a ring of a persistent kernel) counts at most the iterations of all items.
"""

from __future__ import annotations

from titan.codegen.emit.names import integer
from titan.codegen.tile.model import TileProgram
from titan.sync import program as ir
from titan.sync.expression import (
    Binary,
    Constant,
    Expression,
    Name,
    binary,
    names_of,
    substitute,
    to_text,
)

EXTENT_MAX = 2**30
COUNT_MAX = 2**31 - 1


def range_constraints(tile: TileProgram, program: ir.SyncProgram, work: Expression) -> list[str]:
    """Conditions over the parameters; `work` is the number of items. Raises EmissionRefused."""
    sizes = {size: Constant(value) for size, value in tile.sizes}
    extents: list[Expression] = [Name(parameter.name) for parameter in tile.parameters]
    for tensor in tile.tensors:
        extents += [substitute(extent, dict(sizes)) for extent in tensor.shape]
    found = [_at_most(extent, EXTENT_MAX, "an extent") for extent in extents]
    found.append(_at_most(work, EXTENT_MAX, "the number of work items"))
    trips = substitute(tile.trip_count, dict(sizes))
    counted = any(role.variables for role in program.roles)
    parameters = {parameter.name for parameter in tile.parameters}
    if counted and names_of(trips) <= parameters:
        total = binary("*", work, binary("max", Constant(1), trips))
        found.append(_at_most(total, COUNT_MAX, "the number of iterations"))
    return [to_text(condition) for condition in dict.fromkeys(found) if condition is not None]


def _at_most(number: Expression, limit: int, what: str) -> Expression | None:
    if isinstance(number, Constant):
        integer(number.value, what, 1, limit)
        return None
    return Binary("<=", number, Constant(limit))
