"""PTX out of the images that programs hand to the driver: fatbins of nvcc, or PTX itself.

A fatbin begins with a header of 16 bytes and holds entries, each with a header that says kind,
sizes and compression (found by looking at what nvcc 13.0 and 13.5 write).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from titan.foundation.errors import UserError
from titan.foundation.extras import brought_by

MAGIC = 0xBA55ED50
ELF = b"\x7fELF"
PTX, CUBIN = 1, 2
LZ4, ZSTD = 0x2000, 0x8000  # flags of an entry
HOW_TO_BUILD = (
    "the program has machine code only, which the emulated device cannot read: compile with the "
    "flags of `titan cuda-flags`, which keep the PTX"
)


@dataclass(frozen=True, slots=True)
class FatbinEntry:
    """One image: its kind, architecture (90), and stored bytes as they were compressed."""

    kind: int
    architecture: int
    flags: int
    size_bytes: int
    stored: bytes

    def text(self) -> str:
        """The PTX of the entry. Raises UserError if the library that decompresses it is missing."""
        data = _expanded(self.stored, self.flags, self.size_bytes)
        return data.rstrip(b"\0").decode("utf-8", "replace")


def entries(image: bytes) -> Iterator[FatbinEntry]:
    """The entries of a fatbin. Raises UserError if the bytes are not a fatbin."""
    if len(image) < 16 or struct.unpack_from("<I", image)[0] != MAGIC:
        raise UserError("an image that is neither PTX nor a fatbin")
    header, length = struct.unpack_from("<HQ", image, 6)
    at, end = header, min(len(image), header + length)
    while at + 64 <= end:
        kind, _, own, padded, packed = struct.unpack_from("<HHIQI", image, at)
        (architecture,) = struct.unpack_from("<I", image, at + 28)
        (flags,) = struct.unpack_from("<Q", image, at + 40)
        (size,) = struct.unpack_from("<Q", image, at + 56)
        if own < 64 or at + own + padded > len(image):
            raise UserError("a fatbin that ends within an entry")
        count = packed if flags & (LZ4 | ZSTD) and packed else padded
        stored = image[at + own : at + own + count]
        yield FatbinEntry(kind, architecture, flags, size, stored)
        at += own + padded


def ptx_of(image: bytes, architecture: int) -> str:
    """The newest PTX that a device of an architecture runs. Raises UserError if there is none."""
    if image[:4] == ELF:
        raise UserError(HOW_TO_BUILD)
    if struct.unpack_from("<I", image.ljust(4, b"\0"))[0] != MAGIC:
        return image.rstrip(b"\0").decode("utf-8", "replace")
    found = [item for item in entries(image) if item.kind == PTX]
    if not found:
        raise UserError(HOW_TO_BUILD)
    usable = [item for item in found if item.architecture <= architecture]
    if not usable:
        known = ", ".join(f"sm_{item.architecture}" for item in found)
        raise UserError(f"the program has PTX for {known}, and the device is sm_{architecture}")
    return max(usable, key=lambda item: item.architecture).text()


def _expanded(stored: bytes, flags: int, size: int) -> bytes:
    if not flags & (LZ4 | ZSTD):
        return stored
    name = "zstandard" if flags & ZSTD else "lz4"
    try:
        if flags & ZSTD:
            import zstandard

            return bytes(zstandard.ZstdDecompressor().decompress(stored, max_output_size=size))
        import lz4.block

        return bytes(lz4.block.decompress(stored, uncompressed_size=size))
    except ImportError:
        raise UserError(
            f"the program's PTX is compressed, and the package {name} is missing: "
            f"{brought_by('cuda')}, or compile with -no-compress"
        ) from None
