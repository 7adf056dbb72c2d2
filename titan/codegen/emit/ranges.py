"""What a launch must keep to so that no number of a kernel leaves 32 bits.

Kernels compute with `int`. Sizes and the extents of tensors may have up to 2^30, which leaves room
for rounding up to whole tiles and for the offsets of the last ones; so may the number of work
items, to which a persistent kernel adds the size of the grid. A counter that runs on over work
items (the position in a ring of a persistent kernel) counts at most the iterations of all items.
An offset that multiplies two numbers of a launch is bounded by no extent: its largest value is a
condition of its own.
"""

from __future__ import annotations

from titan.codegen.emit.model import EmissionRefused
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
    found += [_at_most(most, COUNT_MAX, "an offset") for most in _largest_offsets(tile)]
    return [to_text(condition) for condition in dict.fromkeys(found) if condition is not None]


def _largest_offsets(tile: TileProgram) -> list[Expression]:
    """The largest value of each offset that multiplies two numbers. Raises EmissionRefused where
    it need not be that of the last work item and iteration."""
    last = {item.name: binary("-", item.count, Constant(1)) for item in tile.work}
    last[tile.loop_variable] = binary("-", binary("max", Constant(1), tile.trip_count), Constant(1))
    sizes = {size: Constant(value) for size, value in tile.sizes}
    found = []
    for operation in tile.operations:
        for offset in operation.view.offsets if operation.view is not None else ():
            if not _multiplies(offset):
                continue
            if not _grows(offset, frozenset(last)):
                raise EmissionRefused(f"an offset of {operation.name} may leave 32 bits")
            found.append(substitute(substitute(offset, last), sizes))
    return found


def _multiplies(number: Expression) -> bool:
    if not isinstance(number, Binary):
        return False
    both = not isinstance(number.left, Constant) and not isinstance(number.right, Constant)
    return (
        (number.operator == "*" and both) or _multiplies(number.left) or _multiplies(number.right)
    )


def _grows(number: Expression, names: frozenset[str]) -> bool:
    """Whether a number that is never negative grows with each of the names, or stays: sums,
    products and quotients of names that are never negative. Divisors name none of them."""
    match number:
        case Constant(value):
            return value >= 0
        case Name():
            return True
        case Binary("+" | "*" | "//" | "min" | "max", left, right):
            if number.operator == "//" and names_of(right) & names:
                return False
            return _grows(left, names) and _grows(right, names)
        case Binary("-", Binary("+", _, Constant() | Name() as more) as left, Constant(less)):
            # Rounded up: a size is at least 1.
            most = more.value if isinstance(more, Constant) else int(more.name not in names)
            return 0 <= less <= most and _grows(left, names)
    return False


def _at_most(number: Expression, limit: int, what: str) -> Expression | None:
    if isinstance(number, Constant):
        integer(number.value, what, 1, limit)
        return None
    return Binary("<=", number, Constant(limit))
