"""How results of AMD instructions grow with the trips, from how their operands do.

An instruction is written as steps (`growth_steps.py`): `v_lshl_add_u32` is a shift and a sum, the
carry of `s_add_u32` the high half of a wider sum. What is not in a table keeps numbers that are
fixed, and makes others unknown. The tests compare with the machine's own arithmetic.
"""

from __future__ import annotations

from titan.isa.simt.operations import Kind, Op
from titan.isa.waves.growth_steps import (
    GrowingNumber,
    Results,
    Rule,
    Steps,
    Whole,
    bit_test,
    comparison,
    difference,
    extreme,
    halves,
    inverted,
    plain,
    product_of_24,
    scalar_field,
    shift,
    shift_sum,
    signed_field,
    signed_scalar_field,
    sum_of,
    tested,
    two,
    with_overflow,
)

_ADD, _AND, _OR, _XOR = (plain(op) for op in (Op.ADD, Op.AND, Op.OR, Op.XOR))
_LEFT, _NOT = shift(True), plain(Op.NOT)
_U, _S = Kind.UNSIGNED, Kind.SIGNED
_MIN, _MAX = plain(Op.MIN), plain(Op.MAX)
_MIN_I, _MAX_I = plain(Op.MIN, 32, _S), plain(Op.MAX, 32, _S)


def _same(steps: Steps, given: list[GrowingNumber]) -> Results:
    return (given[0],)


def _chosen(steps: Steps, given: list[GrowingNumber]) -> Results:
    """s_cselect: the condition comes last."""
    return (steps.choose(given[2], given[0], given[1]),)


def _but_not(inner: Whole) -> Whole:
    """With the complement of the second operand."""
    return lambda steps, given: inner(steps, [given[0], steps.do(Op.NOT, 32, given[1])])


def _reversed(inner: Whole) -> Whole:
    return lambda steps, given: inner(steps, [given[1], given[0], *given[2:]])


def _extended(bits: int) -> Rule:
    return lambda steps, given: (steps.signed_field(given[0], 0, bits),)


def _wide_sum(steps: Steps, given: list[GrowingNumber]) -> Results:
    """v_lshl_add_u64: the amount is below 8."""
    moved = steps.do(Op.SHL, 64, given[0], steps.both(given[1], 7))
    return (steps.add(moved, given[2], 64),)


BITS: dict[str, Whole] = {
    "and": _AND,
    "or": _OR,
    "xor": _XOR,
    "andn2": _but_not(_AND),
    "orn2": _but_not(_OR),
    "nand": inverted(_AND),
    "nor": inverted(_OR),
    "xnor": inverted(_XOR),
    "not": _NOT,
}
# Of two words that do not matter to each other; the condition of the bitwise ones is that any bit
# of the result is set.
BY_WORDS: dict[str, Rule] = {
    "s_mov_b64": _same,
    "v_mov_b64": _same,
    "s_cselect_b64": _chosen,
    **{f"s_{word}_b64": rule for word, rule in BITS.items()},
}
SCALAR: dict[str, Rule] = {
    "s_mov_b32": _same,
    "s_movk_i32": _same,
    "s_add_u32": sum_of,
    "s_addc_u32": sum_of,
    "s_sub_u32": difference,
    "s_subb_u32": difference,
    "s_add_i32": with_overflow(Op.ADD),
    "s_addk_i32": with_overflow(Op.ADD),
    "s_sub_i32": with_overflow(Op.SUB),
    "s_mul_i32": plain(Op.MUL_LOW),
    "s_mulk_i32": plain(Op.MUL_LOW),
    "s_mul_hi_u32": plain(Op.MUL_HIGH),
    "s_mul_hi_i32": plain(Op.MUL_HIGH, 32, _S),
    "s_min_i32": extreme(Op.MIN, _S),
    "s_max_i32": extreme(Op.MAX, _S),
    "s_min_u32": extreme(Op.MIN, _U),
    "s_max_u32": extreme(Op.MAX, _U),
    "s_lshl_b32": tested(_LEFT),
    "s_lshr_b32": tested(shift(False)),
    "s_ashr_i32": tested(shift(False, 32, _S)),
    "s_lshl_b64": tested(shift(True, 64), 64),
    "s_lshr_b64": tested(shift(False, 64), 64),
    "s_ashr_i64": tested(shift(False, 64, _S), 64),
    "s_bfe_u32": scalar_field(32),
    "s_bfe_u64": scalar_field(64),
    "s_bfe_i32": signed_scalar_field,
    "s_sext_i32_i16": _extended(16),
    "s_sext_i32_i8": _extended(8),
    "s_cselect_b32": _chosen,
    "s_cmov_b32": _chosen,
    "s_cmovk_i32": _chosen,
    "s_bitcmp0_b32": bit_test(32, True),
    "s_bitcmp1_b32": bit_test(32, False),
    "s_bitcmp0_b64": bit_test(64, True),
    "s_bitcmp1_b64": bit_test(64, False),
    **{f"s_lshl{by}_add_u32": shift_sum(by) for by in (1, 2, 3, 4)},
    **{f"s_{word}_b32": tested(rule) for word, rule in BITS.items()},
}
for _word, _meant in (
    ("eq", "eq"), ("lg", "ne"), ("gt", "gt"), ("ge", "ge"), ("lt", "lt"), ("le", "le"),
):  # fmt: skip
    for _type, _kind in (("u32", _U), ("i32", _S)):
        SCALAR[f"s_cmp_{_word}_{_type}"] = comparison(_meant, 32, _kind)
        SCALAR[f"s_cmpk_{_word}_{_type}"] = comparison(_meant, 32, _kind)
    if _word in ("eq", "lg"):
        SCALAR[f"s_cmp_{_word}_u64"] = comparison(_meant, 64, _U)

