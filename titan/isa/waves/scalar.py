"""Scalar instructions: their results and condition code as functions of their sources.

Every function takes unsigned integers of the operand's width and gives the result and the new
condition code; None leaves the code as it is. Source: CDNA3 instruction set architecture, 12.1-5.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

Result = tuple[int, int | None]
_MASK = {1: 0xFFFF_FFFF, 2: 0xFFFF_FFFF_FFFF_FFFF}


def signed(value: int, bits: int = 32) -> int:
    """Two's complement."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _real(bits: int) -> float:
    (value,) = struct.unpack("<f", (bits & _MASK[1]).to_bytes(4, "little"))
    return float(value)


def _single(value: float) -> int:
    """The nearest number of binary32, as bits; a sum or product of two is rounded once."""
    try:
        return int.from_bytes(struct.pack("<f", value), "little")
    except OverflowError:
        return 0xFF80_0000 if value < 0 else 0x7F80_0000


def _whole(value: float, low: int, high: int) -> int:
    if math.isnan(value):
        return 0
    return int(min(max(value, low), high))


def _rounded(bits: int, function: Callable[[float], int]) -> int:
    value = _real(bits)
    if not math.isfinite(value) or value == 0:
        return bits
    return _single(math.copysign(function(value), value))


def _nonzero(value: int) -> Result:
    return value, int(value != 0)


def _add_u32(a: int, b: int, _: int) -> Result:
    return a + b & _MASK[1], (a + b) >> 32


def _addc_u32(a: int, b: int, carry: int) -> Result:
    return a + b + carry & _MASK[1], (a + b + carry) >> 32


def _sub_u32(a: int, b: int, _: int) -> Result:
    return a - b & _MASK[1], int(b > a)


def _subb_u32(a: int, b: int, carry: int) -> Result:
    return a - b - carry & _MASK[1], int(b + carry > a)


def _overflow(value: int) -> Result:
    return value & _MASK[1], int(not -(1 << 31) <= value < 1 << 31)


def _bfe(value: int, field: int, bits: int, extend: bool) -> Result:
    offset, width = field & (bits - 1), field >> 16 & 0x7F
    part = value >> offset & (1 << width) - 1 if width else 0
    if extend and width:
        width = min(width, bits - offset)
        part = signed(value >> offset, width) & (1 << bits) - 1
    return _nonzero(part)


def _bits(width: int) -> dict[str, Callable[[int, int], int]]:
    mask = (1 << width) - 1
    return {
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "andn2": lambda a, b: a & ~b & mask,
        "orn2": lambda a, b: (a | ~b) & mask,
        "nand": lambda a, b: ~(a & b) & mask,
        "nor": lambda a, b: ~(a | b) & mask,
        "xnor": lambda a, b: ~(a ^ b) & mask,
        "andn1": lambda a, b: ~a & b & mask,
        "orn1": lambda a, b: (~a | b) & mask,
    }


BITWISE = _bits(64)

