"""What asynchronous copies move: bytes with what is known of them, when the copy completes.

Boxes of tensors lie in shared memory row after row, innermost dimension first, each 16-byte unit
at its swizzled place (PTX, "Swizzling Modes"; the pattern is of the address, not of the box).
Elements outside of the tensor are filled with zeros, or with NaN where the map says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from titan.isa.numbers.formats import BF16, F16, F32, F64, FloatFormat, decode, encode
from titan.isa.simt.descriptors import swizzled
from titan.isa.simt.launch import LaunchTensorMap
from titan.isa.simt.memory import KNOWN, OPAQUE, PAGE, PAGE_BITS, Bytes, Sparse
from titan.isa.simt.tensor_maps import ELEMENT_BITS

SWIZZLE_WIDTHS = {0: 16, 1: 32, 2: 64, 3: 128}
# CUtensorMapDataType: how elements are added; the others are integers
_FLOATS: dict[int, FloatFormat] = {6: F16, 7: F32, 8: F64, 9: BF16, 10: F32}


@dataclass(frozen=True, slots=True)
class RowRun:
    """Bytes that stay together: `shared` offset in the tile before swizzling, `at` in global
    memory or None outside of the tensor, `count` bytes.
    """

    shared: int
    at: int | None
    count: int


def computable(map_: LaunchTensorMap) -> bool:
    """Whether this module knows how a tiled copy through the map lies in shared memory."""
    return (
        map_.interleave == 0 and map_.swizzle in SWIZZLE_WIDTHS and not map_.pixels
        and ELEMENT_BITS[map_.data_type] % 8 == 0
    )  # fmt: skip


def row_runs(map_: LaunchTensorMap, coordinates: tuple[int, ...]) -> Iterator[RowRun]:
    """The rows of a tiled box, cut where they leave the tensor."""
    size = ELEMENT_BITS[map_.data_type] // 8
    counts = [-(-box // step) for box, step in zip(map_.box, map_.element_strides, strict=True)]
    width = counts[0] = map_.box[0]
    rows = 1
    for count in counts[1:]:
        rows *= count
    for number in range(rows):
        rest, at, inside = number, map_.base, True
        for dimension in range(1, map_.rank):
            rest, place = divmod(rest, counts[dimension])
            index = coordinates[dimension] + place * map_.element_strides[dimension]
            inside = inside and 0 <= index < map_.dimensions[dimension]
            at += index * map_.stride_bytes[dimension - 1]
        begin = coordinates[0]
        low = min(max(-begin, 0), width)
        high = min(max(map_.dimensions[0] - begin, low), width)
        if not inside:
            low = high = width
        start = number * width * size
        if low:
            yield RowRun(start, None, low * size)
        if high > low:
            yield RowRun(start + low * size, at + (begin + low) * size, (high - low) * size)
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
class TensorBox:
    """A box of a tensor: the map, and signed coordinates, innermost first."""

    map: LaunchTensorMap
    coordinates: tuple[int, ...]


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
    for run in row_runs(box.map, box.coordinates):
        if run.at is None:
            data, state = (fill * run.count)[: run.count], bytes((KNOWN,)) * run.count
        else:
            data, state = read(memory, run.at, run.count)
        for target, base in shared:
            for offset, at, count in units(base, run, width):
                part = slice(offset, offset + count)
                found.append(Write(target, at, data[part], state[part]))
    return found


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
    for run in row_runs(box.map, box.coordinates):
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
