"""Undefined bits of registers: by lane which bits of a word are, and where they come from.

An origin is the instruction that read memory which nothing had written, or the register that
nothing has written; `CERTAIN` in it says that the value itself has been moved, added to or kept,
so that the word changes with it whatever else is in the registers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from titan.isa.waves.state import LANES, Words

Origins = NDArray[np.int32]
NOWHERE = -1
OF_REGISTERS = 1 << 24
CERTAIN = 1 << 28
ALL_BITS = np.uint32(0xFFFF_FFFF)
BITS = 32


class UndefinedWord(NamedTuple):
    """By lane the undefined bits of a register, and their origin; `NOWHERE` where there are none.

    Of a scalar register all lanes have the same bits.
    """

    bits: Words
    origins: Origins

    @property
    def any(self) -> bool:
        """Whether something is undefined."""
        return bool(self.bits.any())

    def within(self, mask: int) -> UndefinedWord:
        """The same of some bits alone."""
        return made(self.bits & np.uint32(mask), self.origins)

    def where(self, lanes: NDArray[np.bool_]) -> UndefinedWord:
        """The same of some lanes alone."""
        return made(np.where(lanes, self.bits, np.uint32(0)), self.origins)

    def of_lanes(self, lanes: NDArray[np.int64], there: NDArray[np.bool_]) -> UndefinedWord:
        """What each lane gets from another one; nothing where none is there."""
        chosen = np.where(there, lanes, 0)
        bits = np.where(there, self.bits[chosen], np.uint32(0))
        return made(bits, self.origins[chosen])

    def unsure(self) -> UndefinedWord:
        """The same, of which something is made."""
        return UndefinedWord(self.bits, without_certain(self.origins))


def made(bits: Words, origins: Origins) -> UndefinedWord:
    """Bits with their origins, which are left out where there are no bits."""
    return UndefinedWord(bits, np.where(bits != 0, origins, np.int32(NOWHERE)))


def without_certain(origins: Origins) -> Origins:
    """The origins of what something is made of."""
    found: Origins = np.where(origins >= 0, origins & ~CERTAIN, origins).astype(np.int32)
    return found


DEFINED = UndefinedWord(np.zeros(LANES, np.uint32), np.full(LANES, NOWHERE, np.int32))


def of_register(register: int) -> UndefinedWord:
    """A register that nothing has written."""
    origin = OF_REGISTERS + register | CERTAIN
    return UndefinedWord(np.full(LANES, ALL_BITS), np.full(LANES, origin, np.int32))


def of_mask(bits: Origins) -> UndefinedWord:
    """A scalar register, of which `bits` has the origin of each bit, as a word of every lane."""
    there = bits != NOWHERE
    mask = int.from_bytes(np.packbits(there, bitorder="little").tobytes(), "little")
    return UndefinedWord(np.full(LANES, mask, np.uint32), np.full(LANES, bits.max(), np.int32))


def merged(words: Iterable[UndefinedWord]) -> UndefinedWord:
    """All that is undefined in some words."""
    bits, origins = DEFINED
    for word in words:
        bits, origins = bits | word.bits, np.maximum(origins, word.origins)
    return UndefinedWord(bits, origins)
