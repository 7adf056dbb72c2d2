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

from collections.abc import Callable

from titan.isa.simt.tracing.derived_values import FORMATS, DerivedValues, hash_of, known_float

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


class RealValues(DerivedValues[int]):
    """Fingerprints of values."""

    def hashed(self, *parts: object) -> int:
        """An element of the field."""
        return hash_of(*parts) % PRIME

    def arithmetic(self, name: str, result: int, operands: tuple[int, ...]) -> int | None:
        """The element of a floating-point sum, product or quotient."""
        word, _, rest = name.partition(".")
        kind = rest.rpartition(".")[2]
        if word not in _ARITHMETIC or kind not in FORMATS or result or "sat" in rest:
            return None
        terms = tuple(self._term(operand, kind) for operand in operands)
        if word in _DIVISOR and not terms[_DIVISOR[word]] % PRIME:
            return None
        return _ARITHMETIC[word](terms) % PRIME

    def _term(self, number: int, kind: str) -> int:
        known = known_float(~number, kind) if number < 0 else None
        if known is None:
            return self.element(number)
        return known.numerator * pow(known.denominator, -1, PRIME) % PRIME
