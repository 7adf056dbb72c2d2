"""Instructions of gfx1250 under their older names: operands as those have them.

`v_cmpx` has no result in the text and writes exec. Two halves of a dual instruction read their
operands before either writes (LLVM AMDGPU, VOPD): they become two instructions in an order in which
that does not matter, with a copy in front where each half writes what the other one reads.
"""

from __future__ import annotations

from dataclasses import replace

from titan.isa.gcn.module import AssemblyInstruction, GcnOperand, Literal, Registers, SymbolOperand
from titan.isa.gcn.opcodes import OPCODES
from titan.isa.gcn.operands import EXEC, NULL, VCC

DUAL = "::"
SECOND = "second half"  # an option that no text has
SPARE = Registers("v", 511)  # which no text can name (`register_banks.py`)
_EXEC = Registers("s", EXEC)


def adapted(item: AssemblyInstruction, base: str) -> AssemblyInstruction:
    """The instruction under the older name `base`."""
    operands = item.operands
    if base.startswith("v_cmpx_"):
        operands = (_EXEC, *operands)
    elif item.base == "v_dual_bitop2_b32":
        operands = (*operands, Literal(0))
    elif item.base == "v_dual_cndmask_b32" and len(operands) == 3:
        operands = (*operands, Registers("s", VCC))
    results = min(OPCODES[base].results, len(operands))
    return replace(
        item,
        base=base,
        operands=tuple(_known(operand, at < results) for at, operand in enumerate(operands)),
    )


def _known(operand: GcnOperand, written: bool) -> GcnOperand:
    """`null` reads as zero and keeps nothing."""
    if isinstance(operand, Registers) and operand.bank == "s" and operand.first == NULL:
        return operand if written else Literal(0)
    return operand


def in_sequence(
    first: AssemblyInstruction, second: AssemblyInstruction
) -> tuple[AssemblyInstruction, ...]:
    """Two halves as instructions one after the other."""
    made = _ordered(first, second)
    rest = (replace(item, options=item.options | {SECOND: ""}) for item in made[1:])
    return made[0], *rest


def is_second_half(item: AssemblyInstruction) -> bool:
    """Whether it belongs to the dual instruction in front of it, and is none of its own."""
    return SECOND in item.options


def _ordered(
    first: AssemblyInstruction, second: AssemblyInstruction
) -> tuple[AssemblyInstruction, ...]:
    if not _writes(first) & _reads(second):
        return first, second
    if not _writes(second) & _reads(first):
        return second, first
    # The result of the first goes to a spare register, as long as the second reads the old one.
    target = first.operands[0]
    move = replace(
        first, opcode="v_mov_b32_e32", base="v_mov_b32", operands=(target, SPARE), options={}
    )
    held = replace(first, operands=(SPARE, *first.operands[1:]))
    if OPCODES[first.base].both:
        copy = replace(move, operands=(SPARE, target))
        return copy, held, second, move
    return held, second, move


def _writes(item: AssemblyInstruction) -> set[int]:
    return _vectors(item.operands[:1])


def _reads(item: AssemblyInstruction) -> set[int]:
    return _vectors(item.operands[0 if OPCODES[item.base].both else 1 :])


def _vectors(operands: tuple[GcnOperand, ...]) -> set[int]:
    return {
        number
        for one in operands
        if isinstance(one, Registers) and one.bank == "v"
        for number in range(one.first, one.first + one.count)
    }


def dual_fault(items: tuple[AssemblyInstruction, AssemblyInstruction]) -> str:
    """What is wrong with two halves; empty if nothing is."""
    for item in items:
        target = item.operands[0] if item.operands else None
        if not isinstance(target, Registers) or target.bank != "v" or target.count != 1:
            return f"{item.opcode} does not write one vector register"
    if _writes(items[0]) & _writes(items[1]):
        return "both halves write one register"
    return ""


def signed_16(operand: GcnOperand) -> int | None:
    """An immediate of 16 bits with its sign; None for something else."""
    if not isinstance(operand, Literal):
        return None
    value = operand.value & 0xFFFF
    return value - (1 << 16) if value >> 15 else value


def field_text(operand: GcnOperand) -> str:
    """The text of an operand that is a word, such as `hwreg(HW_REG_WAVE_MODE, 25, 1)`."""
    return operand.name if isinstance(operand, SymbolOperand) else ""
