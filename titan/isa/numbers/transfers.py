"""What asynchronous copies move: bytes with what is known of them, when the copy completes.

Boxes of tensors lie in shared memory row after row, innermost dimension first, each 16-byte unit
at its swizzled place (PTX, "Swizzling Modes"; the pattern is of the address, not of the box).
Elements outside of the tensor are filled with zeros, or with NaN where the map says so. Narrow
elements that are padded in shared memory (CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B and
..._16U6_ALIGN16B) come in sixteens; what pads them is unknown. Loads of a map of type TFLOAT32
round to the nearest number of that format (Triton's tests compare so on devices); stores do not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from titan.isa.numbers.formats import (
    BF16,
    F16,
    F32,
    F64,
    TF32,
    FloatFormat,
    decode,
    encode,
    flushed,
)
from titan.isa.simt.decode_async import GATHER, IM2COL, IM2COL_W, SCATTER, TILE
from titan.isa.simt.descriptors import swizzled
from titan.isa.simt.launch import LaunchTensorMap
from titan.isa.simt.memory import KNOWN, OPAQUE, PAGE, PAGE_BITS, Bytes, Sparse
from titan.isa.simt.tensor_maps import ELEMENT_BITS, wrapped

PACKED_PAIRS = 13  # CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B: two elements a byte
SWIZZLE_WIDTHS = {0: 16, 1: 32, 2: 64, 3: 128}
# CUtensorMapDataType: how elements are added; the others are integers
_FLOATS: dict[int, FloatFormat] = {6: F16, 7: F32, 8: F64, 9: BF16, 10: F32, 11: F32, 12: F32}
_FLUSHED, _ROUNDED = (10, 12), (11, 12)  # FLOAT32_FTZ, TFLOAT32, TFLOAT32_FTZ


@dataclass(frozen=True, slots=True)
class RowRun:
    """Bytes that stay together: `shared` offset in the tile before swizzling, `at` in global
    memory or None outside of the tensor, `count` bytes in shared memory.
    """

    shared: int
    at: int | None
    count: int


@dataclass(frozen=True, slots=True)
class TensorBox:
    """A box of a tensor: the map, signed coordinates, innermost first, and how they choose rows
    (a mode of `decode_async`). `offsets`: those of an im2col filter, in pixels.
    """

    map: LaunchTensorMap
    coordinates: tuple[int, ...]
    mode: int = TILE
    offsets: tuple[int, ...] = ()

    @property
    def width(self) -> int:
        """Elements of a row."""
        return self.map.channels if self.mode == IM2COL else self.map.box[0]


@dataclass(frozen=True, slots=True)
class Grain:
    """What is copied as one: its elements, their bytes in global memory and in shared memory."""

    elements: int
    outer: int
    inner: int


def grain_of(map_: LaunchTensorMap) -> Grain:
    """The grain of a map's elements; the last two types are padded to 16 bytes."""
    bits = ELEMENT_BITS[map_.data_type]
    if bits % 8 == 0:
        return Grain(1, bits // 8, bits // 8)
    return Grain(2, 1, 1) if map_.data_type == PACKED_PAIRS else Grain(16, 2 * bits, 16)


def computable(box: TensorBox, *, loads: bool, adds: bool) -> bool:
    """Whether this module knows how a copy of the box lies in shared memory."""
    map_, grain = box.map, grain_of(box.map)
    if map_.interleave or map_.swizzle not in SWIZZLE_WIDTHS or box.mode == IM2COL_W:
        return False
    if bool(map_.pixels) != (box.mode == IM2COL):
        return False
    if (not loads and grain.inner != grain.outer) or (adds and ELEMENT_BITS[map_.data_type] % 8):
        return False
    return box.coordinates[0] % grain.elements == 0 and box.width % grain.elements == 0


def _tiled_rows(box: TensorBox) -> Iterator[int | None]:
    map_ = box.map
    counts = [-(-size // step) for size, step in zip(map_.box, map_.element_strides, strict=True)]
    rows = 1
    for count in counts[1:]:
        rows *= count
    for number in range(rows):
        rest, at, inside = number, map_.base, True
        for dimension in range(1, map_.rank):
            rest, place = divmod(rest, counts[dimension])
            index = box.coordinates[dimension] + place * map_.element_strides[dimension]
            inside = inside and 0 <= index < map_.dimensions[dimension]
            at += index * map_.stride_bytes[dimension - 1]
        yield wrapped(at) if inside else None


def _pixel_rows(box: TensorBox) -> Iterator[int | None]:
    """Channels of pixels; the filter's base walks through its bounding box, W first."""
    map_, last = box.map, box.map.rank - 1
    place = list(box.coordinates[1:last])
    batch = box.coordinates[last]
    for _ in range(map_.pixels):
        shifted = [at + (box.offsets[n] if n < len(box.offsets) else 0)
                   for n, at in enumerate(place)]  # fmt: skip
        inside = 0 <= batch < map_.dimensions[last] and all(
            0 <= at < size for at, size in zip(shifted, map_.dimensions[1:last], strict=True)
        )
        start = map_.base + batch * map_.stride_bytes[last - 1]
        start += sum(at * stride for at, stride in zip(shifted, map_.stride_bytes, strict=False))
        yield start if inside else None
        for n in range(len(place)):
            place[n] += map_.element_strides[n + 1]
            if place[n] < map_.dimensions[n + 1] + map_.upper[n]:
                break
            place[n] = map_.lower[n]
        else:
            batch += 1


def _row_starts(box: TensorBox) -> Iterator[int | None]:
    """Where the rows of a box begin in global memory; None outside of the tensor."""
    if box.mode in (GATHER, SCATTER):
        for index in box.coordinates[1:]:
            inside = 0 <= index < box.map.dimensions[1]
            yield box.map.base + index * box.map.stride_bytes[0] if inside else None
    else:
        yield from _pixel_rows(box) if box.mode == IM2COL else _tiled_rows(box)


def row_runs(box: TensorBox) -> Iterator[RowRun]:
    """The rows of a box, cut where they leave the tensor."""
    grain = grain_of(box.map)
    width, begin = box.width // grain.elements, box.coordinates[0] // grain.elements
    extent = -(-box.map.dimensions[0] // grain.elements)
    size = grain.inner
    for number, at in enumerate(_row_starts(box)):
        low = min(max(-begin, 0), width)
        high = min(max(extent - begin, low), width)
        if at is None:
            low = high = width
        start = number * width * size
        if low:
            yield RowRun(start, None, low * size)
        if at is not None and high > low:
            yield RowRun(start + low * size, at + (begin + low) * grain.outer, (high - low) * size)
        if high < width:
            yield RowRun(start + high * size, None, (width - high) * size)


def units(base: int, run: RowRun, width: int) -> Iterator[tuple[int, int, int]]:
    """(offset in the run, swizzled place in shared memory, bytes) of each 16-byte unit."""
    done = 0
    while done < run.count:
        at = base + run.shared + done
        count = min(16 - at % 16, run.count - done)
        yield done, swizzled(at - at % 16, width) + at % 16, count
        done += count


# ---------------------------------------------------------------------- bytes and their state


# Of a byte's state, what a reader gets of it.
_READ = bytes(KNOWN if state == KNOWN else OPAQUE for state in range(256))


def read(memory: Bytes | Sparse, at: int, count: int) -> tuple[bytes, bytes]:
    """Bytes and states; opaque where global memory holds nothing, or a barrier lives."""
    if isinstance(memory, Bytes):
        state = memory.state[at : at + count].translate(_READ)
        return bytes(memory.data[at : at + count]), bytes(state)
    data, states = bytearray(), bytearray()
    while len(data) < count:
        place = at + len(data)
        inside = place & (PAGE - 1)
        part = min(PAGE - inside, count - len(data))
        page = memory.pages.get(place >> PAGE_BITS)
        if page is None:
            data += bytes(part)
            states += bytes((OPAQUE,)) * part
        else:
            data += page.data[inside : inside + part]
            states += page.state[inside : inside + part].translate(_READ)
    return bytes(data), bytes(states)


def write(memory: Bytes | Sparse, at: int, data: bytes, state: bytes) -> None:
    """Put bytes with their states; what is outside of a `Bytes` is left out."""
    if isinstance(memory, Bytes):
        if at >= 0 and at + len(data) <= memory.size:
            memory.data[at : at + len(data)] = data
            memory.state[at : at + len(data)] = state
        return
    if state == bytes((KNOWN,)) * len(state):
        memory.store(at, data)
        return
    for index, known in enumerate(state):
        if known == KNOWN:
            memory.store(at + index, data[index : index + 1])
        else:
            memory.fill_opaque(at + index, 1)


# --------------------------------------------------------------------------------- transfers


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes on their way to a place, with their states."""

    memory: Bytes | Sparse
    at: int
    data: bytes
    state: bytes


def load_box(memory: Sparse, shared: list[tuple[Bytes, int]], box: TensorBox) -> list[Write]:
    """A box into the shared memory of one CTA or, multicast, of several: (memory, offset) each."""
    width = SWIZZLE_WIDTHS[box.map.swizzle]
    fill = _fill(box.map)
    found = []
    for run in row_runs(box):
        if run.at is None:
            data, state = (fill * run.count)[: run.count], bytes((KNOWN,)) * run.count
        else:
            data, state = _read_grains(memory, run.at, run.count, grain_of(box.map))
            data, state = _rounded(box.map.data_type, data, state)
        for target, base in shared:
            for offset, at, count in units(base, run, width):
                part = slice(offset, offset + count)
                found.append(Write(target, at, data[part], state[part]))
    return found


def _read_grains(memory: Sparse, at: int, count: int, grain: Grain) -> tuple[bytes, bytes]:
    """A run of grains out of global memory, each with what pads it; `count` bytes with that."""
    if grain.inner == grain.outer:
        return read(memory, at, count)
    data, states = b"", b""
    padding = grain.inner - grain.outer
    for number in range(count // grain.inner):
        part, state = read(memory, at + number * grain.outer, grain.outer)
        data += part + bytes(padding)
        states += state + bytes((OPAQUE,)) * padding
    return data, states


def _rounded(data_type: int, data: bytes, state: bytes) -> tuple[bytes, bytes]:
    """Words as a load brings them: rounded where the map's type is tf32, subnormals as zeros where
    it is one with `ftz`. A word of which a byte is unknown is unknown.
    """
    if data_type not in (*_FLUSHED, *_ROUNDED):
        return data, state
    found, states = bytearray(data), bytearray(state)
    for at in range(0, len(data) - 3, 4):
        bits = int.from_bytes(data[at : at + 4], "little")
        if data_type in _FLUSHED:
            bits = flushed(bits, F32)
        if data_type in _ROUNDED and math.isfinite(decode(bits, F32)):
            bits = encode(decode(bits, F32), TF32) << 13
        found[at : at + 4] = bits.to_bytes(4, "little")
        if any(one != KNOWN for one in state[at : at + 4]):
            states[at : at + 4] = bytes((OPAQUE,)) * 4
    return bytes(found), bytes(states)


def _fill(map_: LaunchTensorMap) -> bytes:
    """What stands outside of the tensor: zeros, or a NaN of the element's format."""
    form = _FLOATS.get(map_.data_type)
    if not map_.fill or form is None:
        return bytes(1)
    return form.nan.to_bytes(form.bits // 8, "little")


def store_box(
    memory: Sparse, shared: Bytes, base: int, box: TensorBox, *, adds: bool
) -> list[Write]:
    """A box out of shared memory; `adds`: element for element onto what is there."""
    width = SWIZZLE_WIDTHS[box.map.swizzle]
    form, size = _FLOATS.get(box.map.data_type), ELEMENT_BITS[box.map.data_type] // 8
    found = []
    for run in row_runs(box):
        if run.at is None:
            continue
        for offset, at, count in units(base, run, width):
            data, state = read(shared, at, count)
            if adds:
                old = read(memory, run.at + offset, count)
                data, state = sums(old, (data, state), form, size)
            found.append(Write(memory, run.at + offset, data, state))
    return found


def sums(
    old: tuple[bytes, bytes], new: tuple[bytes, bytes], form: FloatFormat | None, size: int
) -> tuple[bytes, bytes]:
    """Sums of elements of `size` bytes, integers where `form` is None; opaque if a summand is."""
    data, states = bytearray(), bytearray()
    for at in range(0, len(new[0]), size):
        part = slice(at, at + size)
        known = set(old[1][part] + new[1][part]) == {KNOWN}
        a, b = int.from_bytes(old[0][part], "little"), int.from_bytes(new[0][part], "little")
        total = (a + b) & ((1 << 8 * size) - 1) if form is None else added(a, b, form)
        data += total.to_bytes(size, "little")
        states += bytes((KNOWN if known else OPAQUE,)) * size
    return bytes(data), bytes(states)


def added(a: int, b: int, form: FloatFormat) -> int:
    """The bits of the sum of two numbers, rounded to nearest even."""
    left, right = decode(a, form), decode(b, form)
    total = left + right
    if total - total != 0 or total == 0:  # not finite, or a zero with its sign
        return encode(total, form)
    return encode(Fraction(left) + Fraction(right), form)
