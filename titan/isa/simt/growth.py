"""Numbers of a run that represents many: how each depends on rounds that are put in.

A run of N trips represents those of N + k * P trips, k = 0, 1, 2, ..., in which every loop makes
more rounds. A number of the run is `c + a * j + b * k` in them, where c is what the run has and j,
0 <= j <= k, counts the periods that were put in where the number is made. Numbers are integers
modulo 2 to the width of their register, so sums and multiples keep this form by themselves. What
reads a number as signed or unsigned (comparisons, shifts to the right, extensions) keeps it only
while no wrap occurs; up to which k that is, is the `limit` of what comes out. A result that is not
of the form has the limit 0: it is known for k = 0 alone.

One function, `through`, says what an instruction makes of numbers that grow; what it does not know
has the limit 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from titan.isa.simt.arithmetic import signed
from titan.isa.simt.operations import COMPARISONS, DecodedStep, Kind, Op
from titan.isa.simt.values import Scalar

ENDLESS = 1 << 80  # a limit that no launch reaches


class Growth(NamedTuple):
    """The number is c + a * j + b * k for all 0 <= j <= k <= limit; c stands with the value.

    `site`: the instruction that set the limit, or -1.
    """

    a: int
    b: int
    limit: int = ENDLESS
    site: int = -1

    @property
    def fixed(self) -> bool:
        """Whether it is the same number in all runs up to the limit."""
        return self.a == 0 and self.b == 0


FIXED = Growth(0, 0)


def unknown(site: int) -> Growth:
    """Of a number that is known in the run itself alone."""
    return Growth(0, 0, 0, site)


def centred(slope: int, bits: int) -> int:
    """The representative of least size modulo 2 to the bits."""
    slope &= (1 << bits) - 1
    return slope - (1 << bits) if slope >> (bits - 1) else slope


def reach(c: int, a: int, b: int, low: int, high: int) -> int:
    """The greatest k such that low <= c + a * j + b * i <= high for all 0 <= j <= i <= k; or -1."""
    if not low <= c <= high:
        return -1
    limit = ENDLESS
    for slope in (b, a + b):  # j = 0 and j = i: all others lie between
        if slope > 0:
            limit = min(limit, (high - c) // slope)
        elif slope < 0:
            limit = min(limit, (c - low) // -slope)
    return limit


def _least(site: int, limit: int, *operands: Growth) -> tuple[int, int]:
    """The least of a limit that an instruction sets and those of its operands, and where from."""
    found = (limit, site if limit < ENDLESS else -1)
    for operand in operands:
        if operand.limit < found[0]:
            found = (operand.limit, operand.site)
    return found


class _Number(NamedTuple):
    """A value read as signed or unsigned, with its slopes and how far it does not wrap."""

    c: int
    a: int
    b: int
    limit: int


def _read(value: int, growth: Growth, bits: int, is_signed: bool) -> _Number:
    a, b = centred(growth.a, bits), centred(growth.b, bits)
    c = centred(value, bits) if is_signed else value & ((1 << bits) - 1)
    return _Number(c, a, b, reach(c, a, b, *_range(bits, is_signed)))


def _range(bits: int, is_signed: bool) -> tuple[int, int]:
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)


def through(
    step: DecodedStep, site: int, values: Sequence[Scalar], growths: Sequence[Growth], part: int = 0
) -> Growth:
    """What a step makes of operands, of which at least one is not FIXED, where the result is known.

    `part`: which result, of an instruction with several.
    """
    rule = _RULES.get(step.op)
    if step.op is Op.SELP:
        return _chosen(values, growths, site)
    if rule is None or step.kind in (Kind.FLOAT, Kind.BFLOAT):
        return _if_fixed(site, growths)
    known = [value for value in values if isinstance(value, int)]
    if len(known) < len(values):  # something known decides alone
        return _if_fixed(site, growths)
    return rule(step, site, known, growths, part)


def _if_fixed(site: int, growths: Sequence[Growth]) -> Growth:
    """Of any function: fixed as far as its operands are."""
    if all(item.fixed for item in growths):
        limit, where = _least(site, ENDLESS, *growths)
        return Growth(0, 0, limit, where)
    return unknown(site)


Rule = Callable[[DecodedStep, int, Sequence[int], Sequence[Growth], int], Growth]


def _same(
    step: DecodedStep, site: int, values: Sequence[int], growths: Sequence[Growth], part: int
) -> Growth:
    return growths[0]


def _sum(
    step: DecodedStep, site: int, values: Sequence[int], growths: Sequence[Growth], part: int
) -> Growth:
    sign = -1 if step.op is Op.SUB else 1
    first, second = growths[0], growths[1]
    limit, where = _least(site, ENDLESS, first, second)
    a, b = first.a + sign * second.a, first.b + sign * second.b
    return Growth(centred(a, step.bits), centred(b, step.bits), limit, where)


def _negated(
    step: DecodedStep, site: int, values: Sequence[int], growths: Sequence[Growth], part: int
) -> Growth:
    """-x, and ~x, which is -x - 1."""
    item = growths[0]
    return item._replace(a=centred(-item.a, step.bits), b=centred(-item.b, step.bits))


def _product(
    step: DecodedStep, site: int, values: Sequence[int], growths: Sequence[Growth], part: int
) -> Growth:
    """Products of a number and one that is fixed, with or without a summand."""
    if all(item.fixed for item in growths):
        return _if_fixed(site, growths)
    wide = step.op in (Op.MUL_WIDE, Op.MAD_WIDE)
    bits = 2 * step.bits if wide else step.bits
    first, second = growths[0], growths[1]
    which = 0 if not first.fixed else 1
    if not growths[1 - which].fixed or step.flags:  # mul24 takes no more than 24 bits
        return unknown(site)
    is_signed = step.kind is Kind.SIGNED
    number = _read(values[which], growths[which], step.bits, is_signed)
    other = _read(values[1 - which], FIXED, step.bits, is_signed)
    limit, where = _least(site, number.limit if wide else ENDLESS, first, second)
    a, b = number.a * other.c, number.b * other.c
    if step.op is Op.MUL_HIGH:
        product = _Number(number.c * other.c, a, b, number.limit)
        found = _divided(product, 1 << bits, site, growths[which], bits)
        limit, where = _least(found.site, found.limit, growths[1 - which])
        return found._replace(limit=limit, site=where)
    if len(growths) > 2:
        limit, where = _least(where, limit, growths[2])
        a, b = a + growths[2].a, b + growths[2].b
    return Growth(centred(a, bits), centred(b, bits), limit, where)


def _shifted_left(
    step: DecodedStep, site: int, values: Sequence[int], growths: Sequence[Growth], part: int
) -> Growth:
    if not growths[1].fixed:
        return unknown(site)
    limit, where = _least(site, ENDLESS, *growths)
    if values[1] >= step.bits:
        return Growth(0, 0, limit, where)
    a, b = growths[0].a << values[1], growths[0].b << values[1]
    return Growth(centred(a, step.bits), centred(b, step.bits), limit, where)


def _divided(number: _Number, divisor: int, site: int, growth: Growth, bits: int) -> Growth:
    """Rounded down: each slope is a multiple of the divisor and a rest, and it holds as long as the
    rests together stay below the next multiple.

    So a division by multiplication (by 2^33 / 3, a little more) is followed, too.
    """
    (a, rest_a), (b, rest_b) = _nearest(number.a, divisor), _nearest(number.b, divisor)
    low = number.c // divisor * divisor
    within = reach(number.c, rest_a, rest_b, low, low + divisor - 1)
    limit, where = _least(site, min(number.limit, within), growth)
    return Growth(centred(a, bits), centred(b, bits), limit, where)


def _nearest(slope: int, divisor: int) -> tuple[int, int]:
    """The nearest multiple, and the rest."""
    quotient = (slope + divisor // 2) // divisor
    return quotient, slope - quotient * divisor


def _shifted_right(
    step: DecodedStep, site: int, values: Sequence[int], growths: Sequence[Growth], part: int
) -> Growth:
    if not growths[1].fixed:
        return unknown(site)
    if growths[0].fixed:
        return _if_fixed(site, growths)
    number = _read(values[0], growths[0], step.bits, step.kind is Kind.SIGNED)
    amount = min(values[1], step.bits)
    found = _divided(number, 1 << amount, site, growths[0], step.bits)
    limit, where = _least(found.site, found.limit, growths[1])
    return found._replace(limit=limit, site=where)


def _quotient(
    step: DecodedStep, site: int, values: Sequence[int], growths: Sequence[Growth], part: int
) -> Growth:
    """Quotient and remainder by a fixed positive number, while the dividend is not negative."""
    if growths[0].fixed and growths[1].fixed:
        return _if_fixed(site, growths)
    number = _read(values[0], growths[0], step.bits, step.kind is Kind.SIGNED)
    if not growths[1].fixed:
        divisor = _read(values[1], growths[1], step.bits, step.kind is Kind.SIGNED)
        return _quotient_that_stays(step, site, number, divisor, growths)
    by = _read(values[1], FIXED, step.bits, step.kind is Kind.SIGNED).c
    if by <= 0 or number.c < 0:
        return unknown(site)
    positive = reach(number.c, number.a, number.b, 0, 1 << step.bits)
    number = number._replace(limit=min(number.limit, positive))
    limit, where = _least(site, number.limit, *growths)
    if step.op is Op.DIV:
        found = _divided(number, by, site, growths[0], step.bits)
        return found._replace(limit=min(limit, found.limit))
    if number.a % by == 0 and number.b % by == 0:
        return Growth(0, 0, limit, where)
    quotient = _divided(number, by, site, growths[0], step.bits)
    limit, where = _least(site, min(limit, quotient.limit), growths[0])
    a, b = number.a - by * quotient.a, number.b - by * quotient.b
    return Growth(a, b, limit, where)


def _quotient_that_stays(
    step: DecodedStep, site: int, number: _Number, by: _Number, growths: Sequence[Growth]
) -> Growth:
    """By a number that grows, as the rows of a head do: while the quotient is what it is now."""
    if by.c <= 0 or number.c < 0:
        return unknown(site)
    quotient = number.c // by.c
    c, a, b = (mine - quotient * other for mine, other in zip(number[:3], by[:3], strict=True))
    below = reach(by.c - c, by.a - a, by.b - b, 1, ENDLESS)
    positive = reach(number.c, number.a, number.b, 0, ENDLESS)
    stays = min(number.limit, by.limit, positive, reach(c, a, b, 0, ENDLESS), below)
    limit, where = _least(site, stays, *growths)
    return Growth(0, 0, limit, where) if step.op is Op.DIV else Growth(a, b, limit, where)


def _bitwise(
    step: DecodedStep, site: int, values: Sequence[int], growths: Sequence[Growth], part: int
) -> Growth:
    """With a fixed number: the bits below the slopes are fixed, those above go through or not."""
    if growths[0].fixed and growths[1].fixed:
        return _decided(step, site, values, growths)
    which = 0 if not growths[0].fixed else 1
    if not growths[1 - which].fixed:
        return unknown(site)
    item, other = growths[which], values[1 - which]
    limit, where = _least(site, ENDLESS, *growths)
    a, b = centred(item.a, step.bits), centred(item.b, step.bits)
    low = _zeros(a | b)
    above, ones = other >> low, (1 << (step.bits - low)) - 1 if low < step.bits else 0
    if (step.op is Op.AND and above == 0) or (step.op is Op.OR and above == ones):
        return Growth(0, 0, limit, where)
    if (step.op is Op.AND and above == ones) or (step.op is not Op.AND and above == 0):
        return Growth(a, b, limit, where)
    return _bits_within(step, site, values[which], item, other, limit)


def _decided(
    step: DecodedStep, site: int, values: Sequence[int], growths: Sequence[Growth]
) -> Growth:
    """Of fixed numbers: as far as both are, or one that decides alone."""
    both = _if_fixed(site, growths)
    alone = {Op.AND: 0, Op.OR: (1 << step.bits) - 1}.get(step.op)
    deciding = [item for value, item in zip(values, growths, strict=True) if value == alone]
    return max([both, *deciding], key=lambda item: item.limit)


def _bits_within(
    step: DecodedStep, site: int, value: int, item: Growth, other: int, limit: int
) -> Growth:
    """AND with bits in a row that hold all of the number for now but its lowest ones, as compilers
    write multiples (`n & 0x1ffffffc`), or with higher bits alone."""
    if step.op is not Op.AND:
        return unknown(site)
    number, low = _read(value, item, step.bits, False), _zeros(other)
    found = unknown(site)
    row = other >> low
    if row & (row + 1) == 0:
        within = reach(number.c, number.a, number.b, 0, other | ((1 << low) - 1))
        number = number._replace(limit=min(limit, number.limit, within))
        rounded = _divided(number, 1 << low, site, item, step.bits)
        if rounded.limit > 0:
            a, b = rounded.a << low, rounded.b << low
            found = Growth(centred(a, step.bits), centred(b, step.bits), rounded.limit, site)
    start = number.c >> low << low
    within = reach(number.c, number.a, number.b, start, start + (1 << low) - 1)
    within = min(limit, number.limit, within)
    return Growth(0, 0, within, site) if within > found.limit else found


def _zeros(number: int) -> int:
    """How often two divides a number that is not 0."""
    return (number & -number).bit_length() - 1 if number else 1 << 10


def _extracted(
    step: DecodedStep, site: int, values: Sequence[int], growths: Sequence[Growth], part: int
) -> Growth:
    """bfe without a sign: shifted to the right, then the lowest bits."""
    if step.kind is Kind.SIGNED or not (growths[1].fixed and growths[2].fixed):
        return _if_fixed(site, growths)
    place, length = values[1] & 255, values[2] & 255
    right = DecodedStep(Op.SHR, kind=Kind.UNSIGNED, bits=step.bits)
    shifted = _shifted_right(right, site, (values[0], place), growths[:2], 0)
    mask = (1 << min(length, step.bits)) - 1
    lowest = DecodedStep(Op.AND, kind=Kind.UNSIGNED, bits=step.bits)
    value = values[0] >> place if place < step.bits else 0
    return _bitwise(lowest, site, (value, mask), (shifted, growths[2]), 0)


def _chosen(values: Sequence[Scalar], growths: Sequence[Growth], site: int) -> Growth:
    """selp: the one that the predicate names while that is fixed."""
    predicate = values[2]
    if not isinstance(predicate, int) or not growths[2].fixed:
        return unknown(site)
    taken = growths[0] if predicate & 1 else growths[1]
    limit, where = _least(taken.site, taken.limit, growths[2])
    return taken._replace(limit=limit, site=where)


def _extreme(
    step: DecodedStep, site: int, values: Sequence[int], growths: Sequence[Growth], part: int
) -> Growth:
    """min and max: the one that is the least or the greatest now, while it stays so."""
    if step.flags:  # .relu: and then the greater one of that and 0
        inner = replace(step, flags=())
        chosen = min if step.op is Op.MIN else max
        value = chosen(*values, key=lambda a: signed(a, step.bits))
        found = _extreme(inner, site, values, growths, part)
        outer = replace(inner, op=Op.MAX)
        return _extreme(outer, site, (value, 0), (found, FIXED), part)
    is_signed = step.kind is Kind.SIGNED
    first, second = (
        _read(value, growth, step.bits, is_signed)
        for value, growth in zip(values, growths, strict=True)
    )
    sign = 1 if step.op is Op.MIN else -1
    less = sign * (second.c - first.c) >= 0
    taken, near, far = (0, first, second) if less else (1, second, first)
    stays = reach(
        sign * (far.c - near.c), sign * (far.a - near.a), sign * (far.b - near.b), 0, ENDLESS
    )
    limit, where = _least(site, min(first.limit, second.limit, stays), *growths)
    return Growth(growths[taken].a, growths[taken].b, limit, where)


def _converted(
    step: DecodedStep, site: int, values: Sequence[int], growths: Sequence[Growth], part: int
) -> Growth:
    from_kind, from_bits, saturate, register = step.flags
    if from_kind in (Kind.FLOAT, Kind.BFLOAT):
        return _if_fixed(site, growths)
    item = growths[0]
    number = _read(values[0], item, from_bits, from_kind == Kind.SIGNED)
    limit, where = _least(site, ENDLESS, item)
    wide = max(step.bits, register)
    if step.bits > from_bits or saturate:
        limit, where = _least(site, number.limit, item)
    is_signed = step.kind is Kind.SIGNED
    if saturate:  # while nothing is cut off
        within = reach(number.c, number.a, number.b, *_range(step.bits, is_signed))
        if within < 0:
            return unknown(site)
        limit, where = _least(site, min(limit, within), item)
        return Growth(centred(number.a, wide), centred(number.b, wide), limit, where)
    if register > step.bits:
        result = _read(number.c, Growth(number.a, number.b), step.bits, is_signed)
        limit, where = _least(site, min(limit, result.limit), item)
        return Growth(result.a, result.b, limit, where)
    return Growth(centred(number.a, wide), centred(number.b, wide), limit, where)


def _packed(
    step: DecodedStep, site: int, values: Sequence[int], growths: Sequence[Growth], part: int
) -> Growth:
    """mov of parts to a whole: no part but the highest may carry."""
    (bits,) = step.flags
    a = b = 0
    limit, where = _least(site, ENDLESS, *growths)
    for place, (value, growth) in enumerate(zip(values, growths, strict=True)):
        number = _read(value, growth, bits, False)
        if place < len(values) - 1:
            limit, where = _least(site, number.limit, Growth(0, 0, limit, where))
        a, b = a + (number.a << bits * place), b + (number.b << bits * place)
    whole = bits * len(values)
    return Growth(centred(a, whole), centred(b, whole), limit, where)


def _unpacked(
    step: DecodedStep, site: int, values: Sequence[int], growths: Sequence[Growth], part: int
) -> Growth:
    """A part of a whole: what is below it may not carry."""
    bits, whole = step.flags[0], step.flags[0] * len(step.out)
    if growths[0].fixed:
        return _if_fixed(site, growths)
    number = _read(values[0], growths[0], whole, False)
    found = growths[0]
    if part:
        found = _divided(number._replace(limit=ENDLESS), 1 << bits * part, site, growths[0], whole)
    return found._replace(a=centred(found.a, bits), b=centred(found.b, bits))


def _compared(
    step: DecodedStep, site: int, values: Sequence[int], growths: Sequence[Growth], part: int
) -> Growth:
    """setp and set: fixed while the difference keeps its sign."""
    word = COMPARISONS[step.flags[0]]
    is_signed = step.kind is Kind.SIGNED and word not in ("lo", "ls", "hi", "hs")
    first = _read(values[0], growths[0], step.bits, is_signed)
    second = _read(values[1], growths[1], step.bits, is_signed)
    c, a, b = first.c - second.c, first.a - second.a, first.b - second.b
    low, high = (-ENDLESS, -1) if c < 0 else (1, ENDLESS) if c > 0 else (0, 0)
    if word in ("lt", "lo", "ge", "hs") and c >= 0:  # equal counts with what is greater
        low, high = 0, ENDLESS
    elif word in ("le", "ls", "gt", "hi") and c <= 0:
        low, high = -ENDLESS, 0
    stays = reach(c, a, b, low, high)
    limit, where = _least(site, min(first.limit, second.limit, stays), *growths)
    if len(growths) > 2 and not growths[2].fixed:
        return unknown(site)
    return Growth(0, 0, limit, where)


_RULES: dict[Op, Rule] = {
    Op.MOV: _same,
    Op.ADD: _sum,
    Op.SUB: _sum,
    Op.NEG: _negated,
    Op.NOT: _negated,
    Op.MUL_LOW: _product,
    Op.MUL_WIDE: _product,
    Op.MUL_HIGH: _product,
    Op.MAD_LOW: _product,
    Op.MAD_WIDE: _product,
    Op.SHL: _shifted_left,
    Op.SHR: _shifted_right,
    Op.DIV: _quotient,
    Op.REM: _quotient,
    Op.AND: _bitwise,
    Op.OR: _bitwise,
    Op.XOR: _bitwise,
    Op.BFE: _extracted,
    Op.MIN: _extreme,
    Op.MAX: _extreme,
    Op.CVT: _converted,
    Op.PACK: _packed,
    Op.UNPACK: _unpacked,
    Op.SETP: _compared,
    Op.SET: _compared,
    Op.TO_GENERIC: _same,
    Op.FROM_GENERIC: _same,
}
