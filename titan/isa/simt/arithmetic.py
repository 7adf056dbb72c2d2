"""What an instruction computes from known integers: one function for each decoded step.

Values are non-negative integers, masked to the width of the instruction. What PTX leaves open
(`undefined_results.py`) is not asked for. Floating-point arithmetic is exact
rounding to nearest even of binary32 and binary64; other forms are decoded as OPAQUE.
"""

from __future__ import annotations

from collections.abc import Callable

from titan.isa.simt import floats
from titan.isa.simt.operations import COMPARISONS, INTEGER_ROUNDINGS, DecodedStep, Kind, Op

Function = Callable[..., int]


def signed(value: int, bits: int) -> int:
    """The value of a two's complement number."""
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def _mask(bits: int) -> int:
    return (1 << bits) - 1


def function_of(step: DecodedStep) -> Function:
    """The function of a step of integers (or of f32 and f64) to the bits of its result.

    SETP gives p in bit 0 and q in bit 1, CARRIED the carry above the word. Raises KeyError for what
    is not arithmetic.
    """
    if step.kind is Kind.FLOAT and step.op in floats.FUNCTIONS:
        return floats.function_of(step)
    if step.op in (Op.SETP, Op.SET):
        return _comparison(step)
    return _MAKERS[step.op](step)


# ------------------------------------------------------------------------- sums, products


def _wrapped(make: Callable[[int, int], int]) -> Callable[[DecodedStep], Function]:
    def maker(step: DecodedStep) -> Function:
        mask = _mask(step.bits)
        return lambda a, b: make(a, b) & mask

    return maker


def _multiply(step: DecodedStep) -> Function:
    bits, mask = step.bits, _mask(step.bits)
    narrow = bits
    both = step.op in (Op.MAD_LOW, Op.MAD_HIGH, Op.MAD_WIDE)
    is_signed = step.kind is Kind.SIGNED
    shift = bits if step.op in (Op.MUL_HIGH, Op.MAD_HIGH) else 0
    if step.op in (Op.MUL_WIDE, Op.MAD_WIDE):
        mask = _mask(2 * bits)

    def product(a: int, b: int) -> int:
        if is_signed:
            a, b = signed(a, narrow), signed(b, narrow)
        return a * b >> shift

    if both:
        return lambda a, b, c: (product(a, b) + c) & mask
    return lambda a, b: product(a, b) & mask


def _carried(step: DecodedStep) -> Function:
    """A sum of several words: its word, and above it the carry (of a difference the borrow)."""
    word, adds = step.flags
    bits, mask, whole = step.bits, _mask(step.bits), _mask(step.bits + 1)
    is_signed = step.kind is Kind.SIGNED

    def product(a: int, b: int) -> int:
        if is_signed:
            a, b = signed(a, bits), signed(b, bits)
        return (a * b >> (bits if word == Op.MAD_HIGH else 0)) & mask

    def function(*values: int) -> int:
        carry = values[-1] & 1 if adds else 0
        if word == Op.SUB:
            return (values[0] - values[1] - carry) & whole
        if word == Op.ADD:
            return values[0] + values[1] + carry
        return product(values[0], values[1]) + values[2] + carry

    return function


def _divide(step: DecodedStep) -> Function:
    bits, mask = step.bits, _mask(step.bits)
    remainder = step.op is Op.REM

    def function(a: int, b: int) -> int:
        if step.kind is not Kind.SIGNED:
            return a % b if remainder else a // b
        left, right = signed(a, bits), signed(b, bits)
        quotient = abs(left) // abs(right)
        if (left < 0) != (right < 0):
            quotient = -quotient
        return (left - quotient * right if remainder else quotient) & mask

    return function


def _ordered(step: DecodedStep) -> Function:
    bits = step.bits
    key: Callable[[int], int] = (
        (lambda a: signed(a, bits)) if step.kind is Kind.SIGNED else (lambda a: a)
    )
    chosen = min if step.op is Op.MIN else max
    if step.flags:  # .relu: what is negative becomes 0
        return lambda a, b: max(chosen(a, b, key=key), 0, key=key)
    return lambda a, b: chosen(a, b, key=key)


def _absolute(step: DecodedStep) -> Function:
    bits, mask = step.bits, _mask(step.bits)
    return lambda a: abs(signed(a, bits)) & mask


def _distance(step: DecodedStep) -> Function:
    bits, mask = step.bits, _mask(step.bits)
    if step.kind is Kind.SIGNED:
        return lambda a, b, c: (abs(signed(a, bits) - signed(b, bits)) + c) & mask
    return lambda a, b, c: (abs(a - b) + c) & mask


# --------------------------------------------------------------------------- bits and shifts


def _shift(step: DecodedStep) -> Function:
    bits, mask = step.bits, _mask(step.bits)
    if step.op is Op.SHL:
        return lambda a, b: (a << b) & mask if b < bits else 0
    if step.kind is Kind.SIGNED:
        return lambda a, b: (signed(a, bits) >> min(b, bits - 1)) & mask
    return lambda a, b: a >> b if b < bits else 0


