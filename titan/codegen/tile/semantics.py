"""What a tile program means, in NumPy: the definition, and the same in float64 as a reference.

`run` computes what a correct kernel computes: every operation in exact arithmetic, rounded once to
the type of its result (products and sums over a tile in float64, then to f32: the order of an
engine's summation is not part of the meaning). `reference64` rounds nothing but the inputs.

A value is an array of two dimensions: tiles and fragments [rows, columns], row values [rows, 1],
column values [1, columns]; in `run` of float32 whatever the type, since every number of a narrow
type is one of float32. The body runs at least once, as an emitted kernel's does. NumPy is imported
where it is used.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from titan.codegen.tile.block_scales import FIRST_SCALE, KINDS_OF_PAIRS, by_rows, scaled
from titan.codegen.tile.dtypes import INDEX_TYPE, rounded, unpacked
from titan.codegen.tile.manifest import COORDINATE_MOST, INTEGER_MOST, ascending
from titan.codegen.tile.model import Tensor, TileOperation, TileProgram, Value, ValuePlace
from titan.foundation.errors import UserError
from titan.sync.expression import (
    Binary,
    Constant,
    Expression,
    Name,
    Not,
    evaluate,
)

if TYPE_CHECKING:
    from typing import TypeVar

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.floating]
    Wide = NDArray[np.float64]
    Marks = NDArray[np.bool_]
    Numbers = int | NDArray[np.int64]
    Element = TypeVar("Element", bound=np.generic)

Environment = Mapping[str, int]


class StoreConflict(UserError):
    """Two stores wrote one element."""


# -------------------------------------------------------------------------------- operations


def apply(
    operation: TileOperation,
    operands: Sequence[Array],
    environment: Environment | None = None,
    first_row: int = 0,
    double: bool = False,
) -> Array:
    """The value of one operation that touches no memory.

    `environment` (parameters, work coordinates, loop variable) and `first_row` (where the operands
    begin in the tile of the CTA, for a group that has some of its rows) are needed by `mask` only.
    `double`: float64 throughout, nothing rounded. Raises KeyError for a kind that is not computed.
    """
    import numpy as np

    wide = [np.asarray(operand, np.float64) for operand in operands]
    with np.errstate(all="ignore"):
        if operation.kind == "mask":
            assert operation.condition is not None
            shape = wide[0].shape
            holds = _condition(operation.condition, environment or {}, first_row, shape)
            found = np.where(holds, wide[0], operation.number)
        elif operation.kind == "mma":
            found = _product(operation, wide)
        elif operation.kind == "activation":
            found = _FUNCTIONS[operation.function](wide[0])
        else:
            found = _KINDS[operation.kind](operation, *wide)
    return np.asarray(found) if double else rounded(found, _dtype(operation))


def _dtype(operation: TileOperation) -> str:
    return operation.result.dtype if operation.result is not None else "f32"


def _product(operation: TileOperation, wide: Sequence[Wide]) -> Wide:
    import numpy as np

    left, right = (
        operand.T if flipped else operand
        for operand, flipped in zip(wide[:2], operation.transpose[:2], strict=True)
    )
    if len(wide) > FIRST_SCALE:  # both K-major
        of_left, *of_right = (by_rows(one) for one in wide[FIRST_SCALE:])
        rows = [left, right.T]
        if operation.function in KINDS_OF_PAIRS:
            rows = [unpacked(one).astype(np.float64) for one in rows]
        left, right = scaled(rows[0], of_left), scaled(rows[1], np.concatenate(of_right)).T
    product = left @ right
    return product + wide[2] if len(wide) > 2 else product


def _gelu(x: Wide) -> Wide:
    """The tanh form (Hendrycks and Gimpel, section 2)."""
    import numpy as np

    return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))


def _numpy(name: str) -> Callable[..., Wide]:
    """A NumPy function by its name, imported when it is called."""

    def call(_: TileOperation, *operands: Wide) -> Wide:
        import numpy as np

        return getattr(np, name)(*operands)

    return call


def _tanh(x: Wide) -> Wide:
    import numpy as np

    return np.tanh(x)


def _relu(x: Wide) -> Wide:
    import numpy as np

    return np.fmax(x, 0.0)


def _silu(x: Wide) -> Wide:
    import numpy as np

    return x / (1 + np.exp(-x))


def _rsqrt(_: TileOperation, x: Wide) -> Wide:
    import numpy as np

    return 1.0 / np.sqrt(x)


def _raised(x: Wide, y: Wide, least: float) -> Wide:
    """A NaN is not larger than anything, and nothing is larger than one."""
    import numpy as np

    return np.where(y - x > least, y, x)


def _row_max(_: TileOperation, x: Wide) -> Wide:
    import numpy as np

    return np.fmax.reduce(x, axis=1, keepdims=True)


_FUNCTIONS: dict[str, Callable[[Wide], Wide]] = {
    "relu": _relu,
    "gelu": _gelu,
    "silu": _silu,
    "tanh": _tanh,
}
_KINDS: dict[str, Callable[..., Wide]] = {
    "read": lambda _, x: x,
    "convert": lambda _, x: x,
    "share": lambda _, x: x,
    "add": _numpy("add"),
    "subtract": _numpy("subtract"),
    "multiply": _numpy("multiply"),
    "divide": _numpy("divide"),
    "maximum": _numpy("fmax"),
    "minimum": _numpy("fmin"),
    "raise": lambda operation, x, y: _raised(x, y, _by(operation)),
    "scale": lambda operation, x: x * _by(operation),
    "offset": lambda operation, x: x + _by(operation),
    "exp2": _numpy("exp2"),
    "log2": _numpy("log2"),
    "reciprocal": _numpy("reciprocal"),
    "rsqrt": _rsqrt,
    "row_max": _row_max,
    "row_sum": lambda _, x: x.sum(axis=1, keepdims=True),
}


def _single(number: float) -> float:
    """A constant as a kernel has it: f32."""
    return float(rounded(number, "f32"))


def _by(operation: TileOperation) -> float:
    """The number of a `scale`, `offset` or `raise`: its product with a scalar is rounded to f32."""
    number = _single(operation.number)
    return number if operation.scalar is None else _single(number * _single(operation.scalar.value))


def _condition(
    condition: Expression, environment: Environment, first_row: int, shape: tuple[int, ...]
) -> Marks:
    import numpy as np

    names: dict[str, Numbers] = dict(environment)
    names["row"] = first_row + np.arange(shape[0])[:, None]
    names["column"] = np.arange(shape[1])[None, :]
    return np.broadcast_to(over_arrays(condition, names), shape).astype(bool)


def over_arrays(expression: Expression, names: Mapping[str, Numbers]) -> Numbers:
    """The value of an expression where names may be arrays; divisors are positive."""
    import numpy as np

    match expression:
        case Constant(value):
            return value
        case Name(name):
            return names[name]
        case Not(operand):
            return np.logical_not(over_arrays(operand, names)).astype(np.int64)
        case Binary(operator, left, right):
            first, second = over_arrays(left, names), over_arrays(right, names)
            found = getattr(np, _UFUNCS[operator])(first, second)
            return found.astype(np.int64)  # comparisons and connectives give 0 or 1
    raise TypeError(f"no expression: {expression!r}")


_UFUNCS = {
    "+": "add", "-": "subtract", "*": "multiply", "//": "floor_divide", "%": "mod",
    "min": "minimum", "max": "maximum", "<": "less", "<=": "less_equal", "==": "equal",
    "!=": "not_equal", ">=": "greater_equal", ">": "greater", "and": "logical_and",
    "or": "logical_or",
}  # fmt: skip


# -------------------------------------------------------------------------------------- views


def fetch(operation: TileOperation, tensor: Array, environment: Environment) -> Array:
    """The tile, vector or element that an operation brings; what lies outside reads as zero."""
    import numpy as np

    value = operation.value
    if operation.kind == "element":
        one = replace(operation, kind="vector", result=replace(value, rows=1, columns=1))
        return np.full((value.rows, value.columns), fetch(one, tensor, environment)[0, 0])
    offsets = [evaluate(offset, environment) for offset in operation.tensor_view.offsets]
    made = np.zeros((value.rows, value.columns), tensor.dtype)
    inside, within = _window(value, offsets, tensor.shape)
    if inside is not None:
        made[within] = _matrix(tensor, offsets, value)[inside]
    return made


def put(
    operation: TileOperation,
    value: Array,
    tensor: Array,
    environment: Environment,
    first_row: int = 0,
    written: NDArray[np.bool_] | None = None,
    first_column: int = 0,
) -> None:
    """Write a value where a `store` says; what lies outside is not written.

    `first_row`, `first_column`: where the value begins in the tile of the CTA. `written`, of the
    tensor's shape, notes what was stored; storing twice raises Conflict. What is added may be added
    anywhere, in any order.
    """
    value = value.T if operation.writes_transposed else value
    rows, columns = value.shape
    offsets = [evaluate(offset, environment) for offset in operation.tensor_view.offsets]
    shape = Value("", rows, columns, "f32", ValuePlace.ROW if columns == 1 else ValuePlace.FRAGMENT)
    offsets[-1 if shape.place is ValuePlace.ROW else -2] += first_row
    offsets[-1] += first_column
    extents = list(tensor.shape)
    if operation.below is not None:
        limit = evaluate(operation.below, environment)
        axis = -1 if shape.place is ValuePlace.ROW else -2
        extents[axis] = max(0, min(extents[axis], limit))
    inside, within = _window(shape, offsets, extents)
    if inside is None:
        return
    if operation.reduction:
        _matrix(tensor, offsets, shape)[inside] += value[within]
        return
    if written is not None:
        marks = _matrix(written, offsets, shape)
        if marks[inside].any():
            raise StoreConflict(
                f"{operation.name} stores elements of {operation.tensor_view.tensor} twice"
            )
        marks[inside] = True
    _matrix(tensor, offsets, shape)[inside] = value[within]


def _matrix(tensor: NDArray[Element], offsets: Sequence[int], value: Value) -> NDArray[Element]:
    """The last dimensions as a matrix that has the value's shape, the others indexed."""
    if value.place in (ValuePlace.ROW, ValuePlace.COLUMN):
        line = tensor[tuple(offsets[:-1])]
        return line[:, None] if value.place is ValuePlace.ROW else line[None, :]
    return tensor[tuple(offsets[:-2])]


