"""Reads what a kernel file says of places: layouts of buffers, tensor maps, matrix instructions.

Nothing here is judged against a target: numbers that no hardware accepts come through, so that
`titan/verify/legality/` can say which rule they break.
"""

from __future__ import annotations

from collections.abc import Mapping as AbstractMapping

from titan.foundation.diagnostics.wording import quoted
from titan.foundation.source.reader import Fields, Reader
from titan.foundation.source.span import Span
from titan.foundation.source.tree import Node, as_integer
from titan.language.kernel.model import Layout, MatrixInstruction, TensorMap
from titan.language.kernel.scope import KernelTerms, NameScope
from titan.language.kernel.table import NUMBER_MAX, SECTION_OF

PLACE_MAX = 2**24
TILE_MAX = 2**20
WIDE_MAX = 2**48  # beyond what any tensor map can say
DIMENSIONS_MAX = 8


class Layouts:
    """Reads the declarations of one file that say where things lie."""

    def __init__(self, reader: Reader, terms: KernelTerms, scope: NameScope) -> None:
        self.reader = reader
        self.terms = terms
        self.scope = scope

    def layout(self, name: str, fields: Fields, span: Span) -> Layout:
        """The layout of a buffer."""
        what = f"buffer {quoted(name)}"
        return Layout(
            name,
            self._numbers(fields, "tile", what, 1, TILE_MAX, at_most=6),
            self._word("buffers", fields, "dtype", "", what),
            self._word("buffers", fields, "swizzle", "none", what),
            self._number(fields, "alignment", what, 1),
            self._number(fields, "base", what),
            self._number(fields, "stride", what, 1),
            self._number(fields, "lane_bytes", what, 1),
            span,
        )

    def tensor_map(
        self, name: str, fields: Fields, span: Span, layouts: AbstractMapping[str, Layout]
    ) -> TensorMap | None:
        """A tensor map; type and swizzle are those of its buffer unless it says others."""
        what = f"tensor map {quoted(name)}"
        buffer = None
        if fields.has("buffer"):
            buffer = self.reader.identifier(fields["buffer"], f"`buffer` of {what}")
        if buffer is None:
            return None
        layout = layouts.get(buffer)
        if layout is None:
            self.reader.undeclared(buffer, fields["buffer"].span, layouts, "buffer")
            return None
        mode = self._word("tensor_maps", fields, "mode", "tile", what)
        if mode == "tile" and not fields.has("box"):
            self.reader.error("TTN007", f"{what} lacks the key `box`", span)
        dtype = self._word("tensor_maps", fields, "dtype", layout.dtype, what)
        if not dtype:
            headline = f"neither {what} nor its buffer has a `dtype`"
            self.reader.error("TTN007", headline, span)
        corners = (-WIDE_MAX, WIDE_MAX)
        return TensorMap(
            name,
            buffer,
            dtype,
            self._numbers(fields, "global_shape", what),
            self._numbers(fields, "global_strides", what, empty=True),
            self._numbers(fields, "box", what),
            self._numbers(fields, "element_strides", what),
            self._word("tensor_maps", fields, "interleave", "none", what),
            self._word("tensor_maps", fields, "swizzle", layout.swizzle, what),
            self._word("tensor_maps", fields, "oob_fill", "zero", what),
            mode,
            self._number(fields, "channels", what),
            self._number(fields, "pixels", what),
            self._numbers(fields, "lower_corner", what, *corners),
            self._numbers(fields, "upper_corner", what, *corners),
            self._number(fields, "global_alignment", what, 1),
            span,
            tuple((key, fields.key_span(key)) for key in fields),
        )

    def matrix_instruction(
        self, name: str, fields: Fields, span: Span, roles: set[str]
    ) -> MatrixInstruction | None:
        """A matrix instruction."""
        what = f"matrix instruction {quoted(name)}"
        shape = self._numbers(fields, "shape", what)
        if len(shape) != 3:
            if fields.has("shape") and self.reader.ok:
                headline = f"`shape` of {what} has {len(shape)} numbers; M, N, and K are three"
                self.reader.error("TTN009", headline, fields["shape"].span)
            return None
        role = ""
        if fields.has("role"):
            role = self.reader.identifier(fields["role"], f"`role` of {what}") or ""
            if role and role not in roles:
                self.reader.undeclared(role, fields["role"].span, roles, "role")
        section = "matrix_instructions"
        a = self._word(section, fields, "a", "", what)
        return MatrixInstruction(
            name,
            self._word(section, fields, "kind", "", what),
            shape,
            a,
            self._word(section, fields, "b", a, what),
            self._word(section, fields, "accumulator", "", what),
            self._number(fields, "cta_group", what, 1) or 1,
            role,
            span,
        )

    # Values of keys

    def _word(self, section: str, fields: Fields, key: str, default: str, what: str) -> str:
        node = fields.get(key)
        if node is None:
            return default
        words = next(item.words for item in SECTION_OF[section].keys if item.name == key)
        return self.reader.choice(node, words, f"`{key}` of {what}") or default

    def _number(self, fields: Fields, key: str, what: str, low: int = 0) -> int | None:
        node = fields.get(key)
        if node is None:
            return None
        return self.terms.constant(node, self.scope, f"`{key}` of {what}", low, PLACE_MAX)

    def _numbers(
        self,
        fields: Fields,
        key: str,
        what: str,
        low: int = 0,
        high: int = WIDE_MAX,
        *,
        empty: bool = False,
        at_most: int = DIMENSIONS_MAX,
    ) -> tuple[int, ...]:
        """A list of numbers; plain ones may be larger than an expression can be."""
        node = fields.get(key)
        if node is None:
            return ()
        name = f"`{key}` of {what}"

        def one(item: Node) -> int | None:
            if as_integer(item) is not None:
                return self.reader.integer(item, minimum=low, maximum=high, what=name)
            return self.terms.constant(item, self.scope, name, low, min(high, NUMBER_MAX))

        found = self.reader.list_of(
            node, one, what=name, at_least=0 if empty else 1, at_most=at_most, single=True
        )
        return tuple(found)
