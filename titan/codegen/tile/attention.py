"""Loops of two products with arithmetic in between: which operation does what, by who reads what.

    first          the product of two loaded tiles
    softmax        everything that is computed from it and from carried row values
    left           the converted fragment that the second product takes on its left
    second         the product of `left` and a loaded tile, added to the corrected accumulator
    correct        accumulator x factor, one number a row: the only reader of the accumulator
    handed         carried row values that are read after the loop

Where products stand in tensor memory, these parts belong to different warps; on a machine whose
products stand in registers nobody asks. Names of operations mean nothing here.
"""

from __future__ import annotations

from dataclasses import dataclass

from titan.codegen.tile.model import Carried, TileOperation, TileProgram, Value, ValuePlace
from titan.foundation.errors import Refusal
from titan.foundation.verdict import Reason

ARITHMETIC_REFUSED = ("load", "store", "vector", "element", "read", "mma")


class NotAttention(Refusal):
    """The loop is no such loop; the text says why."""

    reason = Reason.NOT_APPLICABLE


@dataclass(frozen=True, slots=True)
class Attention:
    """`softmax` holds the operations in an order in which what others wait for comes early:
    first those that `factor` needs (`until_factor` of them), then those that `left` needs
    (`until_left` together), then the rest."""

    first: TileOperation
    second: TileOperation
    left: Value
    correct: TileOperation
    factor: Value
    accumulator: Value
    softmax: tuple[TileOperation, ...]
    until_factor: int
    until_left: int
    rows: tuple[Carried, ...]
    handed: tuple[Value, ...]


def attention_of(tile: TileProgram, order: dict[str, int] | None = None) -> Attention:
    """The parts of the loop. Raises NotAttention.

    `order` ranks operations that may stand in any order; the order of the file unless given.
    """
    first, second = _products(tile)
    body = {operation.name: operation for operation in tile.body}
    accumulator, correct, factor = _correction(tile, body, second)
    rows = tuple(item for item in tile.carried if item.value.name != accumulator.name)
    for item in rows:
        if item.value.place is not ValuePlace.ROW or item.value.dtype != "f32":
            raise NotAttention(f"{item.value.name} is carried beside the accumulator, but no row")
    apart = (first.name, second.name, correct.name)
    between = [op for op in tile.body if op.kind != "load" and op.name not in apart]
    _only_rows_and_scores(between, first, rows)
    left = body.get(second.operands[0])
    if left is None or left not in between or left.kind != "convert" or left.result is None:
        raise NotAttention(f"{second.name} does not begin with a fragment converted in the loop")
    if factor.name not in {operation.name for operation in between}:
        raise NotAttention(f"the factor {factor.name} is not computed in the loop")
    softmax, until_factor, until_left = _ordered(between, factor.name, left.name, order or {})
    return Attention(
        first, second, left.result, correct, factor, accumulator,
        softmax, until_factor, until_left, rows, _handed(tile, rows, accumulator),
    )  # fmt: skip


def _products(tile: TileProgram) -> tuple[TileOperation, TileOperation]:
    loads = {op.name for op in (*tile.before, *tile.body) if op.kind == "load"}
    products = [operation for operation in tile.body if operation.kind == "mma"]
    if len(products) != 2:
        raise NotAttention(f"the loop has {len(products)} products, not two")
    fresh = [op for op in products if set(op.operands) <= loads]
    added = [op for op in products if op not in fresh]
    if len(fresh) != 1:
        raise NotAttention("not one of the two products is made of loaded tiles alone")
    first, second = fresh[0], added[0]
    if len(second.operands) < 3 or second.operands[1] not in loads or second.operands[0] in loads:
        raise NotAttention(f"{second.name} is not a sum of computed fragments times loaded tiles")
    if any(product.transpose[:1] == (True,) for product in products):
        raise NotAttention("a left operand enters transposed, so that rows are not those of a warp")
    return first, second


