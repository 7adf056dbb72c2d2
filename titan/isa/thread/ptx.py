"""Reads the text of PTX as nvcc writes it: the instructions of one kernel, with scopes resolved.

Just the structure is read: labels, guards, opcodes with their modifiers, operands. Registers that
an inline assembly block declares for itself get their own names. What an instruction does is
defined in `machine.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from titan.foundation.errors import Refusal

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\(")
_LABEL = re.compile(r"([A-Za-z_$%][\w$]*)\s*:(?!:)")
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+"
    r"(?:\.ptr\s+)?(?:\.(?:global|const|local|shared)\s+)?(?:\.align\s+\d+\s+)?"
    r"([\w$]+)(?:\[(\d+)\])?"
)
_DECLARED = re.compile(r"[%\w$]+")
_GUARD = re.compile(r"@(!?)\s*([%\w$]+)\s+")


class PtxError(Refusal):
    """The text is not what nvcc writes for a kernel."""


@dataclass(frozen=True, slots=True)
class PtxParameter:
    """A parameter of a kernel and the bytes of its array."""

    name: str
    bytes: int  # 0 for a single value


@dataclass(frozen=True, slots=True)
class PtxInstruction:
    """`opcode` without modifiers, which are in `modifiers`; `line` counts from 1 in the text."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[str, ...]
    guard: str
    negated: bool
    line: int


@dataclass(frozen=True, slots=True)
class PtxKernel:
    """`labels` give the index of the instruction after them; the last may be the end."""

    name: str
    parameters: tuple[PtxParameter, ...]
    instructions: tuple[PtxInstruction, ...]
    labels: dict[str, int]


def parse(text: str, entry: str | None = None) -> PtxKernel:
    """The kernel called `entry`, or the only one. Raises PtxError."""
    clean = _COMMENT.sub(lambda found: "\n" * found.group().count("\n"), text)
    found = [match for match in _ENTRY.finditer(clean) if entry in (None, match.group(1))]
    if len(found) != 1:
        raise PtxError(f"the text holds {len(found)} kernels of that name")
    close = clean.index(")", found[0].end())
    parameters = tuple(
        PtxParameter(name, int(count or 0))
        for _, _, name, count in _PARAMETER.findall(clean[found[0].end() : close])
    )
    try:
        opening = clean.index("{", close)
    except ValueError:
        raise PtxError("the kernel has no body") from None
    return _Body(clean, opening + 1).kernel(found[0].group(1), parameters)


class _Body:
    """Goes over the text of a body once."""

    def __init__(self, text: str, position: int) -> None:
        self.text = text
        self.position = position
        self.line = text.count("\n", 0, position) + 1
        self.scopes: list[dict[str, str]] = [{}]
        self.made = 0
        self.instructions: list[PtxInstruction] = []
        self.labels: dict[str, int] = {}

    def kernel(self, name: str, parameters: tuple[PtxParameter, ...]) -> PtxKernel:
        while self.scopes:
            self._skip_space()
            if self.position >= len(self.text):
                raise PtxError("the body of the kernel does not end")
            here = self.text[self.position]
            if here == "{":
                self.scopes.append({})
                self.position += 1
            elif here == "}":
                self.scopes.pop()
                self.position += 1
            elif label := _LABEL.match(self.text, self.position):
                self.labels[self._resolve(label.group(1))] = len(self.instructions)
                self.position = label.end()
            else:
                self._statement()
        return PtxKernel(name, parameters, tuple(self.instructions), self.labels)

    def _skip_space(self) -> None:
        while self.position < len(self.text) and self.text[self.position].isspace():
            self.line += self.text[self.position] == "\n"
            self.position += 1

    def _statement(self) -> None:
        end = self.text.find(";", self.position)
        if end < 0:
            raise PtxError(f"line {self.line}: a statement without end")
        text, line = self.text[self.position : end], self.line
        self.line += text.count("\n")
        self.position = end + 1
        text = text.strip()
        if text.startswith("."):
            self._directive(text)
        elif text:
            self.instructions.append(self._instruction(text, line))

    def _directive(self, text: str) -> None:
        """Registers of an inner scope get their own names; other directives are skipped."""
        words = text.split(None, 2)
        if words[0] == ".reg" and len(self.scopes) > 1 and len(words) == 3:
            for name in _DECLARED.findall(re.sub(r"<\d+>", "", words[2])):
                self.made += 1
                self.scopes[-1][name] = f"{name}@{self.made}"

    def _resolve(self, name: str) -> str:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name

    def _instruction(self, text: str, line: int) -> PtxInstruction:
        guard, negated = "", False
        if found := _GUARD.match(text):
            guard, negated = self._resolve(found.group(2)), bool(found.group(1))
            text = text[found.end() :]
        head, _, rest = text.partition(" ") if " " in text else (text, "", "")
        if "\t" in head:
            head, _, rest = text.replace("\t", " ", 1).partition(" ")
        opcode, *modifiers = head.split(".")
        operands = tuple(self._operand(piece) for piece in split_operands(rest))
        return PtxInstruction(opcode, tuple(modifiers), operands, guard, negated, line)

    def _operand(self, text: str) -> str:
        if len(self.scopes) == 1:
            return text
        return re.sub(r"[%A-Za-z_$][\w$]*", lambda found: self._resolve(found.group()), text)


def split_operands(text: str) -> list[str]:
    """The operands between the commas outside of brackets."""
    pieces, depth, start = [], 0, 0
    for position, char in enumerate(text):
        if char in "{[(":
            depth += 1
        elif char in "}])":
            depth -= 1
        elif char == "," and depth == 0:
            pieces.append(text[start:position].strip())
            start = position + 1
    last = text[start:].strip()
    return [*pieces, last] if last else pieces
