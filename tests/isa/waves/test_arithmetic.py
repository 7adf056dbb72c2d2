"""Scalar and vector instructions against their definitions on Python's integers."""

from __future__ import annotations

import random

import pytest

np = pytest.importorskip("numpy")

from titan.isa.gcn.opcodes import OPCODES  # noqa: E402
from titan.isa.waves import arithmetic, scalar  # noqa: E402

WORD = 0xFFFFFFFF
EDGES = [0, 1, 2, 31, 32, 63, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, WORD, 0x00FF00FF]
CHOOSER = random.Random(7)
ROWS = [[CHOOSER.choice([*EDGES, CHOOSER.getrandbits(32)]) for _ in range(64)] for _ in range(3)]


def signed(value, bits=32):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def bytes_of(value):
    return value.to_bytes(8, "little")


def permuted(a, b, c):
    source = bytes_of(a << 32 | b)
    found = 0
    for at in range(4):
        choice = c >> 8 * at & 0xFF
        if choice < 8:
            byte = source[choice]
        elif choice < 12:
            byte = 0xFF if source[2 * (choice - 8) + 1] & 0x80 else 0
        else:
            byte = 0 if choice == 12 else 0xFF
        found |= byte << 8 * at
    return found


VECTOR = {
    "v_add_u32": lambda a, b: a + b,
    "v_subrev_u32": lambda a, b: b - a,
    "v_lshlrev_b32": lambda a, b: b << (a & 31),
    "v_ashrrev_i32": lambda a, b: signed(b) >> (a & 31),
    "v_mul_hi_u32": lambda a, b: a * b >> 32,
    "v_mul_hi_i32": lambda a, b: signed(a) * signed(b) >> 32,
    "v_mul_u32_u24": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF),
    "v_mul_i32_i24": lambda a, b: signed(a, 24) * signed(b, 24),
    "v_max_i32": lambda a, b: max(signed(a), signed(b)),
    "v_min_u32": min,
    "v_bfm_b32": lambda a, b: ((1 << (a & 31)) - 1) << (b & 31),
    "v_bcnt_u32_b32": lambda a, b: a.bit_count() + b,
    "v_mul_lo_u16": lambda a, b: a * b & 0xFFFF,
    "v_ashrrev_i16": lambda a, b: signed(b, 16) >> (a & 15) & 0xFFFF,
    "v_lshl_add_u32": lambda a, b, c: (a << (b & 31)) + c,
    "v_add_lshl_u32": lambda a, b, c: (a + b & WORD) << (c & 31),
    "v_xad_u32": lambda a, b, c: (a ^ b) + c,
    "v_and_or_b32": lambda a, b, c: a & b | c,
    "v_bfi_b32": lambda a, b, c: a & b | ~a & c,
    "v_bfe_u32": lambda a, b, c: a >> (b & 31) & (1 << (c & 31)) - 1,
    "v_alignbit_b32": lambda a, b, c: (a << 32 | b) >> (c & 31),
    "v_alignbyte_b32": lambda a, b, c: (a << 32 | b) >> 8 * (c & 3),
    "v_perm_b32": permuted,
    "v_mad_u32_u24": lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c,
    "v_med3_i32": lambda a, b, c: sorted(map(signed, (a, b, c)))[1],
    "v_not_b32": lambda a: ~a,
    "v_bfrev_b32": lambda a: int(f"{a:032b}"[::-1], 2),
    "v_ffbh_u32": lambda a: 32 - a.bit_length() if a else -1,
    "v_ffbl_b32": lambda a: (a & -a).bit_length() - 1,
}


@pytest.mark.parametrize("name", VECTOR)
def test_vector(name):
    table = arithmetic.UNARY | arithmetic.BINARY | arithmetic.TERNARY
    oracle = VECTOR[name]
    count = oracle.__code__.co_argcount if hasattr(oracle, "__code__") else 2
    rows = [np.array(row, np.uint32) for row in ROWS[:count]]
    found = [int(value) for value in table[name](*rows)]
    assert found == [oracle(*values) & WORD for values in zip(*ROWS[:count], strict=True)]


def test_signed_bit_fields():
    for a, b, c in zip(*ROWS, strict=True):
        width, offset = c & 31, b & 31
        part = signed(a) >> offset  # beyond the sign there is more of it
        expected = signed(part, width) & WORD if width else 0
        found = arithmetic.TERNARY["v_bfe_i32"](*(np.array([x], np.uint32) for x in (a, b, c)))
        assert int(found[0]) == expected


def test_bit_operations_by_their_table():
    a, b, c = (np.array(row, np.uint32) for row in ROWS)
    majority = arithmetic.bit_operation(0b11101000)(a, b, c)
    assert (majority == (a & b | a & c | b & c)).all()


