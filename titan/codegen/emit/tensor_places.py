"""Where buffers lie in tensor memory (sm_100a).

Source: PTX ISA, tcgen05: tensor memory; the facts B1 to B12.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.names import integer
from titan.codegen.tile.block_scales import ATOM_COLUMNS, SUFFIX
from titan.language.kernel.model import Kernel
from titan.sync import program as ir

LANES = 128
COLUMNS_MAX = 512
COLUMNS_MIN = 32
ATOM_LANES_COLUMNS = 4  # of an atom of scales


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """Columns of one buffer: `columns` for each of its stages, from `column` on, every `stride`.

    Scales of a right operand with several tiles of them have atoms of all tiles side by side: so
    many columns are `apart` from one atom to the next, and `within` lie those of other tiles
    before the first.
    """

    name: str
    column: int
    columns: int
    stages: int
    stride: int
    pairs: bool  # two numbers of 16 bits a column; else f32
    apart: int = ATOM_LANES_COLUMNS
    within: int = 0


def tensor_places(kernel: Kernel, program: ir.SyncProgram) -> dict[str, TensorPlace]:
    """The buffers in tensor memory; those of one storage in the same columns, the others one after
    the other. Raises EmissionRefused.
    """
    storages: dict[str, list[TensorPlace]] = {}
    beside = _side_by_side(program)
    for buffer in program.buffers:
        if buffer.space is ir.Space.TENSOR:
            storage = beside.get(buffer.name, (buffer.storage or buffer.name,))[0]
            storages.setdefault(storage, []).append(_shape(kernel, buffer))
    found: dict[str, TensorPlace] = {}
    column = 0
    for places in storages.values():
        stride = max(place.columns for place in places)
        together = beside.get(places[0].name, ())
        if together:
            if tuple(place.name for place in places) != together:
                raise EmissionRefused(f"{places[0].name} does not lie beside the other scales")
            stride = sum(place.columns for place in places)
        for number, place in enumerate(places):
            within = number * ATOM_LANES_COLUMNS if together else 0
            found[place.name] = replace(
                place, column=column + within, stride=stride, within=within,
                apart=ATOM_LANES_COLUMNS * max(1, len(together)),
            )  # fmt: skip
        if len({place.stages for place in places}) != 1:
            raise EmissionRefused(f"buffers that share columns with {places[0].name} have others")
        column += stride * places[0].stages
    if column > COLUMNS_MAX:
        raise EmissionRefused(f"{column} columns of tensor memory; there are {COLUMNS_MAX}")
    return found


def _side_by_side(program: ir.SyncProgram) -> dict[str, tuple[str, ...]]:
    """By each buffer the scales of the right operand of its product, where they are several."""
    found: dict[str, tuple[str, ...]] = {}
    for role in program.roles:
        for operation in ir.walk(role.body):
            if isinstance(operation, ir.Asynchronous):
                read = [one.buffer for one in operation.effects if not one.write]
                of_right = tuple(name for name in read if name.endswith(SUFFIX))[1:]
                if len(of_right) > 1:
                    found |= dict.fromkeys(of_right, of_right)
    return found


def _shape(kernel: Kernel, buffer: ir.Buffer) -> TensorPlace:
    layouts = {layout.name: layout for layout in kernel.placement.layouts}
    layout = layouts.get(buffer.name)
    narrow = layout is not None and layout.dtype in ("bf16", "f16")
    if layout is not None and buffer.name.endswith(SUFFIX):
        return _scales(buffer, layout.tile)
    if layout is None or len(layout.tile) != 2 or (layout.dtype != "f32" and not narrow):
        raise EmissionRefused(f"{buffer.name} is nothing that tensor memory holds here")
    if buffer.parts != 1 or buffer.offset or buffer.units != 1:
        raise EmissionRefused(f"{buffer.name} has parts, or begins within its columns")
    rows, columns = layout.tile
    if rows != LANES or columns % 16 or not 16 <= columns <= 256:
        raise EmissionRefused(f"{buffer.name} is an accumulator of {rows} x {columns}")
    size = rows * columns * (2 if narrow else 4)
    if buffer.bytes_per_stage != size:
        raise EmissionRefused(f"{buffer.name} was not verified with {size} bytes a stage")
    stages = integer(buffer.stages, f"the stages of {buffer.name}", 1, 16)
    return TensorPlace(buffer.name, 0, columns // 2 if narrow else columns, stages, 0, narrow)


def _scales(buffer: ir.Buffer, tile: tuple[int, ...]) -> TensorPlace:
    """Atoms of scales of a byte each: four columns an atom."""
    size = tile[0] * tile[1] if len(tile) == 2 else 0
    whole = size and tile[0] == LANES and tile[1] % ATOM_COLUMNS == 0
    if not whole or buffer.bytes_per_stage != size or buffer.parts != 1 or buffer.units != 1:
        raise EmissionRefused(f"{buffer.name} is nothing that holds block scales")
    stages = integer(buffer.stages, f"the stages of {buffer.name}", 1, 16)
    return TensorPlace(buffer.name, 0, tile[1] // 4, stages, 0, pairs=False)


def allocated(places: dict[str, TensorPlace]) -> int:
    """The columns to allocate: a power of two; 0 where there are no accumulators."""
    ends = (p.column - p.within + p.stride * p.stages for p in places.values())
    needed = max(ends, default=0)
    return max(COLUMNS_MIN, 1 << (needed - 1).bit_length()) if needed else 0
