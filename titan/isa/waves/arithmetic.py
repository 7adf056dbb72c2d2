"""Vector instructions as functions of the words of all lanes, where the values can matter.

What computes data in floating point is not here and gives unknown results; the exceptions are the
conversions, reciprocals and products by which compilers divide integers. The hardware's reciprocal
is good to one unit in the last place and the division corrects its quotient, so the division gives
the right quotient with the nearest value as well. Source: CDNA3 instruction set architecture, 12.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from titan.isa.waves.state import LANE_NUMBERS, Words

Wide = NDArray[np.uint64]
_U16 = np.uint32(0xFFFF)
_U24 = np.uint32(0xFFFFFF)


def _i32(a: Words) -> NDArray[np.int32]:
    return a.view(np.int32)


def _u32(a: NDArray[Any]) -> Words:
    return a.astype(np.uint32)


def _f32(a: Words) -> NDArray[np.float32]:
    return a.view(np.float32)


def _bits(a: NDArray[np.float32]) -> Words:
    return np.ascontiguousarray(a, np.float32).view(np.uint32)


def _wide(a: Words) -> Wide:
    return a.astype(np.uint64)


def _i24(a: Words) -> NDArray[np.int64]:
    return ((a.astype(np.int64) & 0xFFFFFF) ^ 0x800000) - 0x800000


def _i16(a: Words) -> NDArray[np.int32]:
    return ((a.astype(np.int32) & 0xFFFF) ^ 0x8000) - 0x8000


def _population(a: Words) -> Words:
    value = a - (a >> np.uint32(1) & np.uint32(0x55555555))
    value = (value & np.uint32(0x33333333)) + (value >> np.uint32(2) & np.uint32(0x33333333))
    value = value + (value >> np.uint32(4)) & np.uint32(0x0F0F0F0F)
    return value * np.uint32(0x01010101) >> np.uint32(24)


def _reversed(a: Words) -> Words:
    for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF)):
        by, keep = np.uint32(shift), np.uint32(mask)
        a = (a >> by & keep) | (a & keep) << by
    return a >> np.uint32(16) | a << np.uint32(16)


def _leading_zeros(a: Words) -> Words:
    found = np.full(a.shape, 0xFFFFFFFF, np.uint32)
    for bit in range(32):
        found[a >> np.uint32(bit) & np.uint32(1) == 1] = 31 - bit
    return found


def _trailing_zeros(a: Words) -> Words:
    lowest = a & (~a + np.uint32(1))
    found: Words = np.where(a == 0, np.uint32(0xFFFFFFFF), _population(lowest - np.uint32(1)))
    return found


def _bit_field(a: Words, b: Words, c: Words, extend: bool) -> Words:
    offset, width = b & np.uint32(31), c & np.uint32(31)
    shifted = _u32(_i32(a) >> _i32(offset)) if extend else a >> offset  # its sign comes in as well
    part = shifted & (np.uint32(1) << width) - np.uint32(1)
    if extend:
        top = np.uint32(1) << (np.maximum(width, 1) - np.uint32(1))
        part = (part ^ top) - top
    nothing: Words = np.where(width == 0, np.uint32(0), part)
    return nothing


def _before(a: Words, b: Words, upper: bool) -> Words:
    """v_mbcnt: bits of the lanes below this one, in one half of the mask, plus b."""
    low = np.uint32(32) if upper else np.uint32(0)
    below = np.clip(LANE_NUMBERS.astype(np.int64) - int(low), 0, 32)
    mask = _u32((np.uint64(1) << below.astype(np.uint64)) - np.uint64(1))
    return _population(a & mask) + b


def _permuted(a: Words, b: Words, c: Words) -> Words:
    """v_perm_b32: bytes of {a, b} (b is the low half) chosen by c."""
    a, b, c = np.broadcast_arrays(a, b, c)
    result = np.zeros(c.shape, np.uint32)
    both = _wide(a) << np.uint64(32) | _wide(b)
    for at in range(4):
        choice = c >> np.uint32(8 * at) & np.uint32(0xFF)
        picked = both >> (np.minimum(choice, 7).astype(np.uint64) * np.uint64(8)) & np.uint64(0xFF)
        sign = 8 * (2 * np.clip(choice.astype(np.int64) - 8, 0, 3) + 2) - 1
        filled = np.where(both >> sign.astype(np.uint64) & np.uint64(1), 0xFF, 0)
        byte = np.where(choice < 8, picked, np.where(choice < 12, filled, 0))
        byte = np.where(choice >= 13, 0xFF, byte)
        result |= _u32(byte) << np.uint32(8 * at)
    return result


def _shifted(a: Words, b: Words, c: Words, unit: int) -> Words:
    """v_alignbit, v_alignbyte: 32 bits of {a, b}."""
    by = (c & np.uint32(31 // unit)).astype(np.uint64) * np.uint64(unit)
    return _u32((_wide(a) << np.uint64(32) | _wide(b)) >> by)


def _to_integer(a: Words, low: float, high: float) -> Words:
    value = np.nan_to_num(np.trunc(_f32(a).astype(np.float64)), nan=0.0, posinf=high, neginf=low)
    return np.clip(value, low, high).astype(np.int64).astype(np.uint32)


def _reciprocal(a: Words) -> Words:
    return _bits(np.float32(1.0) / _f32(a))


def _middle(a: Any, b: Any, c: Any) -> Any:
    return np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))


UNARY: dict[str, Callable[[Words], Words]] = {
    "v_mov_b32": lambda a: a,
    "v_accvgpr_read_b32": lambda a: a,
    "v_accvgpr_write_b32": lambda a: a,
    "v_accvgpr_mov_b32": lambda a: a,
    "v_not_b32": lambda a: ~a,
    "v_bfrev_b32": _reversed,
    "v_ffbh_u32": _leading_zeros,
    "v_ffbh_i32": lambda a: _leading_zeros(a ^ _u32(_i32(a) >> 31)),
    "v_ffbl_b32": _trailing_zeros,
    "v_cvt_f32_u32": lambda a: _bits(a.astype(np.float32)),
    "v_cvt_f32_i32": lambda a: _bits(_i32(a).astype(np.float32)),
    "v_cvt_u32_f32": lambda a: _to_integer(a, 0, 0xFFFFFFFF),
    "v_cvt_i32_f32": lambda a: _to_integer(a, -(2**31), 2**31 - 1),
    "v_rcp_f32": _reciprocal,
    "v_rcp_iflag_f32": _reciprocal,
    "v_trunc_f32": lambda a: _bits(np.trunc(_f32(a))),
    "v_floor_f32": lambda a: _bits(np.floor(_f32(a))),
    "v_ceil_f32": lambda a: _bits(np.ceil(_f32(a))),
    "v_rndne_f32": lambda a: _bits(np.rint(_f32(a))),
}


def _of_byte(number: int) -> Callable[[Words], Words]:
    shift = np.uint32(8 * number)
    return lambda a: _bits((a >> shift & np.uint32(0xFF)).astype(np.float32))


for _byte in range(4):
    UNARY[f"v_cvt_f32_ubyte{_byte}"] = _of_byte(_byte)

BINARY: dict[str, Callable[[Words, Words], Words]] = {
    "v_add_u32": lambda a, b: a + b,
    "v_add_i32": lambda a, b: a + b,
    "v_sub_u32": lambda a, b: a - b,
    "v_sub_i32": lambda a, b: a - b,
    "v_subrev_u32": lambda a, b: b - a,
    "v_and_b32": lambda a, b: a & b,
    "v_or_b32": lambda a, b: a | b,
    "v_xor_b32": lambda a, b: a ^ b,
    "v_xnor_b32": lambda a, b: ~(a ^ b),
    "v_lshlrev_b32": lambda a, b: b << (a & np.uint32(31)),
    "v_lshrrev_b32": lambda a, b: b >> (a & np.uint32(31)),
    "v_ashrrev_i32": lambda a, b: _u32(_i32(b) >> _i32(a & np.uint32(31))),
    "v_mul_lo_u32": lambda a, b: a * b,
    "v_mul_hi_u32": lambda a, b: _u32(_wide(a) * _wide(b) >> np.uint64(32)),
    "v_mul_hi_i32": lambda a, b: _u32(
        _i32(a).astype(np.int64) * _i32(b).astype(np.int64) >> np.int64(32)
    ),
    "v_mul_u32_u24": lambda a, b: (a & _U24) * (b & _U24),
    "v_mul_hi_u32_u24": lambda a, b: _u32(_wide(a & _U24) * _wide(b & _U24) >> np.uint64(32)),
    "v_mul_i32_i24": lambda a, b: _u32(_i24(a) * _i24(b)),
    "v_mul_hi_i32_i24": lambda a, b: _u32(_i24(a) * _i24(b) >> np.int64(32)),
    "v_min_u32": np.minimum,
    "v_max_u32": np.maximum,
    "v_min_i32": lambda a, b: _u32(np.minimum(_i32(a), _i32(b))),
    "v_max_i32": lambda a, b: _u32(np.maximum(_i32(a), _i32(b))),
    "v_bfm_b32": lambda a, b: (
        ((np.uint32(1) << (a & np.uint32(31))) - np.uint32(1)) << (b & np.uint32(31))
    ),
    "v_bcnt_u32_b32": lambda a, b: _population(a) + b,
    "v_mbcnt_lo_u32_b32": lambda a, b: _before(a, b, False),
    "v_mbcnt_hi_u32_b32": lambda a, b: _before(a, b, True),
    "v_add_u16": lambda a, b: a + b & _U16,
    "v_sub_u16": lambda a, b: a - b & _U16,
    "v_subrev_u16": lambda a, b: b - a & _U16,
    "v_mul_lo_u16": lambda a, b: (a & _U16) * (b & _U16) & _U16,
    "v_lshlrev_b16": lambda a, b: b << (a & np.uint32(15)) & _U16,
    "v_lshrrev_b16": lambda a, b: (b & _U16) >> (a & np.uint32(15)),
    "v_ashrrev_i16": lambda a, b: _u32(_i16(b) >> _i32(a & np.uint32(15))) & _U16,
    "v_min_u16": lambda a, b: np.minimum(a & _U16, b & _U16),
    "v_max_u16": lambda a, b: np.maximum(a & _U16, b & _U16),
    "v_min_i16": lambda a, b: _u32(np.minimum(_i16(a), _i16(b))) & _U16,
    "v_max_i16": lambda a, b: _u32(np.maximum(_i16(a), _i16(b))) & _U16,
    "v_mul_f32": lambda a, b: _bits(_f32(a) * _f32(b)),
    "v_add_f32": lambda a, b: _bits(_f32(a) + _f32(b)),
    "v_sub_f32": lambda a, b: _bits(_f32(a) - _f32(b)),
    "v_subrev_f32": lambda a, b: _bits(_f32(b) - _f32(a)),
    "v_ldexp_f32": lambda a, b: _bits(np.ldexp(_f32(a), _i32(b))),
}

TERNARY: dict[str, Callable[[Words, Words, Words], Words]] = {
    "v_lshl_add_u32": lambda a, b, c: (a << (b & np.uint32(31))) + c,
    "v_add_lshl_u32": lambda a, b, c: (a + b) << (c & np.uint32(31)),
    "v_add3_u32": lambda a, b, c: a + b + c,
    "v_xad_u32": lambda a, b, c: (a ^ b) + c,
    "v_lshl_or_b32": lambda a, b, c: a << (b & np.uint32(31)) | c,
    "v_and_or_b32": lambda a, b, c: a & b | c,
    "v_or3_b32": lambda a, b, c: a | b | c,
    "v_bfe_u32": lambda a, b, c: _bit_field(a, b, c, False),
    "v_bfe_i32": lambda a, b, c: _bit_field(a, b, c, True),
    "v_bfi_b32": lambda a, b, c: a & b | ~a & c,
    "v_alignbit_b32": lambda a, b, c: _shifted(a, b, c, 1),
    "v_alignbyte_b32": lambda a, b, c: _shifted(a, b, c, 8),
    "v_perm_b32": _permuted,
    "v_mad_u32_u24": lambda a, b, c: (a & _U24) * (b & _U24) + c,
    "v_mad_i32_i24": lambda a, b, c: _u32(_i24(a) * _i24(b)) + c,
    "v_mad_u32_u16": lambda a, b, c: (a & _U16) * (b & _U16) + c,
    "v_mad_i32_i16": lambda a, b, c: _u32(_i16(a) * _i16(b)) + c,
    "v_mad_legacy_u16": lambda a, b, c: (a & _U16) * (b & _U16) + c & _U16,
    "v_min3_u32": lambda a, b, c: np.minimum(np.minimum(a, b), c),
    "v_max3_u32": lambda a, b, c: np.maximum(np.maximum(a, b), c),
    "v_med3_u32": lambda a, b, c: np.asarray(_middle(a, b, c), np.uint32),
    "v_min3_i32": lambda a, b, c: _u32(np.minimum(np.minimum(_i32(a), _i32(b)), _i32(c))),
    "v_max3_i32": lambda a, b, c: _u32(np.maximum(np.maximum(_i32(a), _i32(b)), _i32(c))),
    "v_med3_i32": lambda a, b, c: _u32(_middle(_i32(a), _i32(b), _i32(c))),
    "v_mad_u32": lambda a, b, c: a * b + c,
    "v_xor3_b32": lambda a, b, c: a ^ b ^ c,
    "v_fma_f32": lambda a, b, c: _bits(
        (_f32(a).astype(np.float64) * _f32(b) + _f32(c)).astype(np.float32)
    ),
}
TERNARY["v_fmac_f32"] = TERNARY["v_fmamk_f32"] = TERNARY["v_fmaak_f32"] = TERNARY["v_fma_f32"]

WIDE_BINARY: dict[str, Callable[[Wide, Wide], Wide]] = {
    "v_lshlrev_b64": lambda a, b: b << (a & np.uint64(63)),
    "v_lshrrev_b64": lambda a, b: b >> (a & np.uint64(63)),
    "v_ashrrev_i64": lambda a, b: (b.view(np.int64) >> (a & np.uint64(63)).view(np.int64)).view(
        np.uint64
    ),
}

# Of two numbers of 64 bits.
WIDE_PAIRS: dict[str, Callable[[Wide, Wide], Wide]] = {
    "v_add_nc_u64": lambda a, b: a + b,
    "v_sub_nc_u64": lambda a, b: a - b,
    "v_mul_u64": lambda a, b: a * b,
    "v_min_u64": np.minimum,
    "v_max_u64": np.maximum,
    "v_min_i64": lambda a, b: np.minimum(a.view(np.int64), b.view(np.int64)).view(np.uint64),
    "v_max_i64": lambda a, b: np.maximum(a.view(np.int64), b.view(np.int64)).view(np.uint64),
}

_ORDER: dict[str, Callable[[Any, Any], NDArray[np.bool_]]] = {
    "lt": lambda a, b: a < b,
    "eq": lambda a, b: a == b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ne": lambda a, b: a != b,
    "ge": lambda a, b: a >= b,
    "f": lambda a, b: np.zeros(np.broadcast(a, b).shape, np.bool_),
    "t": lambda a, b: np.ones(np.broadcast(a, b).shape, np.bool_),
}


_NEGATED = {"nge": "ge", "nlg": "lg", "ngt": "gt", "nle": "le", "neq": "eq", "nlt": "lt", "u": "o"}
_OF_REALS: dict[str, Callable[..., NDArray[np.bool_]]] = {
    **{word: _ORDER[word] for word in ("f", "lt", "eq", "le", "gt", "ge")},
    "lg": lambda a, b: (a < b) | (a > b),
    "o": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "tru": _ORDER["t"],
}


def real_comparison(name: str) -> Callable[[Words, Words], NDArray[np.bool_]] | None:
    """What `v_cmp_lt_f32` compares; None for other names, and for other types."""
    word, _, type_name = name.removeprefix("v_cmpx_").removeprefix("v_cmp_").partition("_")
    test, negated = _OF_REALS.get(_NEGATED.get(word, word)), word in _NEGATED
    if test is None or type_name != "f32":
        return None
    return lambda a, b: test(_f32(a), _f32(b)) ^ np.bool_(negated)


def tiny(a: Words) -> NDArray[np.bool_]:
    """Whether a number of binary32 is subnormal: comparisons may take it as zero."""
    return (a << np.uint32(1) < np.uint32(0x0100_0000)) & (a << np.uint32(1) != 0)


def comparison(name: str) -> Callable[[Any, Any], NDArray[np.bool_]] | None:
    """What `v_cmp_lt_u32` compares, for integers; None for data in floating point."""
    _, word, type_name = name.rsplit("_", 2)
    test = _ORDER.get(word)
    if test is None or type_name not in ("u32", "i32", "u16", "i16", "u64", "i64"):
        return None
    if type_name in ("u32", "u64"):
        return test
    if type_name == "i64":
        return lambda a, b: test(a.view(np.int64), b.view(np.int64))
    if type_name == "i32":
        return lambda a, b: test(_i32(a), _i32(b))
    if type_name == "u16":
        return lambda a, b: test(a & _U16, b & _U16)
    return lambda a, b: test(_i16(a), _i16(b))


def bit_operation(table: int) -> Callable[[Words, Words, Words], Words]:
    """v_bitop3: the truth table of three bits; bit 4 a + 2 b + c of it is the result."""

    def apply(a: Words, b: Words, c: Words) -> Words:
        result = np.zeros(np.broadcast(a, b, c).shape, np.uint32)
        for row in range(8):
            if table >> row & 1:
                result |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
        return result

    return apply