def test_integer_division_as_compilers_write_it():
    """The nearest reciprocal, and one correction step, as clang does it."""
    for divisor in (1, 2, 3, 7, 8, 100, 65535, 1 << 20):
        d = np.array([divisor], np.uint32)
        scaled = arithmetic.BINARY["v_mul_f32"](
            np.array([0x4F7FFFFE], np.uint32),
            arithmetic.UNARY["v_rcp_f32"](arithmetic.UNARY["v_cvt_f32_u32"](d)),
        )
        estimate = int(arithmetic.UNARY["v_cvt_u32_f32"](scaled)[0])
        estimate = estimate + (estimate * (-divisor * estimate & WORD) >> 32) & WORD
        for value in (0, 1, divisor - 1, divisor, 12345678, WORD):
            quotient = value * estimate >> 32
            rest = value - quotient * divisor
            for _ in range(2):
                if rest >= divisor:
                    quotient, rest = quotient + 1, rest - divisor
            assert (quotient, rest) == divmod(value, divisor)


SCALAR = {
    "s_add_u32": lambda a, b, c: (a + b, a + b > WORD),
    "s_addc_u32": lambda a, b, c: (a + b + c, a + b + c > WORD),
    "s_sub_u32": lambda a, b, c: (a - b, b > a),
    "s_subb_u32": lambda a, b, c: (a - b - c, b + c > a),
    "s_add_i32": lambda a, b, c: (a + b, not -(2**31) <= signed(a) + signed(b) < 2**31),
    "s_sub_i32": lambda a, b, c: (a - b, not -(2**31) <= signed(a) - signed(b) < 2**31),
    "s_ashr_i32": lambda a, b, c: (signed(a) >> (b & 31), signed(a) >> (b & 31) != 0),
    "s_lshl_b32": lambda a, b, c: (a << (b & 31), a << (b & 31) & WORD != 0),
    "s_andn2_b32": lambda a, b, c: (a & ~b, a & ~b != 0),
    "s_max_i32": lambda a, b, c: (max(signed(a), signed(b)), signed(a) > signed(b)),
    "s_absdiff_i32": lambda a, b, c: (abs(signed(a - b)), (a - b) & WORD != 0),
    "s_lshl3_add_u32": lambda a, b, c: ((a << 3) + b, (a << 3) + b > WORD),
    "s_mul_hi_i32": lambda a, b, c: (signed(a) * signed(b) >> 32, None),
    "s_cselect_b32": lambda a, b, c: (a if c else b, None),
}


@pytest.mark.parametrize("name", SCALAR)
def test_scalar(name):
    for a, b, c in zip(*ROWS, strict=True):
        value, condition = SCALAR[name](a, b, c & 1)
        expected = value & WORD, None if condition is None else int(condition)
        assert scalar.BINARY[name](a, b, c & 1) == expected


def test_every_function_is_of_an_instruction():
    named = [
        *arithmetic.UNARY, *arithmetic.BINARY, *arithmetic.TERNARY, *arithmetic.WIDE_BINARY,
        *scalar.UNARY, *scalar.BINARY, *scalar.COMPARE,
    ]  # fmt: skip
    assert [name for name in named if name not in OPCODES] == []


REALS = [0x0, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x40490FDB]
WORDS_OF_REALS = {
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "nlt": "<", "nle": "<=", "ngt": ">",
    "nge": ">=", "neq": "==",
}  # fmt: skip


def test_comparisons_of_reals_are_those_of_ieee():
    number = {bits: float(np.array(bits, np.uint32).view(np.float32)) for bits in REALS}
    for word, sign in WORDS_OF_REALS.items():
        test = arithmetic.real_comparison(f"v_cmp_{word}_f32")
        for a in REALS:
            for b in REALS:
                expected = eval(f"a {sign} b", {"a": number[a], "b": number[b]})
                found = test(*(np.array([bits], np.uint32) for bits in (a, b)))
                assert bool(found[0]) == (expected != word.startswith("n")), (word, a, b)
    ordered, unordered = (arithmetic.real_comparison(f"v_cmpx_{one}_f32") for one in "ou")
    one, none = (np.array([bits], np.uint32) for bits in (0x3F800000, 0x7FC00000))
    assert ordered(one, one)[0] and unordered(one, none)[0] and unordered(none, one)[0]
    assert not ordered(one, none)[0] and not unordered(one, one)[0]
    assert arithmetic.real_comparison("v_cmp_lt_f16") is None
    assert arithmetic.real_comparison("v_cmp_lt_i32") is None


def test_subnormal_numbers_are_found():
    words = np.array([0, 0x80000000, 1, 0x807FFFFF, 0x00800000, 0x7F800000], np.uint32)
    assert arithmetic.tiny(words).tolist() == [False, False, True, True, False, False]
