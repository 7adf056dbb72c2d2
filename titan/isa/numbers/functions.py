"""What the instructions compute that the unknown domain leaves opaque: floating-point forms.

One function of bits for each instruction. Exact forms round as PTX says; `.approx` and `.full`
forms are computed in binary64 and rounded once, which is nearer than the bounds that PTX states
(at most 2 ulp of binary32 for ex2, rcp, sqrt, rsqrt; 2^-22 absolute for lg2; tanh 2^-11 relative),
so results may differ from a device's in the last bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from operator import xor

from titan.isa.numbers.formats import (
    BF16,
    F16,
    F32,
    FORMATS,
    TF32,
    FloatFormat,
    bf16_of_f32,
    decode,
    encode,
    flushed,
)
from titan.isa.ptx.module import Instruction, Special
from titan.isa.simt.arithmetic import signed

Function = Callable[..., int]

_ROUNDINGS = {"rn": "rn", "rz": "rz", "rm": "rm", "rp": "rp", "rna": "rna"}
_INTEGER_ROUNDINGS: dict[str, Callable[[float], int]] = {
    "rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil,
}  # fmt: skip


# Clocks: the lowest bit and the bits of what a register of the moment shows.
CLOCKS = {
    "clock": (0, 32), "clock_hi": (32, 32), "clock64": (0, 64), "globaltimer": (0, 64),
    "globaltimer_lo": (0, 32), "globaltimer_hi": (32, 32),
}  # fmt: skip


# Words of a floating-point form beside its type; with any other one it is not computed.
_WORDS = frozenset({"rn", "rz", "rm", "rp", "ftz", "sat", "approx", "full", "f32"})
_WORDS_OF = {
    "fma": frozenset({"relu"}), "min": frozenset({"NaN", "xorsign", "abs"}),
    "max": frozenset({"NaN", "xorsign", "abs"}),
}  # fmt: skip


def has_known_words(instruction: Instruction) -> bool:
    """Whether each word of a floating-point form before its type is one that is computed."""
    known = _WORDS | _WORDS_OF.get(instruction.opcode, frozenset())
    return known.issuperset(instruction.modifiers[:-1])


def clock_bits(instruction: Instruction) -> tuple[int, int] | None:
    """The lowest bit and the number of bits of the clock that a `mov` reads; None for others.

    A clock counts warp instructions: it moves on, and says nothing of a device's time.
    """
    source = instruction.operands[-1] if instruction.operands else None
    return CLOCKS.get(source.name.removeprefix("%")) if isinstance(source, Special) else None


def packed_integer(instruction: Instruction) -> tuple[int, bool, bool] | None:
    """Bits, whether signed and whether two in a register, of the `add`, `min` and `max` of integers
    that the machine leaves opaque; None for other instructions.
    """
    words = instruction.modifiers
    if instruction.opcode not in ("add", "min", "max") or not words:
        return None
    packed = words[-1] in ("u16x2", "s16x2")
    if not packed and words[-1] not in ("s16", "s32"):
        return None
    return 16 if packed else int(words[-1][1:]), words[-1][0] == "s", packed


def _integers(instruction: Instruction) -> Function | None:
    known = packed_integer(instruction)
    if known is None:
        return None
    bits, is_signed, packed = known
    mask = (1 << bits) - 1
    relu = "relu" in instruction.modifiers

    def one(a: int, b: int) -> int:
        left, right = (
            signed(value & mask, bits) if is_signed else value & mask for value in (a, b)
        )
        found = {"add": left + right, "min": min(left, right), "max": max(left, right)}
        value = found[instruction.opcode]
        return (max(value, 0) if relu else value) & mask

    return (lambda a, b: one(a, b) | one(a >> bits, b >> bits) << bits) if packed else one


def _safe(function: Callable[[float], float], otherwise: float) -> Callable[[float], float]:
    def computed(x: float) -> float:
        try:
            return function(x)
        except (ValueError, OverflowError, ZeroDivisionError):
            return math.nan if math.isnan(x) else otherwise

    return computed


def _exp2(x: float) -> float:
    if math.isnan(x):
        return x
    if x >= 1024:
        return math.inf
    return 0.0 if x < -1100 else 2.0**x


def _reciprocal(x: float) -> float:
    return math.copysign(math.inf, x) if x == 0 else 1.0 / x


def _root(x: float) -> float:
    return x if x == 0 else math.nan if x < 0 else math.sqrt(x)


def _reciprocal_root(x: float) -> float:
    if x == 0:
        return math.copysign(math.inf, x)
    return math.nan if x < 0 else 0.0 if math.isinf(x) else 1.0 / math.sqrt(x)


def _logarithm(x: float) -> float:
    return -math.inf if x == 0 else math.nan if x < 0 else x if math.isinf(x) else math.log2(x)


_UNARY: dict[str, Callable[[float], float]] = {
    "ex2": _exp2, "lg2": _logarithm, "rcp": _reciprocal, "sqrt": _root,
    "rsqrt": _reciprocal_root, "sin": _safe(math.sin, math.nan), "cos": _safe(math.cos, math.nan),
    "tanh": math.tanh,
}  # fmt: skip


def function_of(instruction: Instruction) -> Function | None:
    """The function on the bits of the sources, in their order; None for what is not computed."""
    words = instruction.modifiers
    if not words:
        return None
    if instruction.opcode == "cvt":
        return _conversion(words)
    if instruction.opcode in ("setp", "set"):
        return _comparison(instruction)
    if instruction.opcode == "testp":
        return _class_test(words)
    if (dot := dot_product(instruction)) is not None:
        return dot
    packed = words[-1] in ("f16x2", "bf16x2", "f32x2")
    form = FORMATS.get(words[-1][:-2] if packed else words[-1])
    if form is None:
        return _integers(instruction)
    if not has_known_words(instruction):
        return None
    if len(words) > 1 and words[-2] == "f32" and form in (F16, BF16):
        return _mixed(instruction.opcode, words, form)
    made = _operation(instruction.opcode, words, form)
    if made is None or not packed:
        return made
    bits, mask = form.bits, (1 << form.bits) - 1

    def both(*values: int) -> int:
        low = made(*(value & mask for value in values))
        return low | made(*(value >> bits & mask for value in values)) << bits

    return both


def _mixed(opcode: str, words: tuple[str, ...], narrow: FloatFormat) -> Function | None:
    """add, sub and fma of binary32 whose factors, or first summand, are of a narrower format."""
    made = _operation(opcode, words, F32)
    if made is None or opcode not in ("add", "sub", "fma"):
        return None

    def function(*values: int) -> int:
        wide = [encode(decode(value & 0xFFFF, narrow), F32) for value in values[:-1]]
        return made(*wide, values[-1])

    return function


def _operation(opcode: str, words: tuple[str, ...], form: FloatFormat) -> Function | None:
    """An operation on numbers of one format."""
    flush, sat = "ftz" in words, "sat" in words
    mode = next((word for word in words if word in ("rn", "rz", "rm", "rp")), "rn")
    sign = 1 << (form.bits - 1)
    if opcode == "neg":
        return lambda a: (flushed(a, form) if flush else a) ^ sign
    if opcode == "abs":
        return lambda a: (flushed(a, form) if flush else a) & ~sign
    if opcode == "copysign":
        return lambda a, b: (a & sign) | (b & ~sign)
    if opcode in ("min", "max"):
        return _extremum(opcode, words, form)

    def finish(value: float | Fraction) -> int:
        bits = encode(value, form, mode)
        if flush:
            bits = flushed(bits, form)
        if sat:
            bits = encode(_clamped(decode(bits, form)), form)
        if "relu" in words:
            bits = 0 if bits & sign and not math.isnan(decode(bits, form)) else bits
        return bits

    def number(bits: int) -> float:
        return decode(flushed(bits, form) if flush else bits, form)

    if opcode in _UNARY:
        unary = _UNARY[opcode]
        return lambda a: finish(unary(number(a)))
    exact: dict[str, Callable[..., float | Fraction]] = {
        "add": _sum,
        "sub": lambda a, b: _sum(a, -b),
        "mul": _product,
        "fma": _fused,
        "mad": _fused,
        "div": _quotient,
    }
    found = exact.get(opcode)
    if found is None:
        return None
    return lambda *values: finish(found(*(number(value) for value in values)))


def _clamped(number: float) -> float:
    """`.sat`: to [0, 1]; NaN and negative zero give zero."""
    return min(number, 1.0) if number > 0 else 0.0


def _finite(*values: float) -> bool:
    return all(math.isfinite(value) for value in values)


def _sum(a: float, b: float) -> float | Fraction:
    if not _finite(a, b) or a + b == 0:
        return a + b
    return Fraction(a) + Fraction(b)


def _product(a: float, b: float) -> float | Fraction:
    if not _finite(a, b):
        return math.nan if 0 in (a, b) else a * b
    return (
        math.copysign(1, a) * math.copysign(1, b) * 0.0
        if 0 in (a, b)
        else Fraction(a) * Fraction(b)
    )


def _fused(a: float, b: float, c: float) -> float | Fraction:
    product = _product(a, b)
    if isinstance(product, float) or not math.isfinite(c):
        return float(product) + c
    total = product + Fraction(c)
    return total if total else 0.0


def _quotient(a: float, b: float) -> float | Fraction:
    if not _finite(a, b) or b == 0 or a == 0:
        if (
            math.isnan(a)
            or math.isnan(b)
            or (a == 0 and b == 0)
            or (math.isinf(a) and math.isinf(b))
        ):
            return math.nan
        sign = math.copysign(1, a) * math.copysign(1, b)
        return sign * (math.inf if b == 0 or math.isinf(a) else 0.0)
    return Fraction(a) / Fraction(b)


def _extremum(opcode: str, words: tuple[str, ...], form: FloatFormat) -> Function:
    """min and max of two or three; `.NaN` lets a NaN win, else the numbers do.

    With `.abs` of the magnitudes; with `.xorsign` the signs of the operands are multiplied, too.
    """
    flush, sign = "ftz" in words, 1 if opcode == "max" else -1
    top = 1 << (form.bits - 1)

    def pick(a: int, b: int) -> int:
        left, right = decode(a, form), decode(b, form)
        if math.isnan(left) or math.isnan(right):
            if "NaN" in words or (math.isnan(left) and math.isnan(right)):
                return form.nan
            return b if math.isnan(left) else a
        if left == right:  # of the two zeros, -0 is the smaller
            key = (math.copysign(1, left), math.copysign(1, right))
            return a if sign * key[0] >= sign * key[1] else b
        return a if sign * left > sign * right else b

    def function(*values: int) -> int:
        found = [flushed(value, form) if flush else value for value in values]
        if "abs" in words:
            found = [value & ~top for value in found]
        best = found[0]
        for value in found[1:]:
            best = pick(best, value)
        signs = reduce(xor, values) & top if "xorsign" in words else 0
        return best if math.isnan(decode(best, form)) else best | signs

    return function


def _comparison(instruction: Instruction) -> Function | None:
    """setp of f16 and bf16 without a combination: p in bit 0, q in bit 1; of two numbers in a
    register p is for the lower half, and q for the upper one.
    """
    words = instruction.modifiers
    packed = words[-1] in ("f16x2", "bf16x2")
    form = FORMATS.get(words[-1][:-2] if packed else words[-1])
    if form not in (F16, BF16) or instruction.opcode != "setp" or len(instruction.operands) != 3:
        return None
    word, bits, half = words[0], 16, 0xFFFF

    def holds(a: int, b: int) -> bool:
        left, right = decode(a & half, form), decode(b & half, form)
        unordered = math.isnan(left) or math.isnan(right)
        if word in ("num", "nan"):
            return unordered == (word == "nan")
        if unordered:
            return word.endswith("u")
        return {
            "eq": left == right, "ne": left != right, "lt": left < right,
            "le": left <= right, "gt": left > right, "ge": left >= right,
        }[word[:2]]  # fmt: skip

    def function(a: int, b: int) -> int:
        lower = holds(a, b)
        upper = holds(a >> bits, b >> bits) if packed else not lower
        return int(lower) | int(upper) << 1

    return function


def _class_test(words: tuple[str, ...]) -> Function:
    """testp: whether a number is of a class; a zero is neither normal nor subnormal."""
    word, form = words[0], FORMATS[words[-1]]
    least = decode(1 << form.fraction_bits, form)  # the smallest normal number

    def function(a: int) -> int:
        number = abs(decode(a, form))
        return int({
            "finite": math.isfinite(number), "infinite": math.isinf(number),
            "number": not math.isnan(number), "notanumber": math.isnan(number),
            "normal": least <= number < math.inf, "subnormal": 0 < number < least,
        }[word])  # fmt: skip

    return function


@dataclass(frozen=True)
class DotProduct:
    """dp4a and dp2a: a sum and the products of elements of two words, of 32 bits. The elements of
    the second are bytes, from bit `shift` on."""

    count: int
    shift: int
    signed_a: bool
    signed_b: bool

    def __call__(self, a: int, b: int, c: int) -> int:
        bits = 32 // self.count
        total = c
        for at in range(self.count):
            left = a >> bits * at & ((1 << bits) - 1)
            right = b >> self.shift + 8 * at & 0xFF
            left = signed(left, bits) if self.signed_a else left
            total += left * (signed(right, 8) if self.signed_b else right)
        return total & 0xFFFFFFFF


def dot_product(instruction: Instruction) -> DotProduct | None:
    """What dp4a and dp2a compute; None for other instructions."""
    if instruction.opcode not in ("dp4a", "dp2a"):
        return None
    words = instruction.modifiers
    count = 4 if instruction.opcode == "dp4a" else 2
    signed_a, signed_b = (word == "s32" for word in words[-2:])
    return DotProduct(count, 16 * (count == 2 and words[0] == "hi"), signed_a, signed_b)


# ------------------------------------------------------------------------------- conversions


def _conversion(words: tuple[str, ...]) -> Function | None:
    """cvt with a floating-point side."""
    if words[0] == "pack":
        return _packed_integers(words)
    to, source = words[-2], words[-1]
    if to in ("f16x2", "bf16x2", "e4m3x2", "e5m2x2") and source == "f32":
        return _packed(to[:-2], words)
    if source in ("e4m3x2", "e5m2x2") and to == "f16x2":
        form = FORMATS[source[:-2]]
        return lambda a: (
            encode(decode(a & 0xFF, form), F16) | encode(decode(a >> 8 & 0xFF, form), F16) << 16
        )
    target, origin = FORMATS.get(to), FORMATS.get(source)
    flush = "ftz" in words
    if to == "tf32" and origin is F32:
        rounding_mode = "rna" if "rna" in words else "rz" if "rz" in words else "rn"
        sat = "satfinite" in words
        return lambda a: encode(decode(a, F32), TF32, rounding_mode, sat=sat) << 13
    mode = next((_ROUNDINGS[word] for word in words if word in _ROUNDINGS), "rn")
    if target is not None and origin is not None:
        rounding = next((_INTEGER_ROUNDINGS[w] for w in words if w in _INTEGER_ROUNDINGS), None)

        def between(a: int) -> int:
            number = decode(flushed(a, origin) if flush else a, origin)
            if rounding is not None and math.isfinite(number):
                number = math.copysign(float(rounding(number)), number)
            bits = encode(number, target, mode, sat="satfinite" in words)
            if "sat" in words:
                bits = encode(_clamped(decode(bits, target)), target)
            return flushed(bits, target) if flush and target is F32 else bits

        return between
    if target is not None and source[:1] in "us" and source[1:].isdigit():
        width, is_signed = int(source[1:]), source[0] == "s"

        def from_integer(a: int) -> int:
            value = a & ((1 << width) - 1)
            return encode(Fraction(signed(value, width) if is_signed else value), target, mode)

        return from_integer
    if origin is not None and to[:1] in "us" and to[1:].isdigit():
        return _to_integer(words, origin, to)
    return None


def _packed_integers(words: tuple[str, ...]) -> Function:
    """cvt.pack: two integers, clamped to fewer bits, the first above the second; below the lower
    bits of a third operand, of which there is none for integers of 16 bits.
    """
    bits, is_signed = int(words[2][1:]), words[2][0] == "s"
    low = -(1 << (bits - 1)) if is_signed else 0
    high = low + (1 << bits) - 1

    def one(value: int) -> int:
        return min(max(signed(value, 32), low), high) & ((1 << bits) - 1)

    return lambda a, b, c=0: (one(a) << bits | one(b) | c << 2 * bits) & 0xFFFFFFFF


def _to_integer(words: tuple[str, ...], origin: FloatFormat, to: str) -> Function:
    """Rounded and clamped to the integer's range; NaN gives 0 (of 64-bit sources: the top bit)."""
    width, is_signed = int(to[1:]), to[0] == "s"
    low, high = (
        (-(1 << (width - 1)), (1 << (width - 1)) - 1) if is_signed else (0, (1 << width) - 1)
    )
    rounding = next((_INTEGER_ROUNDINGS[w] for w in words if w in _INTEGER_ROUNDINGS), math.trunc)

    def function(a: int) -> int:
        number = decode(flushed(a, origin) if "ftz" in words else a, origin)
        if math.isnan(number):
            return 0
        if math.isinf(number):
            value = high if number > 0 else low
        else:
            value = min(max(rounding(number), low), high)
        return value & ((1 << width) - 1)

    return function


def _packed(name: str, words: tuple[str, ...]) -> Function | None:
    """Two f32 to one register: the first operand goes to the upper half."""
    form = FORMATS[name]
    if "rn" not in words and "rz" not in words:
        return None
    mode = "rz" if "rz" in words else "rn"
    sat = "satfinite" in words

    def one(bits: int) -> int:
        if form is BF16 and mode == "rn" and not sat:
            found = bf16_of_f32(bits)
        else:
            found = encode(decode(bits, F32), form, mode, sat=sat)
        if "relu" in words and found >> (form.bits - 1):
            found = found if math.isnan(decode(found, form)) else 0
        return found

    return lambda a, b: one(a) << form.bits | one(b)
