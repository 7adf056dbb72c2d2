"""The bytes of parameters: numbers, pointers, and tensor maps, represented by 128
bytes that no other map has.
"""

from __future__ import annotations

import math
import struct

from titan.isa.numbers.device import (
    DATA_TYPES,
    SWIZZLES,
    DeviceArray,
    LaunchError,
    TiledMap,
)
from titan.isa.simt.launch import MAP_BYTES, LaunchTensorMap

_MAP_MARK = 0x6E61746974  # in the bytes of a tensor map, before its number
Maps = dict[bytes, LaunchTensorMap]
Argument = DeviceArray | TiledMap | int | float


def name_map(map_: LaunchTensorMap, maps: Maps) -> bytes:
    """The 128 bytes that represent a tensor map, which is added to `maps`."""
    for name, known in maps.items():
        if known == map_:
            return name
    name = struct.pack("<QQ", _MAP_MARK, len(maps)) + bytes(MAP_BYTES - 16)
    maps[name] = map_
    return name


def number_bytes(value: int | float, size_bytes: int, kind: str = "") -> bytes:
    """A number as a parameter of `size_bytes`; `kind` "bf16" for a float in two bytes."""
    if not isinstance(value, float):
        return (int(value) & ((1 << 8 * size_bytes) - 1)).to_bytes(size_bytes, "little")
    if kind == "bf16":
        bits = int.from_bytes(struct.pack("<f", value), "little")
        rounded = bits + 0x7FFF + (bits >> 16 & 1) if not math.isnan(value) else bits | 0x400000
        return (rounded >> 16 & 0xFFFF).to_bytes(2, "little")
    return struct.pack({2: "<e", 4: "<f"}.get(size_bytes, "<d"), value)


def map_over(
    base: int, dtype: str, extents: tuple[int, ...], stride_bytes: tuple[int, ...],
    box: tuple[int, ...], swizzle: str,
) -> LaunchTensorMap:  # fmt: skip
    """The tensor map over an array at an address; the lists are those of TiledMap."""
    return LaunchTensorMap(
        DATA_TYPES[dtype], base, extents, stride_bytes, box, (1,) * len(box), 0, SWIZZLES[swizzle]
    )


def bytes_of(argument: Argument, size_bytes: int, maps: Maps) -> bytes:
    """The bytes of an argument of a launch from Python. Raises LaunchError where it has others."""
    match argument:
        case TiledMap():
            map_ = map_over(
                argument.array.address, argument.dtype, argument.extents, argument.stride_bytes,
                argument.box, argument.swizzle,
            )  # fmt: skip
            data = name_map(map_, maps)
        case DeviceArray():
            data = struct.pack("<Q", argument.address)
        case _:
            data = number_bytes(argument, size_bytes)
    if len(data) != size_bytes:
        raise LaunchError(f"{type(argument).__name__} for a parameter of {size_bytes} bytes")
    return data
