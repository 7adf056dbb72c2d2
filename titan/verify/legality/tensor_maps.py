"""Tensor maps: what the driver refuses to encode, or encodes into a copy that goes wrong.

Sources: CUDA driver API, "Tensor Map Object Management"; PTX ISA, cp.async.bulk.tensor and
swizzling modes. Each limit is given with its source in the target's file.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.diagnostics.wording import quoted
from titan.foundation.source.span import Span
from titan.language.kernel.model import TensorMap
from titan.language.kernel.table import BITS_OF_DTYPE, PACKED_DTYPES
from titan.verify.legality.case import Case
from titan.verify.legality.rule import rule

FLOATS = ("f64", "f32", "tf32", "f16", "bf16")
# Bits in shared memory; the driver counts a packed element of 16 in 16 bytes, or 8, as one of 4.
PACKED_BITS = {"16u4_align8b": 4, "16u4_align16b": 8, "16u6_align16b": 8}


def maps(case: Case) -> Iterator[TensorMap]:
    """The tensor maps that the kernel's placement declares, in order."""
    yield from case.kernel.placement.tensor_maps


def bits_of(item: TensorMap) -> int:
    """Bits of one element in shared memory."""
    return BITS_OF_DTYPE.get(item.dtype) or PACKED_BITS.get(item.dtype, 0)


def row_bytes(item: TensorMap) -> int | None:
    """Bytes of the innermost extent of the box; None if not a whole number or not given."""
    inner = item.box[0] if item.mode == "tile" and item.box else item.channels
    bits = (inner or 0) * bits_of(item)
    return bits // 8 if inner and bits and bits % 8 == 0 else None


