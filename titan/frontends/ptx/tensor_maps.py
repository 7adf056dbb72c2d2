"""Tensor maps of a launch: what a copy by box needs to know, read from a file or recorded.

A tensor map is 128 opaque bytes. A recorded launch holds them as a mark (`MAGIC`) and a serial
number that leads to the arguments with which the map was encoded; hand-written maps get the same
form. Numbers of types, swizzles and interleavings are those of the driver (CUDA driver API,
"Tensor Map Object Management", cuTensorMapEncodeTiled).
"""

from __future__ import annotations

from titan.foundation.source.reader import Reader
from titan.foundation.source.tree import Node, as_integer
from titan.isa.simt.launch import MAP_BYTES, LaunchTensorMap

MAGIC = b"EMUTMAP1"
RANK_MAX = 5
BOX_MAX = 256

ELEMENT_BYTES = {  # CUtensorMapDataType
    "u8": (0, 1), "u16": (1, 2), "u32": (2, 4), "s32": (3, 4), "u64": (4, 8), "s64": (5, 8),
    "f16": (6, 2), "f32": (7, 4), "f64": (8, 8), "bf16": (9, 2), "f32_ftz": (10, 4),
    "tf32": (11, 4), "tf32_ftz": (12, 4),
}  # fmt: skip
SWIZZLES = {
    "none": 0, "32B": 1, "64B": 2, "128B": 3,
    "128B_atom_32B": 4, "128B_atom_32B_flip_8B": 5, "128B_atom_64B": 6,  # CUDA 12.8
}  # fmt: skip
SWIZZLE_MAX = 6
PACKED_NUMBERS = {"16u4_align8b": 13, "16u4_align16b": 14, "16u6_align16b": 15}
_BYTES_OF_NUMBER = {number: size for number, size in ELEMENT_BYTES.values()}
_PACKED = {13: 4, 14: 4, 15: 6}  # bits of an element in memory


def element_bits(data_type: int) -> int:
    """Bits of an element of a driver type in global memory."""
    return _PACKED.get(data_type) or 8 * _BYTES_OF_NUMBER.get(data_type, 1)


def encoded(serial: int) -> bytes:
    """The 128 bytes that represent the map with this number in a parameter."""
    return (MAGIC + serial.to_bytes(8, "little")).ljust(MAP_BYTES, b"\0")


def serial_of(data: bytes) -> int | None:
    """The serial number in the 128 bytes of a map, or None where they are none."""
    if len(data) < 16 or data[:8] != MAGIC:
        return None
    return int.from_bytes(data[8:16], "little")


def read_map(
    reader: Reader, node: Node, serial: int, base: int
) -> tuple[int, LaunchTensorMap] | None:
    """A map as it is written by hand or recorded, with its number; faults go to the reader.

    `serial` and `base` stand in where the file names none. Strides and element strides may be
    left out: then the tensor is dense.
    """
    fields = reader.mapping(
        node,
        required=("dimensions", "box"),
        optional=(
            "serial", "data_type", "rank", "base", "interleave", "swizzle", "promotion", "fill",
            "stride_bytes", "element_strides",
        ),
        what="a tensor map",
    )  # fmt: skip
    if fields is None or not (fields.has("dimensions") and fields.has("box")):
        return None
    before = len(reader.errors)
    dimensions = _numbers(reader, fields["dimensions"], "the dimensions", 1, 2**32)
    box = _numbers(reader, fields["box"], "the box", 1, BOX_MAX)
    rank = len(dimensions)
    if fields.has("rank"):
        reader.integer(fields["rank"], minimum=rank, maximum=rank, what="the rank")
    data_type = _coded(reader, fields.get("data_type"), 6, TYPE_NUMBERS, 15, "the data type")
    swizzle = _coded(reader, fields.get("swizzle"), 0, SWIZZLES, SWIZZLE_MAX, "the swizzle")
    interleave = _coded(reader, fields.get("interleave"), 0, INTERLEAVES, 2, "the interleaving")
    strides = _strides(reader, fields.get("stride_bytes"), dimensions, data_type)
    steps = (1,) * rank
    if fields.has("element_strides"):
        steps = _numbers(reader, fields["element_strides"], "the element strides", 1, 8)
    for name, values, wanted in (
        ("box", box, rank), ("element_strides", steps, rank), ("stride_bytes", strides, rank - 1),
    ):  # fmt: skip
        if len(values) != wanted and len(reader.errors) == before:
            place = fields.get(name) or fields.node
            headline = f"a tensor map of rank {rank} has {wanted} values of {name}"
            reader.error("TTN009", f"{headline}, not {len(values)}", place.span)
    if fields.has("serial"):
        serial = reader.integer(fields["serial"], minimum=0, what="the serial") or 0
    if fields.has("base"):
        base = reader.integer(fields["base"], minimum=0, maximum=2**64 - 1, what="the base") or 0
    if len(reader.errors) > before:
        return None
    return serial, LaunchTensorMap(
        data_type, base, dimensions, strides, box, steps, interleave, swizzle
    )


TYPE_NUMBERS = {name: number for name, (number, _) in ELEMENT_BYTES.items()} | PACKED_NUMBERS
INTERLEAVES = {"none": 0, "16B": 1, "32B": 2}


def _strides(
    reader: Reader, node: Node | None, dimensions: tuple[int, ...], data_type: int
) -> tuple[int, ...]:
    if node is not None:
        # A recorded map of one dimension has no strides.
        return _numbers(reader, node, "the strides", 0, 2**40, at_least=0)
    size_bits = element_bits(data_type)
    strides = []
    for extent in dimensions[:-1]:
        size_bits *= extent
        strides.append(size_bits // 8)
    return tuple(strides)


def _numbers(
    reader: Reader, node: Node, what: str, minimum: int, maximum: int, at_least: int = 1
) -> tuple[int, ...]:
    return tuple(
        reader.list_of(
            node,
            lambda item: reader.integer(item, minimum=minimum, maximum=maximum, what=what),
            what=what,
            at_least=at_least,
            at_most=RANK_MAX,
        )
    )


def _coded(
    reader: Reader,
    node: Node | None,
    default: int,
    names: dict[str, int],
    maximum: int,
    what: str,
) -> int:
    """A number of the driver, or its name here."""
    if node is None:
        return default
    if as_integer(node) is not None:
        value = reader.integer(node, minimum=0, maximum=maximum, what=what)
        return default if value is None else value
    text = reader.choice(node, names, what)
    return default if text is None else names[text]
