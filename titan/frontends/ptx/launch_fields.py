"""Fields of structures and of memory in launch files: typed values, bytes, tensor maps, pointers.

A pointer leads to memory apart from all other; `{pointer: ...}` says what is known there at the
start, by offset: `{pointer: {s32: [3, 1]}}`, `{pointer: {0: {map: ...}, 128: {u32: 7}}}`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from titan.foundation.source.reader import Reader
from titan.foundation.source.tree import (
    Mapping,
    Node,
    Scalar,
    Sequence,
    as_number_of_key,
)
from titan.frontends.ptx.tensor_maps import encoded

FIELD_BYTES = {f"{kind}{bits}": bits // 8 for kind in "su" for bits in (8, 16, 32, 64)}
FIELD_BYTES |= {"f32": 4, "f64": 8}
VALUES_MAX = 1 << 16
MEMORY_BYTES_MAX = 1 << 24  # offsets below


class FieldReader:
    """Reads fields. `map_number` registers a tensor map, `next_address` is of a new pointer.

    `memory` collects the bytes that pointers lead to, by address.
    """

    def __init__(
        self,
        reader: Reader,
        map_number: Callable[[Node], int | None],
        next_address: Callable[[], int],
        memory: dict[int, bytes],
    ) -> None:
        self._reader, self._map_number = reader, map_number
        self._next_address, self._memory = next_address, memory

    def field(self, node: Node) -> bytes | None:
        """The bytes: `{s32: 512}`, `{s32: [1, 2]}`, `{f32: 0.5}`, `pointer`, `{bytes: 00ff}` ..."""
        if isinstance(node, Scalar) and node.text == "pointer":
            return self._next_address().to_bytes(8, "little")
        forms = (*FIELD_BYTES, "bytes", "pointer", "map", "tensor_map")
        fields = self._reader.mapping(node, optional=forms, what="a field")
        if fields is None:
            return None
        given = [name for name in forms if fields.has(name)]
        if len(given) != 1:
            return self._reader.error("TTN008", "a field has one type and its value", node.span)
        (kind,) = given
        value = fields[kind]
        if kind == "pointer":
            address = self._next_address()
            self.fill(value, address)
            return address.to_bytes(8, "little")
        if kind in ("map", "tensor_map"):
            number = self._map_number(value)
            return None if number is None else encoded(number)
        if isinstance(value, Sequence) and kind != "bytes":
            parts = self._reader.list_of(
                value, lambda item: self._number(item, kind), what=kind,
                at_least=1, at_most=VALUES_MAX,
            )  # fmt: skip
            return b"".join(parts)
        return self._number(value, kind)

    def _number(self, node: Node, kind: str) -> bytes | None:
        if not isinstance(node, Scalar):
            what = "hexadecimal digits" if kind == "bytes" else "a number"
            return self._reader.wrong_type(node, what, f"a value of {kind}")
        text = node.text
        try:
            if kind == "bytes":
                return bytes.fromhex(text)
            size = FIELD_BYTES[kind]
            if kind.startswith("f"):
                return struct.pack("<f" if size == 4 else "<d", float(text))
            return int(text, 0).to_bytes(size, "little", signed=kind.startswith("s"))
        except (ValueError, OverflowError, struct.error):
            return self._reader.error("TTN009", f"the value does not fit {kind}", node.span)

    def fill(self, node: Node, address: int) -> None:
        """What is known of memory at an address: one field, or fields by offset."""
        keys = [as_number_of_key(entry.key) for entry in node] if isinstance(node, Mapping) else []
        if not isinstance(node, Mapping) or all(key is None for key in keys):
            data = self.field(node)
            if data:
                self._memory[address] = data
            return
        ends: list[tuple[int, int]] = []
        for offset, entry in zip(keys, node, strict=True):
            if offset is None or not 0 <= offset < MEMORY_BYTES_MAX:
                self._reader.error("TTN009", "an offset is a number of bytes", entry.key.span)
                continue
            data = self.field(entry.value)
            if not data:
                continue
            end = offset + len(data)
            if any(low < end and offset < high for low, high in ends):
                headline = f"fields overlap at offset {offset}"
                self._reader.error("TTN009", headline, entry.key.span)
            ends.append((offset, end))
            self._memory[address + offset] = data
