"""Whether values of a traced run are the same for some inputs, tried with numbers.

Where lanes compare and select, as for the place of a maximum, they compute the same in other ways,
which no identity of sums shows. So what is loaded is given small numbers, that often are equal, and
sums, products, quotients, comparisons and selections are computed exactly; any other result is a
hash of what it is made of. Lanes that are the same in all samples are taken to be the same, which
is an assumption that has been tried. NaN and infinities are not among the samples.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from fractions import Fraction

from titan.isa.simt.tracing.derived_values import (
    FORMATS,
    DerivedValues,
    InstructionForm,
    hash_of,
    known_float,
)

SAMPLES = 16
VALUES = 12  # that a sample has, from 0 on
BEYOND = Fraction(10**40)  # in place of an infinity
Sample = tuple[Fraction | int, ...]

_COMPARED: dict[str, Callable[..., object]] = {
    "eq": operator.eq, "equ": operator.eq, "ne": operator.ne, "neu": operator.ne,
    "lt": operator.lt, "ltu": operator.lt, "lo": operator.lt,
    "le": operator.le, "leu": operator.le, "ls": operator.le,
    "gt": operator.gt, "gtu": operator.gt, "hi": operator.gt,
    "ge": operator.ge, "geu": operator.ge, "hs": operator.ge,
    "num": lambda *_: True, "nan": lambda *_: False,
}  # fmt: skip
_JOINED = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
_COMPUTED: dict[str, Callable[..., Fraction | int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "fma": lambda a, b, c: a * b + c,
    "mad": lambda a, b, c: a * b + c,
    "neg": lambda a: -a,
    "abs": abs,
    "min": min,
    "max": max,
    "selp": lambda a, b, p: a if p else b,
    "div": lambda a, b: Fraction(a) / b if b else BEYOND,
    "rcp": lambda a: 1 / Fraction(a) if a else BEYOND,
}
_QUOTIENTS = ("div", "rcp")  # of integers they are rounded
_WHOLE = ("hi", "wide", "sat", "cc")  # forms of arithmetic that are not that of numbers


class SampledValues(DerivedValues[Sample]):
    """The samples of values."""

    def hashed(self, *parts: object) -> Sample:
        """A small number for each sample."""
        return tuple(
            hash_of(at, *(part[at] if isinstance(part, tuple) and len(part) == SAMPLES else part
                          for part in parts)) % VALUES
            for at in range(SAMPLES)
        )  # fmt: skip

    def arithmetic(
        self, form: InstructionForm, result: int, operands: tuple[int, ...]
    ) -> Sample | None:
        """Arithmetic, comparison and selection."""
        word, *words = form.name.split(".")
        kind = words[-1] if words else ""
        terms = [self._terms(operand, kind) for operand in operands]
        if word == "setp":
            return _compared(words, result, terms)
        if kind == "pred" and word in (*_JOINED, "not"):
            if word == "not":
                return tuple(int(not value) for value in terms[0])
            return tuple(map(_JOINED[word], *terms))
        packed = kind.endswith("x2") or (word in _QUOTIENTS and kind not in FORMATS)
        if word not in _COMPUTED or result or packed or set(words) & set(_WHOLE):
            return None
        return tuple(_COMPUTED[word](*values) for values in zip(*terms, strict=True))

    def _terms(self, number: int, kind: str) -> Sample:
        """The samples of an operand; known bits are what they are in a type."""
        if number >= 0:
            return self.element(number)
        bits = ~number
        if kind in FORMATS:
            value = known_float(bits, kind)
            if value is None:
                value = -BEYOND if bits >> 8 * FORMATS[kind][1] - 1 & 1 else BEYOND
            return (value,) * SAMPLES
        width = int(kind[1:]) if kind[1:].isdigit() else 32
        signed = kind.startswith("s") and bits >> width - 1 & 1
        return (bits - (1 << width) if signed else bits,) * SAMPLES


def _compared(words: Sequence[str], result: int, terms: Sequence[Sample]) -> Sample | None:
    compare = _COMPARED.get(words[0])
    join = next((_JOINED[word] for word in words[1:] if word in _JOINED), None)
    if compare is None or len(terms) != (2 if join is None else 3):
        return None
    holds = [bool(compare(a, b)) for a, b in zip(terms[0], terms[1], strict=True)]
    if result:
        holds = [not one for one in holds]
    if join is not None:
        holds = [bool(join(one, bool(other))) for one, other in zip(holds, terms[2], strict=True)]
    return tuple(map(int, holds))
