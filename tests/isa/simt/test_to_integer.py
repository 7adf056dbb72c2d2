"""Binary32 and binary64 numbers that become integers, as an index of an image that is scaled has.

The reference reads a number's bits as a fraction, and shares nothing with either machine.
"""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest

from tests.isa.simt.running import launch_of, module_of, results
from titan.isa.simt.floats import to_integer

LANES = 32
EXPONENTS = {32: (8, 23), 64: (11, 52)}


def fraction(value: int, bits: int, flush: bool) -> Fraction | str:
    """The number of some bits, or what it is instead."""
    exponents, places = EXPONENTS[bits]
    sign, rest = -1 if value >> bits - 1 else 1, value & (1 << bits - 1) - 1
    exponent, places_set = rest >> places, rest & (1 << places) - 1
    if exponent == (1 << exponents) - 1:
        return "nan" if places_set else "-inf" if sign < 0 else "inf"
    if not exponent:
        places_set *= not (flush and bits == 32)
    else:
        places_set += 1 << places
    shift = max(exponent, 1) - ((1 << exponents - 1) - 1) - places
    return sign * places_set * Fraction(2) ** shift


def rounded(number: Fraction, word: str) -> int:
    below = number.numerator // number.denominator
    above = below if number == below else below + 1
    if word == "rni":
        half = number - below - Fraction(1, 2)
        return above if half > 0 or (half == 0 and below % 2) else below
    return {"rmi": below, "rpi": above, "rzi": above if number < 0 else below}[word]


def wanted(value: int, from_bits: int, to: str, word: str, flush: bool) -> int:
    bits = int(to[1:])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if to[0] == "s" else (0, (1 << bits) - 1)
    number = fraction(value, from_bits, flush)
    if number == "nan":
        return 1 << bits - 1 if 64 in (from_bits, bits) else 0
    if isinstance(number, str):
        return (high if number == "inf" else low) % (1 << bits)
    return min(max(rounded(number, word), low), high) % (1 << bits)


def samples(bits: int, seed: int, count: int) -> list[int]:
    """Bits of numbers, near integers and halves, near the ends of the ranges, and any."""
    exponents, places = EXPONENTS[bits]
    random, bias = Random(seed), (1 << exponents - 1) - 1
    found = [0, 1, 1 << bits - 1, (1 << bits - 1) + 1, ((1 << exponents) - 1) << places,
             (1 << bits) - (1 << places), (1 << bits) - 1]  # fmt: skip
    while len(found) < count:
        exponent = bias + random.choice((-2, -1, 0, 1, 2, 5, 30, 31, 32, 62, 63, 64, places))
        few = random.getrandbits(3) << places - 3
        digits = random.choice((0, few, (1 << places) - 1, random.getrandbits(places)))
        found.append(random.getrandbits(1) << bits - 1 | exponent << places | digits)
    return found


@pytest.mark.parametrize("from_bits", [32, 64])
@pytest.mark.parametrize("to", ["s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("word", ["rni", "rzi", "rmi", "rpi"])
def test_a_number_is_rounded_and_clamped(from_bits, to, word):
    for flush in (False, True):
        for value in samples(from_bits, 3, 400):
            found = to_integer(value, from_bits, int(to[1:]), word=word, signed=to[0] == "s",
                               flush=flush)  # fmt: skip
            assert found == wanted(value, from_bits, to, word, flush), (hex(value), flush)


@pytest.mark.parametrize("word", ["rni", "rzi", "rmi", "rpi", "rpi.ftz"])
@pytest.mark.parametrize("to", ["s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("from_bits", [32, 64])
def test_both_machines_round(from_bits, to, word):
    """Each lane has numbers of its own, given by bits."""
    if from_bits == 64 and "ftz" in word:
        return
    given = samples(from_bits, 5, LANES)
    chosen = "".join(
        f"setp.eq.u32 %p1, %r1, {lane}; @%p1 mov.u64 %d1, {value:#x};"
        for lane, value in enumerate(given)
    )
    source = "%f1" if from_bits == 32 else "%d1"
    narrow = "cvt.u32.u64 %r2, %d1; mov.b32 %f1, %r2;" if from_bits == 32 else ""
    target, wide = ("%r3", "cvt.u64.u32 %d2, %r3;") if to[1:] == "32" else ("%d2", "")
    body = f"""mov.u32 %r1, %tid.x; {chosen} {narrow}
    cvt.{word}.{to}.f{from_bits} {target}, {source}; {wide} ld.param.u64 %d4, [out];
    mul.wide.u32 %d5, %r1, 8; add.u64 %d4, %d4, %d5; cvt.u32.u64 %r4, %d2; shr.u64 %d2, %d2, 32;
    cvt.u32.u64 %r5, %d2; st.global.u32 [%d4], %r4; st.global.u32 [%d4+4], %r5; ret;"""
    found = results(module_of(body), launch_of(), 2 * LANES)
    for lane, value in enumerate(given):
        one = wanted(value, from_bits, to, word[:3], word.endswith("ftz"))
        assert found[2 * lane : 2 * lane + 2] == [one & 0xFFFFFFFF, one >> 32], hex(value)