# (a, b, condition) -> (result, new condition)
BINARY: dict[str, Callable[[int, int, int], Result]] = {
    "s_add_u32": _add_u32,
    "s_addc_u32": _addc_u32,
    "s_sub_u32": _sub_u32,
    "s_subb_u32": _subb_u32,
    "s_add_i32": lambda a, b, _: _overflow(signed(a) + signed(b)),
    "s_sub_i32": lambda a, b, _: _overflow(signed(a) - signed(b)),
    "s_mul_i32": lambda a, b, _: (a * b & _MASK[1], None),
    "s_mul_hi_u32": lambda a, b, _: (a * b >> 32, None),
    "s_mul_hi_i32": lambda a, b, _: (signed(a) * signed(b) >> 32 & _MASK[1], None),
    "s_min_i32": lambda a, b, _: (a, 1) if signed(a) < signed(b) else (b, 0),
    "s_max_i32": lambda a, b, _: (a, 1) if signed(a) > signed(b) else (b, 0),
    "s_min_u32": lambda a, b, _: (a, 1) if a < b else (b, 0),
    "s_max_u32": lambda a, b, _: (a, 1) if a > b else (b, 0),
    "s_absdiff_i32": lambda a, b, _: _nonzero(abs(signed(a - b)) & _MASK[1]),
    "s_lshl_b32": lambda a, b, _: _nonzero(a << (b & 31) & _MASK[1]),
    "s_lshr_b32": lambda a, b, _: _nonzero(a >> (b & 31)),
    "s_ashr_i32": lambda a, b, _: _nonzero(signed(a) >> (b & 31) & _MASK[1]),
    "s_lshl_b64": lambda a, b, _: _nonzero(a << (b & 63) & _MASK[2]),
    "s_lshr_b64": lambda a, b, _: _nonzero(a >> (b & 63)),
    "s_ashr_i64": lambda a, b, _: _nonzero(signed(a, 64) >> (b & 63) & _MASK[2]),
    "s_bfm_b32": lambda a, b, _: (((1 << (a & 31)) - 1) << (b & 31) & _MASK[1], None),
    "s_bfm_b64": lambda a, b, _: (((1 << (a & 63)) - 1) << (b & 63) & _MASK[2], None),
    "s_bfe_u32": lambda a, b, _: _bfe(a, b, 32, False),
    "s_bfe_i32": lambda a, b, _: _bfe(a, b, 32, True),
    "s_bfe_u64": lambda a, b, _: _bfe(a, b, 64, False),
    "s_bfe_i64": lambda a, b, _: _bfe(a, b, 64, True),
    "s_cselect_b32": lambda a, b, scc: (a if scc else b, None),
    "s_cselect_b64": lambda a, b, scc: (a if scc else b, None),
    "s_pack_ll_b32_b16": lambda a, b, _: (a & 0xFFFF | (b & 0xFFFF) << 16, None),
    "s_pack_lh_b32_b16": lambda a, b, _: (a & 0xFFFF | b & 0xFFFF_0000, None),
    "s_add_nc_u64": lambda a, b, _: (a + b & _MASK[2], None),
    "s_sub_nc_u64": lambda a, b, _: (a - b & _MASK[2], None),
    "s_mul_u64": lambda a, b, _: (a * b & _MASK[2], None),
    "s_pack_hl_b32_b16": lambda a, b, _: (a >> 16 | (b & 0xFFFF) << 16, None),
    "s_add_f32": lambda a, b, _: (_single(_real(a) + _real(b)), None),
    "s_sub_f32": lambda a, b, _: (_single(_real(a) - _real(b)), None),
    "s_mul_f32": lambda a, b, _: (_single(_real(a) * _real(b)), None),
    "s_pack_hh_b32_b16": lambda a, b, _: (a >> 16 | b & 0xFFFF_0000, None),
}


def _bitwise(function: Callable[[int, int], int]) -> Callable[[int, int, int], Result]:
    return lambda a, b, _: _nonzero(function(a, b))


def _shift_add(by: int) -> Callable[[int, int, int], Result]:
    return lambda a, b, _: ((a << by) + b & _MASK[1], int((a << by) + b > _MASK[1]))


for _width in (32, 64):
    for _word, _function in _bits(_width).items():
        if _word not in ("andn1", "orn1"):  # of the execution mask alone
            BINARY[f"s_{_word}_b{_width}"] = _bitwise(_function)
for _shift in (1, 2, 3, 4):
    BINARY[f"s_lshl{_shift}_add_u32"] = _shift_add(_shift)


def _first_set(value: int) -> int:
    return (value & -value).bit_length() - 1


def _leading(value: int, bits: int) -> int:
    """The zeros in front of the first one; all ones (-1) if there is none."""
    return bits - value.bit_length() if value else _MASK[1]


def _leading_signed(value: int, bits: int) -> int:
    flipped = value ^ ((1 << bits) - 1) if value >> (bits - 1) else value
    return bits - flipped.bit_length() if flipped else _MASK[1]


def _reversed(value: int, bits: int) -> int:
    return int(f"{value:0{bits}b}"[::-1], 2)


