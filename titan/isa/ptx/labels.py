"""The instructions that others name as labels, and other numbers for these."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from titan.isa.ptx.module import Instruction, Operand, PtxTarget, Targets


def labels_of(item: Instruction) -> Iterator[int]:
    """The instructions that the operands of one name; negative where a label is not known."""
    for operand in item.operands:
        if isinstance(operand, PtxTarget):
            yield operand.instruction
        elif isinstance(operand, Targets):
            yield from operand.instructions


def with_labels(operand: Operand, at: Callable[[int], int]) -> Operand:
    """An operand with `at` of each instruction that it names; what is not known stays so."""
    if isinstance(operand, PtxTarget):
        return PtxTarget(at(operand.instruction) if operand.instruction >= 0 else -1)
    if isinstance(operand, Targets):
        return Targets(tuple(at(to) if to >= 0 else to for to in operand.instructions))
    return operand
