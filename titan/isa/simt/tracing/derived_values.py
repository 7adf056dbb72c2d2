"""What follows of a traced value from what it is made of, by a rule for each step.

The numbers of a traced run (`traced_memory.py`) say of what each value is made; a subclass gives
the element of a set of its own that belongs to a value, from those of its operands.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from fractions import Fraction
from hashlib import blake2b
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

from titan.isa.simt.tracing.traced_memory import PLACE_BITS, ValueNumbers

FORMATS = {
    "f64": ("<d", 8, 52, 0x7FF), "f32": ("<f", 4, 23, 0xFF), "f16": ("<e", 2, 10, 0x1F),
    "bf16": ("", 2, 7, 0xFF),  # the upper half of an f32
}  # fmt: skip
WIDTHS = {"64": 8, "32": 4, "16": 2, "8": 1}  # bytes, by the end of a type's name
T = TypeVar("T")


class InstructionForm(NamedTuple):
    """An instruction: its name, and its operands with all registers alike."""

    name: str
    operands: tuple[object, ...]


class DerivedValues(ABC, Generic[T]):
    """Elements of the values that `numbers` has numbered."""

    def __init__(self, numbers: ValueNumbers) -> None:
        self._numbers = numbers
        self._keys: dict[int, object] = {}
        self._of: dict[int, T] = {}

    @abstractmethod
    def hashed(self, *parts: object) -> T:
        """The element of what the rule does not follow."""

    @abstractmethod
    def arithmetic(self, form: InstructionForm, result: int, operands: tuple[int, ...]) -> T | None:
        """The element of a result of an instruction; None where the rule does not follow it."""

    def of(self, number: int) -> T:
        """The element of a value by its number; of known bits, given as ~bits, a hash."""
        numbered = self._numbers.numbered
        if new := len(numbered) - len(self._keys):  # the last ones, as none is ever taken out
            last = islice(reversed(numbered.items()), new)
            self._keys.update((found, key) for key, found in last)
        waiting = [number]
        while waiting:
            current = waiting[-1]
            if current < 0 or current in self._of:
                waiting.pop()
                continue
            missing = [n for n in self._made_of(current) if n >= 0 and n not in self._of]
            if missing:
                waiting += missing
                continue
            self._of[current] = self._made(current)
        return self.element(number)

    def element(self, number: int) -> T:
        """As `of`, of an operand of what is being made."""
        return self._of[number] if number >= 0 else self.hashed("known", ~number)

    def _made_of(self, number: int) -> tuple[int, ...]:
        match self._keys.get(number):
            case ((int(), int()), tuple(operands)):
                return operands
            case ("ld", tuple(), int(value)):
                return (value,)
            case ("bytes", tuple(content)):
                return tuple(dict.fromkeys(mark >> PLACE_BITS for mark in content if mark >= 0))
        return ()

    def _made(self, number: int) -> T:
        match self._keys.get(number):
            case ((int(form), int(result)), tuple(operands)):
                made = self.arithmetic(self._form(form), result, operands)
                if made is not None:
                    return made
                return self.hashed("made", form, result, *map(self.element, operands))
            case ("ld", (int(bits), _, int(width)), int(value)) if bits == width:
                return self._of[value]
            case ("ld", tuple(form), int(value)):
                return self.hashed("ld", form, self._of[value])
            case ("bytes", tuple(content)):
                return self._loaded(content)
        return self.hashed("value", number)

    def _loaded(self, content: tuple[int, ...]) -> T:
        first = content[0] >> PLACE_BITS if content[0] >= 0 else -1
        whole = tuple(range(first << PLACE_BITS, (first << PLACE_BITS) + len(content)))
        if first >= 0 and content == whole and self._width(first) == len(content):
            return self._of[first]
        parts: list[object] = ["bytes"]
        for mark in content:
            if mark >= 0:
                parts += [mark & ((1 << PLACE_BITS) - 1), self._of[mark >> PLACE_BITS]]
            else:
                parts.append(mark)
        return self.hashed(*parts)

    def rule_of(self, number: int) -> tuple[InstructionForm, tuple[int, ...]]:
        """The instruction whose first result a value is, and its operands; else an empty one."""
        match self._keys.get(number):
            case ((int(form), 0), tuple(operands)):
                return self._form(form), operands
        return InstructionForm("", ()), ()

    def _width(self, number: int) -> int:
        """The bytes of a value; 0 where they are not known."""
        match self._keys.get(number):
            case ((int(form), int()), tuple()):
                word, *words = self._form(form).name.split(".")
                kind = words[-2 if word == "cvt" else -1] if words[word == "cvt" :] else ""
                if kind.endswith("x2"):
                    return 2 * next(size for end, size in WIDTHS.items() if kind[:-2].endswith(end))
                return next((size for end, size in WIDTHS.items() if kind.endswith(end)), 0)
            case ("ld", (_, _, int(width)), int()):
                return width // 8
        return 0

    def _form(self, number: int) -> InstructionForm:
        match self._keys.get(number):
            case ("form", (str(name), tuple(operands))):
                return InstructionForm(name, operands)
        return InstructionForm("", ())


def known_float(bits: int, kind: str) -> Fraction | None:
    """The number that bits of a floating-point type are; None where they are none."""
    form, size, exponent, infinite = FORMATS[kind]
    bits &= (1 << 8 * size) - 1
    if bits >> exponent & infinite == infinite:
        return None
    if kind == "bf16":
        form, size, bits = "<f", 4, bits << 16
    (value,) = struct.unpack(form, bits.to_bytes(size, "little"))
    return Fraction(value)


def hash_of(*parts: object) -> int:
    """The same number for the same parts, on every machine."""
    return int.from_bytes(blake2b(repr(parts).encode(), digest_size=16).digest(), "big")
