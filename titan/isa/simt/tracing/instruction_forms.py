"""What an instruction computes of its registers, whichever these are and wherever it stands."""

from __future__ import annotations

from titan.isa.ptx.module import Address, Instruction, Negated, Operand, Pair, PtxRegister, Vector


def instruction_form(instruction: Instruction) -> object:
    """What an instruction computes of its registers, wherever it stands."""
    return instruction.name, tuple(_shape(operand) for operand in instruction.operands)


def _shape(operand: Operand) -> object:
    """An operand with all registers alike; of an address nothing, since what is there is keyed."""
    match operand:
        case PtxRegister():
            return "register"
        case Address():
            return "address"
        case Vector(items=items):
            return tuple(_shape(item) for item in items)
        case Pair(first=first, second=second):
            return "pair", _shape(first), _shape(second)
        case Negated(operand=inner):
            return "not", _shape(inner)
    return operand
