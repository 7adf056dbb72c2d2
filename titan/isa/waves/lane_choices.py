"""Masks by their comparisons: which of two values is chosen where the choice makes no difference.

A compiler gets the value of another lane by an exchange that leaves it in one of two registers,
this lane's own in the other, and takes the one that differs from its own. `a == x ? b : a` is
`a` where `b` is `x`, whatever holds: both are equal where the other one is taken.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from titan.isa.gcn.module import GcnOperand, Registers
from titan.isa.waves.lane_numbers import Numbers, chosen, known_numbers
from titan.isa.waves.state import LANES, Wave

_WORDS_COMPARED = re.compile(r"v_cmp_(eq|ne|le|ge|lt|gt)_[ui]32$")


@dataclass(slots=True)
class LaneChoices:
    """Of each wave and mask: the bits that a comparison for equality has made, and of what."""

    _made: dict[tuple[int, int], _Compared] = field(default_factory=dict)
    _last: tuple[Numbers, Numbers, bool] | None = None

    def compared(self, base: str, sources: Sequence[Numbers], bits: Numbers) -> Numbers:
        """The bits of a comparison of integers; known where both operands are the same."""
        self._last = None
        found = _WORDS_COMPARED.match(base)
        if found is None or len(sources) != 2:
            return bits
        left, right = sources
        if found[1] in ("eq", "ne"):
            self._last = left, right, found[1] == "eq"
        same = (left == right).all(axis=1)[:, None]
        holds = int(found[1] in ("eq", "le", "ge"))
        return np.where(same, known_numbers(np.full(LANES, holds, np.int64)), bits)

    def note(self, wave: Wave, register: int, bits: Numbers) -> None:
        """A vector instruction has written a mask: the comparison that was asked about last."""
        key, last, self._last = (wave.number, register), self._last, None
        self._made.pop(key, None)
        if last is not None:
            self._made[key] = _Compared(bits, *last, wave.active.copy())

    def chosen(self, wave: Wave, mask: GcnOperand, sources: Sequence[Numbers]) -> Numbers:
        """The second source where the bit of the third is set, which `mask` has."""
        zero, one, bits = sources
        made = chosen(zero, one, bits)
        key = (wave.number, mask.first) if isinstance(mask, Registers) else (-1, -1)
        noted = self._made.get(key)
        if noted is None or noted.bits is not bits:
            return made
        straight = (zero == noted.left).all(axis=1) & (one == noted.right).all(axis=1)
        crossed = (zero == noted.right).all(axis=1) & (one == noted.left).all(axis=1)
        either = (straight | crossed) & noted.lanes
        return np.where(either[:, None], zero if noted.equal else one, made)


@dataclass(frozen=True, slots=True)
class _Compared:
    """The bits of a mask, what was compared, and in which lanes."""

    bits: Numbers
    left: Numbers
    right: Numbers
    equal: bool
    lanes: NDArray[np.bool_]
