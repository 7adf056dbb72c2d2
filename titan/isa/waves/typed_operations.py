"""What instructions of 16, 32 and 64 bits compute, by the types of their operands.

Integers are given as NumPy's int64, so that sums and products do not wrap; what a result keeps of
them is decided where it is written (modulo its bits, or clamped). A fused multiply-add of binary16
is computed in binary64 and rounded once more. Source: CDNA3 instruction set architecture, 12.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from titan.isa.waves.matrix_steps import fused

Numbers = NDArray[Any]
FLOATS: dict[str, type[np.floating]] = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
BITS = {
    "f16": 16, "i16": 16, "u16": 16, "b16": 16, "f32": 32, "i32": 32, "u32": 32, "b32": 32,
    "f64": 64,
}  # fmt: skip


class TypedOperation(NamedTuple):
    """The types of the sources, that of the result, and what is done. `kept`: of a result of 16
    bits the other half of its register stays (forms that have no short encoding)."""

    given: tuple[str, ...]
    gives: str
    function: Callable[..., Numbers]
    kept: bool = False


def _middle(a: Numbers, b: Numbers, c: Numbers) -> Numbers:
    made = np.fmax(np.fmin(a, b), np.fmin(np.fmax(a, b), c))
    least = np.fmin(np.fmin(a, b), c)
    found: Numbers = np.where(np.isnan(a) | np.isnan(b) | np.isnan(c), least, made)
    return found


def _largest(*given: Numbers) -> Numbers:
    """IEEE 754's maximum: NaN if one of them is, and +0 above -0."""
    found = given[0]
    for one in given[1:]:
        zeros = np.where(np.signbit(found), one, found)
        found = np.where((found == 0) & (one == 0), zeros, np.maximum(found, one))
    return found


def _smallest(*given: Numbers) -> Numbers:
    return -_largest(*(-one for one in given))


def _near(function: Callable[..., Numbers]) -> Callable[[Numbers], Numbers]:
    """By binary32, where the type is binary16."""
    return lambda a: function(a.astype(np.float32) if a.dtype == np.float16 else a)


def _mended(quotient: Numbers, divisor: Numbers, dividend: Numbers) -> Numbers:
    """v_div_fixup: the quotient, but for special cases; one that went beyond all bounds is NaN."""
    size = np.where(np.isnan(quotient), np.inf, np.abs(quotient))
    size = np.where((divisor == 0) | np.isinf(dividend), np.inf, size)
    size = np.where(np.isinf(divisor) | (dividend == 0), 0.0, size)
    undefined = np.isnan(divisor) | np.isnan(dividend) | ((divisor == 0) & (dividend == 0))
    undefined |= np.isinf(divisor) & np.isinf(dividend)
    size = np.where(undefined, np.nan, size)
    made: Numbers = np.where(np.signbit(divisor) ^ np.signbit(dividend), -size, size)
    return made


def _fused_of(name: str) -> Callable[..., Numbers]:
    if name == "f64":
        return fused
    return lambda a, b, c: a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)


