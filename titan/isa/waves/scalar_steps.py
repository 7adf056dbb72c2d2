"""Steps of scalar instructions."""

from __future__ import annotations

from titan.isa.gcn.module import GcnOperand, Literal, Registers
from titan.isa.gcn.operands import EXEC, TTMP
from titan.isa.waves.decode import DecodedInstruction, Step
from titan.isa.waves.scalar import BINARY, BITWISE, COMPARE, UNARY, signed
from titan.isa.waves.sources import ScalarSource, scalar_source
from titan.isa.waves.state import UNKNOWN_MASK, WORD, OpaqueWord, Refused, Scalar, Wave

# Five bits from bit 25 on of ttmp8, which gfx90a to gfx950 do not have, and nothing reads there.
_WAVE_FIELD = (Registers("s", TTMP + 8), Literal(0x50019))


LEAVE_CONDITION = ("s_cselect", "s_cmov")  # they read the condition code, and leave it
BY_CONDITION = (*LEAVE_CONDITION, "s_addc", "s_subb")  # they read it
_UNSET = OpaqueWord("the condition code as it was", -1)
_ON_ITSELF = ("s_addk_i32", "s_mulk_i32", "s_cmovk_i32", "s_cmov_b32", "s_cmov_b64")


def takes_condition(name: str) -> bool:
    """Whether what an instruction leaves, also as the condition code, may be made of that code;
    so it is where the instruction is not evaluated."""
    if name.startswith(BY_CONDITION):
        return True
    evaluated = name in COMPARE or name in UNARY or name in BINARY or name in _ON_ITSELF
    masks = name.endswith(("_saveexec_b64", "_wrexec_b64"))
    return not evaluated and not masks and not name.startswith("s_bitset")


def leaves_condition(name: str) -> bool:
    """Whether an instruction surely leaves the condition code as it is."""
    if name in UNARY:
        return UNARY[name](1)[1] is None
    return name.startswith(LEAVE_CONDITION) or (name in BINARY and BINARY[name](1, 1, 0)[1] is None)


def performed(wave: Wave, code: DecodedInstruction) -> bool:
    """Perform an instruction of the scalar unit; whether it may set the condition code."""
    assert code.step is not None
    if takes_condition(code.item.base):
        code.step(wave)
        return not code.item.base.startswith(LEAVE_CONDITION)
    before, wave.condition = wave.condition, _UNSET
    try:
        code.step(wave)
    finally:
        sets = wave.condition is not _UNSET
        if not sets:
            wave.condition = before
    return sets


def scalar_step(code: DecodedInstruction) -> Step:
    """The step of an instruction of the scalar unit."""
    name = code.item.base
    if name.startswith("s_movrels"):
        raise Refused(f"{name} reads the register that M0 names, which is not followed")
    if name.endswith(("_saveexec_b64", "_wrexec_b64")):
        return _execution_mask(code)
    if name in COMPARE:
        return _compare(code)
    if name in _ON_ITSELF:
        return _on_itself(code)
    if name.startswith("s_bitset"):
        return _bitset(code)
    if name in UNARY:
        return _unary(code)
    if name == "s_bfe_u32" and code.item.operands[1:] == _WAVE_FIELD:
        return _wave_number(code)
    if name == "s_fmac_f32":
        return _unknown(code)
    return _binary(code) if name in BINARY else _unknown(code)


def _target(code: DecodedInstruction) -> Registers:
    operands = code.item.operands
    if not operands or not isinstance(operands[0], Registers) or operands[0].bank != "s":
        raise Refused(f"{code.item.opcode} without a scalar result")
    return operands[0]


def _sources(code: DecodedInstruction, first: int, count: int) -> list[ScalarSource]:
    """Sources from operand `first` on; literals are as wide as the name says."""
    operands = code.item.operands
    if len(operands) < first + count:
        raise Refused(f"{code.item.opcode} with too few operands")
    # Masks of 32 lanes have a name of 64 here.
    name = code.item.opcode if code.item.opcode.endswith("_b32") else code.item.base
    return [
        scalar_source(operand, width_of(operand, name), code.number)
        for operand in operands[first : first + count]
    ]


def width_of(operand: GcnOperand, name: str) -> int:
    """The words of a source of a scalar instruction: literals are as wide as its name says."""
    if isinstance(operand, Registers):
        return operand.count
    return 2 if name.endswith(("b64", "i64", "u64")) else 1


def _execution_mask(code: DecodedInstruction) -> Step:
    target, (source,) = _target(code), _sources(code, 1, 1)
    count = target.count
    word, _, rest = code.item.base.removeprefix("s_").partition("_")
    function, save = BITWISE[word], rest.startswith("saveexec")

    def step(wave: Wave) -> None:
        value = source(wave)
        if isinstance(value, OpaqueWord):
            raise Refused(UNKNOWN_MASK, value)
        old, new = wave.exec, function(value, wave.exec)
        new &= wave.lanes_all
        wave.set_scalar(target.first, old if save else new, count)
        wave.set_exec(new)
        wave.condition = int(new != 0)

    return step


