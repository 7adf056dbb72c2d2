"""What a launch must keep to so that no number of a kernel leaves 32 bits.

Kernels compute with `int`. Sizes and the extents of tensors may have up to 2^30, which leaves room
for rounding up to whole tiles and for the offsets of the last ones; so may the number of work
items, to which a persistent kernel adds the size of the grid. A counter that runs on over work
items (the position in a ring of a persistent kernel) counts at most the iterations of all items.

Each number that the tile program has a kernel compute, and each part of it, is bounded by the least
and the largest value of its names. What may leave 32 bits so, as a product of two numbers of a
launch does, has a condition of its own: its value for the last work item and iteration. Bytes are
counted in 64 bits, but for those within one tile (`titan/codegen/emit/hip_operations.py`).
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
    Not,
    binary,
    names_of,
    substitute,
    to_text,
)

EXTENT_MAX = 2**30
COUNT_MAX = 2**31 - 1
TILE_MAX = 4096  # rows and columns of a tile
Interval = tuple[int, int]


def range_constraints(
    tile: TileProgram,
    program: ir.SyncProgram,
    work: Expression,
    items_max: int = EXTENT_MAX,
    ahead: int = 0,
) -> list[str]:
    """Conditions over the parameters; `work` is the number of items, of which a launch can have
    `items_max`; loads are for up to `ahead` iterations beyond the last. Raises EmissionRefused."""
    sizes = {size: Constant(value) for size, value in tile.sizes}
    extents: list[Expression] = [Name(parameter.name) for parameter in tile.parameters]
    for tensor in tile.tensors:
        extents += [substitute(extent, dict(sizes)) for extent in tensor.shape]
    found = [_at_most(extent, EXTENT_MAX, "an extent") for extent in extents]
    found.append(_at_most(substitute(work, dict(sizes)), items_max, "the number of work items"))
    trips = substitute(tile.trip_count, dict(sizes))
    counted = any(role.variables for role in program.roles)
    parameters = {parameter.name for parameter in tile.parameters}
    if counted and names_of(trips) <= parameters:
        total = binary("*", work, binary("max", Constant(1), trips))
        found.append(_at_most(total, COUNT_MAX, "the number of iterations"))
    known = {one.left: int(one.right.value) for one in found if isinstance(one, Binary)
             if isinstance(one.right, Constant)}  # fmt: skip
    found += _Computed(tile, known, items_max, ahead).conditions()
    return [to_text(condition) for condition in dict.fromkeys(found) if condition is not None]


class _Computed:
    """The numbers of a tile program that a kernel computes, bounded from their leaves up; `most`
    has the largest values that conditions of the launch allow."""

    def __init__(
        self, tile: TileProgram, most: dict[Expression, int], items_max: int, ahead: int
    ) -> None:
        self.tile = tile
        self.most = most
        self.items_max = items_max
        self.ahead = ahead
        self.sizes = {size: Constant(value) for size, value in tile.sizes}
        self.found: dict[Expression, Expression | None] = {}
        self.what = ""
        self.parameters = {item.name for item in tile.parameters}
        self.range: dict[str, Interval] = {
            "row": (0, TILE_MAX - 1), "column": (0, TILE_MAX - 1),
            **{item.name: (item.minimum, EXTENT_MAX) for item in tile.parameters},
        }  # fmt: skip
        self.largest: dict[str, Expression] = {
            "row": Constant(TILE_MAX - 1), "column": Constant(TILE_MAX - 1)
        }  # fmt: skip

    def conditions(self) -> list[Expression | None]:
        """What has to hold beyond what is known. Raises EmissionRefused."""
        for dimension in self.tile.work:
            self.what = f"the number of {dimension.name}"
            counted = substitute(dimension.count, dict(self.sizes))
            count = self._bounds(counted)
            # No factor of the number of work items is larger than it.
            most = self.items_max if count is None else min(self.items_max, count[1])
            self.range[dimension.name] = 0, max(0, most - 1)
            self.largest[dimension.name] = binary("-", self._largest(counted), Constant(1))
        self.what = "the number of iterations"
        trips = self._bounds(self.tile.trip_count)
        if trips is not None:
            self.range[self.tile.loop_variable] = 0, max(1, trips[1]) - 1 + self.ahead
            counted = binary("max", Constant(1), substitute(self.tile.trip_count, dict(self.sizes)))
            most_trips = self._largest(counted)
            last = binary("+", most_trips, Constant(self.ahead - 1))
            self.largest[self.tile.loop_variable] = (
                last if self.ahead else binary("-", most_trips, Constant(1))
            )
        for tensor in self.tile.tensors:
            self.what = f"an extent of {tensor.name}"
            for extent in tensor.shape:
                self._bounds(extent)
        for operation in self.tile.operations:
            self.what = f"an offset of {operation.name}"
            for offset in operation.view.offsets if operation.view is not None else ():
                self._bounds(offset)
            self.what = f"a number of {operation.name}"
            for number in (operation.condition, operation.below):
                if number is not None:
                    self._bounds(number)
        for lookup in self.tile.lookups:
            self.what = f"an offset of {lookup.name}"
            for offset in lookup.view.offsets:
                self._bounds(offset)
        return list(self.found.values())

    def _bounds(self, number: Expression) -> Interval | None:
        """The least and the largest value, all parts being within 32 bits; None where memory
        decides it (a lookup, whose values nobody checks)."""
        number = substitute(number, dict(self.sizes))
        match number:
            case Constant(value):
                return value, value
            case Name(name):
                return self.range.get(name)
            case Not(operand):
                self._bounds(operand)
                return 0, 1
            case Binary(operator, left, right):
                first, second = self._bounds(left), self._bounds(right)
                if operator not in ("+", "-", "*", "//", "%", "min", "max"):
                    return 0, 1
                if first is None or second is None:
                    return None
                return self._within(number, _joined(operator, first, second))
        return None

    def _within(self, number: Binary, found: Interval) -> Interval:
        low, high = found
        if number in self.most:
            high = min(high, self.most[number])
        if low < -COUNT_MAX:
            raise EmissionRefused(f"{self.what} may leave 32 bits")
        if high > COUNT_MAX:
            for part, other in ((number.left, number.right), (number.right, number.left)):
                if (number.operator == "+" and self._low(other) >= 0) or (
                    number.operator == "*" and self._low(other) >= 1
                ):
                    self.found.pop(part, None)  # it holds where that of the whole does
            self.found[number] = _at_most(self._largest(number), COUNT_MAX, self.what)
            self.most[number] = high = COUNT_MAX
        return low, high

    def _largest(self, number: Expression) -> Expression:
        """A number over the parameters that this one never exceeds; for the last work item and
        iteration it is this one, where it grows with them. Raises EmissionRefused."""
        if names_of(number) <= self.parameters:
            return number
        match number:
            case Name(name) if name in self.largest:
                return self.largest[name]
            case Binary("+" | "min" | "max" as operator, left, right):
                return binary(operator, self._largest(left), self._largest(right))
            case Binary("-" | "//" as operator, left, right):
                least = self._least(right)
                return binary(operator, self._largest(left), least)
            case Binary("*", left, right):
                if min(self._low(left), self._low(right)) >= 0:
                    return binary("*", self._largest(left), self._largest(right))
            case Binary("%", _, right):
                return binary("-", self._largest(right), Constant(1))
        raise EmissionRefused(f"{self.what} may leave 32 bits")

    def _least(self, number: Expression) -> Expression:
        return number if names_of(number) <= self.parameters else Constant(self._low(number))

    def _low(self, number: Expression) -> int:
        bounds = self._bounds(number)
        return -COUNT_MAX if bounds is None else bounds[0]


def _joined(operator: str, first: Interval, second: Interval) -> Interval:
    """The least and the largest result of two numbers; divisors are at least 1."""
    if operator == "+":
        return first[0] + second[0], first[1] + second[1]
    if operator == "-":
        return first[0] - second[1], first[1] - second[0]
    if operator == "min":
        return min(first[0], second[0]), min(first[1], second[1])
    if operator == "max":
        return max(first[0], second[0]), max(first[1], second[1])
    if operator == "%":
        return 0, max(0, second[1] - 1)
    divisors = [max(1, one) for one in second] if operator == "//" else list(second)
    ends = [
        one // other if operator == "//" else one * other for one in first for other in divisors
    ]
    return min(ends), max(ends)


def _at_most(number: Expression, limit: int, what: str) -> Expression | None:
    if isinstance(number, Constant):
        integer(number.value, what, 1, limit)
        return None
    return Binary("<=", number, Constant(limit))