def _of_floats() -> dict[str, TypedOperation]:
    made: dict[str, TypedOperation] = {}
    binary: dict[str, Callable[..., Numbers]] = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "subrev": lambda a, b: b - a,
        "mul": lambda a, b: a * b,
        "max": np.fmax,
        "min": np.fmin,
    }
    unary: dict[str, Callable[..., Numbers]] = {
        "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rndne": np.rint,
        "fract": lambda a: a - np.floor(a), "rcp": _near(lambda a: 1 / a), "sqrt": _near(np.sqrt),
        "rsq": _near(lambda a: 1 / np.sqrt(a)), "frexp_mant": lambda a: np.frexp(a)[0],
    }  # fmt: skip
    ternary: dict[str, Callable[..., Numbers]] = {
        "med3": _middle,
        "max3": lambda a, b, c: np.fmax(np.fmax(a, b), c),
        "min3": lambda a, b, c: np.fmin(np.fmin(a, b), c),
        "maximum3": _largest,
        "minimum3": _smallest,
    }
    for kind in FLOATS:
        for table, count in ((unary, 1), (binary, 2), (ternary, 3)):
            for name, function in table.items():
                made[f"v_{name}_{kind}"] = TypedOperation(
                    (kind,) * count, kind, function, count == 3
                )
        made[f"v_fma_{kind}"] = TypedOperation((kind,) * 3, kind, _fused_of(kind), True)
        if kind != "f32":
            made[f"v_div_fixup_{kind}"] = TypedOperation((kind,) * 3, kind, _mended, True)
        power = "i16" if kind == "f16" else "i32"
        made[f"v_ldexp_{kind}"] = TypedOperation(
            (kind, power), kind, lambda a, b: np.ldexp(a, b.astype(np.int32))
        )
        made[f"v_frexp_exp_{power}_{kind}"] = TypedOperation((kind,), power, _power)
    for name, function in (("exp", np.exp2), ("log", np.log2)):
        made[f"v_{name}_f16"] = TypedOperation(("f16",), "f16", _near(function))
    return made


def _power(a: Numbers) -> Numbers:
    found: Numbers = np.where(np.isfinite(a), np.frexp(a)[1], 0).astype(np.int64)
    return found


def _whole(low: int, high: int) -> Callable[[Numbers], Numbers]:
    def function(a: Numbers) -> Numbers:
        number = np.nan_to_num(np.trunc(a.astype(np.float64)), nan=0.0, posinf=high, neginf=low)
        return np.clip(number, low, high).astype(np.int64)

    return function


def _converted() -> dict[str, TypedOperation]:
    def same(a: Numbers) -> Numbers:
        return a

    made = {}
    for source, result in (
        ("u16", "f16"), ("i16", "f16"), ("f32", "f64"), ("f64", "f32"), ("i32", "f64"),
        ("u32", "f64"),
    ):  # fmt: skip
        made[f"v_cvt_{result}_{source}"] = TypedOperation((source,), result, same)
    for source, result in (("f16", "u16"), ("f16", "i16"), ("f64", "i32"), ("f64", "u32")):
        bits = BITS[result]
        low, high = (
            (0, (1 << bits) - 1) if result[0] == "u" else (-1 << bits - 1, (1 << bits - 1) - 1)
        )
        made[f"v_cvt_{result}_{source}"] = TypedOperation((source,), result, _whole(low, high))
    return made


def _of_integers() -> dict[str, TypedOperation]:
    made: dict[str, TypedOperation] = {}
    binary: dict[str, Callable[..., Numbers]] = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "subrev": lambda a, b: b - a,
        "max": np.maximum,
        "min": np.minimum,
    }
    ternary: dict[str, Callable[..., Numbers]] = {
        "max3": lambda a, b, c: np.maximum(np.maximum(a, b), c),
        "min3": lambda a, b, c: np.minimum(np.minimum(a, b), c),
        "med3": lambda a, b, c: np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c)),
        "mad": lambda a, b, c: a * b + c,
    }
    for kind in ("i16", "u16", "i32", "u32"):
        for name, function in binary.items():
            made[f"v_{name}_{kind}"] = TypedOperation((kind,) * 2, kind, function)
        for name, function in ternary.items():
            if kind.endswith("16"):
                made[f"v_{name}_{kind}"] = TypedOperation((kind,) * 3, kind, function, True)
    made["v_mul_lo_u16"] = TypedOperation(("u16", "u16"), "u16", lambda a, b: a * b)
    made["v_lshlrev_b16"] = TypedOperation(("u16", "u16"), "u16", lambda a, b: b << (a & 15))
    made["v_lshrrev_b16"] = TypedOperation(("u16", "u16"), "u16", lambda a, b: b >> (a & 15))
    made["v_ashrrev_i16"] = TypedOperation(("u16", "i16"), "i16", lambda a, b: b >> (a & 15))
    return made


