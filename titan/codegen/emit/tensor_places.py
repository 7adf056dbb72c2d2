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


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """Columns of one buffer: `columns` for each of its stages, from `column` on, every `stride`."""

    name: str
    column: int
    columns: int
    stages: int
    stride: int
    pairs: bool  # two numbers of 16 bits a column; else f32


def tensor_places(kernel: Kernel, program: ir.SyncProgram) -> dict[str, TensorPlace]:
    """The buffers in tensor memory; those of one storage in the same columns, the others one after
    the other. Raises EmissionRefused.
    """
    storages: dict[str, list[TensorPlace]] = {}
    for buffer in program.buffers:
        if buffer.space is ir.Space.TENSOR:
            storages.setdefault(buffer.storage or buffer.name, []).append(_shape(kernel, buffer))
    found: dict[str, TensorPlace] = {}
    column = 0
    for places in storages.values():
        stride = max(place.columns for place in places)
        for place in places:
            found[place.name] = replace(place, column=column, stride=stride)
        if len({place.stages for place in places}) != 1:
            raise EmissionRefused(f"buffers that share columns with {places[0].name} have others")
        column += stride * places[0].stages
    if column > COLUMNS_MAX:
        raise EmissionRefused(f"{column} columns of tensor memory; there are {COLUMNS_MAX}")
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
    needed = max((p.column + p.stride * p.stages for p in places.values()), default=0)
    return max(COLUMNS_MIN, 1 << (needed - 1).bit_length()) if needed else 0
