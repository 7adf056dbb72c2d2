"""What follows of a traced value from what it is made of, by a rule for each step.

The numbers of a traced run (`traced_memory.py`) say of what each value is made; a subclass gives
the element of a set of its own that belongs to a value, from those of its operands.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
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
Rule = Callable[[tuple[int, ...]], T | None]
_WORD, _ODD = (1 << 64) - 1, 0x9E3779B97F4A7C15
STEPS_MAX = 1000  # of a walk down two values at once


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
        self._rules: dict[tuple[int, int], Rule[T] | None] = {}  # by instruction and result
        self._seeds: dict[tuple[int, int], int] = {}

    @abstractmethod
    def hashed(self, *parts: object) -> T:
        """The element of what the rule does not follow."""

    @abstractmethod
    def mixed(self, seed: int, elements: Iterable[T]) -> T:
        """The same of what an instruction makes of elements; `seed` represents the instruction."""

    @abstractmethod
    def rule(self, form: InstructionForm, result: int) -> Rule[T] | None:
        """What gives the element of a result of an instruction from the numbers of its operands;
        None where no rule follows it."""

    def follows(self, result: tuple[int, int], operands: tuple[int, ...]) -> bool:
        """Whether a rule may give the element of a result."""
        return self._rule_of(result) is not None

    def of(self, number: int) -> T:
        """The element of a value by its number; of known bits, given as ~bits, a hash.

        Operands are numbered before what is made of them, so elements are made in that order.
        """
        self._learn()
        waiting, needed = [number], set[int]()
        while waiting:
            current = waiting.pop()
            if current >= 0 and current not in self._of and current not in needed:
                needed.add(current)
                waiting.extend(self._made_of(current))
        for current in sorted(needed):
            self._of[current] = self._made(current)
        return self.element(number)

    def differ(self, one: int, other: int) -> bool:
        """Whether two values are shown to have other elements, by walking down from both at once as
        long as no rule follows how they are made. That spares all that they are made of where lanes
        have compared and selected, each in its own order. False says nothing.
        """
        self._learn()
        waiting = [(one, other)]
        for _ in range(STEPS_MAX):
            if not waiting:
                break
            first, second = map(self._moved, waiting.pop())
            if first == second:
                continue
            made, beside = self._unfollowed(first), self._unfollowed(second)
            if made is None or beside is None:
                continue
            if made[0] != beside[0] or len(made[1]) != len(beside[1]):
                return True
            waiting.extend(zip(reversed(made[1]), reversed(beside[1]), strict=True))
        return False

    def _moved(self, number: int) -> int:
        """The value that was loaded, of one that is loaded whole."""
        while number >= 0:
            match self._keys.get(number):
                case ("ld", (int(bits), _, int(width)), int(value)) if bits == width:
                    number = value
                case _:
                    return number
        return number

    def _unfollowed(self, number: int) -> tuple[object, tuple[int, ...]] | None:
        """How a value is made and of which, where its element is a hash of that."""
        if number < 0:
            return ("known", number), ()
        key = self._keys.get(number)
        if isinstance(key, tuple) and len(key) == 2 and _is_result(key[0]):
            return None if self.follows(*key) else key
        match key:
            case ("ld", tuple(form), int(value)):
                return ("ld", form), (value,)
            case ("bytes", tuple(content)):
                values = tuple(mark >> PLACE_BITS for mark in content)
                if min(content) < 0 or any(value in self._keys for value in values):
                    return None
                places = (mark & ((1 << PLACE_BITS) - 1) for mark in content)
                return ("bytes", *places), values
        return ("value", number), ()

    def _learn(self) -> None:
        """How the values are made that have been numbered since."""
        numbered = self._numbers.numbered
        if new := len(numbered) - len(self._keys):  # the last ones, as none is ever taken out
            last = islice(reversed(numbered.items()), new)
            self._keys.update((found, key) for key, found in last)

    def element(self, number: int) -> T:
        """As `of`, of an operand of what is being made."""
        return self._of[number] if number >= 0 else self.hashed("known", ~number)

    def _made_of(self, number: int) -> tuple[int, ...]:
        key = self._keys.get(number)
        if isinstance(key, tuple) and len(key) == 2 and _is_result(key[0]):
            operands: tuple[int, ...] = key[1]
            return operands
        match key:
            case ("ld", tuple(), int(value)):
                return (value,)
            case ("bytes", tuple(content)):
                return tuple(dict.fromkeys(mark >> PLACE_BITS for mark in content if mark >= 0))
        return ()

    def _made(self, number: int) -> T:
        key = self._keys.get(number)
        if isinstance(key, tuple) and len(key) == 2 and _is_result(key[0]):
            return self._computed(*key)
        match key:
            case ("ld", (int(bits), _, int(width)), int(value)) if bits == width:
                return self._of[value]
            case ("ld", tuple(form), int(value)):
                return self.hashed("ld", form, self._of[value])
            case ("bytes", tuple(content)):
                return self._loaded(content)
        return self.hashed("value", number)

    def _rule_of(self, result: tuple[int, int]) -> Rule[T] | None:
        if result not in self._rules:
            self._rules[result] = self.rule(self.form(result[0]), result[1])
            self._seeds[result] = hash_of("made", *result)
        return self._rules[result]

    def _computed(self, result: tuple[int, int], operands: tuple[int, ...]) -> T:
        rule = self._rule_of(result)
        made = None if rule is None else rule(operands)
        if made is not None:
            return made
        return self.mixed(self._seeds[result], map(self.element, operands))

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
                return self.form(form), operands
        return InstructionForm("", ()), ()

    def _width(self, number: int) -> int:
        """The bytes of a value; 0 where they are not known."""
        match self._keys.get(number):
            case ((int(form), int()), tuple()):
                word, *words = self.form(form).name.split(".")
                kind = words[-2 if word == "cvt" else -1] if words[word == "cvt" :] else ""
                if kind.endswith("x2"):
                    return 2 * next(size for end, size in WIDTHS.items() if kind[:-2].endswith(end))
                return next((size for end, size in WIDTHS.items() if kind.endswith(end)), 0)
            case ("ld", (_, _, int(width)), int()):
                return width // 8
        return 0

    def form(self, number: int) -> InstructionForm:
        """The form of an instruction by its number."""
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


def _is_result(key: object) -> bool:
    """Whether this is the form of an instruction and which of its results."""
    return isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], int)


def mixed_bits(seed: int, values: Iterable[int]) -> int:
    """64 bits that depend on all values, and on their order."""
    for value in values:
        seed = (seed ^ value) * _ODD & _WORD
        seed ^= seed >> 32
    return seed


def hash_of(*parts: object) -> int:
    """The same number for the same parts, on every machine."""
    return int.from_bytes(blake2b(repr(parts).encode(), digest_size=16).digest(), "big")
