"""Shapes and elements in the types of TTGIR: tensors in registers and views of memory."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from titan.frontends.ttgir.model import TENSOR_SPACE

_SHAPED = re.compile(r"(tensor|!ttg\.memdesc|->\s*)<((?:\d+x)+)(!tt\.ptr<\w+>|[a-zA-Z]\w*)([^>]*)")
POINTER = "!tt.ptr<"
DTYPES = {"f8E4M3FN": "e4m3", "f8E5M2": "e5m2"}  # others have the same name in TITAN
_BITS = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class Shaped:
    """Extents and element of one type; `place` is registers, shared or tensor (memory)."""

    shape: tuple[int, ...]
    dtype: str
    place: str

    @property
    def bits(self) -> int:
        """Bits of an element."""
        if self.dtype in DTYPES:
            return 8
        if self.dtype.startswith(POINTER):
            return 64
        found = _BITS.search(self.dtype)
        return int(found[1]) if found else 32

    @property
    def pointed(self) -> Shaped:
        """What a tensor of pointers points to; itself where it holds none."""
        return replace(self, dtype=self.dtype.removeprefix(POINTER).rstrip(">"))

    @property
    def elements(self) -> int:
        """Numbers in it."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def bytes(self) -> int:
        """Bytes of all of it."""
        return self.elements * self.bits // 8

    @property
    def words(self) -> int:
        """32-bit registers that hold it; 0 in memory."""
        return -(-self.elements * self.bits // 32) if self.place == "registers" else 0


def shapes(text: str) -> list[Shaped]:
    """All shaped types in a text, in their order; views of barriers (i64) are left out."""
    found = []
    for match in _SHAPED.finditer(text):
        shape = tuple(int(part) for part in match[2].split("x") if part)
        place = "registers"
        if match[1] != "tensor":
            place = "tensor" if TENSOR_SPACE in match[4] else "shared"
        if place == "registers" or match[3] != "i64":
            found.append(Shaped(shape, match[3], place))
    return found
