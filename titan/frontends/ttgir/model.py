"""A module of TTGIR as data: operations in blocks, values by name, types as text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from titan.foundation.source.span import Span

_MEMDESC = re.compile(r"!ttg\.memdesc<((?:\d+x)+)(\w+)\s*,\s*([^,>]*)([^>]*)>")
_WIDTHS = re.compile(r"(\d+)$")
TENSOR_SPACE = "#ttng.tensor_memory"


@dataclass(frozen=True, slots=True)
class MemoryType:
    """The type of a view: extents, bits of an element, and whether it is tensor memory.

    The extents are those of all CTAs of a cluster together; `layout` is the name of what says how
    CTAs share them.
    """

    shape: tuple[int, ...]
    element_bits: int
    tensor: bool = False
    layout: str = ""

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole view."""
        size = self.element_bits
        for extent in self.shape:
            size *= extent
        return size // 8


@dataclass(slots=True)
class TtgirOperation:
    """One operation. `results` and `operands` are names of values (`%x`, `%x#1`).

    `operands` are all values that stand before the types, in their order; `header` is the text up
    to the types, without attributes; `attributes` by name as text; `types` the text behind the
    colon. `number`: its place in the file. `source` is the place in Triton's source, if known.
    """

    name: str
    number: int
    span: Span
    results: tuple[str, ...] = ()
    operands: tuple[str, ...] = ()
    header: str = ""
    attributes: dict[str, str] = field(default_factory=dict)
    types: str = ""
    regions: list[Block] = field(default_factory=list)
    source: str = ""

    def integer(self, name: str, default: int) -> int:
        """An attribute such as `pendings = 1 : i32`."""
        found = re.match(r"-?\d+", self.attributes.get(name, ""))
        return default if found is None else int(found[0])


@dataclass(slots=True)
class Block:
    """The operations of a region. `label` is its word (`default`, `partition0`, `else`, ...).

    `arguments` are names with their types; `warps` those of a partition, 0 where not given.
    """

    label: str = ""
    arguments: list[tuple[str, str]] = field(default_factory=list)
    operations: list[TtgirOperation] = field(default_factory=list)
    warps: int = 0


@dataclass(slots=True)
class TtgirFunction:
    """A kernel: its arguments with their types, and its body."""

    name: str
    span: Span
    arguments: list[tuple[str, str]]
    body: Block


@dataclass(slots=True)
class TtgirModule:
    """The public functions of a file, and what the module says of its launch.

    `layouts` are the layouts of memory and of tensors by name (`#shared1`), as text.
    """

    functions: list[TtgirFunction] = field(default_factory=list)
    attributes: dict[str, str] = field(default_factory=dict)
    layouts: dict[str, str] = field(default_factory=dict)

    def integer(self, name: str, default: int) -> int:
        """An attribute of the module, such as `"ttg.num-warps" = 4 : i32`."""
        found = re.match(r"-?\d+", self.attributes.get(name, ""))
        return default if found is None else int(found[0])


def memory_types(text: str) -> list[MemoryType]:
    """All views of memory that a text of types names, in their order."""
    found = []
    for match in _MEMDESC.finditer(text):
        shape = tuple(int(part) for part in match[1].split("x") if part)
        width = _WIDTHS.search(match[2])
        bits = int(width[1]) if width is not None else 8
        if match[2].startswith("f8"):
            bits = 8
        tensor = TENSOR_SPACE in match[4]
        found.append(MemoryType(shape, bits, tensor, match[3].strip()))
    return found
