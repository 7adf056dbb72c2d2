"""Tiles in LDS: where each buffer lies, and by which copies the waves fill it."""

from __future__ import annotations

from dataclasses import dataclass

from titan.codegen.emit.hip_values import LANES, HipValues, Product
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.names import DTYPE_BYTES, integer, mangled
from titan.codegen.tile.held import loads_of
from titan.codegen.tile.model import TileOperation
from titan.language.kernel.model import Kernel
from titan.sync import program as ir
from titan.target.description import target_of

ALIGNMENT = 256
REGISTERS = "_registers"  # the buffer of the registers that tile `a` passes through: `a_registers`


@dataclass(frozen=True, slots=True)
class LdsTile:
    """A tile of `load` in LDS. `width`: bytes of a lane in one direct-to-LDS copy, 0 where tiles
    pass through registers in units of `unit` bytes; `copies`: instructions of one wave. `turned`:
    for the blocks of which product, each column then being a row in LDS."""

    load: TileOperation
    rows: int
    columns: int
    dtype: str
    stages: int
    offset: int
    width: int
    unit: int
    copies: int
    turned: Product | None = None

    @property
    def stage_bytes(self) -> int:
        """The bytes of one stage in LDS."""
        return self.rows * self.columns * DTYPE_BYTES[self.dtype]

    @property
    def passing(self) -> str:
        """The variable of the registers that the tile passes through."""
        return mangled("r", self.load.name, "a tile in registers")


def buffers_of(kernel: Kernel, program: ir.SyncProgram, values: HipValues) -> dict[str, LdsTile]:
    """The shared buffers of the program, placed one after the other. Raises EmissionRefused."""
    loads = {item.name: item for item in loads_of(values.tile)}
    layouts = {layout.name: layout for layout in kernel.placement.layouts}
    staged = {
        item.name.removesuffix(REGISTERS)
        for item in program.buffers
        if item.space is ir.Space.REGISTER and item.name.endswith(REGISTERS)
    }
    found: dict[str, LdsTile] = {}
    end = 0
    for item in program.buffers:
        if item.space is ir.Space.REGISTER and item.name.removesuffix(REGISTERS) in loads:
            continue
        if item.space is not ir.Space.SHARED or item.name not in loads:
            raise EmissionRefused(f"{mangled('s', item.name, 'a buffer')} is not a tile of a load")
        if item.initial is not None or item.storage not in ("", item.name) or item.offset:
            raise EmissionRefused(f"{item.name} is not memory of its own")
        if item.parts != values.tile.groups:
            raise EmissionRefused(f"{item.name} is not divided among the waves")
        layout = layouts.get(item.name)
        width = layout.lane_bytes if layout is not None else None
        made = _buffer(item, loads[item.name], values, end, 0 if item.name in staged else width)
        found[item.name] = made
        end += -(-made.stages * made.stage_bytes // ALIGNMENT) * ALIGNMENT
    most = target_of(values.tile.target).shared_bytes
    if end > most:
        raise EmissionRefused(f"{end} bytes of LDS; {values.tile.target} has {most}")
    if set(found) != set(loads):
        raise EmissionRefused("the pipeline does not hold the tiles of all loads")
    return found


def _buffer(
    item: ir.Buffer, load: TileOperation, values: HipValues, offset: int, width: int | None
) -> LdsTile:
    value = load.result
    assert value is not None
    stages = integer(item.stages, f"the stages of {item.name}", 1, 4096)
    row_bytes = value.columns * DTYPE_BYTES[value.dtype]
    size = value.rows * row_bytes
    if item.bytes_per_stage != size:
        raise EmissionRefused(
            f"{item.name} has tiles of {size} bytes, but was verified with {item.bytes_per_stage}"
        )
    waves = values.tile.groups
    unit = next(unit for unit in (16, 8, 4, 2, 1) if row_bytes % unit == 0)
    if not width:
        if width is None:
            raise EmissionRefused(f"how wide the copies of {item.name} are is not declared")
        product = _turned_for(load, values)
        for wide in (16, 8):
            chunks = row_bytes // wide
            if product and chunks % 4 == 0 and size % (4 * wide * waves * LANES) == 0:
                units = size // (wide * waves * LANES)
                return LdsTile(load, value.rows, value.columns, value.dtype, stages, offset, 0,
                               wide, units, product)  # fmt: skip
        units = -(-size // (unit * waves * LANES))
        return LdsTile(load, value.rows, value.columns, value.dtype, stages, offset, 0, unit, units)
    if (
        width not in target_of(values.tile.target).lds_copy_bytes
        or size % (width * waves * LANES)
        or row_bytes % width
    ):
        raise EmissionRefused(f"{waves} waves cannot copy {item.name} by {width} bytes a lane")
    copies = size // (width * waves * LANES)
    return LdsTile(
        load, value.rows, value.columns, value.dtype, stages, offset, width, unit, copies
    )


def _turned_for(load: TileOperation, values: HipValues) -> Product | None:
    """The product that a tile is turned for: all that take it read it across, in blocks alike."""
    users = [item for item in values.tile.operations if load.name in item.operands]
    found = [values.products.get(item.name) for item in users]
    first = found[0] if found else None
    value = load.value
    if first is None or not all(
        one is not None
        and one.interleaved
        and one.left != load.name
        and (one.column_blocks, one.paired) == (first.column_blocks, first.paired)
        for one in found
    ):
        return None
    steps = value.rows // 4
    return first if steps % (2 * LANES // values.block) == 0 and steps % 4 == 0 else None
