"""Expressions and control flow of a sync program in a form that target languages can print.

Flattens the structured body of a role into numbered nodes: an operation's successor is the next
number, control is explicit. Assumes that all sizes are known and that values fit 32 bits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from titan.foundation.errors import Refusal
from titan.sync import program as ir
from titan.sync.control import Sizes
from titan.sync.expression import Binary, Constant, Expression, Name, Not

CONSTANT_MAX = 2**30


class ExportError(Refusal):
    """The program has something that the target language cannot say."""


def comment_text(text: str) -> str:
    """`text` without any character that could end a comment or start a directive."""
    return re.sub(r"[^A-Za-z0-9_ .\[\]]", "_", text)[:60]


@dataclass(frozen=True, slots=True)
class Do:
    """Node: execute an operation, continue at the next number."""

    operation: ir.Operation


@dataclass(frozen=True, slots=True)
class Let:
    """Node: the raw variable takes a value; `step` adds one to it instead."""

    variable: str
    value: Expression | None  # None: one more than before


@dataclass(frozen=True, slots=True)
class Test:
    """Node: continue at the next number where `condition` holds, at `target` otherwise."""

    condition: Expression
    target: int


@dataclass(frozen=True, slots=True)
class Jump:
    """Node: continue at the number `target`, without a condition."""

    target: int


Node = Do | Let | Test | Jump


def flatten(block: ir.Block) -> list[Node]:
    """The nodes of a body; the number behind the last node is the end."""
    nodes: list[Node] = []
    _flatten_into(block, nodes)
    return nodes


def _flatten_into(block: ir.Block, nodes: list[Node]) -> None:
    for operation in block:
        match operation:
            case ir.Assign(variable=variable, value=value):
                nodes.append(Let(variable, value))
            case ir.Loop():
                nodes.append(Let(operation.variable, operation.start))
                test = len(nodes)
                nodes.append(Jump(0))
                _flatten_into(operation.body, nodes)
                nodes += [Let(operation.variable, None), Jump(test)]
                running = Binary("<", Name(operation.variable), operation.stop)
                nodes[test] = Test(running, len(nodes))
            case ir.Branch():
                test = len(nodes)
                nodes.append(Jump(0))
                _flatten_into(operation.then, nodes)
                skip = len(nodes)
                nodes.append(Jump(0))
                nodes[test] = Test(operation.condition, len(nodes))
                _flatten_into(operation.otherwise, nodes)
                nodes[skip] = Jump(len(nodes))
            case _:
                nodes.append(Do(operation))


class AgentScope:
    """Prints expressions of one agent: sizes and constants inlined, variables by `prefix`."""

    def __init__(
        self, program: ir.SyncProgram, role: ir.Role, member: int, sizes: Sizes, prefix: str
    ) -> None:
        names = [name for name, _ in role.variables]
        for operation in ir.walk(role.body):
            if isinstance(operation, ir.Loop | ir.Assign):
                names.append(operation.variable)
        self.variables = {
            name: f"{prefix}v{number}" for number, name in enumerate(dict.fromkeys(names))
        }
        self.first = dict(role.variables)
        self._constants = {role.agent_constant: member}
        self._sizes = sizes
        self._per = {parameter.name: parameter.per for parameter in program.parameters}

    def text(self, expression: Expression) -> str:
        """The expression with C operators, Promela's conditional, and floor division."""
        match expression:
            case Constant(value):
                return _number(value)
            case Name(name):
                return self._name(name)
            case Not(operand):
                return f"(!({self.text(operand)}))"
            case Binary(operator, left, right):
                return _binary(operator, self.text(left), self.text(right))

    def _name(self, name: str) -> str:
        if name in self._sizes:
            return self._size(self._sizes[name], self._per.get(name))
        if name in self._constants:
            return _number(self._constants[name])
        if name in self.variables:
            return self.variables[name]
        raise ExportError(f"the name {name!r} has no value")

    def _size(self, size: int | tuple[int, ...], per: str | None) -> str:
        if isinstance(size, int):
            return _number(size)
        if per is None or per not in (*self.variables, *self._constants):
            return _number(size[0])
        instance, text = self._name(per), _number(size[-1])
        for number in reversed(range(len(size) - 1)):
            text = f"(({instance}) <= {number} -> {_number(size[number])} : {text})"
        return text


def _number(value: int) -> str:
    if abs(value) >= CONSTANT_MAX:
        raise ExportError(f"the number {value} is too large for a 32-bit model")
    return str(value) if value >= 0 else f"(0 - {-value})"


def _binary(operator: str, left: str, right: str) -> str:
    match operator:
        case "//":
            return f"FLOOR_DIV({left}, {right})"
        case "%":
            return f"FLOOR_MOD({left}, {right})"
        case "min":
            return f"(({left}) < ({right}) -> ({left}) : ({right}))"
        case "max":
            return f"(({left}) > ({right}) -> ({left}) : ({right}))"
        case "and":
            return f"(({left}) && ({right}))"
        case "or":
            return f"(({left}) || ({right}))"
    return f"(({left}) {operator} ({right}))"