def _quads(value: int, bits: int) -> int:
    return sum(1 << at for at in range(bits // 4) if value >> 4 * at & 15)


def _whole_quads(value: int, bits: int) -> int:
    return sum(15 << 4 * at for at in range(bits // 4) if value >> 4 * at & 15)


UNARY: dict[str, Callable[[int], Result]] = {
    "s_mov_b32": lambda a: (a, None),
    "s_mov_b64": lambda a: (a, None),
    "s_movk_i32": lambda a: (signed(a, 16) & _MASK[1], None),
    "s_cvt_f32_u32": lambda a: (_single(a), None),
    "s_cvt_f32_i32": lambda a: (_single(signed(a)), None),
    "s_cvt_u32_f32": lambda a: (_whole(_real(a), 0, _MASK[1]), None),
    "s_cvt_i32_f32": lambda a: (_whole(_real(a), -(1 << 31), (1 << 31) - 1) & _MASK[1], None),
    "s_trunc_f32": lambda a: (_rounded(a, math.trunc), None),
    "s_floor_f32": lambda a: (_rounded(a, math.floor), None),
    "s_ceil_f32": lambda a: (_rounded(a, math.ceil), None),
    "s_rndne_f32": lambda a: (_rounded(a, round), None),
    "s_abs_i32": lambda a: _nonzero(abs(signed(a)) & _MASK[1]),
    "s_sext_i32_i8": lambda a: (signed(a, 8) & _MASK[1], None),
    "s_sext_i32_i16": lambda a: (signed(a, 16) & _MASK[1], None),
    "s_flbit_i32": lambda a: (_leading_signed(a, 32), None),
    "s_flbit_i32_i64": lambda a: (_leading_signed(a, 64), None),
    "s_bitreplicate_b64_b32": lambda a: (
        sum(3 << 2 * at for at in range(32) if a >> at & 1),
        None,
    ),
}


def _unary(bits: int) -> dict[str, Callable[[int], Result]]:
    every = (1 << bits) - 1
    return {
        f"s_not_b{bits}": lambda a: _nonzero(~a & every),
        f"s_brev_b{bits}": lambda a: (_reversed(a, bits), None),
        f"s_bcnt1_i32_b{bits}": lambda a: _nonzero(a.bit_count()),
        f"s_bcnt0_i32_b{bits}": lambda a: _nonzero(bits - a.bit_count()),
        f"s_ff1_i32_b{bits}": lambda a: (_first_set(a) & _MASK[1], None),
        f"s_ff0_i32_b{bits}": lambda a: (_first_set(~a & every) & _MASK[1], None),
        f"s_flbit_i32_b{bits}": lambda a: (_leading(a, bits), None),
        f"s_quadmask_b{bits}": lambda a: _nonzero(_quads(a, bits)),
        f"s_wqm_b{bits}": lambda a: _nonzero(_whole_quads(a, bits)),
    }


UNARY |= _unary(32) | _unary(64)

_ORDER: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "lg": lambda a, b: a != b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
}
COMPARE: dict[str, Callable[[int, int], int]] = {
    "s_bitcmp0_b32": lambda a, b: int(not a >> (b & 31) & 1),
    "s_bitcmp1_b32": lambda a, b: a >> (b & 31) & 1,
    "s_bitcmp0_b64": lambda a, b: int(not a >> (b & 63) & 1),
    "s_bitcmp1_b64": lambda a, b: a >> (b & 63) & 1,
}


def _comparisons(
    word: str, test: Callable[[int, int], bool]
) -> dict[str, Callable[[int, int], int]]:
    return {
        f"s_cmp_{word}_u32": lambda a, b: int(test(a, b)),
        f"s_cmp_{word}_i32": lambda a, b: int(test(signed(a), signed(b))),
        f"s_cmpk_{word}_u32": lambda a, b: int(test(a, b & 0xFFFF)),
        f"s_cmpk_{word}_i32": lambda a, b: int(test(signed(a), signed(b, 16))),
    }


for _word, _test in _ORDER.items():
    COMPARE |= _comparisons(_word, _test)
_NEGATED = {"nge": "ge", "nlg": "lg", "ngt": "gt", "nle": "le", "neq": "eq", "nlt": "lt", "u": "o"}
_REAL_ORDER: dict[str, Callable[[float, float], bool]] = {
    **_ORDER,  # type: ignore[dict-item]
    "lg": lambda a, b: a < b or a > b,
    "o": lambda a, b: not (math.isnan(a) or math.isnan(b)),
}


def _compare_reals(word: str) -> Callable[[int, int], int]:
    test, negated = _REAL_ORDER[_NEGATED.get(word, word)], word in _NEGATED
    return lambda a, b: int(test(_real(a), _real(b)) is not negated)


for _word in (*_REAL_ORDER, *_NEGATED):
    COMPARE[f"s_cmp_{_word}_f32"] = _compare_reals(_word)
for _word in ("eq", "lg"):
    COMPARE[f"s_cmp_{_word}_u64"] = COMPARE[f"s_cmp_{_word}_u32"]
