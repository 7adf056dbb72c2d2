"""Tensors that grow in a changed launch are moved apart, as a host would have allocated them.

A recorded launch has its tensors where a host put them for its extents. With larger ones they would
run into each other, and copies of one would race with copies of another. A tensor that grows over
memory of another, which it did not share before, gets memory of its own; pointers into it that lie
among the parameters move with it.

How much memory lies behind a plain pointer is not known. In a launch with more trips than the one
that was recorded all plain pointers that differ lie far apart, in the order and with the low bits
that they had. Pointers into one tensor (views of packed queries and keys) are then those of several
tensors, so conflicts between such views are seen in launches with fewer trips alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from titan.isa.simt.launch import Launch, LaunchParameter, LaunchTensorMap
from titan.isa.simt.tensor_maps import ELEMENT_BITS

ALIGNMENT = 1 << 20
POINTER_BYTES = 8
LOWEST_POINTER = 1 << 32  # what is less may be an integer
APART = 1 << 36
Range = tuple[int, int]


def spread(old: Launch, new: Launch) -> Launch:
    """The new launch, whose maps are those of the old one with other extents, without overlaps."""
    before, after = _by_base(old.maps()), _by_base(new.maps())
    moves: dict[int, int] = {}
    free = max([end for _, end in (*before.values(), *after.values(), *_others(new))], default=0)
    for base, grown in after.items():
        if any(
            _meet(grown, after[other]) and not _meet(before[base], before[other])
            for other in after
            if other != base and other not in moves
        ):
            moves[base] = -(-free // ALIGNMENT) * ALIGNMENT
            free = moves[base] + grown[1] - grown[0]
    if not moves:
        return new
    maps = {
        key: replace(item, base=moves.get(item.base, item.base))
        for key, item in new.tensor_maps.items()
    }
    parameters = tuple(_moved(item, moves, before) for item in new.parameters)
    return replace(new, tensor_maps=maps, parameters=parameters)


def pointers_apart(launch: Launch) -> Launch:
    """The launch with its plain pointers in memory of their own.

    Pointers into maps, and into memory whose bounds or bytes are given, stay; so do all where
    allocations are listed.
    """
    if launch.allocations:
        return launch
    kept = [*_by_base(launch.maps()).values(), *_others(launch)]
    kept += [(item.start, item.start + item.size_bytes) for item in launch.pointed]
    values = [_pointer(item, kept) for item in launch.parameters]
    places = {value: rank for rank, value in enumerate(sorted({v for v in values if v}))}
    parameters = [
        replace(item, data=(value + places[value] * APART).to_bytes(POINTER_BYTES, "little"))
        if value
        else item
        for item, value in zip(launch.parameters, values, strict=True)
    ]
    return replace(launch, parameters=tuple(parameters))


def _pointer(parameter: LaunchParameter, kept: Iterable[Range]) -> int:
    """The address that a whole parameter is; 0 if it is none, or one of the memory to keep."""
    if parameter.known is not None or len(parameter.data) != POINTER_BYTES:
        return 0
    value = int.from_bytes(parameter.data, "little")
    inside = any(low <= value < high for low, high in kept)
    return 0 if inside or value < LOWEST_POINTER else value


def _by_base(maps: Iterable[LaunchTensorMap]) -> dict[int, Range]:
    """The memory from each base address on."""
    found: dict[int, Range] = {}
    for item in maps:
        size = -(-item.dimensions[0] * ELEMENT_BITS[item.data_type] // 8)
        for extent, stride in zip(item.dimensions[1:], item.stride_bytes, strict=True):
            size += (extent - 1) * stride
        _, end = found.get(item.base, (0, 0))
        found[item.base] = item.base, max(end, item.base + size)
    return found


def _others(launch: Launch) -> list[Range]:
    given = [(item.start, item.start + item.size_bytes) for item in launch.allocations]
    return given + [(start, start + len(data)) for start, data in launch.memory.items()]


def _meet(left: Range, right: Range) -> bool:
    return left[0] < right[1] and right[0] < left[1]


def _moved(
    parameter: LaunchParameter, moves: Mapping[int, int], before: Mapping[int, Range]
) -> LaunchParameter:
    """The parameter with its pointers into tensors that have moved."""
    data = bytearray(parameter.data)
    for at in range(0, len(data) - POINTER_BYTES + 1, POINTER_BYTES):
        word = int.from_bytes(data[at : at + POINTER_BYTES], "little")
        for base, target in moves.items():
            if before[base][0] <= word < before[base][1]:
                data[at : at + POINTER_BYTES] = (word - base + target).to_bytes(8, "little")
    return replace(parameter, data=bytes(data))