def _window(
    value: Value, offsets: Sequence[int], shape: Sequence[int]
) -> tuple[tuple[slice, slice] | None, tuple[slice, slice]]:
    """The part of the matrix that the tile covers, and the part of the tile that is inside."""
    nothing = (None, (slice(0), slice(0)))
    flat = value.place in (ValuePlace.ROW, ValuePlace.COLUMN)
    leading = len(offsets) - (1 if flat else 2)
    if any(not 0 <= offsets[i] < shape[i] for i in range(leading)):
        return nothing
    if flat:
        along = ((offsets[-1], value.rows, shape[-1]), (0, 1, 1))
        if value.place is ValuePlace.COLUMN:
            along = ((0, 1, 1), (offsets[-1], value.columns, shape[-1]))
    else:
        along = (
            (offsets[-2], value.rows, shape[-2]),
            (offsets[-1], value.columns, shape[-1]),
        )
    ends = [(max(0, o), min(o + extent, limit)) for o, extent, limit in along]
    if any(low >= high for low, high in ends):
        return nothing
    inside = tuple(slice(low, high) for low, high in ends)
    within = tuple(
        slice(low - o, high - o) for (low, high), (o, _, _) in zip(ends, along, strict=True)
    )
    return (inside[0], inside[1]), (within[0], within[1])


