"""A tile program: what one CTA computes on tiles, independent of when, where and by which warp.

For every work item (one combination of the work coordinates) a program runs `before` once, `body`
for the loop variable 0, 1, ... below `trip_count`, and `after` once. Every operation defines one
value, named after it. A carried value enters the first iteration as its `initial` number; at the
end of each iteration it takes the value named `next`; `after` sees the last one under its name.

The exact meaning is `titan/codegen/tile/semantics.py` (NumPy); costs, effects and spellings of
operations are tables. Data only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from titan.foundation.errors import InternalError
from titan.foundation.source.span import Span
from titan.sync.expression import Expression, names_of
from titan.sync.program import Parameter


class ValuePlace(StrEnum):
    """Where a value lives."""

    SHARED = "shared"  # a tile in shared memory (LDS), filled by an asynchronous load
    FRAGMENT = "fragment"  # [rows, columns] spread over the registers of the computing warps
    ROW = "row"  # one number for each row of the tile: [rows, 1]
    COLUMN = "column"  # one number for each column: [1, columns]


@dataclass(frozen=True, slots=True)
class Tensor:
    """An array in global memory, row-major and dense; shapes in elements.

    `aligned`: its start and its rows are multiples of 16 bytes, as tensor maps ask for.
    """

    name: str
    shape: tuple[Expression, ...]
    dtype: str
    output: bool = False
    aligned: bool = True
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class View:
    """Where a tile lies: the offset of its first element in every dimension of the tensor.

    The last two dimensions are rows and columns of the tile; all others hold one index. A tensor of
    one dimension gives a COLUMN (`vector`) or takes a ROW. What lies outside reads as zero and is
    not written.
    """

    tensor: str
    offsets: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Lookup:
    """An integer that is read from memory: one element of a tensor of `i32`; 0 outside of it.

    Offsets of what is read, conditions of masks, lookups below it and, unless it changes with the
    iteration, the trip count may name it. All warps of a CTA read the same.
    """

    name: str
    view: View
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Value:
    """A tile, fragment, row or column: its extents, element type and place."""

    name: str
    rows: int
    columns: int
    dtype: str
    place: ValuePlace


@dataclass(frozen=True, slots=True)
class ScalarArgument:
    """A positive, finite f32 number that a launch may bring; `value` where it brings none."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class TileOperation:
    """`kind` is a key of `titan/codegen/tile/operations.py`, which says what the other fields mean.

    `transpose`: for each operand of an mma, whether it enters transposed; of a store, whether the
    value is written transposed. `number`: factor of
    `scale`, summand of `offset`, fill of `mask`; `scalar`: what multiplies it in the first two,
    in f32. `function`: of an activation; of an `mma` with scales, what the matrix unit calls it.
    `condition`: of a mask, over `row` and
    `column` (both counted within the tile, all rows of the CTA's tile), sizes, parameters, work
    coordinates and the loop variable; where it does not hold, the fill is taken. `below`: of a
    store, the row of the tensor from which on nothing is written. `evict`: of a load, whether its
    lines leave the L2 cache `first` or `last`; empty for neither. `reduction`: of a store, `add`
    where it adds to what the tensor holds; empty where it replaces that.
    """

    name: str
    kind: str
    operands: tuple[str, ...]
    result: Value | None
    view: View | None = None
    transpose: tuple[bool, ...] = ()
    number: float = 0.0
    function: str = ""
    condition: Expression | None = None
    span: Span | None = field(default=None, compare=False)
    scalar: ScalarArgument | None = None
    below: Expression | None = None
    evict: str = ""
    reduction: str = ""

    @property
    def writes_transposed(self) -> bool:
        """Whether a store writes its value transposed."""
        return self.kind == "store" and True in self.transpose

    @property
    def tensor_view(self) -> View:
        """The view of a kind that touches memory. Raises InternalError for any other."""
        if self.view is None:
            raise InternalError(f"{self.name} has no view")
        return self.view

    @property
    def value(self) -> Value:
        """The result of a kind that has one. Raises InternalError for any other."""
        if self.result is None:
            raise InternalError(f"{self.name} has no result")
        return self.result


@dataclass(frozen=True, slots=True)
class Carried:
    """A value that lives across iterations; `next` names the operation whose result it takes."""

    value: Value
    initial: float
    next: str


@dataclass(frozen=True, slots=True)
class WorkDimension:
    """One coordinate of the work items: 0 .. count - 1; the last one varies fastest. Of those that
    the program calls descending, count - 1 .. 0."""

    name: str
    count: Expression


@dataclass(frozen=True, slots=True)
class TileProgram:
    """`groups` warpgroups (waves on AMD: `waves`) share every tile by rows: group g computes the
    rows g * rows / groups and following of every FRAGMENT and ROW, and reads those rows of SHARED
    operands that enter an mma on the left. Waves on AMD may share it in both dimensions.

    `sizes` are fixed numbers, `parameters` the numbers that a launch brings (at least 1 each),
    `scalars` those of f32 that it may bring. A lookup may name those above it. `dependent_launch`:
    a launch may begin while the one before it ends; it waits before it touches global memory.
    `launch_control`: a persistent CTA asks the hardware for its next work item. `descending`: work
    coordinates that go from the last to the first.
    """

    name: str
    target: str
    sizes: tuple[tuple[str, int], ...]
    parameters: tuple[Parameter, ...]
    tensors: tuple[Tensor, ...]
    work: tuple[WorkDimension, ...]
    loop_variable: str
    trip_count: Expression
    before: tuple[TileOperation, ...]
    body: tuple[TileOperation, ...]
    after: tuple[TileOperation, ...]
    carried: tuple[Carried, ...] = ()
    persistent: bool = False
    groups: int = 1
    cluster: int = 1
    depth: int = 0  # stages of the rings that the user asks for; 0: as the schedule needs
    tail: str = "boxes"  # the last iteration: whole boxes, copied by `threads`, or left as `poison`
    note: str = ""
    span: Span | None = field(default=None, compare=False)
    scalars: tuple[ScalarArgument, ...] = ()
    lookups: tuple[Lookup, ...] = ()
    dependent_launch: bool = False
    launch_control: bool = False
    descending: tuple[str, ...] = ()

    def names_in(self, *expressions: Expression) -> frozenset[str]:
        """The names that the numbers depend on, also by way of lookups."""
        return names_by_way(self.lookups, expressions)

    @property
    def operations(self) -> tuple[TileOperation, ...]:
        """All operations in the order of the file."""
        return (*self.before, *self.body, *self.after)

    @property
    def sums(self) -> frozenset[str]:
        """The outputs that stores add to: a launch begins with what they hold."""
        return frozenset(one.tensor_view.tensor for one in self.operations if one.reduction)

    def operation(self, name: str) -> TileOperation:
        """Raises KeyError."""
        for operation in self.operations:
            if operation.name == name:
                return operation
        raise KeyError(name)


def names_by_way(lookups: Sequence[Lookup], expressions: Iterable[Expression]) -> frozenset[str]:
    """The names in the expressions and in the lookups that they name; those name others above."""
    found = {name for expression in expressions for name in names_of(expression)}
    for lookup in reversed(lookups):
        if lookup.name in found:
            found.update(*(names_of(offset) for offset in lookup.view.offsets))
    return frozenset(found)
