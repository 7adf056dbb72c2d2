"""How a loaded or staged tile lies in shared memory: its swizzle, its bytes, and its padding.

Source: PTX ISA, swizzling modes; seed formulation, section 3.1.
"""

from __future__ import annotations

from titan.codegen.pipeline import document as doc
from titan.codegen.tile.model import Value

BITS = {
    "f32": 32, "tf32": 32, "bf16": 16, "f16": 16, "e4m3": 8, "e5m2": 8, "ue8m0": 8, "e2m1x2": 8,
}  # fmt: skip
REPEAT = 1024  # bytes after which the widest swizzle begins again


def swizzle_of(value: Value) -> str:
    """The widest swizzle that a row of the tile fills."""
    row_bytes = value.columns * BITS[value.dtype] // 8
    for size in (128, 64, 32):
        if row_bytes % size == 0:
            return f"{size}B"
    return "none"


def tile_bytes(value: Value) -> int:
    """The bytes of one tile in shared memory."""
    return value.rows * value.columns * BITS[value.dtype] // 8


def staged_buffer(value: Value) -> doc.BufferDeclaration:
    """A buffer of shared memory for tiles like `value`, swizzled as widely as a row allows, and
    with stages that are padded where their panels do not fill the swizzle's repeat."""
    apart = padded_bytes(value)
    stride = apart if apart != tile_bytes(value) else 0
    return doc.BufferDeclaration(
        value.name, value.rows, value.columns, value.dtype, swizzle=swizzle_of(value), stride=stride
    )


def padded_bytes(value: Value) -> int:
    """Bytes from one stage of a tile to the next: every panel begins at the swizzle's repeat.

    Source: PTX ISA, swizzling modes; seed formulation, section 3.1.
    """
    row_bytes = value.columns * BITS[value.dtype] // 8
    width = next((size for size in (128, 64, 32) if row_bytes % size == 0), 0)
    if not width:
        return tile_bytes(value)
    return row_bytes // width * (-(-value.rows * width // REPEAT) * REPEAT)
