"""Which bits of a vector result are undefined, as bits of the operands are, lane by lane.

A bit of a result is undefined where it may change with an undefined bit of an operand: sums carry
upwards, shifts and selections move bits, known masks cut them off; instructions of 16 bits take
halves. Of an operation that is not in the table all bits of the result are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from titan.isa.gcn.module import AssemblyInstruction
from titan.isa.waves.moved_lanes import operand_bits
from titan.isa.waves.state import LANES, Words
from titan.isa.waves.typed_operations import BITS as BITS_OF_TYPES
from titan.isa.waves.typed_operations import OPERATIONS
from titan.isa.waves.undefined_words import ALL_BITS

Masks = Sequence[Words]
# Of an operand: its words, and the lanes in which they are known.
Given = Callable[[], tuple[Words, NDArray[np.bool_]]]
_HALF, _ZERO = np.uint32(0xFFFF), np.uint32(0)
_HALVES = re.compile(r"v_pk_(?!fma_f32|mul_f32|add_f32|mov_b32)")
_TWO_HALVES = re.compile(
    r"v_cvt_(pkrtz_f16_f32|pk_(bf16|f16|i16|u16)_[fiu]32|pknorm_[iu]16_f(16|32))|v_pack_b32_f16"
)
_TYPES = re.compile(r"_(b?f16|[iub]16|[fiub](?:24|32|64)|fp8|bf8)(?=_|$)")
_OWN_SHAPES = ("v_pk_", "v_dot", "v_sad", "v_sat", "v_cvt_scalef32", "v_msad", "v_qsad", "v_mqsad")


def _carried(mask: Words) -> Words:
    """What a carry reaches: all bits from the lowest one on."""
    lowest = mask & (~mask + np.uint32(1))
    return np.where(mask != 0, ~(lowest - np.uint32(1)), _ZERO)


def _stretched(mask: Words, bits: int) -> Words:
    """The mask of a number of so many bits that is extended with its sign."""
    if bits >= 32:
        return mask
    low = np.uint32((1 << bits) - 1)
    mask = mask & low
    return np.where(mask >> np.uint32(bits - 1) & np.uint32(1), mask | ~low, mask)


def _or_all(masks: Masks) -> Words:
    found = masks[0]
    for mask in masks[1:]:
        found = found | mask
    return found


def _whole(mask: Words) -> Words:
    return np.where(mask != 0, ALL_BITS, _ZERO)


# ---------------------------------------------------------------------------------- the table

Rule = Callable[[Masks, Sequence[Given]], Words | None]


def _known_or(given: Given, otherwise: int) -> Words:
    """The words of an operand, `otherwise` in lanes where they are not known."""
    values, known = given()
    return np.where(known, values, np.uint32(otherwise))


def _same(masks: Masks, given: Sequence[Given]) -> Words | None:
    return _or_all(masks)


def _sum(masks: Masks, given: Sequence[Given]) -> Words | None:
    return _carried(_or_all(masks))


def _and_of(one: Words, other: Words, a: Given, b: Given) -> Words:
    """Where one operand has a known zero, its own bits are defined there too."""
    ones_a = _known_or(a, 0xFFFF_FFFF) | one
    ones_b = _known_or(b, 0xFFFF_FFFF) | other
    return (one | other) & ones_a & ones_b


def _or_of(one: Words, other: Words, a: Given | None, b: Given) -> Words:
    found = (one | other) & (~_known_or(b, 0) | other)
    return found if a is None else found & (~_known_or(a, 0) | one)


def _and(masks: Masks, given: Sequence[Given]) -> Words | None:
    return _and_of(masks[0], masks[1], given[0], given[1])


def _or(masks: Masks, given: Sequence[Given]) -> Words | None:
    return _or_of(masks[0], masks[1], given[0], given[1])


def _amount(mask: Words, given: Given) -> tuple[Words, NDArray[np.bool_]]:
    """By how much is shifted, and the lanes in which that is known."""
    values, known = given()
    shifts = np.broadcast_to(values & np.uint32(31), (LANES,))
    return shifts, np.broadcast_to(known, (LANES,)) & (mask == 0)


def _shifted(
    mask: Words, by: Words, known: NDArray[np.bool_], function: Callable[[Words, Words], Words]
) -> Words:
    return np.where(known, function(mask, by), ALL_BITS)


def _left(mask: Words, by: Words) -> Words:
    return mask << by


def _right(mask: Words, by: Words) -> Words:
    return mask >> by


def _right_signed(mask: Words, by: Words) -> Words:
    return (mask.view(np.int32) >> by.astype(np.int32)).view(np.uint32)


def _shift(function: Callable[[Words, Words], Words]) -> Rule:
    def rule(masks: Masks, given: Sequence[Given]) -> Words | None:
        by, known = _amount(masks[0], given[0])
        return _shifted(masks[1], by, known, function)

    return rule


def _shift_or(masks: Masks, given: Sequence[Given]) -> Words | None:
    by, known = _amount(masks[1], given[1])
    moved = _shifted(masks[0], by, known, _left)
    return _or_of(moved, masks[2], None, given[2])


def _shift_add(masks: Masks, given: Sequence[Given]) -> Words | None:
    by, known = _amount(masks[1], given[1])
    return _carried(_shifted(masks[0], by, known, _left) | masks[2])


def _add_shift(masks: Masks, given: Sequence[Given]) -> Words | None:
    by, known = _amount(masks[2], given[2])
    return _shifted(_carried(masks[0] | masks[1]), by, known, _left)


def _and_or(masks: Masks, given: Sequence[Given]) -> Words | None:
    kept = _and_of(masks[0], masks[1], given[0], given[1])
    return _or_of(kept, masks[2], None, given[2])


def _extract(signed: bool) -> Rule:
    def rule(masks: Masks, given: Sequence[Given]) -> Words | None:
        first, known = _amount(masks[1], given[1])
        width, also = _amount(masks[2], given[2])
        low = (np.uint32(1) << width) - np.uint32(1)
        found = masks[0] >> first & low
        if signed:
            top = np.where(width > 0, found >> (width - np.uint32(1) & np.uint32(31)), _ZERO)
            found = np.where(top & np.uint32(1), found | ~low, found)
        return np.where(known & also, found, ALL_BITS)

    return rule


def _insert(masks: Masks, given: Sequence[Given]) -> Words | None:
    """v_bfi_b32: the bits of the second operand where the first has ones, else of the third."""
    field, known = given[0]()
    known = np.broadcast_to(known, (LANES,)) & (masks[0] == 0)
    either = masks[0] | masks[1] | masks[2]
    return np.where(known, field & masks[1] | ~field & masks[2], either)


def _bytes(masks: Masks, given: Sequence[Given]) -> Words | None:
    """v_perm_b32: of the bytes of two words (the second one has the lower ones) four are chosen."""
    selector, known = given[2]()
    known = np.broadcast_to(known, (LANES,)) & (masks[2] == 0)
    both = masks[0].astype(np.uint64) << np.uint64(32) | masks[1].astype(np.uint64)
    found = np.zeros(LANES, np.uint32)
    for to in range(4):
        chosen = np.broadcast_to(selector >> np.uint32(8 * to) & np.uint32(255), (LANES,))
        byte = both >> (np.uint64(8) * (chosen & np.uint32(7)).astype(np.uint64)) & np.uint64(255)
        signs = both >> np.uint64(15)  # 8 to 11 repeat the signs of the halves
        sign = signs >> (np.uint64(16) * (chosen & np.uint32(3)).astype(np.uint64)) & np.uint64(1)
        part = np.where(chosen < 8, byte, np.where(chosen < 12, sign * np.uint64(255), 0))
        found |= part.astype(np.uint32) << np.uint32(8 * to)
    return np.where(known, found, _whole(masks[0] | masks[1] | masks[2]))


def _aligned(unit: int) -> Rule:
    def rule(masks: Masks, given: Sequence[Given]) -> Words | None:
        by, known = _amount(masks[2], given[2])
        by = by * np.uint32(unit) & np.uint32(31)
        both = masks[0].astype(np.uint64) << np.uint64(32) | masks[1].astype(np.uint64)
        found = (both >> by.astype(np.uint64)).astype(np.uint32)
        return np.where(known, found, ALL_BITS)

    return rule


def _of_byte(number: int) -> Rule:
    return lambda masks, given: _whole(masks[0] & np.uint32(0xFF << 8 * number))


def _of_24_bits(masks: Masks, given: Sequence[Given]) -> Words | None:
    low = np.uint32(0xFF_FFFF)
    return _carried(_or_all([*(mask & low for mask in masks[:2]), *masks[2:]]))


_RULES: dict[str, Rule] = {
    **dict.fromkeys(
        ("v_mov_b32", "v_not_b32", "v_xor_b32", "v_xnor_b32", "v_accvgpr_read_b32", "v_xor3_b32",
         "v_accvgpr_write_b32", "v_accvgpr_mov_b32", "v_bitop3_b32", "v_or3_b32"), _same
    ),
    **dict.fromkeys(
        ("v_add_u32", "v_sub_u32", "v_subrev_u32", "v_add3_u32", "v_mul_lo_u32", "v_add_i32",
         "v_sub_i32"), _sum
    ),
    **dict.fromkeys(
        ("v_mul_u32_u24", "v_mul_i32_i24", "v_mad_u32_u24", "v_mad_i32_i24"), _of_24_bits
    ),
    "v_and_b32": _and, "v_or_b32": _or, "v_and_or_b32": _and_or,
    "v_lshlrev_b32": _shift(_left), "v_lshrrev_b32": _shift(_right),
    "v_ashrrev_i32": _shift(_right_signed),
    "v_lshl_or_b32": _shift_or, "v_lshl_add_u32": _shift_add, "v_add_lshl_u32": _add_shift,
    "v_bfe_u32": _extract(False), "v_bfe_i32": _extract(True), "v_bfi_b32": _insert,
    "v_perm_b32": _bytes, "v_alignbit_b32": _aligned(1), "v_alignbyte_b32": _aligned(8),
    **{f"v_cvt_f32_ubyte{number}": _of_byte(number) for number in range(4)},
}  # fmt: skip
_MOVES = re.compile(
    r"v_(mov_b(32|64)|not_b32|xor_b32|accvgpr_|(add|sub|subrev)_(nc_)?[ui]32|cndmask_b32|pk_mov"
    r"|lsh[lr]rev_b32|cvt_f16_f32|cvt_pk_bf16_f32|cvt_pkrtz)"
)


def surely_changes(item: AssemblyInstruction) -> bool:
    """Whether undefined bits that an instruction leaves change with those of its one undefined
    operand, whatever the other operands are."""
    return _MOVES.match(item.base) is not None and "clamp" not in item.options


# ------------------------------------------------------------------------- halves and parts


def _place(selection: str) -> tuple[int, int]:
    """The lowest bit and the bits of a part of a word (SDWA)."""
    kind, _, index = selection.partition("_")
    bits = {"BYTE": 8, "WORD": 16}.get(kind, 32)
    return (bits * int(index) if bits < 32 else 0), bits


def source_bits(item: AssemblyInstruction, at: int) -> int:
    """How many bits a source has."""
    operation = OPERATIONS.get(item.base)
    if operation is not None and at < len(operation.given):
        return min(32, BITS_OF_TYPES[operation.given[at]])
    types = _TYPES.findall(item.base)
    if not types or item.base.startswith(_OWN_SHAPES):
        return 32
    if item.base.startswith(("v_mad_i32_i16", "v_mad_u32_u16")) and at == 2:
        return 32
    return 16 if types[-1].endswith("16") else 32


def result_bits(item: AssemblyInstruction) -> int:
    """How many bits of its result an instruction writes, or 32."""
    if item.base.startswith(_OWN_SHAPES) or _TWO_HALVES.match(item.base):
        return 32
    if re.match(r"v_cvt_pk_(fp8|bf8)_f32", item.base) or re.match(r"v_fma_mix(lo|hi)", item.base):
        return 16
    operation = OPERATIONS.get(item.base)
    if operation is not None:
        return min(32, BITS_OF_TYPES[operation.gives])
    types = _TYPES.findall(item.base)
    return 16 if types and types[0].endswith("16") and not item.base.startswith("v_cmp") else 32


def _source_mask(item: AssemblyInstruction, at: int, count: int, mask: Words) -> Words:
    """The undefined bits of a source as the operation gets it."""
    if item.opcode.endswith("_sdwa") and at < 2:
        first, bits = _place(item.options.get(f"src{at}_sel", "DWORD"))
        mask = mask >> np.uint32(first) & np.uint32((1 << bits) - 1)
        operand = item.operands[1 + at] if len(item.operands) > 1 + at else None
        return _stretched(mask, bits) if getattr(operand, "extended", False) else mask
    if item.base.startswith(("v_fma_mix", "v_mad_mix")):
        half = operand_bits(item, "op_sel_hi", 0, count)[at]
        bits = 16 if half else 32
    else:
        bits = source_bits(item, at)
    if bits == 32:
        return mask
    halves = getattr(item.operands[min(1 + at, len(item.operands) - 1)], "half", "")
    chosen = operand_bits(item, "op_sel", 0, count + 1)
    high = (at < len(chosen) and chosen[at]) or halves == "h"
    return mask >> np.uint32(16) if high else mask & _HALF


def single_word(
    item: AssemblyInstruction, masks: Masks, given: Sequence[Given], old: Words, keeps: bool
) -> Words:
    """The undefined bits of a result of one word, from those of operands of one word. `old`: what
    its register had, of which the instruction keeps a part (`keeps`)."""
    count = len(masks)
    if _HALVES.match(item.base):
        return _of_halves(item, masks)
    if _TWO_HALVES.match(item.base):
        return _two_halves(item, masks)
    parts = [_source_mask(item, at, count, mask) for at, mask in enumerate(masks)]
    rule = _RULES.get(item.base)
    plain = not item.opcode.endswith("_sdwa")
    made = rule(parts, given) if rule is not None and (plain or rule is _same) else None
    if made is None:
        made = _whole(_or_all(parts)) if parts else np.zeros(LANES, np.uint32)
    return _placed(item, made, old, keeps)


def compared_bits(item: AssemblyInstruction, operands: Sequence[Masks]) -> Words:
    """The undefined bits of the operands that a comparison reads, or a carry rests on."""
    found = np.zeros(LANES, np.uint32)
    for at, words in enumerate(operands):
        for mask in words:
            one = mask if len(words) > 1 else _source_mask(item, at, len(operands), mask)
            found = found | one
    return found


def _placed(item: AssemblyInstruction, made: Words, old: Words, keeps: bool) -> Words:
    """The part of the result that is written, and what is left of the register."""
    if item.opcode.endswith("_sdwa"):
        first, bits = _place(item.options.get("dst_sel", "DWORD"))
    else:
        first, bits = 0, result_bits(item)
        chosen = operand_bits(item, "op_sel", 0, 1)
        if bits == 16 and (_upper(item, chosen) or "mixhi" in item.base):
            first = 16
    if bits == 32:
        return made | old if keeps else made
    inside = np.uint32((1 << bits) - 1 << first)
    written = made << np.uint32(first) & inside
    return written | old & ~inside if keeps else written


def _upper(item: AssemblyInstruction, chosen: list[int]) -> bool:
    """Whether the result goes to the upper half: the last bit of `op_sel`, behind the sources."""
    result = item.operands[0] if item.operands else None
    if getattr(result, "half", "") == "h":
        return True
    return "op_sel" in item.options and len(chosen) >= len(item.operands) and bool(chosen[-1])


def _joined(low: Words, high: Words) -> Words:
    """Both halves of a word, each undefined in all its bits or in none."""
    upper = np.uint32(0xFFFF_0000)
    lower: Words = np.where(low != 0, _HALF, _ZERO)
    return lower | np.where(high != 0, upper, _ZERO)


def _of_halves(item: AssemblyInstruction, masks: Masks) -> Words:
    """Instructions on pairs of numbers of 16 bits."""
    low = high = np.zeros(LANES, np.uint32)
    lower = operand_bits(item, "op_sel", 0, len(masks))
    upper = operand_bits(item, "op_sel_hi", 1, len(masks))
    for at, mask in enumerate(masks):
        halves = mask & _HALF, mask >> np.uint32(16)
        low = low | halves[lower[at] if at < len(lower) else 0]
        high = high | halves[upper[at] if at < len(upper) else 1]
    return _joined(low, high)


def _two_halves(item: AssemblyInstruction, masks: Masks) -> Words:
    """Two operands become the two halves of the result."""
    parts = [_source_mask(item, at, 2, mask) for at, mask in enumerate(masks[:2])]
    if item.base == "v_pack_b32_f16":
        return parts[0] & _HALF | parts[1] << np.uint32(16)
    low, high = parts
    return _joined(low, high)


# ------------------------------------------------------------------------------ wide operations

# The lower word of the result is made of lower words alone.
_CARRYING = re.compile(
    r"v_(mad_(nc_)?[ui]64_[ui]32|lshl_add_u64|lshlrev_b64|(add|sub)_nc_u64|mul_u64)"
)
_BY_WORDS = re.compile(r"v_pk_(fma|mul|add)_f32|v_pk_mov_b32|v_mov_b64")


def words_of_result(
    item: AssemblyInstruction, operands: Sequence[Masks], count: int
) -> list[Words] | None:
    """The undefined bits of a result of two words from the words of the operands; None where each
    word of the result is made of all of them."""
    if count != 2:
        return None
    if _CARRYING.match(item.base):
        low = _or_all([operand[0] for operand in operands])
        every = _or_all([word for operand in operands for word in operand])
        return [_whole(low), _whole(every)]
    if _BY_WORDS.match(item.base) is None:
        return None
    chosen = (
        operand_bits(item, "op_sel", 0, len(operands)),
        operand_bits(item, "op_sel_hi", 1, len(operands)),
    )
    if item.base == "v_mov_b64":
        return [operands[0][min(at, len(operands[0]) - 1)] for at in range(2)]
    if item.base == "v_pk_mov_b32":
        return [operands[at][min(chosen[0][at], len(operands[at]) - 1)] for at in range(2)]
    return [
        _whole(
            _or_all(
                [
                    operand[min(bits[at], len(operand) - 1)]
                    for at, operand in enumerate(operands)
                ]
            )
        )
        for bits in chosen
    ]  # fmt: skip
