"""Loops whose products stand in tensor memory: what passes between it and registers, by who reads.

    fetched     a product whose result threads read within the loop
    lefts       fragments that threads convert, and that products take on their left
    sums        carried accumulators, each added to by one product and read after the loop
    corrects    by sum: the product of the sum and a number a row that its product continues with

Attention's two products with one corrected accumulator are a case of it (`attention.py` says more
of those). Names of operations mean nothing here.
"""

from __future__ import annotations

from dataclasses import dataclass

from titan.codegen.tile.model import Carried, TileOperation, TileProgram, Value, ValuePlace
from titan.foundation.errors import Refusal
from titan.foundation.verdict import Reason


class NotInTensorMemory(Refusal):
    """Some product of the loop has no place in tensor memory; the text says why."""

    reason = Reason.NOT_APPLICABLE


@dataclass(frozen=True, slots=True)
class TensorProducts:
    """The products in the order of the file, and what threads do with them."""

    products: tuple[TileOperation, ...]
    fetched: tuple[TileOperation, ...]
    lefts: tuple[Value, ...]
    sums: tuple[Carried, ...]
    corrects: dict[str, TileOperation]

    def readers(self, left: str) -> list[TileOperation]:
        """The products that take a fragment on their left."""
        return [product for product in self.products if product.operands[0] == left]

    def sum_of(self, product: TileOperation) -> Carried | None:
        """The accumulator that a product adds to."""
        return next((item for item in self.sums if item.next == product.name), None)

    @property
    def of_loads(self) -> tuple[TileOperation, ...]:
        """The fetched products that need no fragment: they may run ahead of the threads."""
        lefts = {value.name for value in self.lefts}
        return tuple(item for item in self.fetched if item.operands[0] not in lefts)


def tensor_products(tile: TileProgram) -> TensorProducts:
    """The products of the loop. Raises NotInTensorMemory."""
    body = {operation.name: operation for operation in tile.body}
    loads = {op.name for op in (*tile.before, *tile.body) if op.kind == "load"}
    products = tuple(operation for operation in tile.body if operation.kind == "mma")
    if any(op.kind == "mma" for op in (*tile.before, *tile.after)) or not products:
        raise NotInTensorMemory("products stand in the loop, and nowhere else")
    fetched: list[TileOperation] = []
    lefts: dict[str, Value] = {}
    sums: list[Carried] = []
    corrects: dict[str, TileOperation] = {}
    for product in products:
        left, right = product.operands[:2]
        if right not in loads or product.transpose[:1] == (True,):
            raise NotInTensorMemory(
                f"{product.name} takes {right} on its right, or {left} transposed: only loaded "
                "tiles enter so"
            )
        if left not in loads:
            lefts[left] = _left(left, body.get(left), product)
        if len(product.operands) < 3:
            fetched.append(product)
            continue
        summed, correct = _sum(tile, body, product)
        sums.append(summed)
        if correct is not None:
            corrects[summed.value.name] = correct
    _only_registers(tile, loads, {item.value.name for item in sums}, corrects)
    return TensorProducts(products, tuple(fetched), tuple(lefts.values()), tuple(sums), corrects)


def _left(name: str, operation: TileOperation | None, product: TileOperation) -> Value:
    if operation is None or operation.kind != "convert" or operation.result is None:
        raise NotInTensorMemory(
            f"{product.name} takes {name} on its left, which is neither loaded nor converted in "
            "the loop"
        )
    return operation.result


def _sum(
    tile: TileProgram, body: dict[str, TileOperation], product: TileOperation
) -> tuple[Carried, TileOperation | None]:
    """The accumulator of a product, and what it is multiplied by first, if it is."""
    summand = product.operands[2]
    carried = {item.value.name: item for item in tile.carried if item.next == product.name}
    correct = None
    if summand not in carried:
        correct = body.get(summand)
        names = [] if correct is None else [n for n in correct.operands if n in carried]
        if correct is None or correct.kind != "multiply" or len(names) != 1:
            raise NotInTensorMemory(
                f"{product.name} does not continue with an accumulator, but with {summand}"
            )
        summand = names[0]
    found = carried[summand]
    if found.initial != 0:
        raise NotInTensorMemory(f"{found.value.name} does not begin with 0")
    return found, correct


def _only_registers(
    tile: TileProgram, loads: set[str], sums: set[str], corrects: dict[str, TileOperation]
) -> None:
    """Everything else of the loop is computed by threads of their own rows, and nobody reads an
    accumulator there but what corrects it."""
    for operation in tile.body:
        if operation.kind in ("store", "read"):
            raise NotInTensorMemory(f"{operation.name} touches shared memory between products")
        for name in operation.operands if operation.kind != "mma" else ():
            if name in loads:
                raise NotInTensorMemory(f"{operation.name} reads {name}, which is not in registers")
            if name in sums and corrects.get(name) is not operation:
                raise NotInTensorMemory(f"{operation.name} reads {name}, which is in tensor memory")
        made = {item.next for item in tile.carried if item.value.name in sums}
        if made & set(operation.operands):
            raise NotInTensorMemory(f"{operation.name} reads a sum in the iteration that makes it")
    for item in tile.carried:
        inside = any(operation.name == item.next for operation in tile.body)
        if item.value.name not in sums and (item.value.place is ValuePlace.SHARED or not inside):
            raise NotInTensorMemory(f"{item.value.name} is carried, but not computed in the loop")
    for operation in tile.after:
        if operation.kind in ("load", "read"):
            raise NotInTensorMemory(f"{operation.name} is a `{operation.kind}` after the loop")
