"""The open table of tile operations: operands, result, attributes, cost class, effects.

A kind is one row. What it computes is a row of `titan/codegen/tile/semantics.py`, what it costs a
row of `backends/<target>/rates.yaml`, how it is spelled a matter of the backends. Decoding, costs
and checks walk this table and know no kind by name but `load`, `vector`, `store` and `mma`, which
touch memory or the matrix unit (and `element`, a `vector` of equal numbers).

Values in registers are f32 but for the results of `convert`; a value in shared memory has the type
of its tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from titan.codegen.tile.block_scales import (
    ATOM_COLUMNS,
    ATOM_OPERAND_ROWS,
    ATOM_ROWS,
    FIRST_SCALE,
    BlockScaling,
)
from titan.codegen.tile.dtypes import FORMATS, bytes_of
from titan.codegen.tile.model import Tensor, Value, ValuePlace
from titan.codegen.tile.rates import Rates
from titan.foundation.errors import TitanError

S, F, R, C = ValuePlace.SHARED, ValuePlace.FRAGMENT, ValuePlace.ROW, ValuePlace.COLUMN
REGISTERS = (F, R, C)
FUNCTIONS = ("relu", "gelu", "silu", "tanh")
REDUCTIONS = ("add",)  # of stores onto what a tensor holds
EVICTIONS = ("first", "last")  # of lines of the L2 cache, before or after all others
VECTORS = ("vector", "element")  # kinds that threads fetch from global memory to registers


class Misfit(TitanError):
    """The operands or attributes of an operation do not fit; `operand` is the one to point at."""

    def __init__(self, code: str, message: str, operand: int | None = None, key: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.operand = operand
        self.key = key


@dataclass(frozen=True, slots=True)
class Given:
    """What a rule sees of one operation: operands, and the attributes that its kind has.

    `tile` is (rows, columns), `flat` says that it was written with one extent; `tensor` is what the
    view names.
    """

    name: str
    operands: tuple[Value, ...]
    transpose: tuple[bool, ...] = ()
    tile: tuple[int, int] = (0, 0)
    flat: bool = False
    tensor: Tensor | None = None
    dtype: str = ""
    rates: Rates | None = None
    reduction: str = ""


Rule = Callable[[Given], Value | None]


@dataclass(frozen=True, slots=True)
class OperationKind:
    """One kind of operation.

    `places`: for each operand where it may live; an empty tuple for kinds that read a view.
    `required` and `optional`: attributes beside the kind. `result`: the rule that gives the value,
    or raises Misfit. `cost`: a class of `rates.yaml`, or what moves (`load`, `vector`, `read`,
    `mma`, `store`); `elements`: whether the cost counts those of the result or of the operand.
    `asynchronous`: an engine does it, and others wait for it.
    """

    name: str
    places: tuple[tuple[ValuePlace, ...], ...]
    result: Rule
    cost: str
    summary: str
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    elements: str = "result"
    asynchronous: bool = False

    @property
    def reads_view(self) -> bool:
        """Whether an operation of the kind reads global memory through a view."""
        return not self.places


def _word(place: ValuePlace) -> str:
    return {S: "a tile in shared memory", F: "a fragment", R: "a row value", C: "a column value"}[
        place
    ]


def check_places(kind: OperationKind, given: Given) -> None:
    """Every operand lives where the kind takes it from. Raises Misfit."""
    for number, (value, places) in enumerate(zip(given.operands, kind.places, strict=False)):
        if value.place not in places:
            wanted = " or ".join(_word(place) for place in places)
            text = f"`{kind.name}` takes {wanted}, but `{value.name}` is {_word(value.place)}"
            raise Misfit("TTN602", text, number)


def _numbers(given: Given) -> None:
    """Arithmetic is in f32."""
    for number, value in enumerate(given.operands):
        if value.dtype != "f32":
            text = f"arithmetic is in f32, but `{value.name}` is {value.dtype}"
            raise Misfit("TTN604", text, number)


def _load(given: Given) -> Value:
    assert given.tensor is not None
    if given.flat:
        raise Misfit("TTN603", "a tile in shared memory has rows and columns", key="tile")
    row_bytes = given.tile[1] * bytes_of(given.tensor.dtype)
    if row_bytes % 16:
        text = f"a row of `{given.name}` has {row_bytes} bytes, not a multiple of 16"
        raise Misfit("TTN608", text, key="tile")
    return Value(given.name, *given.tile, given.tensor.dtype, S)


def _vector(given: Given) -> Value:
    rows, columns = given.tile
    if given.tensor is not None:
        _of_values(given, given.tensor.dtype, None)
    if given.flat or (rows == 1 and columns > 1):
        return Value(given.name, 1, columns, "f32", C)
    if columns == 1:
        return Value(given.name, rows, 1, "f32", R)
    text = f"a vector has one row or one column, not {rows} x {columns}"
    raise Misfit("TTN603", text, key="tile")


def _of_values(given: Given, dtype: str, operand: int | None) -> None:
    """Threads compute with numbers of other types than those of scaled products alone."""
    if dtype in FORMATS and FORMATS[dtype].of_tensors:
        text = f"`{given.name}` reads {dtype}, which only an `mma` with scales takes"
        raise Misfit("TTN604", text, operand)


def _read(given: Given) -> Value:
    source = given.operands[0]
    _of_values(given, source.dtype, 0)
    place = C if source.rows == 1 else F
    return Value(given.name, source.rows, source.columns, "f32", place)


def _mma(given: Given) -> Value:
    left, right = given.operands[:2]
    flips = given.transpose
    rows, depth = (left.columns, left.rows) if flips[0] else (left.rows, left.columns)
    inner, columns = (right.columns, right.rows) if flips[1] else (right.rows, right.columns)
    if flips[0] and left.place is F:
        raise Misfit("TTN602", f"the fragment `{left.name}` cannot enter transposed", 0)
    if len(flips) > 2 and flips[2]:
        raise Misfit("TTN602", "the sum of an `mma` cannot enter transposed", 2)
    if depth != inner:
        text = f"`{left.name}` brings {depth} columns to the product and `{right.name}` {inner}"
        raise Misfit("TTN603", f"{text} rows", 1)
    _matrix_types(given, depth, columns)
    if len(given.operands) > 2:
        total = given.operands[2]
        if (total.rows, total.columns) != (rows, columns):
            text = f"`{total.name}` is {total.rows} x {total.columns}, the product {rows}"
            raise Misfit("TTN603", f"{text} x {columns}", 2)
        if total.dtype != "f32":
            raise Misfit("TTN604", f"sums are in f32, but `{total.name}` is {total.dtype}", 2)
    scaling = scaling_of(given)
    if scaling is not None:
        _scales(given, scaling, rows, depth, columns)
    elif FORMATS[left.dtype].pairs:
        raise Misfit("TTN611", f"`{left.name}` is {left.dtype}, and nothing scales it", 0)
    return Value(given.name, rows, columns, "f32", F)


def _matrix_types(given: Given, depth: int, columns: int) -> None:
    assert given.rates is not None
    left, right = given.operands[:2]
    matrix = given.rates.matrix
    eights = {"e4m3", "e5m2"}
    for number, value in enumerate((left, right)):
        if value.dtype not in matrix.per_cycle:
            text = f"the matrix unit of {given.rates.name} takes no {value.dtype}"
            raise Misfit("TTN611", text, number)
    if left.dtype != right.dtype and not {left.dtype, right.dtype} <= eights:
        text = f"`{left.name}` is {left.dtype} and `{right.name}` is {right.dtype}"
        raise Misfit("TTN604", text, 1)
    size = bytes_of(left.dtype)
    if depth * size % matrix.contraction_bytes:
        text = f"the product runs over {depth} elements of {size} bytes, not over a multiple of "
        raise Misfit("TTN608", f"{text}{matrix.contraction_bytes} bytes", 0)
    if columns % matrix.columns_multiple or columns > matrix.columns_most:
        text = f"the product has {columns} columns, but takes multiples of "
        text += f"{matrix.columns_multiple} up to {matrix.columns_most}"
        raise Misfit("TTN608", text, 1)
    # Elements are consecutive in memory along K where the operand is K-major.
    across = (given.transpose[0] and left.place is S, not given.transpose[1])
    for number in range(2):
        if across[number] and size < matrix.transposed_bytes:
            text = f"`{given.operands[number].name}` is {left.dtype} and not K-major, which the "
            raise Misfit("TTN611", f"{text}matrix unit of {given.rates.name} cannot read", number)


def scaling_of(given: Given) -> BlockScaling | None:
    """How the operands of a product are scaled; None where they are not. Raises Misfit."""
    if len(given.operands) <= FIRST_SCALE or given.rates is None:
        return None
    left, right = given.operands[:2]
    found = [
        row
        for row in given.rates.matrix.scaled
        if {left.dtype, right.dtype} <= set(row.elements)
        and given.operands[FIRST_SCALE].dtype == row.scale
    ]
    if not found:
        text = f"the matrix unit of {given.rates.name} scales no {left.dtype} by "
        raise Misfit("TTN611", f"{text}{given.operands[FIRST_SCALE].dtype}", FIRST_SCALE)
    return found[0]


def _scales(given: Given, row: BlockScaling, rows: int, depth: int, columns: int) -> None:
    """A tile of scales for the left operand, and one for each 128 rows of the right one."""
    depth = row.depth(depth)
    if given.transpose[:2] != (False, True):
        raise Misfit("TTN611", "operands that are scaled along K must be K-major", 1)
    if rows != ATOM_OPERAND_ROWS or columns % ATOM_OPERAND_ROWS or depth % row.atom_depth:
        text = f"the product is {rows} x {columns} over {depth}, but scales are those of "
        text += f"{ATOM_OPERAND_ROWS} rows and {row.atom_depth} along K"
        raise Misfit("TTN608", text, 0)
    wanted = (depth // row.atom_depth * ATOM_ROWS, ATOM_COLUMNS)
    counted = len(given.operands) - FIRST_SCALE
    if counted != 1 + columns // ATOM_OPERAND_ROWS:
        text = f"the product takes {1 + columns // ATOM_OPERAND_ROWS} tiles of scales: of the left "
        text += f"operand, and of each {ATOM_OPERAND_ROWS} rows of the right one; not {counted}"
        raise Misfit("TTN603", text, FIRST_SCALE)
    for number, value in enumerate(given.operands[FIRST_SCALE:], FIRST_SCALE):
        if value.place is not S or given.transpose[number]:
            raise Misfit("TTN602", f"`{value.name}` is no tile of scales in shared memory", number)
        if value.dtype != row.scale:
            text = f"`{value.name}` is {value.dtype}, but scales are {row.scale}"
            raise Misfit("TTN604", text, number)
        if (value.rows, value.columns) != wanted:
            text = f"`{value.name}` is {value.rows} x {value.columns}, but the scales of {depth} "
            raise Misfit("TTN603", f"{text}along K are {wanted[0]} x {wanted[1]}", number)


def _binary(given: Given) -> Value:
    _numbers(given)
    first, second = given.operands
    places = {first.place, second.place}
    if places == {R, C}:
        text = f"`{first.name}` and `{second.name}` are a row value and a column value"
        raise Misfit("TTN602", text, 1)
    place = F if F in places else first.place
    rows, columns = max(first.rows, second.rows), max(first.columns, second.columns)
    for number, value in enumerate(given.operands):
        fits = {
            F: (value.rows, value.columns) == (rows, columns),
            R: value.rows == rows,
            C: value.columns == columns,
        }[value.place]
        if not fits:
            other = given.operands[1 - number]
            text = f"`{value.name}` is {value.rows} x {value.columns}, but `{other.name}` is "
            raise Misfit("TTN603", f"{text}{other.rows} x {other.columns}", number)
    return Value(given.name, rows, columns, "f32", place)


def _unary(given: Given) -> Value:
    _numbers(given)
    source = given.operands[0]
    return Value(given.name, source.rows, source.columns, "f32", source.place)


def _convert(given: Given) -> Value:
    source = given.operands[0]
    if source.dtype == given.dtype:
        raise Misfit("TTN604", f"`{source.name}` is {source.dtype} already", 0)
    if "f32" not in (source.dtype, given.dtype):
        text = f"`{source.name}` is {source.dtype}; a conversion is from or to f32"
        raise Misfit("TTN604", text, 0)
    return Value(given.name, source.rows, source.columns, given.dtype, source.place)


def _reduce(given: Given) -> Value:
    _numbers(given)
    return Value(given.name, given.operands[0].rows, 1, "f32", R)


def _share(given: Given) -> Value:
    source = given.operands[0]
    assert given.rates is not None
    if not (given.rates.transfer.engine and given.rates.matrix.result == "registers"):
        raise Misfit("TTN611", f"groups of {given.rates.name} share no fragments", 0)
    if bytes_of(source.dtype) != 2:
        raise Misfit("TTN604", f"`{source.name}` is {source.dtype}, not of two bytes", 0)
    return Value(given.name, source.rows, source.columns, source.dtype, S)


def _store(given: Given) -> None:
    assert given.tensor is not None
    source = given.operands[0]
    if True in given.transpose:
        _transposed_store(given, source)
    if given.reduction and source.place is not F:
        text = f"what is added to a tensor is a fragment, but `{source.name}` is "
        raise Misfit("TTN602", f"{text}{_word(source.place)}", 0)
    if given.reduction and source.dtype != "f32":
        raise Misfit("TTN604", f"sums are in f32, but `{source.name}` is {source.dtype}", 0)
    assert given.rates is not None
    if given.reduction and not given.rates.transfer.engine:
        raise Misfit(
            "TTN611", f"no copy engine of {given.rates.name} adds to a tensor", key="reduce"
        )
    if source.dtype != given.tensor.dtype:
        text = f"`{source.name}` is {source.dtype}, but `{given.tensor.name}` holds "
        raise Misfit("TTN604", f"{text}{given.tensor.dtype}", 0)


def _transposed_store(given: Given, source: Value) -> None:
    """Matrices of 16-bit numbers are transposed on their way to shared memory."""
    assert given.rates is not None
    if not (given.rates.transfer.engine and given.rates.matrix.result == "registers"):
        raise Misfit("TTN611", f"nothing is written transposed on {given.rates.name}", 0)
    if source.place is not F or bytes_of(source.dtype) != 2:
        text = f"a fragment of two bytes an element is written transposed, but `{source.name}` is "
        raise Misfit("TTN602", f"{text}{_word(source.place)} of {source.dtype}", 0)
    if source.columns % 16:
        raise Misfit(
            "TTN608", f"`{source.name}` has {source.columns} columns, not a multiple of 16", 0
        )


def _table(*kinds: OperationKind) -> dict[str, OperationKind]:
    return {kind.name: kind for kind in kinds}


_PAIR = ((F, R, C), (F, R, C))
_ONE = ((F, R, C),)
KINDS: dict[str, OperationKind] = _table(
    OperationKind(
        "load",
        (),
        _load,
        "load",
        "a tile of a tensor, copied to shared memory",
        ("tile",),
        ("evict",),
        asynchronous=True,
    ),
    OperationKind(
        "vector",
        (),
        _vector,
        "vector",
        "a part of a tensor's last dimension, to registers",
        ("tile",),
    ),
    OperationKind(
        "element",
        (),
        _vector,
        "element",
        "one element of a tensor, for every row or every column",
        ("tile",),
    ),
    OperationKind(
        "read",
        ((S,),),
        _read,
        "read",
        "a tile in shared memory, read to registers as f32; one row is a number for each column",
    ),
    OperationKind(
        "mma",
        ((S, F), (S,), (F,)),
        _mma,
        "mma",
        "the product of two tiles, plus a sum",
        optional=("add", "scales"),
        asynchronous=True,
    ),
    OperationKind("add", _PAIR, _binary, "add", "x + y"),
    OperationKind("subtract", _PAIR, _binary, "add", "x - y"),
    OperationKind("multiply", _PAIR, _binary, "add", "x y"),
    OperationKind("divide", _PAIR, _binary, "divide", "x / y"),
    OperationKind(
        "maximum",
        _PAIR,
        _binary,
        "compare",
        "the larger of x and y; of a number and a NaN, the number",
    ),
    OperationKind(
        "minimum",
        _PAIR,
        _binary,
        "compare",
        "the smaller of x and y; of a number and a NaN, the number",
    ),
    OperationKind(
        "raise",
        _PAIR,
        _binary,
        "compare",
        "x, or y where it is larger by more than a number",
        ("by",),
    ),
    OperationKind("scale", _ONE, _unary, "add", "x times a number", ("by",)),
    OperationKind("offset", _ONE, _unary, "add", "x plus a number", ("by",)),
    OperationKind("exp2", _ONE, _unary, "exponential", "2 to the x"),
    OperationKind("log2", _ONE, _unary, "exponential", "the logarithm of x to base 2"),
    OperationKind("reciprocal", _ONE, _unary, "reciprocal", "1 / x"),
    OperationKind("rsqrt", _ONE, _unary, "reciprocal", "1 / sqrt(x)"),
    OperationKind(
        "activation",
        _ONE,
        _unary,
        "activation",
        "a function of x: relu, gelu (by tanh), silu, tanh",
        ("function",),
    ),
    OperationKind(
        "convert", _ONE, _convert, "convert", "x rounded to another type, ties to even", ("to",)
    ),
    OperationKind(
        "row_max",
        ((F,),),
        _reduce,
        "row_max",
        "the largest of each row; NaN does not count",
        elements="operand",
    ),
    OperationKind(
        "row_sum", ((F,),), _reduce, "row_sum", "the sum of each row", elements="operand"
    ),
    OperationKind(
        "mask",
        ((F,),),
        _unary,
        "compare",
        "x where the condition holds, else the fill",
        ("where", "fill"),
    ),
    OperationKind(
        "share",
        ((F,),),
        _share,
        "store",
        "a fragment in shared memory, whole for the products of all groups",
        elements="operand",
    ),
    OperationKind(
        "store",
        ((F, R, S),),
        _store,
        "store",
        "a value written to a tensor",
        ("to",),
        ("below", "reduce"),
        elements="operand",
        asynchronous=True,
    ),
)


def cost_class(kind: OperationKind, function: str) -> str:
    """The row of `rates.yaml` for an arithmetic operation."""
    return function if kind.cost == "activation" else kind.cost
