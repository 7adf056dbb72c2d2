"""The PTX of the modules that CuTe DSL loads: it hands its runtime library machine code alone.

For each function that it compiles it can leave both, PTX and machine code, as files
(`CUTE_DSL_KEEP`); they are read there before another function of the same name takes their place.
A module is that whose machine code is in the image.
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass, field

from titan.emulated.modules import LoadedModule, load
from titan.isa.numbers.device import LaunchError

FATBIN, ELF = b"\x50\xed\x55\xba", b"\x7fELF"
ELF_HEADER_BYTES = 64
KEPT_MAX = 256


@dataclass(slots=True)
class ModuleTexts:
    """Machine code and the PTX that it was assembled from, the latest last."""

    known: list[tuple[bytes, str, str]] = field(default_factory=list)

    def add(self, machine_code: bytes, ptx: str, name: str) -> None:
        """What one function was compiled to; `name` stands in diagnostics."""
        self.known.append((machine_code, ptx.rstrip("\0"), name))
        del self.known[:-KEPT_MAX]

    def of_image(self, address: int) -> LoadedModule:
        """The module of an image in memory. Raises LaunchError where its PTX is not known."""
        image = image_at(address)
        for machine_code, ptx, name in reversed(self.known):
            if machine_code in image:
                return load(ptx, name)
        raise LaunchError(
            "the PTX of a module is not known: it was compiled before TITAN was there, or is "
            "loaded from a file"
        )


def image_at(address: int) -> bytes:
    """The bytes of a fat binary or of machine code. Raises LaunchError for something else."""
    head = ctypes.string_at(address, len(ELF))
    if head == FATBIN:
        _, _, header, size = struct.unpack("<IHHQ", ctypes.string_at(address, 16))
        return ctypes.string_at(address, header + size)
    if head == ELF:
        start = ctypes.string_at(address, ELF_HEADER_BYTES)
        (sections,) = struct.unpack_from("<Q", start, 40)
        size, count = struct.unpack_from("<HH", start, 58)
        return ctypes.string_at(address, sections + size * count)
    raise LaunchError("a module that is neither a fat binary nor machine code")