def box_bytes(item: TensorMap) -> int | None:
    """Bytes that one copy writes: element strides thin out all dimensions but the innermost."""
    row = row_bytes(item)
    if row is None:
        return None
    if item.mode == "im2col":
        return row * item.pixels if item.pixels else None
    steps = (*item.element_strides, *(1,) * len(item.box))
    if not all(steps):
        return None
    return row * prod(
        -(-extent // step) for extent, step in zip(item.box[1:], steps[1:], strict=False)
    )


def wide(item: TensorMap) -> bool:
    """Whether global addresses are in units of 32 bytes."""
    return item.interleave == "32B" or item.dtype in PACKED_DTYPES[1:]


def title(item: TensorMap) -> str:
    """A map's name as the headlines of diagnostics quote it."""
    return f"tensor map {quoted(item.name)}"


@rule("TTN409", "bulk_alignment")
def target_has_tensor_maps(case: Case) -> Iterator[Diagnostic]:
    """Tensor maps exist from compute capability 9.0 on."""
    if case.limits.sources and case.limits.number("bulk_alignment") is None:
        for item in maps(case):
            headline = f"{case.kernel.target} has no bulk copies, so no {title(item)}"
            yield case.fault("TTN409", headline, item.span)


@rule("TTN409", "map_rank", "interleave_rank_min", "im2col_rank")
def tensor_map_rank(case: Case) -> Iterator[Diagnostic]:
    """1 to 5 dimensions, 3 and more with interleave, 3 to 5 for im2col."""
    for item in maps(case):
        rank, span = len(item.global_shape), item.place("global_shape")
        bounds, source = case.limits.numbers("map_rank"), "map_rank"
        low = case.limits.number("interleave_rank_min")
        mode = ""
        if item.mode == "im2col":
            bounds, source = case.limits.numbers("im2col_rank"), "im2col_rank"
            mode = " in im2col mode"
        elif bounds and low and item.interleave != "none":
            bounds, source, mode = (low, bounds[1]), "interleave_rank_min", " with interleave"
        if bounds and not bounds[0] <= rank <= bounds[1]:
            headline = (
                f"{title(item)} has rank {rank}; {bounds[0]} to {bounds[1]} are allowed{mode}"
            )
            yield case.fault("TTN409", headline, span, source=source)


@rule("TTN409", "map_rank")
def tensor_map_lists_agree(case: Case) -> Iterator[Diagnostic]:
    """Every list has a number for each dimension; strides leave out the innermost one."""
    for item in maps(case):
        rank = len(item.global_shape)
        wanted = {"box": rank, "element_strides": rank, "global_strides": rank - 1}
        if item.mode == "im2col":
            wanted |= {"lower_corner": rank - 2, "upper_corner": rank - 2, "box": 0}
        for key, number in wanted.items():
            given = len(getattr(item, key))
            if given and given != number:
                headline = f"`{key}` of {title(item)} has {given} numbers; rank {rank} has {number}"
                yield case.fault("TTN409", headline, item.place(key), source="map_rank")


@rule("TTN410", "global_extent_max")
def global_extents(case: Case) -> Iterator[Diagnostic]:
    """Each extent of the tensor is in 1 to 2^32."""
    most = case.limits.number("global_extent_max")
    for item in maps(case):
        for extent in item.global_shape if most else ():
            if not 1 <= extent <= (most or 0):
                headline = f"{title(item)} has an extent of {extent}; 1 to {most} are allowed"
                place = item.place("global_shape")
                yield case.fault("TTN410", headline, place, source="global_extent_max")


@rule("TTN410", "global_alignment", "global_alignment_wide")
def global_address(case: Case) -> Iterator[Diagnostic]:
    """The tensor's address is a multiple of 16 bytes, of 32 with 32-byte interleave or packing."""
    for item in maps(case):
        name = "global_alignment_wide" if wide(item) else "global_alignment"
        asked, given = case.limits.number(name), item.global_alignment
        if asked is None:
            continue
        if given is None:
            case.assume(f"the tensor of {title(item)} lies at a multiple of {asked} bytes")
        elif given % asked:
            headline = f"the tensor of {title(item)} is aligned to {given} bytes, not to {asked}"
            yield case.fault("TTN410", headline, item.place("global_alignment"), source=name)


@rule("TTN410", "global_stride_multiple", "global_stride_multiple_wide", "global_stride_end")
def global_strides(case: Case) -> Iterator[Diagnostic]:
    """Strides are multiples of 16 bytes (32 with 32-byte interleave or packing) below 2^40."""
    for item in maps(case):
        name = "global_stride_multiple_wide" if wide(item) else "global_stride_multiple"
        multiple, end = case.limits.number(name), case.limits.number("global_stride_end")
        for stride in strides_of(item):
            if multiple and stride % multiple:
                headline = f"a row of {title(item)} begins every {stride} bytes, not a multiple of "
                helps = (
                    f"pad the rows of the tensor to {-(-stride // multiple) * multiple} bytes, "
                    "or copy by threads (`transport: async_copy`)",
                )
                yield case.fault(
                    "TTN410", headline + str(multiple), _strides_place(item), source=name,
                    helps=helps,
                )  # fmt: skip
            elif end and stride >= end:
                headline = f"{title(item)} has a stride of {stride} bytes; it must be below {end}"
                place = _strides_place(item)
                yield case.fault("TTN410", headline, place, source="global_stride_end")


@rule("TTN423", "global_stride_multiple")
def global_strides_nest(case: Case) -> Iterator[Diagnostic]:
    """By the driver's text a stride covers what it steps over; permuted tensors do not keep to it.

    Descriptors over permuted dimensions are in wide use and work, so this is not an error.
    """
    for item in maps(case):
        covered = item.global_shape[0] * bits_of(item) // 8 if item.global_shape else 0
        dimensions = zip(item.global_strides, item.global_shape[1:], strict=False)
        for stride, extent in dimensions:
            if stride < covered:
                headline = (
                    f"{title(item)} has a stride of {stride} bytes over {covered} bytes: its "
                    "dimensions are permuted, or its rows overlap"
                )
                place = item.place("global_strides")
                source = "CUDA driver API, cuTensorMapEncodeTiled: globalStrides nest"
                yield case.fault("TTN423", headline, place, source=source)
                break
            covered = stride * extent


def strides_of(item: TensorMap) -> tuple[int, ...]:
    """The strides as given, or those of a dense tensor."""
    if item.global_strides or len(item.global_shape) < 2:
        return item.global_strides
    stride, found = item.global_shape[0] * bits_of(item) // 8, []
    for extent in item.global_shape[1:]:
        found.append(stride)
        stride *= extent
    return tuple(found)


def _strides_place(item: TensorMap) -> Span | None:
    return item.place("global_strides" if item.global_strides else "global_shape")


@rule("TTN411", "box_max")
def box_extents(case: Case) -> Iterator[Diagnostic]:
    """Each extent of the box is in 1 to 256."""
    most = case.limits.number("box_max")
    for item in maps(case):
        for extent in item.box if most else ():
            if not 1 <= extent <= (most or 0):
                headline = f"the box of {title(item)} has an extent of {extent}; 1 to {most} fit"
                helps = ("split the box and issue several copies",) if extent else ()
                yield case.fault(
                    "TTN411", headline, item.place("box"), source="box_max", helps=helps
                )


@rule("TTN411", "box_row_multiple")
def box_row(case: Case) -> Iterator[Diagnostic]:
    """Without interleave the innermost extent is a multiple of 16 bytes."""
    multiple = case.limits.number("box_row_multiple")
    for item in maps(case):
        inner = item.box[0] if item.mode == "tile" and item.box else item.channels
        if not multiple or item.interleave != "none" or not inner or not bits_of(item):
            continue
        bits = inner * bits_of(item)
        if bits % (8 * multiple):
            size = f"{bits // 8} bytes" if bits % 8 == 0 else f"{bits} bits"
            headline = f"a row of the box of {title(item)} has {size}, not a multiple of {multiple}"
            place = item.place("box" if item.box else "channels")
            yield case.fault("TTN411", headline, place, source="box_row_multiple")


@rule("TTN411", "swizzle_span")
def box_row_under_swizzle(case: Case) -> Iterator[Diagnostic]:
    """A row of the box fits into the span of the swizzle."""
    for item in maps(case):
        span = case.limits.table("swizzle_span").get(item.swizzle)
        row = row_bytes(item)
        if span and row is not None and item.interleave == "none" and row > span:
            headline = (
                f"a row of the box of {title(item)} has {row} bytes; under a {item.swizzle} "
                f"swizzle {span} fit"
            )
            helps = (
                f"split the box into {-(-row // span)} of {span * 8 // bits_of(item)} elements "
                "a row",
            )
            place = item.place("box" if item.box else "channels")
            yield case.fault("TTN411", headline, place, source="swizzle_span", helps=helps)


@rule("TTN411", "element_stride_max")
def element_strides(case: Case) -> Iterator[Diagnostic]:
    """Element strides are in 1 to 8; the innermost one counts with interleave only."""
    most = case.limits.number("element_stride_max")
    for item in maps(case):
        skipped = 1 if item.interleave == "none" else 0
        for stride in item.element_strides[skipped:] if most else ():
            if not 1 <= stride <= (most or 0):
                headline = (
                    f"{title(item)} has an element stride of {stride}; 1 to {most} are allowed"
                )
                place = item.place("element_strides")
                yield case.fault("TTN411", headline, place, source="element_stride_max")


@rule("TTN411", "bulk_alignment")
def box_fits_its_stage(case: Case) -> Iterator[Diagnostic]:
    """One copy does not write beyond the stage; a mask or a fill changes nothing of its size."""
    for item in maps(case):
        memory, size = case.memories.get(item.buffer), box_bytes(item)
        if memory is None or size is None or not memory.bytes_per_stage:
            continue
        if size > memory.bytes_per_stage:
            headline = (
                f"the box of {title(item)} has {size} bytes; a stage of {quoted(memory.name)} has "
                f"{memory.bytes_per_stage}"
            )
            yield case.fault("TTN411", headline, item.place("box"), source="bulk_alignment")


@rule("TTN412", "swizzle_span")
def interleave_asks_for_swizzle(case: Case) -> Iterator[Diagnostic]:
    """32-byte interleave goes with the 32-byte swizzle only."""
    for item in maps(case):
        if item.interleave == "32B" and item.swizzle != "32B":
            headline = f"{title(item)} has 32-byte interleave with swizzle {quoted(item.swizzle)}"
            place = item.place("interleave")
            source = "CUDA driver API, cuTensorMapEncodeTiled: interleave 32B needs swizzle 32B"
            yield case.fault("TTN412", headline, place, source=source)


@rule("TTN412", "swizzle_repeat")
def swizzle_is_that_of_the_buffer(case: Case) -> Iterator[Diagnostic]:
    """Writer and readers of a buffer use one pattern."""
    for item in maps(case):
        memory = case.memories.get(item.buffer)
        mode = memory.layout.swizzle if memory is not None else "none"
        if mode not in ("none", item.swizzle):
            headline = (
                f"{title(item)} writes swizzle {quoted(item.swizzle)} into {quoted(item.buffer)}, "
                f"which is read with {quoted(mode)}"
            )
            place = item.place("swizzle")
            yield case.fault("TTN412", headline, place, source="swizzle_repeat")


@rule("TTN412", "bulk_alignment")
def fill_is_for_floats(case: Case) -> Iterator[Diagnostic]:
    """Elements outside of the tensor become NaN for types that have it."""
    for item in maps(case):
        if item.oob_fill == "nan" and item.dtype not in FLOATS:
            headline = f"{title(item)} fills with NaN, which {quoted(item.dtype)} does not have"
            source = "CUDA driver API, cuTensorMapEncodeTiled: oobFill"
            yield case.fault("TTN412", headline, item.place("oob_fill"), source=source)


@rule("TTN412", "packed_multiple")
def packed_types(case: Case) -> Iterator[Diagnostic]:
    """Packed types have boxes of 128 elements and rows of a multiple of it."""
    multiple = case.limits.number("packed_multiple")
    for item in maps(case):
        if item.dtype not in PACKED_DTYPES[1:] or not multiple:
            continue
        if item.box and item.box[0] != multiple:
            headline = f"{title(item)} has a packed type and {item.box[0]} elements a row of the "
            headline += f"box; it takes {multiple}"
            yield case.fault("TTN412", headline, item.place("box"), source="packed_multiple")
        if item.global_shape[0] % multiple:
            headline = f"{title(item)} has a packed type and {item.global_shape[0]} elements a "
            headline += f"row, not a multiple of {multiple}"
            place = item.place("global_shape")
            yield case.fault("TTN412", headline, place, source="packed_multiple")


@rule("TTN412", "channels_max", "pixels_max")
def im2col_extents(case: Case) -> Iterator[Diagnostic]:
    """At most 256 channels a pixel and 1024 pixels a column, and both are given."""
    for item in maps(case):
        if item.mode != "im2col":
            continue
        for key, name in (("channels", "channels_max"), ("pixels", "pixels_max")):
            most, given = case.limits.number(name), getattr(item, key)
            if most and (given is None or not 1 <= given <= most):
                value_text = "none" if given is None else given
                headline = (
                    f"{title(item)} has {value_text} {key} in im2col mode; 1 to {most} are allowed"
                )
                yield case.fault("TTN412", headline, item.place(key), source=name)


@rule("TTN412", "corner_bits")
def im2col_corners(case: Case) -> Iterator[Diagnostic]:
    """The corners of the bounding box have 16, 8 or 5 bits with a sign, by rank."""
    for item in maps(case):
        bits, rank = case.limits.numbers("corner_bits"), len(item.global_shape)
        if item.mode != "im2col" or not bits or not 3 <= rank < 3 + len(bits):
            continue
        low, high = -(1 << (bits[rank - 3] - 1)), (1 << (bits[rank - 3] - 1)) - 1
        for key in ("lower_corner", "upper_corner"):
            for number in getattr(item, key):
                if not low <= number <= high:
                    headline = f"`{key}` of {title(item)} is {number}; {low} to {high} are allowed"
                    yield case.fault("TTN412", headline, item.place(key), source="corner_bits")


@rule("TTN412", "im2col_rank")
def im2col_keys(case: Case) -> Iterator[Diagnostic]:
    """Channels, pixels, and corners belong to im2col; a box to tiles."""
    for item in maps(case):
        keys: tuple[str, ...] = ("channels", "pixels", "lower_corner", "upper_corner")
        if item.mode == "im2col":
            keys = ("box",)
        for key in keys:
            if getattr(item, key) not in (None, ()):
                headline = f"{title(item)} has {quoted(key)}, but its mode is {quoted(item.mode)}"
                yield case.fault("TTN412", headline, item.place(key), source="im2col_rank")


@rule("TTN423", "global_alignment_swizzled")
def global_address_under_swizzle(case: Case) -> Iterator[Diagnostic]:
    """The programming guide asks for 128 bytes under swizzle where the driver asks for 16."""
    asked = case.limits.number("global_alignment_swizzled")
    for item in maps(case):
        given = item.global_alignment
        if asked and given is not None and item.swizzle != "none" and given % asked:
            headline = (
                f"the tensor of {title(item)} is aligned to {given} bytes; under swizzle the "
                f"programming guide asks for {asked}, the driver does not"
            )
            place = item.place("global_alignment")
            yield case.fault("TTN423", headline, place, source="global_alignment_swizzled")