def _funnel(step: DecodedStep) -> Function:
    right, clamp = step.flags

    def function(a: int, b: int, c: int) -> int:
        n = min(c, 32) if clamp else c & 31
        both = b << 32 | a
        return (both >> n if right else both << n >> 32) & 0xFFFFFFFF

    return function


def _extract(step: DecodedStep) -> Function:
    bits, mask = step.bits, _mask(step.bits)
    is_signed = step.kind is Kind.SIGNED

    def function(a: int, b: int, c: int) -> int:
        place, length = b & 255, c & 255
        if length == 0:
            return 0
        field = (a >> place) & _mask(length)
        last = min(place + length - 1, bits - 1)
        if is_signed and a >> last & 1:
            field |= (mask << max(0, last - place + 1)) & mask
        return field & mask

    return function


def _insert(step: DecodedStep) -> Function:
    mask = _mask(step.bits)

    def function(a: int, b: int, c: int, d: int) -> int:
        place, length = c & 255, d & 255
        field = (_mask(length) << place) & mask
        return (b & ~field) | ((a << place) & field)

    return function


def _reverse(step: DecodedStep) -> Function:
    bits = step.bits
    return lambda a: int(format(a, f"0{bits}b")[::-1], 2)


def _find(step: DecodedStep) -> Function:
    bits, (amount,) = step.bits, step.flags

    def function(a: int) -> int:
        if step.kind is Kind.SIGNED and a >> (bits - 1):
            a = ~a & _mask(bits)
        place = a.bit_length() - 1
        if place < 0:
            return 0xFFFFFFFF
        return bits - 1 - place if amount else place

    return function


def select_bytes(mode: int, c: int) -> tuple[int, ...]:
    """The four selectors of prmt: index of a byte, and 8 for "its sign"."""
    n = c & 3
    if mode == 0:
        return tuple(c >> 4 * i & 15 for i in range(4))
    if mode == 1:
        return tuple((n + i) & 7 for i in range(4))
    if mode == 2:
        return tuple((n - i) & 7 for i in range(4))
    if mode == 3:
        return (n, n, n, n)
    if mode == 4:
        return tuple(max(n, i) for i in range(4))
    if mode == 5:
        return tuple(min(n, i) for i in range(4))
    low = 2 * (n & 1)
    return (low, low + 1, low, low + 1)


def _permute(step: DecodedStep) -> Function:
    (mode,) = step.flags

    def function(a: int, b: int, c: int) -> int:
        both, result = b << 32 | a, 0
        for place, selector in enumerate(select_bytes(mode, c)):
            byte = both >> 8 * (selector & 7) & 255
            if selector & 8:
                byte = 255 if byte & 128 else 0
            result |= byte << 8 * place
        return result

    return function


def _lookup(step: DecodedStep) -> Function:
    (table,) = step.flags
    mask = _mask(step.bits)

    def function(a: int, b: int, c: int) -> int:
        result = 0
        for index in range(8):
            if table >> index & 1:
                term = a if index & 4 else ~a
                term &= b if index & 2 else ~b
                term &= c if index & 1 else ~c
                result |= term
        return result & mask

    return function


def _bit_mask(step: DecodedStep) -> Function:
    (wrap,) = step.flags

    def function(a: int, b: int) -> int:
        if wrap:
            a, b = a & 31, b & 31
        if a >= 32:
            return 0
        return (_mask(min(b, 32)) << a) & 0xFFFFFFFF

    return function


def _extend(step: DecodedStep) -> Function:
    (wrap,) = step.flags

    def function(a: int, b: int) -> int:
        length = b & 31 if wrap else min(b, 32)
        field = a & _mask(length)
        if step.kind is Kind.SIGNED and length and field >> (length - 1):
            field |= 0xFFFFFFFF & ~_mask(length)
        return field

    return function


def _nth_set(step: DecodedStep) -> Function:
    """fns: the n-th set bit of a mask from a base."""

    def function(a: int, base: int, offset: int) -> int:
        distance = signed(offset, 32)
        base &= 31
        if distance == 0:
            return base if a >> base & 1 else 0xFFFFFFFF
        step_ = 1 if distance > 0 else -1
        place, left = base, abs(distance)
        while 0 <= place < 32:
            if a >> place & 1:
                left -= 1
                if left == 0:
                    return place
            place += step_
        return 0xFFFFFFFF

    return function


# ----------------------------------------------------------- comparisons and conversions


def compare(word: str, a: int, b: int) -> bool:
    """An ordered comparison of two numbers."""
    if word in ("eq", "equ"):
        return a == b
    if word in ("ne", "neu"):
        return a != b
    if word in ("lt", "lo", "ltu"):
        return a < b
    if word in ("le", "ls", "leu"):
        return a <= b
    if word in ("gt", "hi", "gtu"):
        return a > b
    return a >= b


