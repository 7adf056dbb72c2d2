"""Variables, parameters and registers as they are declared."""

from __future__ import annotations

import re
import struct
from contextlib import suppress
from dataclasses import replace

from titan.isa.ptx.module import StateSpace, Symbol, Variable
from titan.isa.ptx.opcodes import TYPE_BYTES
from titan.isa.ptx.scanner import INVALID, Scanner, split_at_commas

_PARAMETER = re.compile(
    r"\s*(?:\.hidden\s+)?"
    r"\.(?P<space>param|reg)\s+(?P<before>(?:\.align\s+\d+\s+)?)\.(?P<type>\w+)\s+"
    r"(?P<pointer>\.ptr(?:\s+\.(?:global|const|local|shared))?(?:\s+\.align\s+\d+)?\s+)?"
    r"(?P<name>[%A-Za-z_$][\w$]*)\s*(?P<array>\[\s*(?P<count>\w*)\s*\])?\s*"
)
SIZE_MAX = 1 << 40
_BYTES = {str(value): value for value in range(256)}
SPACES = {space.value: space for space in StateSpace}


def integer(text: str) -> int | None:
    """An integer constant of 64 bits: decimal, hexadecimal, octal or binary, with an optional U."""
    text = text.strip()
    negative = text.startswith("-")
    digits = text[1:].strip() if negative or text.startswith("+") else text
    digits = digits.rstrip("uU")
    if not digits or len(digits) > 80:
        return None
    try:
        if digits[:2] in ("0x", "0X"):
            value = int(digits[2:], 16)
        elif digits[:2] in ("0b", "0B"):
            value = int(digits[2:], 2)
        elif digits[0] == "0" and len(digits) > 1:
            value = int(digits[1:], 8)
        else:
            value = int(digits)
    except ValueError:
        return None
    if value >> 64 or (negative and value > 1 << 63):
        return None  # PTX ISA, "Integer Constants": 64 bits
    return -value if negative else value


def floating(text: str) -> tuple[int, str] | None:
    """Bits and type of a floating-point constant: 0f..., 0d... or decimal (which is f64)."""
    lower = text.lower()
    negative = lower.startswith("-")
    digits = lower[1:] if negative else lower
    for prefix, type_, count in (("0f", "f32", 8), ("0d", "f64", 16)):
        if digits.startswith(prefix) and re.fullmatch(r"[0-9a-f]+", digits[2:]):
            if len(digits) - 2 > count:
                return None
            bits = int(digits[2:], 16)
            return (bits ^ (1 << (4 * count - 1)) if negative else bits), type_
    if re.fullmatch(r"\d*\.\d*(e[+-]?\d+)?|\d+e[+-]?\d+", digits) and digits[0] in ".0123456789":
        try:
            return int.from_bytes(struct.pack("<d", float(lower)), "little"), "f64"
        except (ValueError, OverflowError):
            return None
    return None


