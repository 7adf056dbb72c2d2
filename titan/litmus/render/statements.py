"""Writes the statements of C that every C-like rendering shares: arithmetic, labels, branches.

Names never reach the text: registers are numbered by their first use, labels by their instruction.
A jump back takes one from the budget `left`; when it is spent the thread gives up.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from titan.litmus.language import ast
from titan.litmus.language.ast import Operand
from titan.litmus.render.places import Seat
from titan.litmus.render.refusal import NotRenderable

_ARITHMETIC = {
    "add": "(int)((unsigned){0} + (unsigned){1})",
    "sub": "(int)((unsigned){0} - (unsigned){1})",
    "mul": "(int)((unsigned){0} * (unsigned){1})",
    "and": "({0} & {1})",
    "or": "({0} | {1})",
    "xor": "({0} ^ {1})",
    "min": "({0} < {1} ? {0} : {1})",
    "max": "({0} > {1} ? {0} : {1})",
    "mov": "{0}",
}
_RELATIONS = frozenset(("==", "!=", "<", "<=", ">", ">="))


@dataclass(slots=True)
class StatementWriter:
    """One thread; `bounded`: some jump goes back, so that the thread may give up."""

    seat: Seat
    registers: dict[str, int] = field(default_factory=dict)
    bounded: bool = False

    def register(self, name: str) -> str:
        """The C variable of a register of the test."""
        return f"r{self.registers.setdefault(name, len(self.registers))}"

    def value(self, operand: Operand, step: ast.LitmusInstruction) -> str:
        """A register or a number as an expression. Raises NotRenderable."""
        if isinstance(operand, ast.Register):
            return self.register(operand.name)
        if not -(2**31) < operand < 2**31:
            raise NotRenderable("size", f"{operand} does not fit 32 bits", step.span)
        return f"({operand:d})"

    def label(self, index: int) -> str:
        """The label before an instruction; unique where several threads share a function."""
        return f"L{self.seat.index}_{index}"

    @property
    def give_up(self) -> str:
        """The label at which a thread whose budget is spent goes on."""
        return f"give_up_{self.seat.index}"

    def plain(self, step: ast.LitmusInstruction, index: int) -> str | None:
        """A statement that touches no memory; None for any other. Raises NotRenderable."""
        match step:
            case ast.Assign(destination, operation, operands) if operation in _ARITHMETIC:
                values = [self.value(operand, step) for operand in operands]
                return f"{self.register(destination)} = {_ARITHMETIC[operation].format(*values)};"
            case ast.Label():
                return f"{self.label(index)}:;"
            case ast.Branch():
                return self._branch(step, index)
        return None

    def _branch(self, step: ast.Branch, index: int) -> str | None:
        steps = enumerate(self.seat.thread.instructions)
        labels = {s.name: number for number, s in steps if isinstance(s, ast.Label)}
        if step.target not in labels:
            return None
        target = labels[step.target]
        jump = f"goto {self.label(target)};"
        if target <= index:
            self.bounded = True
            jump = f"{{ if (left-- == 0u) goto {self.give_up}; {jump} }}"
        if step.relation is None:
            return jump
        if step.relation not in _RELATIONS:
            raise NotRenderable("no such form", "no such comparison", step.span)
        left, right = self.value(step.left, step), self.value(step.right, step)
        return f"if ({left} {step.relation} {right}) {jump}"
