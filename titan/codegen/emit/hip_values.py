"""Where the values of a tile program live in a wave of gfx942 or gfx950, and what they are called.

A wave computes a part of every FRAGMENT, `split` parts down and to the right, cut into blocks of
B x B elements, B = 32 or 16, the same for the whole kernel. A carried value and its `next` are one
variable where nobody needs the old value once the new one is there.
"""

from __future__ import annotations

from dataclasses import dataclass

from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.names import dtype, integer, mangled
from titan.codegen.tile.dtypes import bytes_of
from titan.codegen.tile.held import held_operands
from titan.codegen.tile.model import TileOperation, TileProgram, Value, ValuePlace
from titan.codegen.tile.wave_split import (
    LANES,
    alone_on_simd,
    contraction_bytes,
    lone_product,
    wave_split,
)

WAVES_MAX = 16
FLOATS_OF_8_BITS = ("e4m3", "e5m2")
ELEMENTWISE = frozenset(
    ("add", "subtract", "multiply", "divide", "maximum", "minimum", "scale", "offset", "exp2",
     "log2", "reciprocal", "rsqrt", "activation", "convert", "mask")
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Product:
    """How one mma is spelled: blocks and steps of its operands in registers.

    `paired`: 16 bytes along the contraction are read at once for two steps. `interleaved`: column
    n of block b is column n * (number of blocks) + b of the tile.
    """

    left: str
    right: str
    dtype: str
    row_blocks: int
    column_blocks: int
    steps: int
    paired: bool
    left_in_registers: bool
    interleaved: bool = False


@dataclass(frozen=True, slots=True)
class HipValues:
    """All values of one tile program."""

    tile: TileProgram
    block: int
    of: dict[str, Value]
    variable: dict[str, str]
    copies: tuple[tuple[str, str], ...]  # carried value, its `next`: to be copied
    products: dict[str, Product]
    split: tuple[int, int]  # waves down and to the right
    interleaved: frozenset[str]  # fragments whose columns are
    rounded: dict[str, tuple[str, bool]]  # of what, and whether that is never below zero
    held: frozenset[str]  # tiles that are in registers for the whole loop

    @property
    def alone(self) -> str | None:
        """The product of waves that are alone on their SIMDs, where it is written so that they read
        operands as they multiply: both row by row from LDS, sums in place."""
        item = lone_product(self.tile)
        if item is None or not alone_on_simd(self.tile) or item.name not in self.products:
            return None
        product = self.products[item.name]
        plain = product.paired and not product.interleaved and product.left not in self.held
        by_rows = not item.transpose[0] and item.transpose[1]
        in_place = self.variable[item.name] == self.variable.get((*item.operands, "")[2])
        return item.name if plain and by_rows and in_place else None

    def rows(self, value: Value) -> int:
        """Rows of one wave."""
        return value.rows // self.split[0]

    def columns(self, value: Value) -> int:
        """Columns of one wave."""
        return value.columns // self.split[1]

    def type_of(self, value: Value) -> str:
        """The type of the variable that holds the value in registers."""
        if value.place is ValuePlace.ROW:
            return f"titan::Row<{self.rows(value)}, {self.block}>"
        if value.place is ValuePlace.COLUMN:
            return f"titan::Column<{self.columns(value)}, {self.block}>"
        return f"titan::Fragment<{self.rows(value)}, {self.columns(value)}, {self.block}>"

    def declarations(self) -> list[str]:
        """One line for every variable, operands of products included."""
        made: dict[str, str] = {}
        for name, value in self.of.items():
            if value.place is not ValuePlace.SHARED and name not in self.rounded:
                made.setdefault(self.variable[name], self.type_of(value))
        for name, product in self.products.items():
            shapes = {"left": product.row_blocks, "right": product.column_blocks}
            for side, blocks in shapes.items():
                made[operand(name, side)] = f"titan::Operand<{blocks}, {product.steps}>"
        return [f"{kind} {variable};" for variable, kind in made.items()]


def operand(name: str, side: str) -> str:
    """The variable that holds one operand of a product."""
    return mangled("o", f"{name[:50]}_{side}", "an operand")


def values_of(tile: TileProgram) -> HipValues:
    """Raises EmissionRefused."""
    integer(tile.groups, "the number of waves", 1, WAVES_MAX)
    found: dict[str, Value] = {}
    for value in [item.value for item in tile.carried] + [
        item.result for item in tile.operations if item.result is not None
    ]:
        mangled("v", value.name, "a value")
        if value.name in found:
            raise EmissionRefused(f"two values are called {value.name}")
        _check_type(tile, value)
        integer(value.rows, f"the rows of {value.name}", 1, 4096)
        integer(value.columns, f"the columns of {value.name}", 1, 4096)
        found[value.name] = value
    for operation in tile.operations:
        for name in operation.operands:
            if name not in found:
                raise EmissionRefused(f"{operation.name} uses a value that nobody defines")
    shared = wave_split(tile, found)
    if shared is None:
        raise EmissionRefused(
            f"rows of {tile.groups} waves, columns and contractions must be multiples of 16 "
            "elements and 32 bytes"
        )
    split, block = shared.parts, shared.block
    variable, copies = _variables(tile, found)
    across = interleaved(tile, found, block, split)
    products = {
        item.name: _product(item, found, block, split, item.name in across)
        for item in tile.operations
        if item.kind == "mma"
    }
    rounded = _rounded(tile, found, variable)
    held = held_operands(tile)
    return HipValues(tile, block, found, variable, copies, products, split, across, rounded, held)


def _rounded(
    tile: TileProgram, found: dict[str, Value], variable: dict[str, str]
) -> dict[str, tuple[str, bool]]:
    """Conversions of fragments that are nothing but left operands: they are rounded as such, from
    what is in no variable of another value."""
    made = {}
    for section in (tile.before, tile.body, tile.after):
        kinds = {item.name: item.kind for item in section}
        for item in section:
            users = [one for one in tile.operations if item.name in one.operands]
            source = item.operands[0] if item.kind == "convert" else ""
            alone = [name for name in variable if variable[name] == variable.get(source)]
            if (
                source in kinds
                and found[item.name].place is ValuePlace.FRAGMENT
                and alone == [source]
                and item.name not in {carried.next for carried in tile.carried}
                and all(one in section and one.kind == "mma" for one in users)
                and all(item.name not in one.operands[1:] for one in users)
            ):
                made[item.name] = source, kinds[source] == "exp2"
    return made


def _check_type(tile: TileProgram, value: Value) -> None:
    name = dtype(value.dtype, f"the value {value.name}")
    if name in FLOATS_OF_8_BITS and tile.target != "gfx950":
        raise EmissionRefused(
            f"{value.name} is {name} of OCP; {tile.target} computes with another 8-bit format"
        )


def interleaved(
    tile: TileProgram, found: dict[str, Value], block: int, split: tuple[int, int]
) -> frozenset[str]:
    """Fragments whose columns may lie interleaved in the blocks of a wave: sums of products whose
    right operand is read across, and what becomes of them without a look at the columns. gfx950
    reads across with an instruction of its own."""
    if tile.target != "gfx942" or tile.tail == "poison":
        return frozenset()
    root = {name: name for name, value in found.items() if value.place is ValuePlace.FRAGMENT}

    def top(name: str) -> str:
        while root[name] != name:
            name = root[name]
        return name

    wanted, refused = set[str](), set[str]()
    for item in tile.operations:
        summed = item.operands[2:] if item.kind == "mma" else item.operands
        if item.kind == "mma":
            blocks = found[item.name].columns // split[1] // block
            right = found[item.operands[1]]
            fits = bytes_of(right.dtype) == 2 and blocks in (2, 4, 8)
            (wanted if not item.transpose[1] and fits else refused).add(item.name)
            refused |= {item.operands[0]} & root.keys()
        elif item.kind in ELEMENTWISE:
            columns = any(found[name].place is ValuePlace.COLUMN for name in item.operands)
            refused |= {item.name} if columns or item.kind == "mask" else set()
        elif item.name in root:
            refused.add(item.name)
        if item.name in root:
            for name in root.keys() & set(summed):
                root[top(name)] = top(item.name)
    for carried in tile.carried:
        if carried.value.name in root and carried.next in root:
            root[top(carried.next)] = top(carried.value.name)
    good = {top(name) for name in wanted} - {top(name) for name in refused & root.keys()}
    return frozenset(name for name in root if top(name) in good)


def _variables(
    tile: TileProgram, found: dict[str, Value]
) -> tuple[dict[str, str], tuple[tuple[str, str], ...]]:
    """The variable of each value, and which carried values the end of an iteration copies."""
    variable = {name: mangled("v", name, "a value") for name in found}
    copies = []
    taken: set[str] = set()
    for carried in tile.carried:
        old, new = carried.value.name, carried.next
        if new not in found or found[new].place is not carried.value.place:
            raise EmissionRefused(f"{old} takes a value that is not there or lives elsewhere")
        if new not in taken and _in_place(tile, old, new):
            taken.add(new)
            variable[new] = variable[old]
        else:
            copies.append((old, new))
    return variable, tuple(copies)


def _in_place(tile: TileProgram, old: str, new: str) -> bool:
    """Whether the old value is last read by the operation that makes the new one, at its place."""
    names = [item.name for item in tile.body]
    if new not in names or new in (item.value.name for item in tile.carried):
        return False
    where = names.index(new)
    if any(old in item.operands for item in tile.body[where + 1 :]):
        return False
    maker = tile.body[where]
    if maker.kind == "mma":
        return maker.operands[2:] == (old,) and old not in maker.operands[:2]
    return maker.kind in ELEMENTWISE


def _product(
    item: TileOperation, found: dict[str, Value], block: int, split: tuple[int, int], across: bool
) -> Product:
    left, right = found[item.operands[0]], found[item.operands[1]]
    kind = left.dtype
    if kind not in ("f16", "bf16", *FLOATS_OF_8_BITS) or right.dtype != kind:
        raise EmissionRefused(f"no MFMA multiplies {left.dtype} by {right.dtype} here")
    in_registers = left.place is not ValuePlace.SHARED
    if in_registers and (left.place is not ValuePlace.FRAGMENT or bytes_of(kind) != 2):
        raise EmissionRefused(f"{left.name} cannot enter {item.name} from registers")
    if right.place is not ValuePlace.SHARED:
        raise EmissionRefused(f"{right.name} enters {item.name} from shared memory only")
    result = found[item.name]
    size = contraction_bytes(item, found)
    groups = LANES // block
    return Product(
        left.name,
        right.name,
        kind,
        result.rows // split[0] // block,
        result.columns // split[1] // block,
        size // (8 * groups),
        not in_registers and size % (16 * groups) == 0,
        in_registers,
        across,
    )
