"""Writes a thread with jumps as one block of inline PTX, labels and branches included.

C compilers may merge or remove a branch whose sides look alike, and a control dependency would go
with it; between two lines of one block nothing is moved. A jump back, and the poll of a wait, takes
one from a budget: when it is spent the thread gives up, as a bounded wait does elsewhere.
"""

from __future__ import annotations

import re

from titan.litmus.language import ast
from titan.litmus.language.ast import Operand
from titan.litmus.language.mnemonics import RELATIONS
from titan.litmus.render.instructions import Assembly, Constraint, Writer
from titan.litmus.render.refusal import NotRenderable

GIVE_UP = "GIVE_UP"
_COMPARISONS = {relation: name for name, relation in RELATIONS.items()}
_OPERAND = re.compile(r"%(\d+)")


class BlockOperands:
    """The operands of the whole block: each C expression once, outputs first."""

    def __init__(self, parts: list[Assembly]) -> None:
        assigned = {value: mark for part in parts for mark, value in part.outputs}
        self.outputs = [("+" + mark.lstrip("=+"), value) for value, mark in assigned.items()]
        self.inputs: list[Constraint] = []
        for part in parts:
            for mark, value in part.inputs:
                if value not in assigned and (mark, value) not in self.inputs:
                    self.inputs.append((mark, value))
        self._numbers = {
            value: number for number, (_, value) in enumerate([*self.outputs, *self.inputs])
        }

    def name(self, value: str) -> str:
        """The number of an operand in the block, as inline assembly writes it."""
        return f"%{self._numbers[value]}"

    def text(self, part: Assembly) -> str:
        """The part's text with its operands numbered as in the block."""
        own = [value for _, value in (*part.outputs, *part.inputs)]
        return _OPERAND.sub(lambda found: self.name(own[int(found[1])]), part.text)


def has_jumps(thread: ast.LitmusThread) -> bool:
    """Whether the thread has labels or branches, so that it is written as one block."""
    return any(isinstance(step, ast.Label | ast.Branch) for step in thread.instructions)


def write_block(writer: Writer) -> tuple[list[str], list[Constraint], list[Constraint]]:
    """Lines of PTX, outputs and inputs of a thread with jumps, each instruction marked.

    The C variables `going` and `patience` are the flag that the thread came to its end and the
    budget.
    """
    thread = writer.seat.thread
    labels = {s.name: i for i, s in enumerate(thread.instructions) if isinstance(s, ast.Label)}
    parts = [_part(writer, step) for step in thread.instructions]
    control = Assembly("", (("+r", "going"),), (("r", "patience"),))
    operands = BlockOperands([*parts, control])
    lines = ["{ .reg .pred p, q; .reg .u32 left;", f"mov.u32 left, {operands.name('patience')};"]
    for index, (step, part) in enumerate(zip(thread.instructions, parts, strict=True)):
        mark = f" // titan {writer.seat.index} {index}"
        if isinstance(step, ast.Label):
            lines.append(f"L{index}:{mark}")
        elif isinstance(step, ast.Branch):
            lines += _branch(step, index, labels, operands.text(part), mark)
        elif part.poll is not None:
            flag = operands.name(part.poll)
            lines += [f"W{index}:", operands.text(part) + mark, f"setp.ne.s32 p, {flag}, 0;"]
            lines += [f"@p bra D{index};", *_spend(), f"bra W{index};", f"D{index}:"]
        else:
            lines.append(operands.text(part) + mark)
    lines += ["bra DONE;", f"{GIVE_UP}:", f"mov.s32 {operands.name('going')}, 0;", "DONE: }"]
    return lines, operands.outputs, operands.inputs


def _part(writer: Writer, step: ast.LitmusInstruction) -> Assembly:
    """The instruction; of a branch the text holds its two operands."""
    match step:
        case ast.Label():
            return Assembly("")
        case ast.Branch(_, relation, left, right):
            if relation is None:
                return Assembly("")
            inputs: list[Constraint] = []
            texts = [_operand(writer, value, inputs, step) for value in (left, right)]
            return Assembly(", ".join(texts), (), tuple(inputs))
    return writer.write(step)


def _operand(
    writer: Writer, value: Operand, inputs: list[Constraint], step: ast.LitmusInstruction
) -> str:
    if isinstance(value, int):
        if not -(2**31) <= value < 2**31:
            raise NotRenderable("size", f"{value} does not fit 32 bits", step.span)
        return f"{value:d}"
    inputs.append(("r", writer.register(value.name)))
    return f"%{len(inputs) - 1}"


def _branch(
    step: ast.Branch, index: int, labels: dict[str, int], values: str, mark: str
) -> list[str]:
    if step.target not in labels:
        raise NotRenderable("loop", f"no label {step.target}", step.span)
    target = labels[step.target]
    back = target <= index
    if step.relation is None:
        return [*(_spend() if back else []), f"bra L{target};{mark}"]
    compare = f"setp.{_COMPARISONS[step.relation]}.s32 q, {values};"
    if not back:
        return [f"{compare} @q bra L{target};{mark}"]
    return [
        f"{compare} @!q bra N{index};{mark}",
        *_spend(),
        f"bra L{target};",
        f"N{index}:",
    ]


def _spend() -> list[str]:
    return ["sub.u32 left, left, 1;", "setp.eq.u32 p, left, 0;", f"@p bra {GIVE_UP};"]
