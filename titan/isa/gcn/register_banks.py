"""Vector registers beyond v255: which register an operand of gfx1250 names.

`s_set_vgpr_msb` sets two bits for each place of an operand (first, second, third source, result),
which come in front of the eight bits in the instruction. The setting at an instruction is that of
all paths to it; where they differ, the text is refused. Of four banks two are read. Sources: LLVM
AMDGPU usage and assembler (its comments say which registers are meant; a test compares).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from titan.isa.gcn.module import AssemblyInstruction, GcnOperand, Literal, Registers
from titan.isa.gcn.opcodes import OPCODES, OpcodeKind
from titan.isa.gcn.reading_gfx1250 import SPARE

BANKS = 2
_BANK = 256
_SHIFTS = (0, 2, 4)  # of the sources
_RESULT = 6
_ENDS = ("s_branch", "s_endpgm", "s_setpc_b64")
_POINTERS = (OpcodeKind.GLOBAL, OpcodeKind.FLAT, OpcodeKind.SCRATCH)
_VECTOR = (OpcodeKind.VECTOR, OpcodeKind.MATRIX)


def with_banks(
    code: Sequence[AssemblyInstruction], starts: Sequence[int]
) -> tuple[list[AssemblyInstruction], list[tuple[int, str]]]:
    """The instructions with whole register numbers, and what is wrong by instruction."""
    states, faults = _states(code, starts)
    made: list[AssemblyInstruction] = []
    for number, item in enumerate(code):
        state = states[number] or 0
        made.append(item if state == 0 else replace(item, operands=_placed(item, state)))
        if not _readable(item, made[-1]):
            faults.append((number, f"{item.opcode} with registers beyond v{256 * BANKS - 1}"))
    return made, faults


def _states(
    code: Sequence[AssemblyInstruction], starts: Sequence[int]
) -> tuple[list[int | None], list[tuple[int, str]]]:
    states: list[int | None] = [None] * len(code)
    faults: list[tuple[int, str]] = []
    waiting = [(start, 0) for start in starts]
    while waiting:
        number, state = waiting.pop()
        if number >= len(code):
            continue
        known = states[number]
        if known is not None:
            if known != state and all(at != number for at, _ in faults):
                faults.append((number, "paths that meet here differ in s_set_vgpr_msb"))
            continue
        states[number] = state
        item = code[number]
        if item.base == "s_set_vgpr_msb":
            value = item.operands[0] if item.operands else None
            if isinstance(value, Literal):
                state = value.value & 0xFF
            else:
                faults.append((number, "s_set_vgpr_msb without a number"))
        elif item.base.startswith("s_setreg") and state:
            faults.append((number, f"{item.opcode} while s_set_vgpr_msb is set"))
        if item.target >= 0:
            waiting.append((item.target, state))
        if item.base not in _ENDS:
            waiting.append((number + 1, state))
    return states, faults


def _placed(item: AssemblyInstruction, state: int) -> tuple[GcnOperand, ...]:
    shifts = _places(item)
    return tuple(
        _moved(operand, state >> shift & 3) if shift is not None else operand
        for operand, shift in zip(item.operands, shifts, strict=True)
    )


def _moved(operand: GcnOperand, bank: int) -> GcnOperand:
    if not isinstance(operand, Registers) or operand.bank != "v" or operand == SPARE:
        return operand
    return replace(operand, first=operand.first + _BANK * bank)


def _readable(item: AssemblyInstruction, made: AssemblyInstruction) -> bool:
    last = _BANK * BANKS - 1  # which is spare
    if any(
        isinstance(one, Registers) and one.bank == "v" and one.first + one.count > last
        for one, old in zip(made.operands, item.operands, strict=True)
        if old != SPARE
    ):
        return False
    return item == made or OPCODES[item.base].kind is not OpcodeKind.BUFFER


def _places(item: AssemblyInstruction) -> list[int | None]:
    """Where the bits of each operand are."""
    count, opcode = len(item.operands), OPCODES[item.base]
    if opcode.kind in _VECTOR:
        sources = [*_SHIFTS, *([None] * count)]
        if item.base == "v_fmamk_f32":
            sources = [0, None, 2, None]
        results = min(opcode.results, count)
        if item.base == "v_swap_b32":
            results = 1
        return [_RESULT] * results + sources[: count - results]  # type: ignore[list-item]
    if opcode.kind in (OpcodeKind.LDS, OpcodeKind.CROSS_LANE):
        return ([_RESULT] * opcode.results + [*_SHIFTS, None, None])[:count]
    if opcode.kind is OpcodeKind.BUFFER:
        return [_RESULT] * count  # not read: `_readable`
    if opcode.kind in _POINTERS:
        if "_async_to_lds_" in item.base or "_load_" in item.base:
            return ([_RESULT, 0] + [None] * count)[:count]
        if "_atomic_" in item.base and "TH_ATOMIC_RETURN" in item.options.get("th", ""):
            return ([_RESULT, 0, 2] + [None] * count)[:count]
        return ([0, 2] + [None] * count)[:count]
    return [None] * count
