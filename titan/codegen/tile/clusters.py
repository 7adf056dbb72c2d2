"""What is the same in all CTAs of a cluster, which have neighbours in the last work coordinate.

That coordinate is a multiple of the number of CTAs in one of them, which begins the cluster, and
counts on from there (`work_counts` of `titan/codegen/emit/manifest.py`). So its quotient by a
multiple of that number is one number for the cluster, and nothing else of it is known to be.
"""

from __future__ import annotations

from titan.codegen.tile.attention import NotAttention, attention_of
from titan.codegen.tile.block_scales import scales_of
from titan.codegen.tile.model import TileOperation, TileProgram
from titan.sync.expression import ZERO, Binary, Constant, Expression, Name, Not, substitute

PAIR = 2


def differing(tile: TileProgram) -> frozenset[str]:
    """The loads that differ between the CTAs of a cluster."""
    last = {dimension.name for dimension in tile.work[-1:]}
    return frozenset(
        item.name
        for item in tile.operations
        if item.kind == "load" and item.view is not None
        if last & tile.names_in(*item.view.offsets)
    )


def may_pair(tile: TileProgram) -> bool:
    """Whether pairs of CTAs may multiply together where a program of single CTAs has one product,
    or is attention of one work item each: they differ in the left operand of the first product
    alone, and in its scales."""
    if tile.cluster != 1 or tile.launch_control or not tile.work:
        return False
    product = _first_product(tile)
    if product is None:
        return False
    own = {*product.operands[:1], *scales_of(product)[:1]}
    return differing(tile) == own and alike(tile, tile.trip_count, PAIR)


def _first_product(tile: TileProgram) -> TileOperation | None:
    """The only product of the loop, or the first one of attention; None of other programs."""
    products = [operation for operation in tile.body if operation.kind == "mma"]
    if len(products) == 1:
        return products[0]
    try:
        return None if tile.persistent else attention_of(tile).first
    except NotAttention:
        return None


def alike(tile: TileProgram, expression: Expression, ctas: int) -> bool:
    """Whether an expression over work coordinates has one value in `ctas` CTAs of a cluster."""
    if ctas == 1 or not tile.work:
        return True
    last = tile.work[-1].name
    numbers: dict[str, Expression] = {name: Constant(value) for name, value in tile.sizes}
    left = _without_quotients(substitute(expression, numbers), last, ctas)
    return last not in tile.names_in(left)


def _without_quotients(expression: Expression, last: str, ctas: int) -> Expression:
    """Quotients of the coordinate that a cluster shares as 0."""
    match expression:
        case Binary("//", Name(name), Constant(divisor)) if name == last:
            return ZERO if divisor > 0 and divisor % ctas == 0 else expression
        case Binary(operator, left, right):
            both = (_without_quotients(side, last, ctas) for side in (left, right))
            return Binary(operator, *both)
        case Not(operand):
            return Not(_without_quotients(operand, last, ctas))
    return expression
