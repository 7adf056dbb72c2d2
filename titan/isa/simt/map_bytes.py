"""Tensor maps that a kernel edits: the 128 bytes of such a map, and tensormap.replace on them.

What the bytes of a tensor map mean is the vendor's; those of a map of the launch only name it
(`launch.py`). Once a field is replaced, the bytes hold the whole map in a layout of this machine.
Sources: PTX, "tensormap.replace"; its numbers of element types are not those of the driver. Bytes
beyond the rank are kept, as the rank may be replaced, too. A map may begin as zeros, as Triton
makes one: what tensormap.replace gives a number (rank, type, interleave, swizzle, fill) has the
number 0 then, and the map is known once its other fields are. The C twin is `native/map_bytes.c`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import IntEnum

from titan.isa.simt.launch import MAP_BYTES, LaunchTensorMap

MARK = b"TITANMAP"
# What lies behind these bytes of a map that was not edited says nothing: on Hopper and Blackwell
# they are all that a map has, and CuTe DSL copies no more.
NAME_BYTES = 64
# mark, base, dimensions, strides, box, element strides; type, rank, interleave, swizzle, fill
_LAYOUT = struct.Struct("<8sQ5Q4Q5H5B5B")
_DRIVER_TYPES = (0, 1, 2, 3, 4, 5, 6, 7, 10, 8, 9, 11, 12, 13, 14, 15)
_UNSET = (1 << 64) - 1  # address, dimension, or stride; a box, a step: 0
_SWIZZLE_128, _STRIDE_MAX, _BOX_MAX, _STEP_MAX = 3, 1 << 40, 256, 8
BYTE_STRIDES_SINCE = (8, 5)  # PTX; before, CUTLASS gives strides in units of 16 bytes


ZEROS = bytes(MAP_BYTES)
BLANK = _LAYOUT.pack(MARK, *(_UNSET,) * 10, *(0,) * 11, 1, 0, 0, 0).ljust(MAP_BYTES, b"\0")


class MapField(IntEnum):
    """What tensormap.replace writes; `UNKNOWN` makes the map unknown."""

    ADDRESS = 0
    RANK = 1
    BOX = 2
    DIMENSION = 3
    STRIDE = 4
    STEP = 5
    TYPE = 6
    INTERLEAVE = 7
    SWIZZLE = 8
    ATOMICITY = 9
    FILL = 10
    UNKNOWN = 11


FIELDS = {
    "global_address": MapField.ADDRESS, "rank": MapField.RANK, "box_dim": MapField.BOX,
    "global_dim": MapField.DIMENSION, "global_stride": MapField.STRIDE,
    "element_stride": MapField.STEP, "elemtype": MapField.TYPE,
    "interleave_layout": MapField.INTERLEAVE, "swizzle_mode": MapField.SWIZZLE,
    "swizzle_atomicity": MapField.ATOMICITY, "fill_mode": MapField.FILL,
}  # fmt: skip
# The first place in `_values` of a field of more than one byte, and how many places it has.
_PLACES = {
    MapField.ADDRESS: (0, 1), MapField.DIMENSION: (1, 5), MapField.STRIDE: (6, 4),
    MapField.BOX: (10, 5), MapField.STEP: (15, 5), MapField.TYPE: (20, 1), MapField.RANK: (21, 1),
    MapField.INTERLEAVE: (22, 1), MapField.SWIZZLE: (23, 1), MapField.ATOMICITY: (23, 1),
    MapField.FILL: (24, 1),
}  # fmt: skip


class EditedTensorMap(LaunchTensorMap):
    """A map that the kernel has edited."""

    __slots__ = ()


def filled(data: bytes | None, half: bytes | None) -> bytes | None:
    """The 128 bytes of a map: as they are, or, if some behind the first half are not known, those
    of the name in what is (`half`). None where that is not enough."""
    if data is not None or half is None or len(half) < NAME_BYTES or half.startswith(MARK):
        return data
    return half[:NAME_BYTES].ljust(MAP_BYTES, b"\0")


def map_named(maps: Mapping[bytes, LaunchTensorMap], data: bytes) -> LaunchTensorMap | None:
    """The map of a launch that 128 bytes name, whatever is behind the first half of them."""
    found = maps.get(data)
    if found is None and not data.startswith(MARK):
        found = maps.get(data[:NAME_BYTES].ljust(MAP_BYTES, b"\0"))
    return found


def packed(map_: LaunchTensorMap) -> bytes | None:
    """The 128 bytes that hold a tiled map; None for a map of im2col, which cannot be edited."""
    if map_.pixels:
        return None

    def padded(values: tuple[int, ...], count: int, filler: int) -> tuple[int, ...]:
        return (*values, *(filler,) * count)[:count]

    return _LAYOUT.pack(
        MARK, map_.base, *padded(map_.dimensions, 5, 1), *padded(map_.stride_bytes, 4, 0),
        *padded(map_.box, 5, 1), *padded(map_.element_strides, 5, 1), map_.data_type, map_.rank,
        map_.interleave, map_.swizzle, map_.fill,
    ).ljust(MAP_BYTES, b"\0")  # fmt: skip


def unpacked(data: bytes) -> EditedTensorMap | None:
    """The map that 128 bytes hold; None where they hold none, or a field of it was never set."""
    if data[: len(MARK)] != MARK:
        return None
    values = _LAYOUT.unpack_from(data)[1:]
    type_, rank, interleave, swizzle, fill = values[20:]
    wide = (values[0], *values[1 : 1 + rank], *values[6 : 5 + rank])
    narrow = (*values[10 : 10 + rank], *values[15 : 15 + rank])
    if _UNSET in wide or 0 in narrow:
        return None
    return EditedTensorMap(
        type_, values[0], values[1 : 1 + rank], values[6 : 5 + rank], values[10 : 10 + rank],
        values[15 : 15 + rank], interleave, swizzle, fill,
    )  # fmt: skip


def editable(data: bytes, known: LaunchTensorMap | None) -> bytes | None:
    """The bytes in which a field can be replaced: those of an edited map, the ones that hold the
    map `known`, or, of zeros, those of a map without fields. None: what there is, is not known."""
    if data.startswith(MARK):
        return data
    if known is not None:
        return packed(known)
    return BLANK if data == ZEROS else None


def replaced(data: bytes, field: int, ordinal: int, value: int) -> bytes | None:
    """The bytes that hold a map with one field replaced; None where it is not known what the map
    is then: an ordinal or a value that PTX has no meaning for.
    """
    if field == MapField.UNKNOWN:
        return None
    values = list(_LAYOUT.unpack_from(data))
    start, count = _PLACES[MapField(field)]
    if field not in (MapField.ADDRESS, MapField.STRIDE):
        value &= 0xFFFFFFFF
    made = _stored(MapField(field), value, values[1 + _PLACES[MapField.SWIZZLE][0]])
    if not 0 <= ordinal < count or made is None:
        return None
    values[1 + start + ordinal] = made
    return _LAYOUT.pack(*values).ljust(MAP_BYTES, b"\0")


def _stored(field: MapField, value: int, swizzle: int) -> int | None:
    """What is stored of a value; `swizzle`: the swizzle before."""
    match field:
        case MapField.RANK:  # numbered from 0
            return value + 1 if value < 5 else None
        case MapField.TYPE:
            return _DRIVER_TYPES[value] if value < len(_DRIVER_TYPES) else None
        case MapField.SWIZZLE:
            if value > _SWIZZLE_128:
                return None
            return max(swizzle, value) if value == _SWIZZLE_128 else value
        case MapField.ATOMICITY:  # of the swizzle of 128 bytes
            if value > 3 or (swizzle < _SWIZZLE_128 and value):
                return None
            return _SWIZZLE_128 + value if swizzle >= _SWIZZLE_128 else swizzle
        case _:
            fits = {
                MapField.ADDRESS: value % 16 == 0,
                MapField.STRIDE: value % 16 == 0 and value < _STRIDE_MAX,
                MapField.BOX: 1 <= value <= _BOX_MAX, MapField.STEP: 1 <= value <= _STEP_MAX,
                MapField.INTERLEAVE: value <= 2, MapField.FILL: value <= 1,
            }  # fmt: skip
            return value if fits.get(field, True) else None
