"""Tile operations of a wave as calls of the device header: one call for each operation.

`Places` says how names of the tile program are spelled and where a tile of a view begins.
"""

from __future__ import annotations

from collections.abc import Mapping

from titan.codegen.emit.expressions import SpellingScope
from titan.codegen.emit.hip_tiles import LdsTile
from titan.codegen.emit.hip_values import HipValues, operand
from titan.codegen.emit.masks import worst_corner
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.names import DTYPE_BYTES, dtype, mangled, single, spelled_number
from titan.codegen.tile.held import UNIT_BYTES, tiles_behind
from titan.codegen.tile.model import Tensor, TileOperation, TileProgram, ValuePlace, View
from titan.sync.expression import (
    Binary,
    Constant,
    Expression,
    Name,
    linear_form,
    names_of,
    substitute,
    to_text,
)

BINARY = {
    "add": "Add", "subtract": "Subtract", "multiply": "Multiply", "divide": "Divide",
    "maximum": "Maximum", "minimum": "Minimum",
}  # fmt: skip
UNARY = {"exp2": "Exp2", "log2": "Log2", "reciprocal": "Reciprocal", "rsqrt": "Rsqrt"}
FUNCTIONS = {"relu": "Relu", "tanh": "Tanh", "gelu": "Gelu", "silu": "Silu"}
LEAST_OF_REDUCTION = {"row_max": ("-titan::infinity()", "Maximum"), "row_sum": ("0.0f", "Add")}
KEPT_MAX = 8  # offsets of one tile that stay in registers of a lane, each with its row
BYTES_MAX = 2**30  # END of the device header: offsets within a tile's rows stay below


class Places:
    """Names, views and constraints of one tile program."""

    def __init__(self, tile: TileProgram) -> None:
        self.tile = tile
        self.sizes: Mapping[str, int] = dict(tile.sizes)
        self.tensors: dict[str, Tensor] = {}
        spelled: dict[str, str] = {}
        least: dict[str, int | None] = {}
        for parameter in tile.parameters:
            spelled[parameter.name] = mangled("p", parameter.name, "a parameter")
            least[parameter.name] = 1
        for dimension in tile.work:
            spelled[dimension.name] = mangled("w", dimension.name, "a work coordinate")
            least[dimension.name] = 0
        for tensor in tile.tensors:
            mangled("g", tensor.name, "a tensor")
            dtype(tensor.dtype, f"the tensor {tensor.name}")
            if tensor.name in self.tensors:
                raise EmissionRefused(f"two tensors are called {tensor.name}")
            self.tensors[tensor.name] = tensor
        self.loop = mangled("l", tile.loop_variable, "the loop variable")
        self.outside = SpellingScope(spelled, least)
        self.inside = self.outside.plus(tile.loop_variable, self.loop, 0)
        self.constraints: list[str] = []
        self.together_bytes: dict[str, int] = {}  # what a lane copies at once, by tensor

    def text(self, expression: Expression, scope: SpellingScope | None = None) -> str:
        """The expression with the sizes as numbers."""
        return (scope or self.inside).text(substitute(expression, self.sizes))

    def plain(self, expression: Expression) -> str:
        """The expression as the manifest has it."""
        self.text(expression)
        return to_text(substitute(expression, self.sizes))

    def uses_loop(self, view: View | None) -> bool:
        """Whether a view begins elsewhere in each iteration of the loop."""
        from titan.sync.expression import names_of

        names = {name for offset in (view.offsets if view else ()) for name in names_of(offset)}
        return self.tile.loop_variable in names

    def demand(self, constraint: str) -> None:
        """Adds a constraint on the launch, once."""
        if constraint not in self.constraints:
            self.constraints.append(constraint)

    def view(self, view: View, rows: int, flat: bool, unit: int = 0, few: bool = False) -> str:
        """A call that makes the View of a tile; `flat`: along the last dimension only.

        `unit`: bytes that are read or written at once; they must be there or not as one. `few`:
        offsets that are the same for all iterations may stay in registers.
        """
        tensor = self.tensors.get(view.tensor)
        if tensor is None or len(view.offsets) != len(tensor.shape):
            raise EmissionRefused("a view does not fit its tensor")
        kept = 1 if flat else 2
        if len(tensor.shape) < kept:
            raise EmissionRefused(f"{tensor.name} has too few dimensions for a tile")
        extents = [self.text(extent, self.outside) for extent in tensor.shape]
        offsets = [self._offset(offset) for offset in view.offsets]
        outer = len(extents) - kept
        first, inside = "0ll", "true"
        for number in range(outer):
            step = f"{first} * ({extents[number]})" if number else ""
            first = f"({step} + ({offsets[number]}))" if number else f"(0ll + ({offsets[number]}))"
            test = f"titan::within({offsets[number]}, {extents[number]})"
            inside = test if number == 0 else f"{inside} && {test}"
        for extent in extents[outer:] if outer else ():
            first = f"{first} * ({extent})"
        matrix = [("1", "0")] if flat else [(extents[-2], offsets[-2])]
        matrix.append((extents[-1], offsets[-1]))
        self._constrain(tensor, view, 1 if flat else rows, unit)
        pointer = mangled("g", tensor.name, "a tensor")
        moves = [self.tile.loop_variable in names_of(offset) for offset in view.offsets[-2:]]
        down = ", true" if few and not flat and moves == [True, False] else ""
        return (
            f"titan::view<titan::{tensor.dtype}>({pointer}, {first}, {inside}, "
            f"{matrix[0][0]}, {matrix[1][0]}, {matrix[0][1]}, {matrix[1][1]}{down})"
        )

    def _offset(self, offset: Expression) -> str:
        text = self.text(offset)
        plain = isinstance(substitute(offset, self.sizes), Constant | Name)
        return text if plain or not never_negative(offset) else f"titan::never_negative({text})"

    def _constrain(self, tensor: Tensor, view: View, rows: int, unit: int) -> None:
        size = DTYPE_BYTES[tensor.dtype]
        columns = substitute(tensor.shape[-1], self.sizes)
        text = to_text(columns)
        if rows * size > 1 and not isinstance(columns, Constant):
            self.demand(f"({text}) * {rows * size} <= {BYTES_MAX}")
        several = unit // size
        if several > 1:
            self.together_bytes[tensor.name] = max(unit, self.together_bytes.get(tensor.name, 0))
            if not tensor.aligned:
                raise EmissionRefused(
                    f"rows of {tensor.name} may begin at any element; {several} are copied at once"
                )
            form = linear_form(substitute(view.offsets[-1], self.sizes))
            if form is None or any(n % several for n in (*form[0].values(), form[1])):
                raise EmissionRefused(
                    f"a tile of {tensor.name} may begin within the {several} elements that are "
                    "copied at once"
                )
            if isinstance(columns, Constant):
                if columns.value % several:
                    raise EmissionRefused(
                        f"rows of {tensor.name} are not a multiple of {unit} bytes"
                    )
            else:
                self.demand(f"({text}) % {several} == 0")


