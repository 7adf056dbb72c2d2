"""Steps of vector instructions: lanes whose sources are known get values, the others none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from titan.isa.gcn.module import AssemblyInstruction, GcnOperand, Registers
from titan.isa.gcn.opcodes import OpcodeKind
from titan.isa.gcn.operands import EXEC
from titan.isa.waves.arithmetic import (
    BINARY,
    TERNARY,
    UNARY,
    WIDE_BINARY,
    WIDE_PAIRS,
    Wide,
    bit_operation,
    comparison,
    real_comparison,
    tiny,
)
from titan.isa.waves.decode import DecodedInstruction, Step, in_halves, register_numbers
from titan.isa.waves.part_steps import moved_step, part_step, swap_step
from titan.isa.waves.sources import (
    VectorSource,
    WideSource,
    part_source,
    scalar_source,
    vector_source,
    wide_source,
)
from titan.isa.waves.state import (
    LANES,
    OpaqueWord,
    Refused,
    Scalar,
    Wave,
    Words,
    lanes_of,
    mask_of,
)
from titan.isa.waves.typed_steps import typed_step

_CHANGES = ("clamp", "mul", "div", "op_sel", "op_sel_hi", "neg_lo", "neg_hi", "byte_sel")
_REAL = ("_f32", "_legacy_f32")


def vector_step(code: DecodedInstruction) -> Step:
    """The step of an instruction of the vector unit."""
    item, name = code.item, code.item.base
    special = _SPECIAL.get(name)
    if special is not None and not item.opcode.endswith(("_dpp", "_sdwa")):
        return opaque_step(code) if "clamp" in item.options or in_halves(item) else special(code)
    if name.startswith("v_cmp_") and name.endswith(("_f16", "_f64")):
        return typed_step(code, computes=False) or _compare(code)
    if name.startswith(("v_cmp_", "v_cmpx_")):
        return _compare(code)
    if name.startswith("v_permlane"):
        return swap_step(code) or opaque_step(code)
    function = _function(item)
    sources = _word_sources(code) if function is not None else None
    if function is not None and sources is not None and item.opcode.endswith("_dpp"):
        return moved_step(code, function, sources) or opaque_step(code)
    if function is not None and sources is not None and item.opcode.endswith("_sdwa"):
        return part_step(code, function, sources) or opaque_step(code)
    if function is None or sources is None:
        return typed_step(code, computes=False) or opaque_step(code)
    return _evaluated(code, function, sources)


def _function(item: AssemblyInstruction) -> Callable[..., Words] | None:
    """What computes the words of the result; None if the values are not followed."""
    if in_halves(item) or any(word in item.options for word in _CHANGES):
        return None
    if item.base == "v_bitop3_b32":
        return bit_operation(item.integer("bitop3"))
    return UNARY.get(item.base) or BINARY.get(item.base) or TERNARY.get(item.base)


def _word_sources(code: DecodedInstruction) -> list[VectorSource] | None:
    item = code.item
    operands: tuple[GcnOperand, ...] = item.operands[1:]
    if item.base == "v_fmac_f32":
        operands = (*operands, item.operands[0])
    real = item.base.endswith(_REAL)
    if not item.opcode.endswith("_sdwa"):
        return [vector_source(operand, code.number, real) for operand in operands]
    return _chosen(code, operands, "f32" if real else "b32")


def _chosen(
    code: DecodedInstruction, operands: tuple[GcnOperand, ...], kind: str
) -> list[VectorSource] | None:
    """The parts of operands that SDWA selects; None if one of them is not understood."""
    found = []
    for at, operand in enumerate(operands):
        selection = code.item.options.get(f"src{at}_sel", "")
        one = part_source(operand, code.number, selection, kind)
        if one is None:
            return None
        found.append(one)
    return found


def _destination(code: DecodedInstruction) -> int:
    numbers = register_numbers(code.item.operands[0]) if code.item.operands else range(0)
    if not numbers or numbers[0] >= 512:
        raise Refused(f"{code.item.opcode} without a vector result")
    return numbers[0]


def _evaluated(
    code: DecodedInstruction, function: Callable[..., Words], sources: list[VectorSource]
) -> Step:
    target = _destination(code)

    def step(wave: Wave) -> None:
        known, values, origin = wave.exec, [], None
        for source in sources:
            words, mask, why = source(wave)
            values.append(words)
            if known & ~mask and origin is None:
                origin = why
            known &= mask
        if not known:
            if origin is not None:
                wave.forget(target, 1, origin)
            return
        with np.errstate(all="ignore"):
            wave.set_vector(target, function(*values), known, origin or _NONE)

    return step


_NONE = OpaqueWord("nothing", -1)


def opaque_step(code: DecodedInstruction) -> Step:
    """The results are not followed: they become unknown, for the reason of an unknown source.

    Products write all lanes, whatever the execution mask (CDNA3, 7.1), and exchanges of lanes are
    taken to.
    """
    targets = code.item.operands[: code.opcode.results]
    sources = sorted(code.reads)
    whole = code.opcode.kind is OpcodeKind.MATRIX or code.item.base.startswith("v_permlane")
    own = OpaqueWord(f"the result of {code.item.opcode}", code.number)

    def step(wave: Wave) -> None:
        origin = own
        for at in sources:
            if at < 512 and wave.known[at] & wave.exec != wave.exec:
                origin = wave.origins[at]
                break
        for operand in targets:
            if not isinstance(operand, Registers):
                continue
            if operand.bank == "s":
                wave.set_scalar(operand.first, origin, operand.count)
            else:
                wave.forget(register_numbers(operand)[0], operand.count, origin, whole)

    return step


def _compare(code: DecodedInstruction) -> Step:
    item, name = code.item, code.item.base
    real, test = real_comparison(name), comparison(name)
    if len(item.operands) < 3 or item.opcode.endswith("_dpp") or in_halves(item):
        return _unknown_mask(code)
    first, second = item.operands[1:3]
    if item.opcode.endswith("_sdwa"):
        parts = _chosen(code, item.operands[1:3], "b32")
        if test is None or parts is None:
            return _unknown_mask(code)
        return _mask(code, parts[0], parts[1], test)
    if real is not None:
        return _mask(code, _normal(first, code.number), _normal(second, code.number), real)
    if test is None:
        return _unknown_mask(code)
    make = wide_source if name.endswith(("u64", "i64")) else vector_source
    return _mask(code, make(first, code.number), make(second, code.number), test)


def _mask(
    code: DecodedInstruction,
    left: VectorSource | WideSource,
    right: VectorSource | WideSource,
    test: Callable[..., NDArray[np.bool_]],
) -> Step:
    """The lanes in which a comparison holds; not known if it is not for one of them."""
    target = code.item.operands[0]
    assert isinstance(target, Registers)
    exclusive, count = code.item.base.startswith("v_cmpx"), target.count

    def step(wave: Wave) -> None:
        a, known, why = left(wave)
        b, also, reason = right(wave)
        lanes = wave.exec
        result: Scalar = 0
        if known & also & lanes != lanes:
            result = why if known & lanes != lanes else reason
        elif lanes:
            found = np.broadcast_to(test(a, b), (LANES,))
            result = mask_of(found) & lanes
        wave.set_scalar(target.first, result, count)
        if exclusive:
            wave.set_scalar(EXEC, result, count)

    return step


def _normal(operand: GcnOperand, number: int) -> VectorSource:
    """A number of binary32 with its modifiers; not known where it is subnormal."""
    inner = vector_source(operand, number, True)

    def source(wave: Wave) -> tuple[Words, int, OpaqueWord]:
        values, known, origin = inner(wave)
        small = tiny(values)
        if not small.any():
            return values, known, origin
        lanes = mask_of(np.broadcast_to(small, (LANES,)))
        return values, known & ~lanes, OpaqueWord("a subnormal number", number)

    return source


def _unknown_mask(code: DecodedInstruction) -> Step:
    inner = opaque_step(code)
    if not code.item.base.startswith("v_cmpx"):
        return inner

    def step(wave: Wave) -> None:
        inner(wave)
        raise Refused("the execution mask", OpaqueWord("a comparison of data", code.number))

    return step


# -------------------------------------------------------------------------- special forms


def _words_of(operand: GcnOperand) -> int:
    """Of a mask: two scalar registers, one of waves of 32 lanes; a constant has two."""
    return operand.count if isinstance(operand, Registers) else 2


def _condition_mask(code: DecodedInstruction) -> Step:
    """v_cndmask_b32: the second source where the bit of the mask is set."""
    operands = code.item.operands
    target = _destination(code)
    if len(operands) < 4 or any(word in code.item.options for word in _CHANGES):
        return opaque_step(code)
    zero, one = (vector_source(operand, code.number, real=True) for operand in operands[1:3])
    chosen = scalar_source(operands[3], _words_of(operands[3]), code.number)

    def step(wave: Wave) -> None:
        mask = chosen(wave)
        if isinstance(mask, OpaqueWord):
            wave.forget(target, 1, mask)
            return
        (a, a_known, a_why), (b, b_known, b_why) = zero(wave), one(wave)
        known = (b_known & mask | a_known & ~mask) & wave.exec
        origin = b_why if mask & ~b_known & wave.exec else a_why
        wave.set_vector(target, np.where(lanes_of(mask), b, a), known, origin)

    return step


def _read_lane(code: DecodedInstruction) -> Step:
    operands = code.item.operands
    target = operands[0]
    assert isinstance(target, Registers)
    source = vector_source(operands[1], code.number)
    first = code.item.base == "v_readfirstlane_b32"
    lane_of = None if first else scalar_source(operands[2], 1, code.number)

    def step(wave: Wave) -> None:
        if lane_of is None:
            lane: Scalar = (wave.exec & -wave.exec).bit_length() - 1 if wave.exec else 0
        else:
            lane = lane_of(wave)
        values, known, origin = source(wave)
        if isinstance(lane, OpaqueWord):
            wave.set_scalar(target.first, lane)
            return
        lane &= wave.width - 1
        value = int(values[lane if len(values) > 1 else 0])
        wave.set_scalar(target.first, value if known >> lane & 1 else origin)

    return step


def _write_lane(code: DecodedInstruction) -> Step:
    target, operands = _destination(code), code.item.operands
    value_of = scalar_source(operands[1], 1, code.number)
    lane_of = scalar_source(operands[2], 1, code.number)

    def step(wave: Wave) -> None:
        value, lane = value_of(wave), lane_of(wave)
        if isinstance(lane, OpaqueWord):
            wave.known[target], wave.origins[target] = 0, lane
            return
        lane &= wave.width - 1
        if isinstance(value, OpaqueWord):
            wave.known[target] &= ~(1 << lane)
            wave.origins[target] = value
        else:
            wave.vectors[target][lane] = value
            wave.known[target] |= 1 << lane

    return step


def _carry(code: DecodedInstruction) -> Step:
    """Sums and differences with a carry out, and in for `addc`, `subb`."""
    item, target = code.item, _destination(code)
    mask_to = item.operands[1]
    assert isinstance(mask_to, Registers)
    left, right = (vector_source(operand, code.number) for operand in item.operands[2:4])
    carries = item.base.startswith(("v_addc", "v_subb"))
    carried = (
        scalar_source(item.operands[4], _words_of(item.operands[4]), code.number)
        if carries
        else None
    )
    subtract, reverse = "sub" in item.base, "rev" in item.base

    def step(wave: Wave) -> None:
        (a, a_known, a_why), (b, b_known, b_why) = left(wave), right(wave)
        extra: Scalar = 0 if carried is None else carried(wave)
        if isinstance(extra, OpaqueWord):
            wave.forget(target, 1, extra)
            wave.set_scalar(mask_to.first, extra, mask_to.count)
            return
        first, second = (b, a) if reverse else (a, b)
        more = lanes_of(extra).astype(np.int64)
        total = first.astype(np.int64)
        total = total - second - more if subtract else total + second + more
        total = np.broadcast_to(total, (LANES,))
        known = a_known & b_known & wave.exec
        out: Scalar = mask_of((total < 0) | (total > 0xFFFFFFFF)) & wave.exec
        origin = a_why if wave.exec & ~a_known else b_why
        if known != wave.exec:
            out = origin
        wave.set_vector(target, (total & 0xFFFFFFFF).astype(np.uint32), known, origin)
        wave.set_scalar(mask_to.first, out, mask_to.count)

    return step


def _set_wide(
    wave: Wave, target: int, values: Wide, known: int, origin: OpaqueWord, low: int | None = None
) -> None:
    lower = (values & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    wave.set_vector(target, lower, known if low is None else low, origin)
    wave.set_vector(target + 1, (values >> np.uint64(32)).astype(np.uint32), known, origin)


def _wide_shift(code: DecodedInstruction) -> Step:
    """Shifts of 64 bits, and v_mov_b64."""
    target, operands = _destination(code), code.item.operands
    if code.item.base == "v_mov_b64":
        source = wide_source(operands[1], code.number)

        def move(wave: Wave) -> None:
            values, known, origin = source(wave)
            _set_wide(wave, target, values, known & wave.exec, origin)

        return move
    amount = vector_source(operands[1], code.number)
    shifted = wide_source(operands[2], code.number)
    function = WIDE_BINARY[code.item.base]

    def step(wave: Wave) -> None:
        (by, by_known, by_why), (values, known, origin) = amount(wave), shifted(wave)
        both = by_known & known & wave.exec
        why = by_why if wave.exec & ~by_known else origin
        _set_wide(wave, target, function(by.astype(np.uint64), values), both, why)

    return step


def _shift_add(code: DecodedInstruction) -> Step:
    """v_lshl_add_u64."""
    target, operands = _destination(code), code.item.operands
    first = wide_source(operands[1], code.number)
    amount = vector_source(operands[2], code.number)
    second = wide_source(operands[3], code.number)

    def step(wave: Wave) -> None:
        (a, a_known, a_why), (b, b_known, b_why) = first(wave), second(wave)
        by, by_known, by_why = amount(wave)
        known = a_known & b_known & by_known & wave.exec
        why = a_why if wave.exec & ~a_known else b_why if wave.exec & ~b_known else by_why
        shift = by.astype(np.uint64) & np.uint64(7)
        _set_wide(wave, target, (a << shift) + b, known, why)

    return step


def _wide_pair(code: DecodedInstruction) -> Step:
    """Sums, differences, products, the smaller and the larger of two numbers of 64 bits."""
    target, operands = _destination(code), code.item.operands
    first, second = (wide_source(operand, code.number) for operand in operands[1:3])
    function = WIDE_PAIRS[code.item.base]

    def step(wave: Wave) -> None:
        (a, a_known, a_why), (b, b_known, b_why) = first(wave), second(wave)
        why = a_why if wave.exec & ~a_known else b_why
        with np.errstate(all="ignore"):
            _set_wide(wave, target, function(a, b), a_known & b_known & wave.exec, why)

    return step


def _scalar_reciprocal(code: DecodedInstruction) -> Step:
    """v_s_rcp_f32: the vector unit computes with scalar registers."""
    target, source = code.item.operands[0], scalar_source(code.item.operands[1], 1, code.number)
    assert isinstance(target, Registers)

    def step(wave: Wave) -> None:
        value = source(wave)
        if isinstance(value, int):
            with np.errstate(all="ignore"):
                value = int(UNARY["v_rcp_f32"](np.array([value], np.uint32))[0])
        wave.set_scalar(target.first, value)

    return step


def _multiply_add(code: DecodedInstruction) -> Step:
    """v_mad_u64_u32, v_mad_i64_i32; the carry out is not followed."""
    item, target = code.item, _destination(code)
    carry = item.operands[1]
    assert isinstance(carry, Registers)
    left, right = (vector_source(operand, code.number) for operand in item.operands[2:4])
    added = wide_source(item.operands[4], code.number)
    lower = vector_source(_lower(item.operands[4]), code.number)
    signed = item.base == "v_mad_i64_i32"
    unknown = OpaqueWord("a carry that is not followed", code.number)

    def step(wave: Wave) -> None:
        (a, a_known, a_why), (b, b_known, b_why) = left(wave), right(wave)
        c, c_known, c_why = added(wave)
        known = a_known & b_known & c_known & wave.exec
        low_known = a_known & b_known & lower(wave)[1] & wave.exec
        why = a_why if wave.exec & ~a_known else b_why if wave.exec & ~b_known else c_why
        if signed:
            product = (a.view(np.int32).astype(np.int64) * b.view(np.int32)).view(np.uint64)
        else:
            product = a.astype(np.uint64) * b.astype(np.uint64)
        _set_wide(wave, target, product + c, known, why, low_known)
        wave.set_scalar(carry.first, unknown, carry.count)

    return step


def _lower(operand: GcnOperand) -> GcnOperand:
    """The lower word of a pair, on which alone the lower word of a sum depends: compilers add pairs
    of which nobody wrote the upper one."""
    return replace(operand, count=1) if isinstance(operand, Registers) else operand


def _packed_move(code: DecodedInstruction) -> Step:
    """v_pk_mov_b32: a word of each source."""
    item, target = code.item, _destination(code)
    if any(word in item.options for word in ("neg_lo", "neg_hi", "clamp")):
        return opaque_step(code)
    chosen = item.options.get("op_sel", "[0,0]").strip("[]").split(",")
    upper = item.options.get("op_sel_hi", "[1,1]").strip("[]").split(",")
    if not all(part.strip() in "01" for part in (*chosen, *upper)) or len(chosen) != 2:
        return opaque_step(code)
    picked = []
    for operand, part in ((item.operands[1], chosen[0]), (item.operands[2], chosen[1])):
        if not isinstance(operand, Registers) or operand.count != 2:
            return opaque_step(code)
        one = Registers(operand.bank, operand.first + int(part))
        picked.append(vector_source(one, code.number))

    def step(wave: Wave) -> None:
        made = [source(wave) for source in picked]
        rows = [(words.copy(), known, origin) for words, known, origin in made]
        for at, (words, known, origin) in enumerate(rows):
            wave.set_vector(target + at, words, known & wave.exec, origin)

    return step


def _swap(code: DecodedInstruction) -> Step:
    """v_swap_b32."""
    first = _destination(code)
    second = register_numbers(code.item.operands[1])[0]

    def step(wave: Wave) -> None:
        kept = wave.vectors[first].copy(), wave.known[first], wave.origins[first]
        other = wave.vectors[second], wave.known[second], wave.origins[second]
        wave.set_vector(first, other[0], other[1] & wave.exec, other[2])
        wave.set_vector(second, kept[0], kept[1] & wave.exec, kept[2])

    return step


def _nothing(code: DecodedInstruction) -> Step:
    return lambda wave: None


_SPECIAL: dict[str, Callable[[DecodedInstruction], Step]] = {
    "v_cndmask_b32": _condition_mask,
    "v_readfirstlane_b32": _read_lane,
    "v_readlane_b32": _read_lane,
    "v_writelane_b32": _write_lane,
    "v_lshl_add_u64": _shift_add,
    "v_mad_u64_u32": _multiply_add,
    "v_mad_i64_i32": _multiply_add,
    "v_pk_mov_b32": _packed_move,
    "v_s_rcp_f32": _scalar_reciprocal,
    **dict.fromkeys(WIDE_PAIRS, _wide_pair),
    "v_swap_b32": _swap,
    "v_nop": _nothing,
    "v_clrexcp": _nothing,
    **dict.fromkeys(("v_mov_b64", *WIDE_BINARY), _wide_shift),
    **{f"v_{word}_co_u32": _carry for word in ("add", "sub", "subrev", "addc", "subb", "subbrev")},
}