def looked_up(
    tile: TileProgram, memory: Mapping[str, Array], environment: Environment
) -> dict[str, int]:
    """The environment with the lookups whose names are all in it; outside of a tensor is 0."""
    made = dict(environment)
    for lookup in tile.lookups:
        if not tile.names_in(*lookup.view.offsets) <= made.keys() | dict(tile.sizes).keys():
            continue
        numbers = memory[lookup.view.tensor]
        place = tuple(evaluate(offset, made) for offset in lookup.view.offsets)
        inside = all(0 <= at < extent for at, extent in zip(place, numbers.shape, strict=True))
        made[lookup.name] = int(numbers[place]) if inside else 0
    return made


# ----------------------------------------------------------------------------------- programs


def work_items(tile: TileProgram, parameters: Environment) -> Iterator[dict[str, int]]:
    """Every work item in its order: parameters and work coordinates by name; the last one varies
    fastest."""
    names = [dimension.name for dimension in tile.work]
    coordinates = [range(evaluate(dimension.count, parameters)) for dimension in tile.work]
    for place, name in enumerate(names):
        if name in tile.descending:
            coordinates[place] = coordinates[place][::-1]
    for item in itertools.product(*coordinates):
        yield {**parameters, **dict(zip(names, item, strict=True))}


def trips(tile: TileProgram, environment: Environment) -> int:
    """Iterations of a work item, at least 1."""
    return max(1, evaluate(tile.trip_count, environment))


def trips_of_items(tile: TileProgram, parameters: Environment) -> list[int]:
    """Iterations of every work item, in the order of `work_items`; one evaluation for all items
    whose coordinates in the trip count are the same. Lookups are `ascending`."""
    names = tile.names_in(tile.trip_count)
    memory = integers_of(tile, parameters)
    used = [dimension.name for dimension in tile.work if dimension.name in names]
    known: dict[tuple[int, ...], int] = {}
    counts: list[int] = []
    for item in work_items(tile, parameters):
        key = tuple(item[name] for name in used)
        if key not in known:
            known[key] = trips(tile, looked_up(tile, memory, item))
        counts.append(known[key])
    return counts