def parameters(scanner: Scanner, text: str, start: int, line: int) -> tuple[Variable, ...]:
    """A list of parameters; `text` begins at offset `start`. Offsets are laid out in order."""
    found: list[Variable] = []
    offset = 0
    for at, piece in split_at_commas(text):
        match = _PARAMETER.fullmatch(piece)
        if match is None or match["type"] not in TYPE_BYTES:
            scanner.fault(
                INVALID, "a parameter is not understood", start + at, start + at + len(piece)
            )
            continue
        element = TYPE_BYTES[match["type"]]
        count = integer(match["count"] or "0") if match["array"] else 1
        if count is None or not 0 <= count * element < SIZE_MAX:
            scanner.fault(
                INVALID, "the size of a parameter is not a number", start + at, start + at + 1
            )
            continue
        aligned = re.search(r"\.align\s+(\d+)", match["before"])
        alignment = max(int(aligned.group(1)) if aligned else element, 1)
        offset = -(-offset // alignment) * alignment
        found.append(
            Variable(
                match["name"],
                StateSpace.PARAMETER,
                match["type"],
                count * element,
                alignment,
                offset=offset,
                line=line,
            )
        )
        offset += count * element
    return tuple(found)


def variables(scanner: Scanner, text: str, start: int, line: int) -> list[Variable]:
    """The variables of one statement (without its semicolon) that begins at offset `start`."""
    equals = text.find("=")
    head = text if equals < 0 else text[:equals]
    external, space, alignment, type_, vector = False, None, 0, "", 1
    place = 0
    for found in re.finditer(r"\.(\w+)(?:\s*\(([^)]*)\))?(?:\s+(\d+)(?=\s))?", head):
        word, number = found.group(1), found.group(3)
        if head[place : found.start()].strip():
            break
        place = found.end() if (word == "align" and number) else found.end(1)
        if found.group(2) is not None and word == "attribute":
            place = found.end(2) + 1
        if word in SPACES:
            space = SPACES[word]
        elif word in TYPE_BYTES:
            type_ = word
        elif word == "align" and number:
            alignment = int(number)
        elif word in ("v2", "v4", "v8"):
            vector = int(word[1:])
        elif word == "extern":
            external = True
        elif word not in ("visible", "weak", "common", "attribute", "managed"):
            scanner.fault(INVALID, f"`.{word}` is not allowed here", start, start + len(head))
            return []
    if space is None or not type_:
        scanner.fault(INVALID, "a declaration is not understood", start, start + len(head.rstrip()))
        return []
    element = TYPE_BYTES[type_] * vector
    plain = Variable("", space, type_, 0, alignment or element, external, line=line)
    if equals >= 0:
        pieces = [(place, head[place:].strip())]
    else:
        pieces = [(place + at, piece) for at, piece in split_at_commas(head[place:])]
    made = []
    for at, piece in pieces:
        variable = _declarator(scanner, piece, start + at, plain, element)
        if variable is not None:
            made.append(variable)
    if equals >= 0 and len(made) == 1:
        made = [_initialised(scanner, made[0], text[equals + 1 :], start + equals + 1)]
    return made


def _declarator(
    scanner: Scanner, piece: str, start: int, plain: Variable, element: int
) -> Variable | None:
    """`name`, `name[4][8]`, `name[]` or `name<8>`."""
    match = re.fullmatch(r"([%A-Za-z_$][\w$]*)\s*((?:\[\s*\w*\s*\]\s*)*)", piece)
    if match is None:
        scanner.fault(INVALID, "a declaration is not understood", start, start + len(piece) or 1)
        return None
    size = element
    for dimension in re.findall(r"\[\s*(\w*)\s*\]", match.group(2)):
        count = integer(dimension) if dimension else 0
        if count is None or count < 0 or size * count >= SIZE_MAX:
            scanner.fault(
                INVALID, f"`{dimension}` is not a number of elements", start, start + len(piece)
            )
            return None
        size *= count
    return replace(plain, name=match.group(1), size_bytes=size)


def _initialised(scanner: Scanner, variable: Variable, text: str, start: int) -> Variable:
    """With the bytes of its initialiser; a form without a size takes it from the list."""
    text = text.replace("{", " ").replace("}", " ")
    if variable.type in ("b8", "u8"):
        with suppress(KeyError):  # as compilers write tables of a megabyte
            data = bytes(map(_BYTES.__getitem__, text.strip().split(", ")))
            return _sized(variable, data, ())
    items = text.split(",")
    references: list[tuple[int, int, Symbol]] = []
    values: list[int] = []
    width = TYPE_BYTES[variable.type]
    for index, item in enumerate(items):
        value = _initial_value(item.strip(), width)
        if value is None:
            symbol = re.fullmatch(r"(?:generic\s*\(\s*)?([%A-Za-z_$][\w$]*)\s*\)?"
                                  r"\s*(?:\+\s*(\w+))?\s*\)?", item.strip())  # fmt: skip
            if symbol is None:
                scanner.fault(
                    INVALID, "an initial value is not understood", start, start + min(len(text), 40)
                )
                return variable
            offset = integer(symbol.group(2) or "0") or 0
            references.append((index * width, width, Symbol(symbol.group(1), offset)))
            value = 0
        values.append(value & ((1 << (8 * width)) - 1))
    data = b"".join(value.to_bytes(width, "little") for value in values)
    return _sized(variable, data, tuple(references))


def _initial_value(text: str, width: int) -> int | None:
    value = integer(text)
    if value is not None:
        return value
    bits = floating(text)
    if bits is None:
        return None
    if bits[1] == "f64" and width == 4:
        number = struct.unpack("<d", bits[0].to_bytes(8, "little"))[0]
        try:
            return int.from_bytes(struct.pack("<f", number), "little")
        except OverflowError:
            return None
    return bits[0]


def _sized(
    variable: Variable, data: bytes, references: tuple[tuple[int, int, Symbol], ...]
) -> Variable:
    size = variable.size_bytes or len(data)
    return replace(variable, size_bytes=size, initial=data[:size], references=references)
