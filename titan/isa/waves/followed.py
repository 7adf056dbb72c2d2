"""Instructions as those see them that follow how numbers grow: registers, conditions, operands.

Registers have the numbers of `Wave`; the condition code and the bytes of private memory have
numbers behind them. `critical` are the registers that have to hold the same for all trips: what
decides a branch or the execution mask, and addresses in LDS.
"""

from __future__ import annotations

from dataclasses import dataclass

from titan.isa.gcn.module import AssemblyInstruction, GcnOperand, Literal, Registers
from titan.isa.gcn.opcodes import OpcodeKind
from titan.isa.gcn.operands import EXEC, M0
from titan.isa.waves.decode import SCALAR_BASE, DecodedInstruction, register_numbers, results_of
from titan.isa.waves.growth_rules import BY_WORDS, LINEAR, SCALAR, VECTOR
from titan.isa.waves.growth_steps import Rule
from titan.isa.waves.scalar import BINARY, COMPARE, UNARY, signed
from titan.isa.waves.sources import constant
from titan.isa.waves.state import SCALARS, WORD

CONDITION = SCALAR_BASE + SCALARS
PRIVATE = CONDITION + 64  # and the address of a byte of private memory
MASK = (SCALAR_BASE + EXEC, SCALAR_BASE + EXEC + 1)
_CHANGES = ("clamp", "mul", "div", "op_sel", "op_sel_hi", "neg_lo", "neg_hi", "byte_sel")
_READS_CONDITION = ("s_addc_u32", "s_subb_u32", "s_cselect_", "s_cmov", "s_cbranch_scc")
_WORDS_OF_A_RESOURCE = (1, 3)  # those with bits that say how addresses are made
_WIDE_OPERANDS = {  # of the operands behind the results; all others are one word
    "v_lshlrev_b64": (1,), "v_lshrrev_b64": (1,), "v_ashrrev_i64": (1,), "v_lshl_add_u64": (0, 2),
    "v_mad_u64_u32": (2,), "v_mad_i64_i32": (2,), "s_lshl_b64": (0,), "s_lshr_b64": (0,),
    "s_ashr_i64": (0,), "s_bfe_u64": (0,), "s_cmp_eq_u64": (0, 1), "s_cmp_lg_u64": (0, 1),
    "s_bitcmp0_b64": (0,), "s_bitcmp1_b64": (0,),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class GrowingOperand:
    """A constant, or one register or two: the first of them."""

    value: int
    register: int = -1
    count: int = 1


@dataclass(frozen=True, slots=True)
class FollowedInstruction:
    """What one instruction reads and writes, and the rule by which its result grows.

    `operands`, `result`: those of the rule; a result of two words has both. `condition`: the
    register (pair) that gets a carry or the outcome of a comparison, or -1. `chooser`: the register
    pair whose bit of each lane comes last among the operands, or -1.
    """

    code: DecodedInstruction
    reads: frozenset[int]
    writes: frozenset[int]
    critical: frozenset[int]
    rule: Rule | None
    operands: tuple[GrowingOperand, ...] = ()
    result: tuple[int, ...] = ()
    condition: int = -1
    chooser: int = -1
    by_words: bool = False
    linear: bool = False


def followed(code: DecodedInstruction) -> FollowedInstruction:
    """The same instruction, as those see it that follow numbers."""
    name, kind = code.item.base, code.opcode.kind
    reads, writes = set(code.reads), set(code.writes)
    if name.startswith(_READS_CONDITION):
        reads.add(CONDITION)
    if kind is OpcodeKind.SCALAR:
        if sets_condition(name):
            writes.add(CONDITION)
        if name.startswith(("s_cmov", "s_bitset")):
            reads |= code.writes
        if name.endswith(("_saveexec_b64", "_wrexec_b64")):
            writes |= {*MASK, CONDITION}
    if name.startswith("v_cmpx"):
        writes |= set(MASK)
    reads |= _unnamed(code)
    critical = frozenset(_critical(code, frozenset(reads)) - set(MASK))
    return _with_rule(code, frozenset(reads), frozenset(writes), critical)


def sets_condition(name: str) -> bool:
    """Whether a scalar instruction writes the condition code; of unknown ones it is taken to be."""
    if name in COMPARE or name == "s_addk_i32":
        return True
    if name in BINARY:
        return BINARY[name](1, 1, 0)[1] is not None
    if name in UNARY:
        return UNARY[name](1)[1] is not None
    return not name.startswith(("s_mulk", "s_cmov", "s_bitset"))


def _unnamed(code: DecodedInstruction) -> set[int]:
    """Registers that an instruction reads and its text does not name."""
    item = code.item
    in_lds = "lds" in item.options or any(
        part in item.base for part in ("_load_lds_", "addtid", "append", "consume")
    )
    return {SCALAR_BASE + M0} if in_lds else set()


def _critical(code: DecodedInstruction, reads: frozenset[int]) -> set[int]:
    item, kind = code.item, code.opcode.kind
    operands = item.operands[results_of(item, code.opcode) :]
    found = _unnamed(code)
    match kind:
        case OpcodeKind.CONTROL:
            found |= reads
        case OpcodeKind.SCALAR if set(MASK) & _all_writes(code):
            found |= reads
        case OpcodeKind.VECTOR if item.base.startswith("v_cmpx"):
            found |= reads
        case OpcodeKind.LDS:
            found |= set(register_numbers(operands[0])) if operands else set()
        case OpcodeKind.FLAT:
            found |= set(register_numbers(operands[0])) if operands else set()
        case OpcodeKind.SCRATCH:
            found |= {at for one in operands for at in register_numbers(one)}
            if "_store_" in item.base and len(operands) > 1:
                found -= set(register_numbers(operands[1]))
        case OpcodeKind.BUFFER:
            for one in item.operands:
                if isinstance(one, Registers) and one.bank == "s" and one.count == 4:
                    numbers = register_numbers(one)
                    found |= {numbers[at] for at in _WORDS_OF_A_RESOURCE}
    return found


def _all_writes(code: DecodedInstruction) -> set[int]:
    more = MASK if code.item.base.endswith(("_saveexec_b64", "_wrexec_b64")) else ()
    return {*code.writes, *more}


# ----------------------------------------------------------------------------- rules


def _with_rule(
    code: DecodedInstruction,
    reads: frozenset[int],
    writes: frozenset[int],
    critical: frozenset[int],
) -> FollowedInstruction:
    plain = FollowedInstruction(code, reads, writes, critical, None)
    item, name, kind = code.item, code.item.base, code.opcode.kind
    if kind is OpcodeKind.SCALAR:
        rule = SCALAR.get(name)
    elif kind is OpcodeKind.VECTOR and not _changed(item):
        rule = VECTOR.get(name)
    else:
        return plain
    by_words = name in BY_WORDS
    rule = BY_WORDS.get(name, rule)
    if rule is None:
        return plain
    try:
        return _made(code, plain, rule, by_words)
    except (IndexError, ValueError):
        return plain


def _changed(item: AssemblyInstruction) -> bool:
    if item.opcode.endswith(("_dpp", "_sdwa")):
        return True
    modified = any(isinstance(one, Registers) and (one.negative or one.absolute or one.extended)
                   for one in item.operands)  # fmt: skip
    return modified or any(word in item.options for word in _CHANGES)


def _made(
    code: DecodedInstruction, plain: FollowedInstruction, rule: Rule, by_words: bool
) -> FollowedInstruction:
    item, name = code.item, code.item.base
    compares = name.startswith(("s_cmp_", "s_cmpk_", "s_bitcmp"))
    count = 0 if compares else code.opcode.results
    results = [register_numbers(one) for one in item.operands[:count]]
    given = list(item.operands[count:])
    condition = CONDITION if CONDITION in plain.writes else -1
    chooser = -1
    if name.startswith("v_cmp"):
        condition, results = results[0][0], []
    elif len(results) > 1:  # a sum or difference with its carry; that of a product is not followed
        condition = -1 if name.startswith("v_mad") else results[1][0]
        results = results[:1]
    if name.startswith(("v_addc_co", "v_subb_co", "v_subbrev_co", "v_cndmask")):
        chooser = register_numbers(given[2])[0]
        given = given[:2]
    wide = (0, 1) if name.startswith("v_cmp") and name.endswith("64") else _WIDE_OPERANDS.get(name)
    operands = [
        _operand(one, 2 if by_words or (wide and at in wide) else 1) for at, one in enumerate(given)
    ]
    operands = _special(name, operands, results)
    if name.startswith(_READS_CONDITION):
        operands.append(GrowingOperand(0, CONDITION))
    result = tuple(results[0]) if results else ()
    return FollowedInstruction(
        code, plain.reads, plain.writes, plain.critical, rule, tuple(operands), result,
        condition, chooser, by_words, name in LINEAR,
    )  # fmt: skip


def _special(
    name: str, operands: list[GrowingOperand], results: list[range]
) -> list[GrowingOperand]:
    """Operands that the text does not name, and constants of 16 bits."""
    if name.startswith(("s_cmpk_", "s_addk", "s_mulk", "s_cmovk", "s_movk")):
        value = operands[-1].value
        narrow = value & 0xFFFF if name.endswith("_u32") else signed(value, 16) & WORD
        operands = [*operands[:-1], GrowingOperand(narrow)]
    if name in ("s_addk_i32", "s_mulk_i32"):
        return [GrowingOperand(0, results[0][0]), *operands]
    if name.startswith("s_cmov"):  # keeps the old value
        return [*operands, GrowingOperand(0, results[0][0], len(results[0]))]
    return operands


def _operand(operand: GcnOperand, count: int) -> GrowingOperand:
    if isinstance(operand, Literal):
        return GrowingOperand(constant(operand, 32 * count), -1, count)
    numbers = register_numbers(operand)
    if not numbers or len(numbers) < count:
        raise ValueError("an operand that is no number")
    return GrowingOperand(0, numbers[0], count)
