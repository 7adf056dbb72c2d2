"""Whether values of a traced run are the same for some inputs, tried with numbers.

Where lanes compare and select, as for the place of a maximum, they compute the same in other ways,
which no identity of sums shows. So what is loaded is given small numbers, that often are equal, and
sums, products, quotients, comparisons and selections are computed exactly; any other result is a
hash of what it is made of. Lanes that are the same in all samples are taken to be the same, which
is an assumption that has been tried. NaN and infinities are not among the samples.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

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

    def __init__(self, numbers: ValueNumbers) -> None:
        super().__init__(numbers)
        self._known: dict[tuple[int, str], Sample] = {}

    def hashed(self, *parts: object) -> Sample:
        """A small number for each sample."""
        return tuple(
            hash_of(at, *(part[at] if isinstance(part, tuple) and len(part) == SAMPLES else part
                          for part in parts)) % VALUES
            for at in range(SAMPLES)
        )  # fmt: skip

    def mixed(self, seed: int, elements: Iterable[Sample]) -> Sample:
        """A small number for each sample, of those of the operands."""
        columns = zip(*elements, strict=True)
        return tuple(mixed_bits(seed, map(hash, column)) % VALUES for column in columns) or (
            self.hashed("made", seed)
        )

    def rule(self, form: InstructionForm, result: int) -> Rule[Sample] | None:
        """Of arithmetic, comparison and selection."""
        word, *words = form.name.split(".")
        kind = words[-1] if words else ""
        if word == "setp":
            return self._comparison(words, kind, result)
        if kind == "pred" and word in (*_JOINED, "not"):
            return self._mapped(kind, operator.not_ if word == "not" else _JOINED[word])
        packed = kind.endswith("x2") or (word in _QUOTIENTS and kind not in FORMATS)
        if word not in _COMPUTED or result or packed or set(words) & set(_WHOLE):
            return None
        return self._mapped(kind, _COMPUTED[word])

    def _mapped(self, kind: str, function: Callable[..., object]) -> Rule[Sample]:
        """A function of the numbers of a sample."""

        def made(operands: tuple[int, ...]) -> Sample:
            terms = [self._terms(operand, kind) for operand in operands]
            return tuple(map(function, *terms))  # type: ignore[arg-type]

        return made

    def _comparison(self, words: Sequence[str], kind: str, result: int) -> Rule[Sample] | None:
        compare = _COMPARED.get(words[0])
        join = next((_JOINED[word] for word in words[1:] if word in _JOINED), None)
        if compare is None:
            return None

        def made(operands: tuple[int, ...]) -> Sample | None:
            if len(operands) != (2 if join is None else 3):
                return None
            terms = [self._terms(operand, kind) for operand in operands]
            holds = [bool(compare(a, b)) != bool(result) for a, b in zip(*terms[:2], strict=True)]
            if join is not None:
                third = map(bool, terms[2])
                holds = [bool(join(*pair)) for pair in zip(holds, third, strict=True)]
            return tuple(map(int, holds))

        return made

    def _terms(self, number: int, kind: str) -> Sample:
        """The samples of an operand; known bits are what they are in a type."""
        if number >= 0:
            return self.element(number)
        if (number, kind) not in self._known:
            self._known[number, kind] = (_known_number(~number, kind),) * SAMPLES
        return self._known[number, kind]


def _known_number(bits: int, kind: str) -> Fraction | int:
    if kind in FORMATS:
        value = known_float(bits, kind)
        if value is None:
            value = -BEYOND if bits >> 8 * FORMATS[kind][1] - 1 & 1 else BEYOND
        return int(value) if value.denominator == 1 else value
    width = int(kind[1:]) if kind[1:].isdigit() else 32
    signed = kind.startswith("s") and bits >> width - 1 & 1
    return bits - (1 << width) if signed else bits
