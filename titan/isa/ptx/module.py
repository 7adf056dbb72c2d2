"""A PTX module as data: functions, instructions, operands, variables, source locations.

`titan.isa.ptx.parse` makes it. Nothing here says what an instruction does. Registers are numbered
in each function; a register that a block of inline assembly declares for itself has its own number.
All instructions of all functions are in one tuple, so that an index names one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from titan.foundation.source.location import SourceLocation

# ------------------------------------------------------------------------------ operands


@dataclass(frozen=True, slots=True)
class PtxRegister:
    """`number` indexes `Function.registers`."""

    number: int


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant. Integers as written (may be negative); floating-point ones as `bits` of a type.

    `type` is "" for an integer, "f32" or "f64" for `0f` and `0d` hexadecimal and decimal forms.
    """

    value: int
    type: str = ""


@dataclass(frozen=True, slots=True)
class Special:
    """A special register, such as `%tid.x`."""

    name: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a variable, parameter or function, plus `offset` bytes."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """`[base + offset]`; base None for an absolute address. `coordinates` of a tensor copy."""

    base: PtxRegister | Symbol | None
    offset: int = 0
    coordinates: tuple[Operand, ...] | None = None


@dataclass(frozen=True, slots=True)
class Vector:
    """A braced operand `{a, b, ...}`; its elements in the order written."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """`d|p`: a result and a predicate result."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class PtxTarget:
    """A label; `instruction` indexes `Module.instructions`; may be the function's end."""

    instruction: int


@dataclass(frozen=True, slots=True)
class Negated:
    """`!p` as an operand."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Targets:
    """The table of a `brx.idx`."""

    instructions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sink:
    """`_`: the result is discarded."""


@dataclass(frozen=True, slots=True)
class Group:
    """The parenthesised list of a call: `(a, b)`."""

    items: tuple[Operand, ...]


Operand: TypeAlias = (
    PtxRegister
    | Immediate
    | Special
    | Symbol
    | Address
    | Vector
    | Pair
    | PtxTarget
    | Targets
    | Negated
    | Sink
    | Group
)


# ------------------------------------------------------------------- instructions, functions


@dataclass(frozen=True, slots=True)
class Instruction:
    """`opcode` is the first word, `modifiers` the rest between dots, as written.

    `guard` is a register number or -1. `line` and `column` count from 1 in the text.
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: int
    negated: bool
    line: int
    column: int
    location: SourceLocation | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The opcode and its modifiers joined by dots, as written in the text."""
        return ".".join((self.opcode, *self.modifiers))

    def has(self, *modifiers: str) -> bool:
        """Whether all of `modifiers` are present."""
        return all(modifier in self.modifiers for modifier in modifiers)


@dataclass(frozen=True, slots=True)
class RegisterDeclaration:
    """`type` without its dot: "pred", "b32", "f64" ..."""

    name: str
    type: str


class StateSpace(StrEnum):
    """The memory of a variable; the value is the directive's word without its dot."""

    GLOBAL = "global"
    SHARED = "shared"
    CONSTANT = "const"
    LOCAL = "local"
    PARAMETER = "param"


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of the module or of a function, or a parameter.

    `size_bytes` 0 with `external`: dynamic shared memory. `initial` are its first bytes (zeros
    follow), None if it has no initialiser; `references` are (offset, bytes, symbol) of initial
    addresses. `offset` is the place in the list of a function's parameters.
    """

    name: str
    space: StateSpace
    type: str
    size_bytes: int
    alignment: int
    external: bool = False
    initial: bytes | None = None
    references: tuple[tuple[int, int, Symbol], ...] = ()
    offset: int = 0
    line: int = 0


@dataclass(frozen=True, slots=True)
class Function:
    """`start` and `end` bound its instructions in the module; equal for a declaration only.

    `performance` holds the directives in front of the body: reqntid, maxntid, minnctapersm,
    maxnreg, reqnctapercluster, explicitcluster, noreturn ...
    """

    name: str
    entry: bool
    parameters: tuple[Variable, ...]
    results: tuple[Variable, ...]
    registers: tuple[RegisterDeclaration, ...]
    variables: tuple[Variable, ...]
    start: int
    end: int
    performance: dict[str, tuple[int, ...]] = field(default_factory=dict)
    line: int = 0
    declared: bool = False


@dataclass(frozen=True, slots=True)
class Module:
    """A whole PTX text. `pragmas` are of the module."""

    path: str
    version: tuple[int, int]
    target: tuple[str, ...]
    functions: tuple[Function, ...]
    variables: tuple[Variable, ...]
    instructions: tuple[Instruction, ...]
    pragmas: tuple[str, ...] = ()

    def entries(self) -> tuple[Function, ...]:
        """The kernels (`.entry`) in the order of the text, without device functions."""
        return tuple(function for function in self.functions if function.entry)

    def function_of(self, instruction: int) -> Function | None:
        """The function that holds an instruction."""
        for function in self.functions:
            if function.start <= instruction < function.end:
                return function
        return None
