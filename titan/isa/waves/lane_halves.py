"""Numbers of 16 bits: of both halves of a register, which one instruction makes of two others, and
of the lower half, which is all that arithmetic in 16 bits surely writes.

A store of one half, and what computes with it, depend on it alone; compilers leave the other one to
chance. The number of a half says what made it of which number, wherever it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from titan.isa.gcn.module import AssemblyInstruction
from titan.isa.gcn.opcodes import OpcodeKind
from titan.isa.waves.decode import DecodedInstruction
from titan.isa.waves.lane_numbers import Numbers, mixed, of_text, place
from titan.isa.waves.moved_lanes import places_matter
from titan.isa.waves.typed_operations import OPERATIONS

# Beside arithmetic in 16 bits.
_OF_LOWER_HALVES = frozenset(("v_pack_b32_f16", "v_cvt_f32_f16", "v_cvt_f32_bf16"))
PACKED = frozenset(("v_cvt_pk_bf16_f32", "v_cvt_pk_f16_f32", "v_cvt_pkrtz_f16_f32"))
_HALF = of_text("half")


def is_lower(code: DecodedInstruction) -> bool:
    """Whether an instruction of the vector unit writes at least the lower half of its result."""
    item = code.item
    narrow = "16" in item.base and "hi" not in item.base and not places_matter(item)
    return narrow and code.opcode.kind is OpcodeKind.VECTOR and not item.opcode.endswith("_dpp")


def of_lower_halves(item: AssemblyInstruction) -> bool:
    """Whether an instruction reads the lower halves of its operands alone."""
    operation = OPERATIONS.get(item.base)
    narrow = operation is not None and all(given.endswith("16") for given in operation.given)
    return (narrow or item.base in _OF_LOWER_HALVES) and not places_matter(item)


@dataclass(slots=True)
class Halves:
    """The two halves of what conversions made, by wave and register, with the number of it all."""

    _made: dict[tuple[int, int], tuple[Numbers, list[Numbers]]] = field(default_factory=dict)

    def note(
        self, at: tuple[int, int], form: Numbers, sources: Sequence[Numbers], whole: Numbers
    ) -> None:
        """A conversion in `form` has made `whole` of two numbers."""
        self._made[at] = whole, [mixed(_HALF, form, one) for one in sources[:2]]

    def note_lower(
        self, at: tuple[int, int], lanes: NDArray[np.bool_], made: Numbers, old: Numbers,
        row: Numbers,
    ) -> None:  # fmt: skip
        """In `lanes` the lower half is of `made`; the register was `old` and is `row` now."""
        lower = np.where(lanes[:, None], mixed(_HALF, made), self.of(at, old, False))
        self._made[at] = row, [lower, mixed(row, place(1))]

    def of(self, at: tuple[int, int], row: Numbers, high: bool) -> Numbers:
        """One half of a register that has the numbers `row`."""
        otherwise = mixed(row, place(int(high)))
        found = self._made.get(at)
        if found is None:
            return otherwise
        whole, halves = found
        same = (row == whole).all(axis=1)[:, None]
        made: Numbers = np.where(same, halves[int(high)], otherwise)
        return made