def never_negative(expression: Expression) -> bool:
    """Whether a number is not below zero by its form: sizes, coordinates, iterations are not."""
    match expression:
        case Constant(value):
            return value >= 0
        case Name():
            return True
        case Binary("+" | "*" | "//" | "%" | "min", left, right):
            return never_negative(left) and never_negative(right)
    return False


class HipSpeller:
    """Writes the lines of tile operations."""

    def __init__(self, places: Places, values: HipValues, buffers: dict[str, LdsTile]) -> None:
        self.places = places
        self.values = values
        self.buffers = buffers

    # -------------------------------------------------------------------- copies to shared memory

    def fill(self, buffer: LdsTile, stage: str) -> str:
        """Direct-to-LDS copies of this wave's share."""
        shape = f"titan::{buffer.dtype}, {buffer.rows}, {buffer.columns}, {self._waves}"
        at = self._view_of(buffer, buffer.width)
        return f"titan::copy_tile<{shape}, {buffer.width}>({stage}, {at}, wave, lane);"

    def fetch(self, buffer: LdsTile) -> str:
        """The call that loads a tile from global memory into the registers it passes through."""
        form, shape = self._passing_form(buffer)
        at = self._view_of(buffer, buffer.unit)
        return f"titan::fetch_{form}<{shape}>({buffer.passing}, {at}, wave, lane);"

    def put(self, buffer: LdsTile, stage: str) -> str:
        """The call that writes a tile from those registers to a stage in LDS."""
        form, shape = self._passing_form(buffer)
        return f"titan::put_{form}<{shape}>({stage}, {buffer.passing}, wave, lane);"

    def _passing_form(self, buffer: LdsTile) -> tuple[str, str]:
        """How a tile passes through registers, and the shape as the header wants it."""
        shape = f"titan::{buffer.dtype}, {buffer.rows}, {buffer.columns}, {self._waves}"
        if (product := buffer.turned) is None:
            return "tile", shape
        paired = str(product.paired).lower()
        return "turned", f"{shape}, {product.column_blocks}, {self.values.block}, {paired}"

    @property
    def _waves(self) -> int:
        return self.places.tile.groups

    def _view_of(self, buffer: LdsTile, unit: int) -> str:
        few = unit > 0 and buffer.copies <= KEPT_MAX
        return self.places.view(buffer.load.tensor_view, buffer.rows, False, unit, few)

    # ---------------------------------------------------------------------- reads of shared memory

    def reads(self, operation: TileOperation, stage_of: Mapping[str, str]) -> list[str]:
        """The `ds_read`s of one operation that takes tiles from shared memory."""
        if operation.kind == "read":
            if operation.value.place is ValuePlace.COLUMN:
                raise EmissionRefused(f"{operation.name} reads a row of numbers from LDS")
            buffer = self.buffers[operation.operands[0]]
            out = self.values.variable[operation.name]
            shape = f"titan::{buffer.dtype}, {buffer.columns}"
            stage = stage_of[operation.operands[0]]
            return [f"titan::read_tile<{shape}>({out}, {stage}, part, lane);"]
        product = self.values.products[operation.name]
        if operation.name == self.values.alone:
            return [self._product_of_tiles(operation, stage_of)]
        lines = []
        if not product.left_in_registers and product.left not in self.values.held:
            across = operation.transpose[0]
            lines.append(self._operand(operation.name, "left", across, stage_of))
        lines.append(self._operand(operation.name, "right", not operation.transpose[1], stage_of))
        return lines

    def _product_of_tiles(self, operation: TileOperation, stage_of: Mapping[str, str]) -> str:
        """All reads of a product, and of its steps all but the last two."""
        name, product = operation.name, self.values.products[operation.name]
        columns = ", ".join(
            str(self.buffers[tile].columns) for tile in (product.left, product.right)
        )
        sides = (
            f"{operand(name, side)}, {stage_of[tile]}, {self._first(name, side)}"
            for side, tile in (("left", product.left), ("right", product.right))
        )
        out = self.values.variable[name]
        shape = f"titan::{product.dtype}, {columns}"
        return f"titan::product_of_tiles<{shape}>({out}, {', '.join(sides)}, lane);"

    def hold(self, load: TileOperation) -> list[str]:
        """The loads of a tile that is held in registers, for each product that takes it."""
        lines = []
        for name, product in self.values.products.items():
            if product.left != load.name:
                continue
            paired = "true" if product.paired else "false"
            shape = f"titan::{product.dtype}, {self.values.block}, {paired}"
            at = self.places.view(load.tensor_view, load.value.rows, False, UNIT_BYTES)
            left, first = operand(name, "left"), self._first(name, "left")
            lines.append(f"titan::hold_operand<{shape}>({left}, {at}, {first}, lane);")
        return lines

    def held(self) -> list[str]:
        """The lines before the loop, behind which all of them are there."""
        return [
            f"titan::loaded({operand(name, 'left')});"
            for name, product in self.values.products.items()
            if product.left in self.values.held
        ]

    def _first(self, name: str, side: str) -> str:
        """The first row of an operand that this wave needs."""
        value = self.values.of[name]
        if side == "left":
            return f"part.row * {self.values.rows(value)}"
        return f"part.column * {self.values.columns(value)}" if self.values.split[1] > 1 else "0"

    def operands_in_memory(self, operation: TileOperation) -> list[str]:
        """The operands of a product whose tiles are in no stage, from global memory, guarded."""
        product = self.values.products[operation.name]
        sides = (
            ("left", product.left, operation.transpose[0]),
            ("right", product.right, not operation.transpose[1]),
        )
        paired = "true" if product.paired else "false"
        lines = []
        for side, name, across in sides:
            if name not in self.buffers:
                raise EmissionRefused(f"{operation.name} takes {name}, which no load brings")
            buffer = self.buffers[name]
            shape = f"titan::{buffer.dtype}, {str(across).lower()}, {self.values.block}, {paired}"
            at = self._view_of(buffer, 0)
            first = self._first(operation.name, side)
            lines.append(
                f"operand_in_memory<{shape}>({operand(operation.name, side)}, {at}, {first}, lane);"
            )
        return lines

    def _operand(self, name: str, side: str, across: bool, stage_of: Mapping[str, str]) -> str:
        product = self.values.products[name]
        buffer = self.buffers[product.left if side == "left" else product.right]
        function = "read_across" if across else "read_operand"
        if side == "right" and product.interleaved:
            function = "read_interleaved"
        first = self._first(name, side)
        paired = "true" if product.paired else "false"
        columns = buffer.columns
        if buffer.turned is not None:  # its columns are rows in LDS, two steps always side by side
            function, columns, paired = "read_operand", buffer.rows, "true"
        shape = f"titan::{product.dtype}, {columns}, {self.values.block}, {paired}"
        stage = stage_of[buffer.load.name]
        return f"titan::{function}<{shape}>({operand(name, side)}, {stage}, {first}, lane);"

    # ------------------------------------------------------------------------------- computations

    def initial(self, name: str, number: float) -> list[str]:
        """The lines that give a carried value its first number."""
        value = single(number, f"the first value of {name}")
        variable = self.values.variable[name]
        apart = (
            self.values.alone is not None and variable == self.values.variable[self.values.alone]
        )
        form = "elementwise_by_blocks" if apart else "elementwise"
        return [f"titan::{form}({variable}, titan::Constant{{{value}}});"]

    def accumulated(self) -> list[str]:
        """The sums of a product that has all accumulation registers are there, behind the loop too:
        the compiler would keep others there, and sums in vector registers."""
        alone = self.values.alone
        return [] if alone is None else [f"titan::accumulated({self.values.variable[alone]});"]

    def compute(self, operation: TileOperation, stage_of: Mapping[str, str]) -> list[str]:
        """The lines of an operation, its shared operands read. Raises EmissionRefused."""
        kind = operation.kind
        if kind == "read":
            return self._read_straight(operation)
        if kind == "mma":
            return self._mma(operation)
        if kind == "vector":
            return self._vector(operation)
        if kind == "store":
            return self._store(operation, stage_of)
        out = self.values.variable[operation.name]
        operands = [self.values.variable[name] for name in operation.operands]
        if any(self.values.of[n].place is ValuePlace.SHARED for n in operation.operands):
            raise EmissionRefused(f"{operation.name} takes a tile that is not in registers")
        if kind in LEAST_OF_REDUCTION:
            first, function = LEAST_OF_REDUCTION[kind]
            return [f"titan::reduce({out}, {operands[0]}, {first}, titan::{function}());"]
        if kind == "mask":
            return self._mask(operation, out, operands[0])
        if operation.name in self.values.rounded:
            return [f"// {out} is rounded where it becomes an operand"]
        place = self.values.of[operation.name].place
        apart = self.values.alone is not None and place is ValuePlace.FRAGMENT
        form = "elementwise_by_blocks" if apart else "elementwise"
        return [f"titan::{form}({out}, {self._function(operation)}, {', '.join(operands)});"]

    def _read_straight(self, operation: TileOperation) -> list[str]:
        """The read of a tile that comes straight from global memory; others have been read."""
        source = operation.operands[0]
        if source not in tiles_behind(self.values.tile):
            return [f"// {mangled('v', operation.name, 'a value')} has been read"]
        load = self.values.tile.operation(source)
        out = self.values.variable[operation.name]
        at = self.places.view(load.tensor_view, load.value.rows, False)
        return [
            f"titan::load_fragment<titan::{load.value.dtype}>({out}, {at}, part, {self._lane});"
        ]

    def _function(self, operation: TileOperation) -> str:
        kind = operation.kind
        if kind in BINARY:
            return f"titan::{BINARY[kind]}()"
        if kind in UNARY:
            return f"titan::{UNARY[kind]}()"
        if kind in ("scale", "offset", "raise"):
            return f"titan::{kind.capitalize()}{{{spelled_number(operation)}}}"
        if kind == "activation" and operation.function in FUNCTIONS:
            return f"titan::{FUNCTIONS[operation.function]}()"
        if kind == "convert" and operation.result is not None:
            kept = self.values.of[operation.operands[0]].dtype
            name = operation.result.dtype if operation.result.dtype != "f32" else kept
            return f"titan::Convert<titan::{dtype(name, operation.name)}>()"
        raise EmissionRefused(f"{operation.name} is of a kind that has no spelling here")

    def _mask(self, operation: TileOperation, out: str, source: str) -> list[str]:
        """Behind one branch of the wave where a tile may have nothing to mask."""
        if operation.condition is None:
            raise EmissionRefused(f"{operation.name} masks by no condition")
        value = self.values.of[operation.name]
        scope = self.places.inside.plus("row", "row", 0).plus("column", "column", 0)
        condition = self.places.text(operation.condition, scope)
        fill = single(operation.number, f"the fill of {operation.name}")
        test = "[=] TITAN_LAMBDA (int row, int column) { (void)row; (void)column; "
        rows = self.values.rows(value)
        known = substitute(operation.condition, self.places.sizes)
        whole = worst_corner(known, rows, value.columns)
        if whole is None:
            call = (
                f"titan::mask({out}, {source}, {fill}, part, lane, {test}return {condition}; }});"
            )
            return [call]
        first = self.places.inside.plus("row", f"(part.row * {rows})", 0)
        call = f"titan::mask({out}, {out}, {fill}, part, lane, {test}return {condition}; }});"
        return [
            f"titan::elementwise({out}, titan::Same(), {source});",
            f"if (!({self.places.text(whole, first)}))",
            f"    {call}",
        ]

    def _mma(self, operation: TileOperation) -> list[str]:
        product = self.values.products[operation.name]
        out = self.values.variable[operation.name]
        lines = []
        if len(operation.operands) < 3:
            lines.append(f"titan::elementwise({out}, titan::Constant{{0.0f}});")
        elif (total := self.values.variable[operation.operands[2]]) != out:
            lines.append(f"titan::elementwise({out}, titan::Same(), {total});")
        left, right = operand(operation.name, "left"), operand(operation.name, "right")
        if product.left in self.values.rounded:
            exact, natural = self.values.rounded[product.left]
            source = self.values.variable[exact]
            shape = f"titan::{product.dtype}, {str(natural).lower()}"
            lines.append(f"titan::rounded_operand_of<{shape}>({left}, {source});")
        elif product.left_in_registers:
            source = self.values.variable[product.left]
            lines.append(f"titan::operand_of<titan::{product.dtype}>({left}, {source});")
        form = f"product<titan::{product.dtype}>"
        if operation.name == self.values.alone:
            passed = sum(item.copies for item in self.buffers.values() if not item.width)
            form = f"last_product<titan::{product.dtype}, {passed}>"
        lines.append(f"titan::{form}({out}, {left}, {right});")
        return lines

    @property
    def _lane(self) -> str:
        """The lane; where registers are few, one of which nothing is known before."""
        return "lane" if self.values.alone is None else "titan::lane_afresh(lane)"

    def _vector(self, operation: TileOperation) -> list[str]:
        at = self.places.view(operation.tensor_view, 1, True)
        tensor = self.places.tensors[operation.tensor_view.tensor]
        out = self.values.variable[operation.name]
        if operation.value.place is ValuePlace.COLUMN:
            return [f"titan::load_column<titan::{tensor.dtype}>({out}, {at}, part, {self._lane});"]
        return [f"titan::load_row<titan::{tensor.dtype}>({out}, {at}, part, lane);"]

    def _store(self, operation: TileOperation, stage_of: Mapping[str, str]) -> list[str]:
        if operation.view is None:
            raise EmissionRefused(f"{operation.name} stores to no tensor")
        source = self.values.of[operation.operands[0]]
        tensor = self.places.tensors.get(operation.view.tensor)
        if tensor is None or not tensor.output or tensor.dtype != source.dtype:
            raise EmissionRefused(f"{operation.name} writes what is not an output of its type")
        if source.place is ValuePlace.SHARED:
            buffer = self.buffers[source.name]
            if source.name not in stage_of:
                raise EmissionRefused(f"{operation.name} copies a tile that is not held")
            at = self.places.view(operation.view, buffer.rows, False, buffer.unit)
            shape = f"titan::{buffer.dtype}, {buffer.rows}, {buffer.columns}, {self._waves}"
            stage = stage_of[source.name]
            return [f"titan::store_tile<{shape}, {buffer.unit}>({stage}, {at}, wave, lane);"]
        variable = self.values.variable[source.name]
        if source.place is ValuePlace.ROW:
            at = self.places.view(operation.view, 1, True)
            return [f"titan::store_row<titan::{tensor.dtype}>({at}, {variable}, part, lane);"]
        if source.place is not ValuePlace.FRAGMENT:
            raise EmissionRefused(f"{operation.name} stores a column value")
        at = self.places.view(operation.view, source.rows, False)
        form = "store_interleaved" if source.name in self.values.interleaved else "store_fragment"
        return [f"titan::{form}<titan::{tensor.dtype}>({at}, {variable}, part, {self._lane});"]
