"""Whether values of a traced run are the same but for rounding.

A value has a *fingerprint*: an element of the field of the prime 2^61 - 1, in which sums, products
and quotients of floating-point numbers are those of the field, and everything else (what is loaded,
another instruction's result) is an element that a hash of its form and of the fingerprints of what
it is made of gives. Two values that are the same rational function of the same values have one
fingerprint, in whatever order and with whatever fused steps they are computed; others have the same
with a probability of about 2^-60 (Schwartz and Zippel). So lanes whose sums differ by rounding
alone are distinguished from those that sum other terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from titan.isa.simt.tracing.derived_values import (
    FORMATS,
    DerivedValues,
    InstructionForm,
    Rule,
    hash_of,
    known_float,
    mixed_bits,
)
from titan.isa.simt.tracing.traced_memory import ValueNumbers

PRIME = (1 << 61) - 1
_Terms = tuple[int, ...]
_ARITHMETIC: dict[str, Callable[[_Terms], int]] = {
    "add": lambda x: x[0] + x[1],
    "sub": lambda x: x[0] - x[1],
    "mul": lambda x: x[0] * x[1],
    "fma": lambda x: x[0] * x[1] + x[2],
    "mad": lambda x: x[0] * x[1] + x[2],
    "neg": lambda x: -x[0],
    "div": lambda x: x[0] * pow(x[1], -1, PRIME),
    "rcp": lambda x: pow(x[0], -1, PRIME),
}
_DIVISOR = {"div": 1, "rcp": 0}


_PACKED = {"f16x2": ("f16", 16), "bf16x2": ("bf16", 16), "f32x2": ("f32", 32)}  # of a half: bits
_MOVED_HALVES = {"mov.b32": 16, "mov.b64": 32}
# Of a byte of prmt's selector: half of which operand it gives.
_HALVES = {0x10: (0, 0), 0x32: (0, 1), 0x54: (1, 0), 0x76: (1, 1)}
# A conversion that rounds to an integer, or to what a format holds, gives another number.
_NOT_THE_NUMBER = {"sat", "satfinite", "relu", "rni", "rzi", "rmi", "rpi"}


class RealValues(DerivedValues[int]):
    """Fingerprints of values. Two halves of a register have a fingerprint each, as long as they are
    put together and taken apart as halves.
    """

    def __init__(self, numbers: ValueNumbers) -> None:
        super().__init__(numbers)
        # Halves by their bits and the whole; of a half its bits, its whole, and which half.
        self._halves: dict[tuple[int, int], tuple[int, int]] = {}
        self._wholes: dict[int, tuple[int, int, int]] = {}

    def hashed(self, *parts: object) -> int:
        """An element of the field."""
        return hash_of(*parts) % PRIME

    def mixed(self, seed: int, elements: Iterable[int]) -> int:
        """An element of the field, of those of the operands."""
        return mixed_bits(seed, elements) % PRIME

    def rule(self, form: InstructionForm, result: int) -> Rule[int] | None:
        """Of a floating-point sum, product or quotient, also of two in a register."""
        word, *words = form.name.split(".")
        kind = words[-1] if words else ""
        if word == "cvt":
            return partial(self._converted, words)
        if word in ("mov", "prmt"):
            return partial(self._arranged, form, result)
        if word == "selp" and kind in FORMATS:
            return partial(self._selected, kind)
        if word not in _ARITHMETIC or result or "sat" in words:
            return None
        if kind in FORMATS:
            return partial(self._computed_of, word, kind)
        return partial(self._packed, word, kind) if kind in _PACKED else None

    def follows(self, result: tuple[int, int], operands: tuple[int, ...]) -> bool:
        """As of any rule; of selections, those where two numbers are equal (`_selected`)."""
        found = super().follows(result, operands)
        if not found or len(operands) != 3 or not self.form(result[0]).name.startswith("selp."):
            return found
        return operands[2] >= 0 and self.rule_of(operands[2])[0].name.startswith("setp.eq.")

    def _computed_of(self, word: str, kind: str, operands: tuple[int, ...]) -> int | None:
        return _computed(word, [self._term(operand, kind) for operand in operands])

    def _packed(self, word: str, kind: str, operands: tuple[int, ...]) -> int | None:
        lower, upper = (
            _computed(word, [self._half_term(item, half, *_PACKED[kind]) for item in operands])
            for half in (0, 1)
        )
        return (
            None if lower is None or upper is None else self._pair(lower, upper, _PACKED[kind][1])
        )

    def _selected(self, kind: str, operands: tuple[int, ...]) -> int | None:
        """Of two numbers that differ by as much as two others, or by that with the other sign, the
        first where these are equal: it is the second one always.
        """
        given, made = (
            self.rule_of(operands[2]) if operands[2] >= 0 else (InstructionForm("", ()), ())
        )
        if given.name != f"setp.eq.{kind}" or len(made) != 2 or len(given.operands) != 3:
            return None
        first, second, one, other = (self._term(item, kind) for item in (*operands[:2], *made))
        apart, compared = (first - second) % PRIME, (one - other) % PRIME
        return second if apart in (compared, -compared % PRIME) else None

    def _converted(self, words: list[str], operands: tuple[int, ...]) -> int | None:
        """Between floating-point formats a number stays what it is, but for rounding; integers of
        16 bits are the lower half of those of 32.
        """
        made, given = words[-2:]
        if (made, given) == ("u32", "u16"):
            return self._pair(self._short(operands[0], 16), self._short(~0, 16), 16)
        if (made, given) == ("u16", "u32"):
            return self._half(operands[0], 0, 16)
        if given not in FORMATS or set(words) & _NOT_THE_NUMBER:
            return None
        terms = [self._term(operand, given) for operand in operands]
        if made in FORMATS and len(terms) == 1:
            return terms[0]
        if made not in _PACKED or len(terms) != 2:
            return None
        return self._pair(terms[1], terms[0], _PACKED[made][1])

    def _arranged(
        self, form: InstructionForm, result: int, operands: tuple[int, ...]
    ) -> int | None:
        """Halves of registers put together, taken apart, or exchanged."""
        if form.name in _MOVED_HALVES:
            taken, given = form.operands
            bits = _MOVED_HALVES[form.name]
            if isinstance(taken, tuple) and len(taken) == 2:
                return self._half(operands[0], result, bits)
            if isinstance(given, tuple) and len(given) == len(operands) == 2:
                lower, upper = (self._short(operand, bits) for operand in operands)
                return self._pair(lower, upper, bits)
        if form.name == "prmt.b32" and len(operands) == 3 and operands[2] < 0:
            low, high = (_HALVES.get(~operands[2] >> at & 0xFF) for at in (0, 8))
            if low is not None and high is not None:
                return self._pair(
                    self._half(operands[low[0]], low[1], 16),
                    self._half(operands[high[0]], high[1], 16),
                    16,
                )
        return None

    def _term(self, number: int, kind: str) -> int:
        """An operand of arithmetic; known bits are the number that they are in a format."""
        known = known_float(~number, kind) if number < 0 else None
        if known is None:
            return self.element(number)
        return known.numerator * pow(known.denominator, -1, PRIME) % PRIME

    def _short(self, number: int, bits: int) -> int:
        """An operand that is put into a half of so many bits."""
        if number >= 0:
            return self.element(number)
        return self.hashed("half", ~number & (1 << bits) - 1)

    def _half(self, number: int, half: int, bits: int) -> int:
        """Half of an operand, of so many bits."""
        if number < 0:
            return self._short(~(~number >> half * bits), bits)
        whole = self.element(number)
        if (bits, whole) in self._halves:
            return self._halves[bits, whole][half]
        found = self.hashed("half", bits, half, whole)
        self._wholes[found] = bits, whole, half
        return found

    def _half_term(self, number: int, half: int, kind: str, bits: int) -> int:
        if number < 0:
            return self._term(~(~number >> half * bits & (1 << bits) - 1), kind)
        return self._half(number, half, bits)

    def _pair(self, lower: int, upper: int, bits: int) -> int:
        """The element of a register of two halves of so many bits."""
        _, whole, half = self._wholes.get(lower, (0, 0, 1))
        found = self._wholes.get(lower), self._wholes.get(upper)
        if half == 0 and found == ((bits, whole, 0), (bits, whole, 1)):
            return whole
        pair = self.hashed("pair", bits, lower, upper)
        self._halves[bits, pair] = lower, upper
        return pair


def _computed(word: str, terms: list[int]) -> int | None:
    if word in _DIVISOR and not terms[_DIVISOR[word]] % PRIME:
        return None
    return _ARITHMETIC[word](tuple(terms)) % PRIME