def _compare(code: DecodedInstruction) -> Step:
    first, second = _sources(code, 0, 2)
    function = COMPARE[code.item.base]

    def step(wave: Wave) -> None:
        a, b = first(wave), second(wave)
        if isinstance(a, OpaqueWord):
            wave.condition = a
        elif isinstance(b, OpaqueWord):
            wave.condition = b
        else:
            wave.condition = function(a, b)

    return step


def _on_itself(code: DecodedInstruction) -> Step:
    target, (source,) = _target(code), _sources(code, 1, 1)
    name, count = code.item.base, target.count

    def step(wave: Wave) -> None:
        old, value = wave.scalar(target.first, count), source(wave)
        if name.startswith("s_cmov"):
            if isinstance(wave.condition, OpaqueWord):
                wave.set_scalar(target.first, wave.condition, count)
            elif wave.condition:
                if name == "s_cmovk_i32" and isinstance(value, int):
                    value = signed(value, 16) & WORD
                wave.set_scalar(target.first, value, count)
            return
        if isinstance(old, OpaqueWord) or isinstance(value, OpaqueWord):
            unknown = old if isinstance(old, OpaqueWord) else value
            wave.set_scalar(target.first, unknown)
            if name == "s_addk_i32":
                wave.condition = unknown
            return
        result = signed(old) + signed(value, 16)
        if name == "s_mulk_i32":
            result = signed(old) * signed(value, 16)
        else:
            wave.condition = int(not -(1 << 31) <= result < 1 << 31)
        wave.set_scalar(target.first, result & WORD)

    return step


def _bitset(code: DecodedInstruction) -> Step:
    target, (source,) = _target(code), _sources(code, 1, 1)
    one, bits = code.item.base[8] == "1", 32 * target.count

    def step(wave: Wave) -> None:
        old, value = wave.scalar(target.first, target.count), source(wave)
        if isinstance(old, OpaqueWord) or isinstance(value, OpaqueWord):
            result: Scalar = old if isinstance(old, OpaqueWord) else value
        else:
            bit = 1 << (value & bits - 1)
            result = old | bit if one else old & ~bit
        wave.set_scalar(target.first, result, target.count)

    return step


def _unary(code: DecodedInstruction) -> Step:
    target, (source,) = _target(code), _sources(code, 1, 1)
    function, first, count = UNARY[code.item.base], target.first, target.count

    def step(wave: Wave) -> None:
        value = source(wave)
        if isinstance(value, OpaqueWord):
            wave.set_scalar(first, value, count)
            if function(1)[1] is not None:
                wave.condition = value
            return
        result, condition = function(value)
        wave.set_scalar(first, result, count)
        if condition is not None:
            wave.condition = condition

    return step


def _wave_number(code: DecodedInstruction) -> Step:
    """Bits 25 to 29 of ttmp8 on gfx1250: the number of the wave in its work-group."""
    target = _target(code)

    def step(wave: Wave) -> None:
        wave.set_scalar(target.first, wave.number)
        wave.condition = int(wave.number != 0)

    return step


def _binary(code: DecodedInstruction) -> Step:
    target, (left, right) = _target(code), _sources(code, 1, 2)
    name, first, count = code.item.base, target.first, target.count
    function = BINARY[name]
    selects, carries = "_cselect_" in name, name in ("s_addc_u32", "s_subb_u32")
    # The manuals set it for equal numbers (CDNA3, 12.1: `>=`), what runs on devices has seen not.
    ties = name in ("s_max_i32", "s_max_u32")
    tied = OpaqueWord(f"the condition of {name} where both are equal", code.number)
    sets = function(1, 1, 0)[1] is not None

    def step(wave: Wave) -> None:
        a, b, carry = left(wave), right(wave), wave.condition
        if selects:
            chosen = carry if isinstance(carry, OpaqueWord) else (a if carry else b)
            wave.set_scalar(first, chosen, count)
            return
        unknown = next((one for one in (a, b) if isinstance(one, OpaqueWord)), None)
        if unknown is None and carries and isinstance(carry, OpaqueWord):
            unknown = carry
        if unknown is not None:
            wave.set_scalar(first, unknown, count)
            if sets:
                wave.condition = unknown
            return
        assert isinstance(a, int) and isinstance(b, int)
        result, condition = function(a, b, carry if isinstance(carry, int) else 0)
        wave.set_scalar(first, result, count)
        if condition is not None:
            wave.condition = tied if ties and a == b else condition

    return step


def _unknown(code: DecodedInstruction) -> Step:
    """An instruction that is not evaluated: its result and the condition are unknown."""
    target = _target(code)
    unknown = OpaqueWord(f"the result of {code.item.opcode}, which is not evaluated", code.number)
    if target.first in (EXEC, EXEC + 1):
        raise Refused(UNKNOWN_MASK, unknown)

    def step(wave: Wave) -> None:
        wave.set_scalar(target.first, unknown, target.count)
        wave.condition = unknown

    return step