VECTOR: dict[str, Rule] = {
    "v_mov_b32": _same,
    "v_accvgpr_read_b32": _same,
    "v_accvgpr_write_b32": _same,
    "v_accvgpr_mov_b32": _same,
    "v_not_b32": _NOT,
    "v_add_u32": _ADD,
    "v_add_i32": _ADD,
    "v_sub_u32": plain(Op.SUB),
    "v_sub_i32": plain(Op.SUB),
    "v_subrev_u32": _reversed(plain(Op.SUB)),
    "v_and_b32": _AND,
    "v_or_b32": _OR,
    "v_xor_b32": _XOR,
    "v_xnor_b32": inverted(_XOR),
    "v_lshlrev_b32": shift(True, reverse=True),
    "v_lshrrev_b32": shift(False, reverse=True),
    "v_ashrrev_i32": shift(False, 32, _S, reverse=True),
    "v_lshlrev_b64": shift(True, 64, reverse=True),
    "v_lshrrev_b64": shift(False, 64, reverse=True),
    "v_ashrrev_i64": shift(False, 64, _S, reverse=True),
    "v_mul_lo_u32": plain(Op.MUL_LOW),
    "v_mul_hi_u32": plain(Op.MUL_HIGH),
    "v_mul_hi_i32": plain(Op.MUL_HIGH, 32, _S),
    "v_mul_u32_u24": product_of_24,
    "v_mad_u32_u24": product_of_24,
    "v_min_u32": _MIN,
    "v_max_u32": _MAX,
    "v_min_i32": _MIN_I,
    "v_max_i32": _MAX_I,
    "v_min3_u32": two(_MIN, _MIN),
    "v_max3_u32": two(_MAX, _MAX),
    "v_min3_i32": two(_MIN_I, _MIN_I),
    "v_max3_i32": two(_MAX_I, _MAX_I),
    "v_add_u16": halves(_ADD, reads=False),
    "v_sub_u16": halves(plain(Op.SUB), reads=False),
    "v_subrev_u16": halves(_reversed(plain(Op.SUB)), reads=False),
    "v_mul_lo_u16": halves(plain(Op.MUL_LOW)),
    "v_mad_u16": halves(plain(Op.MAD_LOW)),
    "v_mad_legacy_u16": halves(plain(Op.MAD_LOW)),
    "v_min_u16": halves(_MIN),
    "v_max_u16": halves(_MAX),
    "v_lshl_add_u32": two(_LEFT, _ADD),
    "v_add_lshl_u32": two(_ADD, _LEFT),
    "v_add3_u32": two(_ADD, _ADD),
    "v_xad_u32": two(_XOR, _ADD),
    "v_lshl_or_b32": two(_LEFT, _OR),
    "v_and_or_b32": two(_AND, _OR),
    "v_or3_b32": two(_OR, _OR),
    "v_bfe_u32": lambda steps, given: (
        steps.do(Op.BFE, 32, given[0], steps.both(given[1], 31), steps.both(given[2], 31)),
    ),
    "v_bfe_i32": signed_field,
    "v_lshl_add_u64": _wide_sum,
    "v_mad_u64_u32": plain(Op.MAD_WIDE),
    "v_mad_i64_i32": plain(Op.MAD_WIDE, 32, _S),
    # The condition comes last, and chooses the second operand.
    "v_cndmask_b32": lambda steps, given: (steps.choose(given[2], given[1], given[0]),),
    **{f"v_{word}_co_u32": sum_of for word in ("add", "addc")},
    **{f"v_{word}_co_u32": difference for word in ("sub", "subb")},
    **{f"v_{word}_co_u32": _reversed(difference) for word in ("subrev", "subbrev")},
}
for _word in ("eq", "ne", "gt", "ge", "lt", "le"):
    for _bits in (16, 32, 64):
        for _letter, _kind in (("u", _U), ("i", _S)):
            for _name in ("cmp", "cmpx"):
                VECTOR[f"v_{_name}_{_word}_{_letter}{_bits}"] = comparison(
                    _word, max(_bits, 32), _kind, narrow=_bits == 16
                )
# Rules that make of all lanes the same, whatever numbers these hold, where they grow alike.
LINEAR = frozenset(
    (
        "v_mov_b32", "v_accvgpr_read_b32", "v_accvgpr_write_b32", "v_accvgpr_mov_b32",
        "v_add_u32", "v_add_i32", "v_sub_u32", "v_sub_i32", "v_subrev_u32", "v_add3_u32",
        "v_not_b32",
    )
)  # fmt: skip
