"""Numbers of 16 bytes for values, by what they are made of (`lane_values.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from titan.isa.gcn.module import Literal
from titan.isa.waves.sources import constant
from titan.isa.waves.state import LANES

Numbers = NDArray[np.uint64]  # the last axis has the two halves of a number
_ODD = np.array([0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F], np.uint64)
_ODD_TOO = np.array([0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB], np.uint64)
_29, _32 = np.uint64(29), np.uint64(32)


def mixed(*parts: Numbers) -> Numbers:
    """One number of several, in their order."""
    number = _ODD
    for part in parts:
        number = (number ^ part) * _ODD
        number = (number ^ number >> _29) * _ODD_TOO
        number = number ^ number >> _32
    return number


def of_text(text: object) -> Numbers:
    """The number of a text, or of anything as `repr` has it."""
    return np.frombuffer(blake2b(repr(text).encode(), digest_size=16).digest(), np.uint64)


KNOWN, BIT, WORD, _BYTES = (of_text(word) for word in ("known", "bit", "word", "bytes"))
PLACE, _SELECTED, _LANE_OF = (of_text(word) for word in ("place", "selected", "lane"))


def known_numbers(words: NDArray[np.uint32] | NDArray[np.int64]) -> Numbers:
    """Those of words that are known."""
    return mixed(KNOWN, words.astype(np.uint64)[..., None])


ZERO = known_numbers(np.zeros(LANES, np.int64))
ONE = known_numbers(np.ones(LANES, np.int64))


def constant_number(operand: Literal, base: str) -> Numbers:
    """That of a constant of the instruction `base`: of its word, as a register with it has, where
    the operand is a word. `1.0` is another one for operands of 16 and 64 bits, `-1` for 64."""
    wide, narrow = "64" in base, "16" in base
    if operand.real and (wide or narrow):
        return of_text(("real", operand.value))
    if (wide and operand.value < 0) or not -(1 << 31) <= operand.value < 1 << 32:
        return of_text(constant(operand, 64))
    return known_numbers(np.array(constant(operand, 32), np.uint32))


LANES_MIXED = mixed(_LANE_OF, np.arange(LANES, dtype=np.uint64)[:, None])
BYTE_OF = [mixed(_BYTES, np.full(2, at, np.uint64)) for at in range(4)]


def place(at: int) -> Numbers:
    """That of a place among results."""
    return np.full(2, at, np.uint64)


def in_order(one: Numbers, other: Numbers) -> list[Numbers]:
    """Both, the smaller number of each lane first."""
    equal = one[:, 0] == other[:, 0]
    swap = (one[:, 0] > other[:, 0]) | (equal & (one[:, 1] > other[:, 1]))
    return [np.where(swap[:, None], other, one), np.where(swap[:, None], one, other)]


def folded(numbers: Numbers) -> Numbers:
    """One number of those of all lanes."""
    total: Numbers = np.add.reduce(mixed(numbers, LANES_MIXED), axis=0)
    return total


def reordered(sources: Sequence[Numbers], first: int, count: int) -> list[Numbers]:
    """The sources, `count` of them from the first on in an order of their numbers."""
    found = list(sources)
    for left in (*range(first, first + count - 1), *range(first, first + count - 2)):
        found[left : left + 2] = in_order(*found[left : left + 2])
    return found


def chosen(zero: Numbers, one: Numbers, bits: Numbers) -> Numbers:
    """The second where the bit is set, as far as that is known."""
    no, yes = (known_numbers(np.full(LANES, bit, np.int64)) for bit in (0, 1))
    pairs = ((bits, no), (bits, yes), (zero, one))
    unset, is_set, same = ((left == right).all(axis=1)[:, None] for left, right in pairs)
    made = mixed(_SELECTED, bits, zero, one)
    return np.where(unset | same, zero, np.where(is_set, one, made))


def mask_numbers(base: str, form: Numbers, masks: Sequence[Numbers]) -> Numbers:
    """The bits of each lane that an instruction on masks of 64 bits makes of others. Where a bit is
    known, `and` and `or` leave the other one, or it."""
    if base == "s_mov_b64":
        return masks[0]
    if len(masks) == 2 and base not in ("s_andn2_b64", "s_orn2_b64"):
        masks = in_order(*masks)
    made = mixed(form, *masks)
    passes = {"s_and_b64": (ZERO, ONE), "s_or_b64": (ONE, ZERO)}.get(base)
    if passes is None or len(masks) != 2:
        return made
    decides, leaves = passes
    left, right = masks
    for one, other in ((left, right), (right, left)):
        made = np.where(_same(one, leaves), other, made)
    for one in masks:
        made = np.where(_same(one, decides), decides, made)
    return made


def _same(one: Numbers, other: Numbers) -> NDArray[np.bool_]:
    alike: NDArray[np.bool_] = (one == other).all(axis=1)[:, None]
    return alike


def joined(parts: Sequence[Numbers]) -> Numbers:
    """That of a word of bytes."""
    return mixed(_BYTES, *parts)
