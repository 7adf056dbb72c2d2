"""Numbers of 16 bits, where one instruction makes both halves of a register of two others.

A store of one half depends on one of the two alone; compilers leave the other one to chance. The
number of a half says which conversion made it of which number, wherever it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from titan.isa.waves.lane_numbers import Numbers, mixed, of_text, place

PACKED = frozenset(("v_cvt_pk_bf16_f32", "v_cvt_pk_f16_f32", "v_cvt_pkrtz_f16_f32"))
_HALF = of_text("half")


@dataclass(slots=True)
class Halves:
    """The two halves of what conversions made, by wave and register, with the number of it all."""

    _made: dict[tuple[int, int], tuple[Numbers, list[Numbers]]] = field(default_factory=dict)

    def note(
        self, at: tuple[int, int], form: Numbers, sources: Sequence[Numbers], whole: Numbers
    ) -> None:
        """A conversion in `form` has made `whole` of two numbers."""
        self._made[at] = whole, [mixed(_HALF, form, one) for one in sources[:2]]

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
