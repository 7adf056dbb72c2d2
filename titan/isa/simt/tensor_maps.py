"""What a tensor copy touches: bytes in shared memory, and a clipped box in global memory.

Source: CUDA Driver API, "Tensor Map Object Management"; PTX, "Tensors". The bytes in shared memory
are those of the whole box, since what lies outside of the tensor is filled.
"""

from __future__ import annotations

from dataclasses import dataclass

from titan.isa.simt.footprints import NO_CTA, Box, Footprint, MemorySpace
from titan.isa.simt.launch import LaunchTensorMap

# CUtensorMapDataType: bits of an element. 16U4_ALIGN8B, 16U4_ALIGN16B, 16U6_ALIGN16B are packed.
ELEMENT_BITS = (8, 16, 32, 32, 64, 64, 16, 32, 64, 16, 32, 32, 32, 4, 4, 6)
# In shared memory an element of the two ALIGN16B types takes a byte; a barrier counts the packed
# bits (CUTLASS, transaction bytes of its collectives: bits of the element, not of its place).
SHARED_BITS = (*ELEMENT_BITS[:14], 8, 8)
EMPTY = Footprint(MemorySpace.GLOBAL, NO_CTA, ())


@dataclass(frozen=True, slots=True)
class TensorAccess:
    """`bytes` in shared memory; `clipped`: part of the box is outside of the tensor."""

    bytes: int
    footprint: Footprint
    clipped: bool


def counted_bytes(map_: LaunchTensorMap, shared_bytes: int) -> int:
    """What a copy of `shared_bytes` of shared memory completes on its barrier."""
    return shared_bytes * ELEMENT_BITS[map_.data_type] // SHARED_BITS[map_.data_type]


def _ceil(value: int, divisor: int) -> int:
    return -(-value // max(divisor, 1))


def _box(map_: LaunchTensorMap, coordinates: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Elements along each dimension of the box, with element strides applied."""
    counts = [_ceil(size, step) for size, step in zip(map_.box, map_.element_strides, strict=True)]
    if map_.interleave == 0:
        counts[0] = map_.box[0]
    return counts, list(coordinates)


def tile(map_: LaunchTensorMap, coordinates: tuple[int, ...]) -> TensorAccess:
    """A copy of the box at signed `coordinates`, innermost first."""
    counts, starts = _box(map_, coordinates)
    bits, shared_bits = ELEMENT_BITS[map_.data_type], SHARED_BITS[map_.data_type]
    total = shared_bits
    for count in counts:
        total *= count
    strides = (0, *map_.stride_bytes)
    clipped = False
    start = map_.base
    steps: list[tuple[int, int]] = []
    length = 0
    for dimension, count in enumerate(counts):
        step = 1 if dimension == 0 else map_.element_strides[dimension]
        begin = starts[dimension]
        skipped = _ceil(-begin, step) if begin < 0 else 0
        limit = _ceil(map_.dimensions[dimension] - begin, step)
        last = min(count, limit)
        if last <= skipped:
            return TensorAccess(total // 8, EMPTY, True)
        clipped = clipped or last - skipped != count
        if dimension == 0:
            start += (begin + skipped) * bits // 8
            length = _ceil((last - skipped) * bits, 8)
        else:
            start += (begin + skipped * step) * strides[dimension]
            if last - skipped > 1:
                steps.append((last - skipped, strides[dimension] * step))
    steps, length = _joined(steps, length)
    return TensorAccess(
        total // 8,
        Footprint(MemorySpace.GLOBAL, NO_CTA, (Box(wrapped(start), length, tuple(steps)),)),
        clipped,
    )


def _joined(steps: list[tuple[int, int]], length: int) -> tuple[list[tuple[int, int]], int]:
    """Rows that touch each other are one run."""
    while steps and steps[0][1] == length:
        length *= steps[0][0]
        steps = steps[1:]
    return steps, length


def rows(map_: LaunchTensorMap, column: int, numbers: tuple[int, ...]) -> TensorAccess:
    """tile::gather4 and scatter4: four rows of a matrix, from `column` on."""
    boxes: list[Box] = []
    clipped = False
    bytes_ = 0
    bits = ELEMENT_BITS[map_.data_type]
    for row in numbers:
        width = map_.box[0]
        low, high = max(column, 0), min(column + width, map_.dimensions[0])
        bytes_ += width * SHARED_BITS[map_.data_type] // 8
        if low >= high or not 0 <= row < map_.dimensions[1]:
            clipped = True
            continue
        clipped = clipped or high - low != width
        start = map_.base + row * map_.stride_bytes[0] + low * bits // 8
        boxes.append(Box(start, _ceil((high - low) * bits, 8)))
    return TensorAccess(bytes_, Footprint(MemorySpace.GLOBAL, NO_CTA, tuple(boxes)), clipped)


def im2col(
    map_: LaunchTensorMap, coordinates: tuple[int, ...], offsets: tuple[int, ...]
) -> TensorAccess:
    """An im2col copy: channels by pixels. The pixels walk through the bounding box of the tensor,
    W first, then H, D, N; each is read at its place plus the offsets of the filter.
    """
    bits = ELEMENT_BITS[map_.data_type]
    rank = map_.rank
    spatial = range(1, rank - 1)
    bytes_ = map_.channels * map_.pixels * SHARED_BITS[map_.data_type] // 8
    low = [map_.lower[d - 1] for d in spatial]
    high = [map_.dimensions[d] + map_.upper[d - 1] for d in spatial]  # exclusive
    place = [coordinates[d] for d in spatial]
    batch = coordinates[rank - 1]
    first, last = max(coordinates[0], 0), min(coordinates[0] + map_.channels, map_.dimensions[0])
    runs: list[Box] = []
    clipped = last - first != map_.channels
    strides = (0, *map_.stride_bytes)
    for _ in range(map_.pixels):
        at = [place[i] + (offsets[i] if i < len(offsets) else 0) for i in range(len(place))]
        inside = all(0 <= at[i] < map_.dimensions[i + 1] for i in range(len(at)))
        if inside and 0 <= batch < map_.dimensions[rank - 1] and first < last:
            start = map_.base + first * bits // 8 + batch * strides[rank - 1]
            start += sum(at[i] * strides[i + 1] for i in range(len(at)))
            runs.append(Box(start, _ceil((last - first) * bits, 8)))
        else:
            clipped = True
        for i in range(len(place) + 1):
            if i == len(place):
                batch += 1
                break
            place[i] += map_.element_strides[i + 1]
            if place[i] < high[i]:
                break
            place[i] = low[i]
    return TensorAccess(bytes_, Footprint(MemorySpace.GLOBAL, NO_CTA, tuple(runs)), clipped)


def wrapped(address: int) -> int:
    """An address of 64 bits, as a signed number; sums of strides wrap around."""
    return (address + (1 << 63) & (1 << 64) - 1) - (1 << 63)


def wraps(map_: LaunchTensorMap) -> bool:
    """Whether the tensor covers all addresses, so that sums of strides are meant to wrap around:
    Triton's maps of rows of unequal groups (`ragged_tma`) do, which end each group where it ends.
    """
    return whole(map_)[1] >= 1 << 60


def whole(map_: LaunchTensorMap) -> tuple[int, int]:
    """The half-open range of addresses that the tensor covers."""
    bits = ELEMENT_BITS[map_.data_type]
    end = _ceil(map_.dimensions[0] * bits, 8)
    for size, stride in zip(map_.dimensions[1:], map_.stride_bytes, strict=True):
        end += (size - 1) * stride
    return map_.base, map_.base + end