def _parts(words: Numbers, bits: int, signed: bool) -> list[Numbers]:
    made = []
    for at in range(0, 32, bits):
        part = words >> at & (1 << bits) - 1
        sign = 1 << bits - 1
        made.append((part ^ sign) - sign if signed else part)
    return made


def _dot(bits: int, signed: bool) -> Callable[..., Numbers]:
    def function(a: Numbers, b: Numbers, c: Numbers) -> Numbers:
        pairs = zip(_parts(a, bits, signed), _parts(b, bits, signed), strict=True)
        return sum((x * y for x, y in pairs), start=c)

    return function


def _dot_of_halves(a: Numbers, b: Numbers, c: Numbers) -> Numbers:
    total = c.astype(np.float64)
    for at in (0, 16):
        x, y = ((one >> at).astype(np.uint16).view(np.float16).astype(np.float64) for one in (a, b))
        total = total + x * y
    return total


OPERATIONS: dict[str, TypedOperation] = {
    **_of_floats(),
    **_converted(),
    **_of_integers(),
    "v_dot2_f32_f16": TypedOperation(("b32", "b32", "f32"), "f32", _dot_of_halves),
    "v_dot2_i32_i16": TypedOperation(("b32", "b32", "i32"), "i32", _dot(16, True)),
    "v_dot2_u32_u16": TypedOperation(("b32", "b32", "u32"), "u32", _dot(16, False)),
    "v_dot4_i32_i8": TypedOperation(("b32", "b32", "i32"), "i32", _dot(8, True)),
    "v_dot4_u32_u8": TypedOperation(("b32", "b32", "u32"), "u32", _dot(8, False)),
    "v_dot8_i32_i4": TypedOperation(("b32", "b32", "i32"), "i32", _dot(4, True)),
    "v_dot8_u32_u4": TypedOperation(("b32", "b32", "u32"), "u32", _dot(4, False)),
}
for _short, _long in (
    ("v_dot2c_f32_f16", "v_dot2_f32_f16"), ("v_dot2c_i32_i16", "v_dot2_i32_i16"),
    ("v_dot4c_i32_i8", "v_dot4_i32_i8"), ("v_dot8c_i32_i4", "v_dot8_i32_i4"),
    ("v_fmac_f64", "v_fma_f64"),
):  # fmt: skip
    OPERATIONS[_short] = OPERATIONS[_long]
# Two results of 16 bits, each as the instruction for one of them has it.
PACKED = {
    f"v_pk_{name.removeprefix('v_')}": name
    for name, one in OPERATIONS.items()
    if BITS[one.gives] == 16 and len(one.given) > 1
}


def bit_table(table: int) -> TypedOperation:
    """v_bitop3_b16: bit 4 a + 2 b + c of the table is the result."""

    def function(a: Numbers, b: Numbers, c: Numbers) -> Numbers:
        made = np.zeros(np.broadcast(a, b, c).shape, np.int64)
        for row in range(8):
            if table >> row & 1:
                made |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
        return made

    return TypedOperation(("b16",) * 3, "b16", function, True)


def classes(a: Numbers, wanted: Numbers) -> NDArray[np.bool_]:
    """v_cmp_class: whether a number is of one of the classes whose bits are set."""
    bits = a.view({2: np.uint16, 4: np.uint32, 8: np.uint64}[a.dtype.itemsize])
    fraction = {2: 10, 4: 23, 8: 52}[a.dtype.itemsize]
    negative = np.signbit(a)
    tiny = (a != 0) & (np.abs(a) < np.finfo(a.dtype).tiny)
    quiet = bits >> bits.dtype.type(fraction - 1) & bits.dtype.type(1) == 1
    found = np.select(
        [np.isnan(a) & quiet, np.isnan(a), np.isinf(a), a == 0, tiny],
        [np.int64(1), np.int64(0), np.where(negative, 2, 9), np.where(negative, 5, 6),
         np.where(negative, 4, 7)],
        np.where(negative, 3, 8),
    )  # fmt: skip
    held: NDArray[np.bool_] = wanted >> found & 1 == 1
    return held
