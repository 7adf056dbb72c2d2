"""Whether an outcome of a machine program satisfies the condition of a source test."""

from __future__ import annotations

from collections.abc import Iterable

from titan.litmus.language.ast import (
    Compare,
    Condition,
    Connective,
    FinalMemory,
    FinalRegister,
    LitmusTest,
    Term,
)
from titan.litmus.machine.explorer import Outcome


def distinct_states(
    terms: list[FinalRegister | FinalMemory], outcomes: Iterable[Outcome]
) -> list[dict[FinalRegister | FinalMemory, int]]:
    """The final values of these terms, each combination once, sorted."""
    found = set()
    for outcome in outcomes:
        registers = {name: value for _, name, value in outcome[0]}
        memory = dict(outcome[1])
        found.add(tuple(_value(term, registers, memory) for term in terms))
    states = [dict(zip(terms, values, strict=True)) for values in found]
    return sorted(states, key=lambda state: [(str(t), v) for t, v in state.items()])


def reaches(test: LitmusTest, outcome: Outcome) -> bool:
    """Whether the asked outcome is this one; a register that was not assigned reaches none."""
    registers = {name: value for _, name, value in outcome[0]}
    memory = dict(outcome[1])
    parts = [test.asked] if test.filter is None else [test.filter, test.asked]
    return all(_holds(part, test, registers, memory) for part in parts)


def _holds(
    condition: Condition, test: LitmusTest, registers: dict[str, int], memory: dict[str, int]
) -> bool:
    match condition:
        case Compare(left, relation, right):
            values = [_value(term, registers, memory) for term in (left, right)]
            order = (values[0] > values[1]) - (values[0] < values[1])
            good = {"==": (0,), "!=": (-1, 1), "<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (0, 1)}
            return order in good[relation]
        case Connective("not", (part,)):
            return not _holds(part, test, registers, memory)
        case Connective("and", parts):
            return all(_holds(part, test, registers, memory) for part in parts)
        case Connective(_, parts):
            return any(_holds(part, test, registers, memory) for part in parts)
    raise TypeError(condition)


def _value(term: Term, registers: dict[str, int], memory: dict[str, int]) -> int:
    match term:
        case FinalRegister(thread, register):
            return registers.get(f"{thread}_{register}", 0)
        case FinalMemory(location):
            return memory[location]
    return term
