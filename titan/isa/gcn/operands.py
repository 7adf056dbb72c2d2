"""Operands of AMD assembly: registers, ranges, constants, modifiers, from their text."""

from __future__ import annotations

import re
import struct
from dataclasses import replace

from titan.foundation.errors import TitanError
from titan.isa.gcn.module import GcnOperand, Literal, Registers, SymbolOperand, integer_of

VCC, M0, EXEC = 106, 124, 126
NULL = 125
_NAMES = {
    "flat_scratch": (102, 2), "flat_scratch_lo": (102, 1), "flat_scratch_hi": (103, 1),
    "xnack_mask": (104, 2), "xnack_mask_lo": (104, 1), "xnack_mask_hi": (105, 1),
    "vcc": (VCC, 2), "vcc_lo": (VCC, 1), "vcc_hi": (VCC + 1, 1), "m0": (M0, 1),
    "exec": (EXEC, 2), "exec_lo": (EXEC, 1), "exec_hi": (EXEC + 1, 1), "scc": (253, 1),
}  # fmt: skip
_BANK_SIZES = {"v": 256, "a": 256, "s": 106, "ttmp": 16}
_RANGE_MAX = 32
TTMP = 108
_SINGLE = re.compile(r"(v|a|s|ttmp)(\d{1,4})$")
_RANGE = re.compile(r"(v|a|s|ttmp)\[\s*(\d{1,4})\s*(?::\s*(\d{1,4})\s*)?\]$")
_HALF = re.compile(r"(v\d{1,3})\.([lh])$")
_LIKE_REGISTER = re.compile(r"(v|s|ttmp)(\d|\[)")
_REAL = re.compile(r"-?\d+\.\d*(?:[eE][-+]?\d+)?$")
_MODIFIER = re.compile(r"([A-Za-z_]\w*)(?::(.*))?$", re.S)


class BadOperand(TitanError):
    """What is wrong with an operand, in words."""


def split(text: str) -> list[tuple[str, int]]:
    """The parts of an operand list with their offsets: between commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        if char in "[(":
            depth += 1
        elif char in "])":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append((text[start:at], start))
            start = at + 1
    if text[start:].strip() or parts:
        parts.append((text[start:], start))
    return parts


def words(text: str) -> list[str]:
    """What blanks separate, brackets kept whole."""
    found, depth, word = [], 0, ""
    for char in text:
        depth += (char in "[(") - (char in "])")
        if char in " \t" and depth == 0:
            if word:
                found.append(word)
            word = ""
        else:
            word += char
    return [*found, word] if word else found


def operand(text: str, later: bool = False) -> GcnOperand:
    """One operand; `later`: of gfx1250. Raises BadOperand."""
    text = text.strip()
    negative = absolute = False
    if text.startswith("neg(") and text.endswith(")"):
        negative, text = True, text[4:-1].strip()
    elif text.startswith("-") and len(text) > 1 and not text[1].isdigit():
        negative, text = True, text[1:].strip()
    if text.startswith("|") and text.endswith("|") and len(text) > 2:
        absolute, text = True, text[1:-1].strip()
    elif text.startswith("abs(") and text.endswith(")"):
        absolute, text = True, text[4:-1].strip()
    elif text.startswith("sext(") and text.endswith(")"):
        inner = operand(text[5:-1], later)
        if isinstance(inner, Registers):
            return replace(inner, extended=True)
        return SymbolOperand(text)
    half = _HALF.match(text) if later else None
    if later and text == "null":
        return Registers("s", NULL)
    found = registers(text if half is None else half[1], later)
    if found is not None:
        part = "" if half is None else half[2]
        return Registers(found.bank, found.first, found.count, negative, absolute, part)
    number = integer_of(text)
    if number is not None:
        return Literal(number)
    if _REAL.match(text):
        try:
            return Literal(int.from_bytes(struct.pack("<f", float(text)), "little"), True)
        except OverflowError:
            raise BadOperand(f"{text} is no binary32 number") from None
    if not text:
        raise BadOperand("an operand is empty")
    if later and _LIKE_REGISTER.match(text):
        raise BadOperand(f"{text} is no register")
    return SymbolOperand(text)


def as_encoded(base: str, operands: tuple[GcnOperand, ...]) -> tuple[GcnOperand, ...]:
    """Constants of 64 bits as targets before gfx1250 have them: small ones, or 32 bits extended.

    The sign is extended for operands of type i64 alone (LLVM, pull request 70274).
    """
    if not base.endswith(("b64", "u64", "i64")):
        return operands
    found: list[GcnOperand] = []
    for one in operands:
        if isinstance(one, Literal) and not one.real and not -16 <= one.value <= 64:
            low = one.value & 0xFFFF_FFFF
            signed = base.endswith("i64") and low >> 31
            found.append(Literal(low - (1 << 32) if signed else low))
        else:
            found.append(one)
    return tuple(found)


def registers(text: str, later: bool = False) -> Registers | None:
    """A register or range of registers; None for something else. Raises BadOperand.

    `later`: of gfx1250, where a range may go on beyond v255 (`register_banks.py`).
    """
    if text in _NAMES:
        return Registers("s", *_NAMES[text])
    match = _SINGLE.match(text)
    if match is not None:
        return _checked(match.group(1), int(match.group(2)), 1, text, later)
    match = _RANGE.match(text)
    if match is not None:
        first = int(match.group(2))
        last = first if match.group(3) is None else int(match.group(3))
        if last < first:
            raise BadOperand(f"{text} ends before it begins")
        return _checked(match.group(1), first, last - first + 1, text, later)
    return None


def _checked(bank: str, first: int, count: int, text: str, later: bool) -> Registers:
    if later and bank == "a":
        raise BadOperand(f"{text}: gfx1250 has no accumulation registers")
    if later and bank == "v" and first < _BANK_SIZES["v"] and count <= _RANGE_MAX:
        return Registers(bank, first, count)
    if first + count > _BANK_SIZES[bank]:
        raise BadOperand(f"{text} is outside of the {_BANK_SIZES[bank]} registers of its kind")
    if bank == "ttmp":
        return Registers("s", TTMP + first, count)
    return Registers(bank, first, count)


def modifier(text: str) -> tuple[str, str] | None:
    """`offset:16` as its name and value, `lds` with an empty one; None if it is no modifier."""
    match = _MODIFIER.match(text)
    return None if match is None else (match.group(1), match.group(2) or "")
