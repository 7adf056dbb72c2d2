"""Assembly for AMD GPUs as data: kernels, their arguments, instructions, source locations.

`titan.isa.gcn.assembly` makes it from text. Nothing here says what an instruction does. All
instructions of all functions are in one tuple, so that an index names one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TypeAlias

from titan.foundation.source.location import SourceLocation

_INTEGER = re.compile(r"-?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9]\d*)$")


def integer_of(text: str) -> int | None:
    """A number as the assembler reads it: a zero in front makes it octal. None for other text."""
    if not _INTEGER.match(text):
        return None
    digits = text.removeprefix("-").lower()
    base = {"0x": 16, "0b": 2}.get(digits[:2], 8 if digits[0] == "0" else 10)
    return int(text, base)


# ------------------------------------------------------------------------------ operands


@dataclass(frozen=True, slots=True)
class Registers:
    """`count` registers from `first` on. `bank`: "v" vector, "a" accumulation, "s" scalar.

    Scalar registers with names have the numbers of their encoding: vcc 106, m0 124, exec 126.
    `negative`, `absolute`: input modifiers. `half`: the 16 bits that are meant, "l" or "h".
    `extended`: the part that SDWA selects is extended by its sign (`sext`).
    """

    bank: str
    first: int
    count: int = 1
    negative: bool = False
    absolute: bool = False
    half: str = ""
    extended: bool = False


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant by its 32 bits (integers may be wider and negative as written).

    `real` where it is written as a decimal fraction: `value` is then its binary32 form.
    """

    value: int
    real: bool = False


@dataclass(frozen=True, slots=True)
class SymbolOperand:
    """A word that is no register: `off`, `src_lds_direct`, the expression of a symbol."""

    name: str


GcnOperand: TypeAlias = Registers | Literal | SymbolOperand


# ------------------------------------------------------------------- instructions, kernels


@dataclass(frozen=True, slots=True)
class AssemblyInstruction:
    """`opcode` is the mnemonic as written; `base` without the suffix of its encoding.

    `options` are the words behind the operands, with their values ("offset": "16", "lds": "").
    `target`: the instruction that a branch may go to, or -1. `line`, `column` count from 1.
    """

    opcode: str
    base: str
    operands: tuple[GcnOperand, ...]
    options: dict[str, str]
    line: int
    column: int
    target: int = -1
    location: SourceLocation | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The mnemonic as written in the text."""
        return self.opcode

    @property
    def modifiers(self) -> tuple[str, ...]:
        """The mnemonic has no parts behind dots, as that of PTX has."""
        return ()

    def integer(self, option: str, otherwise: int = 0) -> int:
        """The value of an option; `otherwise` where it is not given.

        Raises ValueError: it is no number.
        """
        text = self.options.get(option)
        value = otherwise if text is None else integer_of(text)
        if value is None:
            raise ValueError(f"{text} is no number")
        return value


@dataclass(frozen=True, slots=True)
class KernelArgument:
    """One argument by its place in the kernarg segment. `kind` is the `.value_kind`."""

    name: str
    offset: int
    size_bytes: int
    kind: str

    @property
    def hidden(self) -> bool:
        """Whether the runtime fills it in, not the caller."""
        return self.kind.startswith("hidden_")


@dataclass(frozen=True, slots=True)
class AssemblyKernel:
    """`start`, `end` bound its instructions. `settings` are the `.amdhsa_` values, without prefix.

    `threads_max`: the largest work-group it is compiled for; `threads` the only one, where fixed.
    `arguments` None: the text has no metadata.
    """

    name: str
    start: int
    end: int
    settings: dict[str, int]
    arguments: tuple[KernelArgument, ...] | None
    threads_max: int | None = None
    threads: tuple[int, int, int] | None = None
    line: int = 0


@dataclass(frozen=True, slots=True)
class AssemblyFile:
    """A whole assembly file. `target` is the processor, such as gfx942; empty if not named."""

    path: str
    target: str
    kernels: tuple[AssemblyKernel, ...]
    instructions: tuple[AssemblyInstruction, ...]
