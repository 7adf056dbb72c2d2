"""What is undefined in tensor memory and in the operands of wgmma and tcgen05.mma.

A row of D is undefined where that row of A is, a column where that column of B is, and a sum where
the sum before is. Where rows and columns of D lie: PTX ISA, "Data path layouts". Operations of
other forms (weight stationary) leave all of D undefined if something in an operand is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Protocol

from titan.isa.simt import events as ev
from titan.isa.simt.decode_async import KINDS
from titan.isa.simt.descriptors import MatrixDescriptor, decode, units_of_row
from titan.isa.simt.footprints import TENSOR_LANE_BYTES, Footprint
from titan.isa.simt.operations import DecodedStep, Op
from titan.isa.simt.state import Cta, Warp
from titan.isa.simt.tensor_cores import (
    ELEMENT_BITS,
    K_BYTES,
    QUARTER_LANES,
    SCALE_ROWS,
    left_operand,
    metadata_columns,
)
from titan.isa.simt.tracing.fragments import tensor_cell
from titan.isa.simt.tracing.undefined_memory import (
    CELL_BYTES,
    TENSOR_LANES,
    TensorCells,
    UndefinedBytes,
    cells_of,
    origin_of,
)
from titan.isa.simt.values import LANES, Value, lane

UNIT_BYTES = 16
WARP_ROWS = 16
WARPGROUP_WARPS = 4
Origins = dict[int, int | None]


class Memories(Protocol):
    """What the machine offers: the shared memory of its CTAs, and the instruction executed."""

    ctas: dict[int, Cta]

    def shared_of(self, cta: int) -> UndefinedBytes:
        """The shared memory of a CTA."""

    def reader(self) -> int:
        """The instruction being executed."""


def wgmma_operands(
    memories: Memories, warp: Warp, step: DecodedStep, operands: Sequence[Value]
) -> tuple[Origins, Origins]:
    """The rows of A in shared memory (of the warp's 16) and columns of B that are undefined."""
    columns, k_bytes, transposed_a, transposed_b, a_registers, bits, sparse = step.flags
    shared = memories.shared_of(warp.cta.number)
    rows: Origins = {}
    if not a_registers:
        first = WARP_ROWS * (warp.index % WARPGROUP_WARPS)
        whole = range(first, first + WARP_ROWS)
        place = _first_known(operands[2])
        found = _rows(shared, place, whole, k_bytes // sparse, bool(transposed_a), bits, False)
        rows = {row - first: origin for row, origin in found.items()}
    place = _first_known(operands[1])
    return rows, _rows(shared, place, range(columns), k_bytes, bool(transposed_b), bits, False)


def _first_known(value: Value) -> int:
    """The descriptor that all lanes share."""
    items = value if isinstance(value, list) else [value]
    return next((item for item in items if isinstance(item, int)), 0)


def _rows(
    shared: UndefinedBytes, place: int, rows: range, k_bytes: int, mn_major: bool, bits: int,
    tensor: bool,
) -> Origins:  # fmt: skip
    """The undefined ones among rows (M or N) of an operand in shared memory."""
    descriptor = decode(place, tensor=tensor)
    found: Origins = {}
    if descriptor is None:
        return found
    low, high = _extent(descriptor, rows, k_bytes, mn_major, bits)
    if shared.origin(low, high - low) is None:
        return found  # all that lies between the first byte and the last one is defined
    for row in rows:
        origin = _row(shared, descriptor, row, k_bytes, mn_major, bits)
        if origin is not None:
            found[row] = origin
    return found


@lru_cache(maxsize=4096)
def _extent(
    descriptor: MatrixDescriptor, rows: range, k_bytes: int, mn_major: bool, bits: int
) -> tuple[int, int]:
    """The first byte of some rows of an operand, and the one behind the last."""
    units = [at for row in rows for at in units_of_row(descriptor, row, k_bytes, mn_major, bits)]
    return min(units, default=0), max(units, default=-UNIT_BYTES) + UNIT_BYTES


def _row(
    shared: UndefinedBytes, descriptor: MatrixDescriptor, row: int, k_bytes: int, mn_major: bool,
    bits: int,
) -> int | None:  # fmt: skip
    for unit in units_of_row(descriptor, row, k_bytes, mn_major, bits):
        origin = shared.origin(unit, UNIT_BYTES)
        if origin is not None:
            return origin
    return None


class UndefinedTensors:
    """The tensor memory of all CTAs."""

    def __init__(self, memories: Memories) -> None:
        self._memories = memories
        self._cells: dict[int, TensorCells] = {}

    def of(self, cta: int) -> TensorCells:
        """The tensor memory of a CTA."""
        if cta not in self._cells:
            self._cells[cta] = TensorCells()
        return self._cells[cta]

    def note(
        self, event: ev.AsynchronousEvent, step: DecodedStep, operands: list[Value],
        modifiers: Sequence[str],
    ) -> None:  # fmt: skip
        """What tcgen05.st, .cp and .mma leave in tensor memory."""
        if step.op is Op.TENSOR_STORE:
            self._store(event, operands, modifiers)
        elif step.op is Op.TENSOR_MEMORY_COPY:
            self._copy(event)
        else:
            self._multiply(event, step)

    def loaded(
        self, event: ev.AsynchronousEvent, modifiers: Sequence[str], place: int, index: int
    ) -> int | None:
        """The origin of what a register of tcgen05.ld gets."""
        footprint = event.effects[0].footprint
        cells, reader = self.of(footprint.cta), self._memories.reader()
        cell = _cell(footprint, modifiers, index, place)
        if cell is not None:
            return cells.origin(*cell, reader)
        found = [cell for effect in event.effects for cell in cells_of(effect.footprint)]
        return cells.origin_in(found, reader)

    def _store(
        self, event: ev.AsynchronousEvent, operands: list[Value], modifiers: Sequence[str]
    ) -> None:
        footprint = event.effects[0].footprint
        cells, values = self.of(footprint.cta), operands[1:]
        origins = [[origin_of(lane(value, index)) for index in range(LANES)] for value in values]
        some = next((one for lanes in origins for one in lanes if one is not None), None)
        for effect in event.effects:
            for cell in cells_of(effect.footprint):
                cells.write(*cell, some)
        for place, lanes in enumerate(origins if some is not None else ()):
            for index, origin in enumerate(lanes):
                where = _cell(footprint, modifiers, index, place)
                if where is not None:
                    cells.write(*where, origin)

    def _copy(self, event: ev.AsynchronousEvent) -> None:
        """tcgen05.cp: each CTA's source, then its target; as one."""
        for source, target in zip(event.effects[::2], event.effects[1::2], strict=False):
            shared = self._memories.shared_of(source.footprint.cta)
            origin = shared.origin_in(source.footprint)
            for cell in cells_of(target.footprint):
                self.of(target.footprint.cta).write(*cell, origin)

    def _multiply(self, event: ev.AsynchronousEvent, step: DecodedStep) -> None:
        group, _, _, stationary = step.flags[:4]
        descriptor, adds = event.operands[3], bool(event.operands[4])
        rows, columns = (descriptor >> 24 & 31) << 4, (descriptor >> 17 & 63) << 3
        targets: dict[int, list[Footprint]] = {}
        for effect in event.effects:
            if effect.mode is not ev.Mode.READ:
                targets.setdefault(effect.footprint.cta, []).append(effect.footprint)
        ctas = list(targets)
        right: Origins = {}
        share = columns // group
        for number, cta in enumerate(ctas):
            for column, origin in self._right(cta, step, event.operands, share).items():
                right[share * number + column] = origin
        scales = self._scales(ctas, step, event.operands, (rows // group, columns))
        if scales is None and step.flags[5]:
            scales = self._metadata(ctas, step, event.operands, rows)
        for cta in ctas:
            left = self._left(cta, step, event.operands, rows // group)
            cells = self.of(cta)
            some = next((one for one in (*left.values(), *right.values()) if one is not None), None)
            for cell, row, column in _sums(targets[cta], rows, group, columns):
                origin = left.get(row)
                origin = right.get(column) if origin is None else origin
                origin = scales if origin is None else origin
                if stationary:
                    origin = some if origin is None else origin
                if origin is None and adds:
                    origin = cells.origin(*cell, self._memories.reader())
                cells.write(*cell, origin)

    def _right(self, cta: int, step: DecodedStep, values: Sequence[int], columns: int) -> Origins:
        bits = ELEMENT_BITS.get(KINDS[step.flags[1]], 8)
        shared = self._memories.shared_of(cta)
        transposed = bool(values[3] >> 16 & 1)
        k_bytes = K_BYTES << step.flags[5]
        return _rows(shared, values[2], range(columns), k_bytes, transposed, bits, True)

    def _left(self, cta: int, step: DecodedStep, values: Sequence[int], rows: int) -> Origins:
        kind, in_tensor, _, _, _, _, offset = step.flags[1:8]
        if not in_tensor:
            bits = ELEMENT_BITS.get(KINDS[kind], 8)
            transposed = bool(values[3] >> 15 & 1)
            shared = self._memories.shared_of(cta)
            return _rows(shared, values[1], range(rows), K_BYTES, transposed, bits, True)
        first, column = (values[1] + offset) >> 16, (values[1] + offset) & 0xFFFF
        cells, reader = self.of(cta), self._memories.reader()
        found: Origins = {}
        for row in range(rows):
            at = first + (row if rows > 64 else row // 16 * QUARTER_LANES + row % 16)
            parts = [(at, column + part) for part in range(K_BYTES // CELL_BYTES)]
            origin = cells.origin_in(parts, reader)
            if origin is not None:
                found[row] = origin
        return found

    def _scales(
        self, ctas: list[int], step: DecodedStep, values: Sequence[int], extents: tuple[int, int]
    ) -> int | None:
        """The origin of an undefined scale factor; it is one of any row and column."""
        if not step.flags[4]:
            return None
        for place, extent in enumerate(extents):
            column = (values[5 + place] + step.flags[8 + place]) & 0xFFFF
            many = max(1, -(-extent // SCALE_ROWS))
            parts = [(at, column + n) for at in range(TENSOR_LANES) for n in range(many)]
            for cta in ctas:
                origin = self.of(cta).origin_in(parts, self._memories.reader())
                if origin is not None:
                    return origin
        return None

    def _metadata(
        self, ctas: list[int], step: DecodedStep, values: Sequence[int], rows: int
    ) -> int | None:
        """The origin of undefined metadata of a sparse A; it is one of any row."""
        kind, stationary, place = step.flags[1], bool(step.flags[3]), values[-1] + step.flags[11]
        for box in left_operand(place, rows, metadata_columns(kind), stationary):
            columns = range(box.column, box.column + box.columns)
            parts = [(at, n) for at in range(box.lane, box.lane + box.lanes) for n in columns]
            for cta in ctas:
                origin = self.of(cta).origin_in(parts, self._memories.reader())
                if origin is not None:
                    return origin
        return None


def _cell(
    footprint: Footprint, modifiers: Sequence[str], index: int, place: int
) -> tuple[int, int] | None:
    """The lane and column of a register of tcgen05.ld or .st; None for forms without a table."""
    if any(word.startswith(("pack", "unpack")) for word in modifiers):
        return None
    shape = next((word for word in modifiers if word in ("32x32b", "16x256b", "16x128b")), None)
    found = None if shape is None else tensor_cell(shape, index, place)
    if found is None:
        return None
    low = footprint.bounds[0]
    first, column = divmod(low, TENSOR_LANE_BYTES)
    return first + found[0], column // CELL_BYTES + found[1]


def _sums(
    footprints: list[Footprint], rows: int, group: int, columns: int
) -> Iterator[tuple[tuple[int, int], int, int]]:
    """The cells of D in one CTA, each with its row of the CTA's part of A and its column of B."""
    halves = group == 2 and rows == 128  # 64 rows in each CTA: the columns in two halves
    quarters = rows // group == 64 and not halves
    firsts = [footprint.bounds[0] % TENSOR_LANE_BYTES // CELL_BYTES for footprint in footprints]
    lowest = min(footprint.bounds[0] // TENSOR_LANE_BYTES for footprint in footprints)
    for footprint, first in zip(footprints, firsts, strict=True):
        for at, cell in cells_of(footprint):
            row, column = at - lowest, cell - first
            if halves:
                row, column = row % 64, column + columns // 2 * (row // 64)
            elif quarters:
                row = row // QUARTER_LANES * 16 + row % QUARTER_LANES
            yield (at, cell), row, column