def _comparison(step: DecodedStep) -> Function:
    comparison, combination, negated, float_result, flush = step.flags
    word, bits = COMPARISONS[comparison], step.bits
    is_signed = step.kind is Kind.SIGNED and word not in ("lo", "ls", "hi", "hs")
    is_float = step.kind is Kind.FLOAT
    ones = 0x3F800000 if float_result else 0xFFFFFFFF

    def function(a: int, b: int, c: int = 1) -> int:
        if is_float:
            p = floats.compare(word, a, b, bits, bool(flush))
        elif is_signed:
            p = compare(word, signed(a, bits), signed(b, bits))
        else:
            p = compare(word, a, b)
        third = bool(c) != bool(negated)
        if combination == 0:
            q = not p
        elif combination == 1:
            p, q = p and third, (not p) and third
        elif combination == 2:
            p, q = p or third, (not p) or third
        else:
            p, q = p != third, (not p) != third
        if step.op is Op.SET:
            return ones if p else 0
        return int(p) | int(q) << 1

    return function


def _to_float(step: DecodedStep) -> Function:
    from_kind, from_bits = step.flags
    source, bits = _mask(from_bits), step.bits

    def function(a: int) -> int:
        value = a & source
        return floats.of_integer(
            signed(value, from_bits) if from_kind == Kind.SIGNED else value, bits
        )

    return function


def _to_integer(step: DecodedStep) -> Function:
    from_bits, rounding, flush = step.flags
    source, word, is_signed = (
        _mask(from_bits),
        INTEGER_ROUNDINGS[rounding],
        step.kind is Kind.SIGNED,
    )

    def function(a: int) -> int:
        value = a & source
        return floats.to_integer(
            value, from_bits, step.bits, word=word, signed=is_signed, flush=bool(flush)
        )

    return function


def _convert(step: DecodedStep) -> Function:
    from_kind, from_bits, saturate, register = step.flags
    bits = step.bits
    source, mask, wide = _mask(from_bits), _mask(bits), _mask(max(bits, register))
    low = -(1 << (bits - 1)) if step.kind is Kind.SIGNED else 0
    high = (1 << (bits - 1)) - 1 if step.kind is Kind.SIGNED else mask

    def function(a: int) -> int:
        value = a & source
        if from_kind == Kind.SIGNED:
            value = signed(value, from_bits)
        if saturate:
            value = max(low, min(high, value))
        value &= mask
        if step.kind is Kind.SIGNED:
            value = signed(value, bits)
        return value & wide

    return function


def _pack(step: DecodedStep) -> Function:
    (part,) = step.flags
    mask = _mask(part)

    def function(*items: int) -> int:
        result = 0
        for place, item in enumerate(items):
            result |= (item & mask) << part * place
        return result

    return function


def _halves(step: DecodedStep) -> Function:
    word, relu = step.flags
    half, top = _mask(16), 16

    def one(a: int, b: int) -> int:
        if step.kind is Kind.SIGNED:
            a, b = signed(a, 16), signed(b, 16)
        value = {Op.ADD: a + b, Op.MIN: min(a, b), Op.MAX: max(a, b)}[Op(word)]
        return (max(value, 0) if relu else value) & half

    return lambda a, b: one(a & half, b & half) | one(a >> top & half, b >> top & half) << top


def _masked(step: DecodedStep, make: Callable[..., int]) -> Function:
    mask = _mask(step.bits)
    return lambda *values: make(*values) & mask


_MAKERS: dict[Op, Callable[[DecodedStep], Function]] = {
    Op.MOV: lambda step: lambda a: a,
    Op.ADD: _wrapped(lambda a, b: a + b),
    Op.SUB: _wrapped(lambda a, b: a - b),
    **dict.fromkeys(
        (Op.MUL_LOW, Op.MUL_HIGH, Op.MUL_WIDE, Op.MAD_LOW, Op.MAD_HIGH, Op.MAD_WIDE), _multiply
    ),
    Op.DIV: _divide,
    Op.REM: _divide,
    Op.ABS: _absolute,
    Op.NEG: lambda step: _masked(step, lambda a: -a),
    Op.MIN: _ordered,
    Op.MAX: _ordered,
    Op.AND: lambda step: lambda a, b: a & b,
    Op.OR: lambda step: lambda a, b: a | b,
    Op.XOR: lambda step: lambda a, b: a ^ b,
    Op.NOT: lambda step: _masked(step, lambda a: ~a),
    Op.CNOT: lambda step: lambda a: int(a == 0),
    Op.SHL: _shift,
    Op.SHR: _shift,
    Op.FUNNEL: _funnel,
    Op.BFE: _extract,
    Op.BFI: _insert,
    Op.BREV: _reverse,
    Op.CLZ: lambda step: lambda a: step.bits - a.bit_length(),
    Op.POPC: lambda step: lambda a: a.bit_count(),
    Op.BFIND: _find,
    Op.PRMT: _permute,
    Op.LOP3: _lookup,
    Op.SELP: lambda step: lambda a, b, c: a if c & 1 else b,
    Op.SLCT: lambda step: lambda a, b, c: b if c >> 31 & 1 else a,
    Op.CVT: _convert,
    Op.SAD: _distance,
    Op.PACK: _pack,
    Op.BMSK: _bit_mask,
    Op.SZEXT: _extend,
    Op.FNS: _nth_set,
    Op.HALVES: _halves,
    Op.CARRIED: _carried,
    Op.TO_FLOAT: _to_float,
    Op.TO_INTEGER: _to_integer,
}