def integers_of(tile: TileProgram, parameters: Environment) -> dict[str, Array]:
    """Large, ascending integers in every tensor that lookups read."""
    import numpy as np

    found: dict[str, Array] = {}
    for tensor in tile.tensors:
        if tensor.dtype == INDEX_TYPE:
            shape = shape_of(tensor, {**dict(tile.sizes), **parameters})
            numbers = np.full(math.prod(shape), float(INTEGER_MOST))
            rising = ascending(min(numbers.size, INTEGER_MOST // COORDINATE_MOST))
            numbers[: len(rising)] = rising  # all behind them are the largest
            found[tensor.name] = numbers.reshape(shape)
    return found


def shape_of(tensor: Tensor, parameters: Environment) -> tuple[int, ...]:
    """The extents of a tensor under given parameters."""
    return tuple(evaluate(extent, parameters) for extent in tensor.shape)


def check_launch(
    tile: TileProgram, inputs: Mapping[str, ArrayLike], parameters: Environment
) -> dict[str, Array]:
    """The input arrays as float64. Raises ValueError for what is missing or does not fit."""
    import numpy as np

    for parameter in tile.parameters:
        value = parameters.get(parameter.name)
        if value is None or value < parameter.minimum:
            raise ValueError(f"{parameter.name} is {value}, at least {parameter.minimum} is needed")
    found: dict[str, Array] = {}
    for tensor in tile.tensors:
        if tensor.output:
            continue
        if tensor.name not in inputs:
            raise ValueError(f"the input {tensor.name} is missing")
        array = np.asarray(inputs[tensor.name], np.float64)
        if array.shape != shape_of(tensor, parameters):
            wanted = shape_of(tensor, parameters)
            raise ValueError(f"{tensor.name} has the shape {array.shape}, not {wanted}")
        found[tensor.name] = array
    return found


def run(
    tile: TileProgram, inputs: Mapping[str, ArrayLike], parameters: Environment
) -> dict[str, Array]:
    """The outputs, as float32 numbers of their types; NaN where nothing is written, and 0 where
    nothing is added to an output that stores add to, which begins with zeros.

    Inputs are rounded to the types of their tensors first. Raises ValueError for a launch that does
    not fit, Conflict when two work items store to one element.
    """
    return _execute(tile, inputs, parameters, double=False)


def reference64(
    tile: TileProgram, inputs: Mapping[str, ArrayLike], parameters: Environment
) -> dict[str, Array]:
    """The outputs in float64, nothing rounded but the inputs. Raises as `run`."""
    return _execute(tile, inputs, parameters, double=True)


def _execute(
    tile: TileProgram, inputs: Mapping[str, ArrayLike], parameters: Environment, double: bool
) -> dict[str, Array]:
    import numpy as np

    arrays = check_launch(tile, inputs, parameters)
    dtypes = {tensor.name: tensor.dtype for tensor in tile.tensors}
    memory: dict[str, Array] = {
        name: numbers
        if dtypes[name] == INDEX_TYPE
        else numbers.astype(np.float64 if double else np.float32)
        for name, numbers in ((name, rounded(a, dtypes[name])) for name, a in arrays.items())
    }
    outputs = {tensor.name: tensor for tensor in tile.tensors if tensor.output}
    marks = {}
    for name, tensor in outputs.items():
        shape = shape_of(tensor, parameters)
        begin = 0.0 if name in tile.sums else np.nan
        memory[name] = np.full(shape, begin, np.float64 if double else np.float32)
        marks[name] = np.zeros(shape, bool)
    for environment in work_items(tile, parameters):
        _item(tile, environment, memory, marks, double)
    return {name: memory[name] for name in outputs}


def _item(
    tile: TileProgram,
    environment: dict[str, int],
    memory: dict[str, Array],
    marks: dict[str, Marks],
    double: bool,
) -> None:
    """One work item from `before` to `after`."""
    import numpy as np

    values: dict[str, Array] = {}
    environment = looked_up(tile, memory, environment)

    def section(operations: Sequence[TileOperation], scope: Environment) -> None:
        for operation in operations:
            if operation.view is None:
                operands = [values[name] for name in operation.operands]
                values[operation.name] = apply(operation, operands, scope, double=double)
            elif operation.kind == "store":
                name = operation.view.tensor
                stored = values[operation.operands[0]]
                put(operation, stored, memory[name], scope, written=marks[name])
            else:
                tensor = memory[operation.view.tensor]
                values[operation.name] = fetch(operation, tensor, scope)

    section(tile.before, environment)
    kind = np.float64 if double else np.float32
    for item in tile.carried:
        shape = (item.value.rows, item.value.columns)
        values[item.value.name] = np.full(shape, item.initial, kind)
    for index in range(trips(tile, environment)):
        section(tile.body, looked_up(tile, memory, {**environment, tile.loop_variable: index}))
        fresh = {item.value.name: values[item.next] for item in tile.carried}
        values.update(fresh)
    section(tile.after, environment)