def _correction(
    tile: TileProgram, body: dict[str, TileOperation], second: TileOperation
) -> tuple[Value, TileOperation, Value]:
    """The accumulator, what corrects it, and the factor."""
    summand = second.operands[2]
    correct = body.get(summand)
    carried = {item.value.name: item for item in tile.carried}
    if correct is None or correct.kind != "multiply":
        raise NotAttention(
            f"{second.name} does not continue with a carried value times a row value"
        )
    found = [name for name in correct.operands if name in carried]
    found = [name for name in found if carried[name].next == second.name]
    others = [name for name in correct.operands if name not in found]
    if len(found) != 1 or len(others) != 1:
        raise NotAttention(f"{summand} is not the accumulator of {second.name} times a row value")
    accumulator, factor = carried[found[0]], body.get(others[0])
    if factor is None or factor.result is None or factor.result.place is not ValuePlace.ROW:
        raise NotAttention(f"{others[0]} is not a row value that the loop computes")
    if factor.result.dtype != "f32" or accumulator.initial != 0:
        raise NotAttention(f"{found[0]} does not begin with 0, or {others[0]} is not f32")
    for name, allowed in ((found[0], correct), (summand, second)):
        for operation in tile.body:
            if name in operation.operands and operation is not allowed:
                raise NotAttention(f"{operation.name} reads {name}, which is in tensor memory")
    if any(second.name in operation.operands for operation in tile.body):
        raise NotAttention(f"the loop reads {second.name} in the iteration that computes it")
    return accumulator.value, correct, factor.result


def _only_rows_and_scores(
    between: list[TileOperation], first: TileOperation, rows: tuple[Carried, ...]
) -> None:
    """What one warpgroup can compute of its own rows."""
    known = {first.name, *(item.value.name for item in rows), *(op.name for op in between)}
    for operation in between:
        if operation.kind in ARITHMETIC_REFUSED or operation.result is None:
            raise NotAttention(f"{operation.name} touches memory between the two products")
        if operation.result.place is ValuePlace.COLUMN:
            raise NotAttention(f"{operation.name} is a column value between the two products")
        for name in operation.operands:
            if name not in known:
                raise NotAttention(f"{operation.name} reads {name} between the two products")
    for item in rows:
        if item.next not in {operation.name for operation in between}:
            raise NotAttention(f"{item.value.name} is carried, but not computed in the loop")


def _ordered(
    between: list[TileOperation], factor: str, left: str, order: dict[str, int]
) -> tuple[tuple[TileOperation, ...], int, int]:
    by_name = {operation.name: operation for operation in between}
    rank = {op.name: (order.get(op.name, 0), place) for place, op in enumerate(between)}
    parts = [_needed(factor, by_name), _needed(left, by_name), set(by_name)]
    made: list[TileOperation] = []
    ends: list[int] = []
    for part in parts:
        waiting = part - {operation.name for operation in made}
        while waiting:
            free = [name for name in waiting if not set(by_name[name].operands) & waiting]
            name = min(free, key=rank.__getitem__)
            made.append(by_name[name])
            waiting.remove(name)
        ends.append(len(made))
    return tuple(made), ends[0], ends[1]


def _needed(name: str, by_name: dict[str, TileOperation]) -> set[str]:
    """The operation and all that it needs of the same iteration."""
    found: set[str] = set()
    left = [name]
    while left:
        one = left.pop()
        if one in by_name and one not in found:
            found.add(one)
            left += by_name[one].operands
    return found


def _handed(tile: TileProgram, rows: tuple[Carried, ...], accumulator: Value) -> tuple[Value, ...]:
    """Carried rows that operations after the loop read; those may read nothing else of it."""
    computed = {op.name for op in tile.after}
    carried = {item.value.name for item in rows}
    for operation in tile.after:
        if operation.kind in ("load", "read", "mma"):
            raise NotAttention(f"{operation.name} is a `{operation.kind}` after the loop")
        for name in operation.operands:
            if name not in computed | carried | {accumulator.name}:
                raise NotAttention(f"{operation.name} reads {name} after the loop")
    used = {name for operation in tile.after for name in operation.operands}
    return tuple(item.value for item in rows if item.value.name in used)
