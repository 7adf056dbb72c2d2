"""The events of one thread: made where the symbolic execution stands, with what all steps share.

Reading operands, assigning registers, positions in program order, and the two ways in which a state
leaves a blocking event. The control flow (`events.py`) moves `at`; both kinds of steps add events.
"""

from __future__ import annotations

from pysmt.fnode import FNode
from pysmt.shortcuts import BOOL, Int, Symbol

from titan.litmus.language import ast
from titan.litmus.language.text import defined_registers
from titan.litmus.smt.event import EventGraph, EventKind, LitmusEvent, SymbolicState, add_event
from titan.litmus.smt.terms import both, negation


class ThreadEvents:
    """Adds the events of thread `number` to the graph; `at` is (copy of the loop, instruction).

    `blocked`: the states that stay at a blocking event forever, each with the registers that would
    have been assigned later.
    """

    def __init__(self, graph: EventGraph, number: int) -> None:
        self.graph = graph
        self.number = number
        self.thread = graph.test.threads[number]
        self.code = self.thread.instructions
        self.labels = {i.name: n for n, i in enumerate(self.code) if isinstance(i, ast.Label)}
        self.blocked: list[tuple[SymbolicState, set[str]]] = []
        self.at = (0, 0)

    def value(self, state: SymbolicState, operand: ast.Operand) -> tuple[FNode, frozenset[int]]:
        """The operand's value, and the reads that it depends on."""
        if isinstance(operand, int):
            return Int(operand), frozenset()
        return state.registers.get(operand.name, (Int(0), frozenset()))

    def event(
        self, state: SymbolicState, kind: EventKind, part: str = "", **rest: object
    ) -> LitmusEvent:
        """A new event of the instruction; `rest` are further fields of it (`add_event`)."""
        copy, index = self.at
        placement = rest.pop("placement", self.thread.placement)
        rest.setdefault("instruction", self.code[index])
        rest.setdefault("depends", state.control)
        event = add_event(
            self.graph,
            kind,
            self.number,
            (self.thread.name, index, copy, part),
            state.guard,
            placement,  # type: ignore[arg-type]
            **rest,
        )
        return event

    def position(self, part: int = 0) -> int:
        """The place in program order; `part`, -1 to 3, numbers the events of an instruction."""
        copy, index = self.at
        return (copy * len(self.code) + index) * 4 + part

    def assign(
        self, state: SymbolicState, register: str | None, value: FNode, taint: frozenset[int]
    ) -> None:
        """Write a register; None: the instruction has no destination."""
        if register is not None:
            state.registers = {**state.registers, register: (value, taint)}

    def block(self, state: SymbolicState, event: LitmusEvent) -> SymbolicState:
        """The state behind a blocking event; the executions that stay there are kept as ends."""
        event.passes = Symbol(f"pass_{event.index}", BOOL)
        event.blocking = True
        stuck = SymbolicState(
            both(state.guard, negation(event.passes)), state.registers, state.control
        )
        self.blocked.append((stuck, self._assigned_later()))
        control = state.control | {event.index}
        return SymbolicState(both(state.guard, event.passes), state.registers, control)

    def _assigned_later(self) -> set[str]:
        index = self.at[1]
        starts = [
            self.labels[b.target]
            for n, b in enumerate(self.code)
            if isinstance(b, ast.Branch) and self.labels[b.target] <= index < n
        ]
        rest = self.code[min([index + 1, *starts]) :]
        return set(defined_registers(ast.LitmusThread("", self.thread.placement, rest)))

    def polls(self, start: int, end: int) -> bool:
        """Whether the loop only reads memory and carries no register from round to round."""
        body = self.code[start : end + 1]
        defined: set[str] = set()
        for instruction in body:
            if isinstance(instruction, ast.Branch):
                used = {
                    o.name
                    for o in (instruction.left, instruction.right)
                    if isinstance(o, ast.Register)
                }
                assigned = {i.destination for i in body if isinstance(i, ast.Load)}
                if (used & assigned) - defined:
                    return False
            elif isinstance(instruction, ast.Load):
                defined.add(instruction.destination)
            elif not isinstance(instruction, ast.Label):
                return False
        return True

    def straight(self) -> bool:
        """Whether the instruction is executed once, and in the first copy, if at all.

        Group counting is static. A loop that only polls is left behind without a further copy; a
        jump over the instruction, or any other loop before or around it, makes the count depend on
        the path.
        """
        index = self.at[1]
        for number, branch in enumerate(self.code):
            if isinstance(branch, ast.Branch):
                target = self.labels[branch.target]
                back = target <= number
                if (back and not self.polls(target, number)) or number < index < target:
                    return False
        return True
