"""Numbers that grow with the trips through steps of which AMD instructions are made.

`titan.isa.simt.growth` says what a step of integers makes of numbers that grow; here are the forms
that instructions of AMD GPUs have: sums with their carries, fields, halves of a register.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from titan.isa.simt.arithmetic import function_of
from titan.isa.simt.growth import FIXED, Growth, through
from titan.isa.simt.operations import COMPARISONS, DecodedStep, Kind, Op

WORD = 0xFFFF_FFFF


class GrowingNumber(NamedTuple):
    """A number that is known, and how it grows."""

    value: int
    growth: Growth


Results = tuple[GrowingNumber, ...]  # the result, then the carry or condition where there is one
Whole = Callable[["Steps", list[GrowingNumber]], Results]  # of all numbers
Rule = Callable[
    ["Steps", list[GrowingNumber]], Results | None
]  # none where it is not of a known form


@cache
def _step(op: Op, bits: int, kind: Kind, flags: tuple[int, ...]) -> DecodedStep:
    return DecodedStep(op, kind=kind, bits=bits, flags=flags)


@cache
def _function(op: Op, bits: int, kind: Kind, flags: tuple[int, ...]) -> Callable[..., int]:
    return function_of(_step(op, bits, kind, flags))


class Steps:
    """Single steps, made by the instruction `site`."""

    def __init__(self, site: int) -> None:
        self.site = site

    def do(
        self, op: Op, bits: int, *given: GrowingNumber, kind: Kind = Kind.UNSIGNED,
        flags: tuple[int, ...] = (),
    ) -> GrowingNumber:  # fmt: skip
        """One step of integers."""
        values = [item.value for item in given]
        value = _function(op, bits, kind, flags)(*values)
        growths = [item.growth for item in given]
        if all(item is FIXED for item in growths):
            return GrowingNumber(value, FIXED)
        return GrowingNumber(
            value, through(_step(op, bits, kind, flags), self.site, values, growths)
        )

    def add(self, a: GrowingNumber, b: GrowingNumber, bits: int = 32) -> GrowingNumber:
        """a + b."""
        return self.do(Op.ADD, bits, a, b)

    def both(self, a: GrowingNumber, mask: int, bits: int = 32) -> GrowingNumber:
        """The bits of a mask."""
        return self.do(Op.AND, bits, a, GrowingNumber(mask, FIXED))

    def left(self, a: GrowingNumber, by: GrowingNumber, bits: int = 32) -> GrowingNumber:
        """Shifted to the left, by as much as the amount is below the width."""
        return self.do(Op.SHL, bits, a, self.both(by, bits - 1))

    def right(
        self, a: GrowingNumber, by: GrowingNumber, bits: int = 32, kind: Kind = Kind.UNSIGNED
    ) -> GrowingNumber:
        """Shifted to the right."""
        return self.do(Op.SHR, bits, a, self.both(by, bits - 1), kind=kind)

    def wide(self, a: GrowingNumber, kind: Kind = Kind.UNSIGNED, bits: int = 32) -> GrowingNumber:
        """As a number of 64 bits."""
        return self.do(Op.CVT, 64, a, kind=kind, flags=(kind, bits, 0, 64))

    def compare(
        self,
        word: str,
        a: GrowingNumber,
        b: GrowingNumber,
        bits: int = 32,
        kind: Kind = Kind.UNSIGNED,
    ) -> GrowingNumber:
        """0 or 1."""
        found = self.do(Op.SETP, bits, a, b, kind=kind, flags=(COMPARISONS.index(word), 0, 0, 0, 0))
        return GrowingNumber(found.value & 1, found.growth)

    def choose(
        self, condition: GrowingNumber, one: GrowingNumber, zero: GrowingNumber
    ) -> GrowingNumber:
        """The first where the condition is set."""
        return self.do(Op.SELP, 32, one, zero, condition)

    def pair(self, low: GrowingNumber, high: GrowingNumber) -> GrowingNumber:
        """Two words as one number."""
        return self.do(Op.PACK, 64, low, high, flags=(32,))

    def words(self, a: GrowingNumber) -> tuple[GrowingNumber, GrowingNumber]:
        """The two words of a number."""
        if a.growth is FIXED:
            return GrowingNumber(a.value & WORD, FIXED), GrowingNumber(a.value >> 32, FIXED)
        step = DecodedStep(Op.UNPACK, bits=64, flags=(32,), out=(0, 1))
        low, high = (through(step, self.site, [a.value], [a.growth], part) for part in (0, 1))
        return GrowingNumber(a.value & WORD, low), GrowingNumber(a.value >> 32, high)

    def set_unless_zero(self, a: GrowingNumber, bits: int = 32) -> GrowingNumber:
        """The condition code of results that are compared with 0."""
        return self.compare("ne", a, GrowingNumber(0, FIXED), bits)

    def signed_field(self, a: GrowingNumber, start: int, width: int) -> GrowingNumber:
        """`width` bits from `start` on, extended by their sign."""
        moved = self.do(Op.SHL, 32, a, GrowingNumber(32 - start - width, FIXED))
        return self.do(Op.SHR, 32, moved, GrowingNumber(32 - width, FIXED), kind=Kind.SIGNED)


def sum_of(steps: Steps, given: list[GrowingNumber]) -> Results:
    """a + b, and a carry that comes in; the carry out."""
    total = steps.add(given[0], given[1])
    wide = steps.add(steps.wide(given[0]), steps.wide(given[1]), 64)
    if len(given) > 2:
        total, wide = steps.add(total, given[2]), steps.add(wide, steps.wide(given[2]), 64)
    return total, steps.do(Op.SHR, 64, wide, GrowingNumber(32, FIXED))


def difference(steps: Steps, given: list[GrowingNumber]) -> Results:
    """a - b, less a carry that comes in; the carry out."""
    total, taken = steps.do(Op.SUB, 32, given[0], given[1]), steps.wide(given[1])
    if len(given) > 2:
        total = steps.do(Op.SUB, 32, total, given[2])
        taken = steps.add(taken, steps.wide(given[2]), 64)
    return total, steps.compare("gt", taken, steps.wide(given[0]), 64)


def with_overflow(op: Op) -> Whole:
    """A sum or difference of signed numbers; the condition is an overflow."""

    def rule(steps: Steps, given: list[GrowingNumber]) -> Results:
        wide = steps.do(op, 64, *(steps.wide(item, Kind.SIGNED) for item in given))
        low = steps.compare(
            "lt", wide, GrowingNumber(-(1 << 31) & (1 << 64) - 1, FIXED), 64, Kind.SIGNED
        )
        high = steps.compare("gt", wide, GrowingNumber((1 << 31) - 1, FIXED), 64, Kind.SIGNED)
        return steps.do(op, 32, *given), steps.do(Op.OR, 32, low, high)

    return rule


def plain(op: Op, bits: int = 32, kind: Kind = Kind.UNSIGNED) -> Whole:
    """One step of all operands."""
    return lambda steps, given: (steps.do(op, bits, *given, kind=kind),)


def tested(inner: Whole, bits: int = 32) -> Whole:
    """Of the scalar unit: the condition is whether the result is not 0."""

    def rule(steps: Steps, given: list[GrowingNumber]) -> Results:
        result = inner(steps, given)[0]
        return result, steps.set_unless_zero(result, bits)

    return rule


def inverted(inner: Whole) -> Whole:
    """The complement of what a rule makes."""
    return lambda steps, given: (steps.do(Op.NOT, 32, inner(steps, given)[0]),)


def shift(left: bool, bits: int = 32, kind: Kind = Kind.UNSIGNED, reverse: bool = False) -> Whole:
    """A shift; `reverse`: the amount comes first."""

    def rule(steps: Steps, given: list[GrowingNumber]) -> Results:
        value, by = (given[1], given[0]) if reverse else (given[0], given[1])
        return (steps.left(value, by, bits) if left else steps.right(value, by, bits, kind),)

    return rule


def shift_sum(by: int) -> Whole:
    """s_lshl1_add_u32 and the like: the condition is a carry."""

    def rule(steps: Steps, given: list[GrowingNumber]) -> Results:
        moved = steps.do(Op.SHL, 64, steps.wide(given[0]), GrowingNumber(by, FIXED))
        wide = steps.add(moved, steps.wide(given[1]), 64)
        total = steps.add(steps.do(Op.SHL, 32, given[0], GrowingNumber(by, FIXED)), given[1])
        return total, steps.compare("gt", wide, GrowingNumber(WORD, FIXED), 64)

    return rule


def extreme(op: Op, kind: Kind) -> Whole:
    """Of the scalar unit: the condition is whether it is the first, and not the second.

    Of a maximum it is open where both are equal: neither comparison may change.
    """

    def rule(steps: Steps, given: list[GrowingNumber]) -> Results:
        word = "lt" if op is Op.MIN else "gt"
        first = steps.compare(word, given[0], given[1], 32, kind)
        both = first
        if op is Op.MAX:
            both = steps.add(first, steps.compare("ge", given[0], given[1], 32, kind))
        return steps.do(op, 32, *given, kind=kind), GrowingNumber(first.value, both.growth)

    return rule


def _field(
    value: GrowingNumber, start: GrowingNumber, width: GrowingNumber, steps: Steps, bits: int = 32
) -> GrowingNumber:
    return steps.do(Op.BFE, bits, value, start, width)


def scalar_field(bits: int) -> Whole:
    """s_bfe_u32, s_bfe_u64: a field of which one operand names place and width."""

    def rule(steps: Steps, given: list[GrowingNumber]) -> Results:
        at = steps.both(given[1], bits - 1)
        width = steps.both(steps.right(given[1], GrowingNumber(16, FIXED)), 0x7F)
        found = _field(given[0], at, width, steps, bits)
        return found, steps.set_unless_zero(found, bits)

    return rule


def signed_scalar_field(steps: Steps, given: list[GrowingNumber]) -> Results | None:
    """s_bfe_i32, where the field is a constant."""
    field, growth = given[1]
    start, width = field & 31, field >> 16 & 0x7F
    if growth is not FIXED or not width or start + width > 32:
        return None
    found = steps.signed_field(given[0], start, width)
    return found, steps.set_unless_zero(found)


def signed_field(steps: Steps, given: list[GrowingNumber]) -> Results | None:
    (start, first), (width, second) = given[1:3]
    start, width = start & 31, width & 31
    if first is not FIXED or second is not FIXED or not width or start + width > 32:
        return None
    return (steps.signed_field(given[0], start, width),)


def bit_test(bits: int, inverted: bool) -> Whole:
    """Whether one bit is set, or is not."""

    def rule(steps: Steps, given: list[GrowingNumber]) -> Results:
        found = _field(
            given[0], steps.both(given[1], bits - 1), GrowingNumber(1, FIXED), steps, bits
        )
        return (steps.do(Op.XOR, 32, found, GrowingNumber(1, FIXED)) if inverted else found,)

    return rule


def comparison(word: str, bits: int, kind: Kind, narrow: bool = False) -> Whole:
    """Of 16 bits: as those of 32 whose high half they are."""

    def rule(steps: Steps, given: list[GrowingNumber]) -> Results:
        a, b = given[:2]
        if narrow:
            a, b = (steps.do(Op.SHL, 32, item, GrowingNumber(16, FIXED)) for item in (a, b))
        return (steps.compare(word, a, b, bits, kind),)

    return rule


def halves(inner: Whole, reads: bool = True) -> Whole:
    """Of the low 16 bits; the high ones of the result are 0."""

    def rule(steps: Steps, given: list[GrowingNumber]) -> Results:
        taken = [steps.both(item, 0xFFFF) for item in given] if reads else given
        return (steps.both(inner(steps, taken)[0], 0xFFFF),)

    return rule


def product_of_24(steps: Steps, given: list[GrowingNumber]) -> Results:
    """Of the low 24 bits, and a summand."""
    a, b = (steps.both(item, 0xFF_FFFF) for item in given[:2])
    product = steps.do(Op.MUL_LOW, 32, a, b)
    return (steps.add(product, given[2]) if len(given) > 2 else product,)


def two(first: Whole, second: Whole, early: int = 2) -> Whole:
    """An instruction of three operands: the first rule on two of them, the second on the rest."""

    def rule(steps: Steps, given: list[GrowingNumber]) -> Results:
        return second(steps, [*first(steps, given[:early]), *given[early:]])

    return rule
