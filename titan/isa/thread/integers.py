"""The integer instructions of PTX on bits, as Python functions; what is not known is None.

Values are unsigned numbers below 2 ** width. Source: PTX ISA, integer arithmetic, logic and shifts,
comparison, data movement.
"""

from __future__ import annotations

from collections.abc import Callable

Bits = int | None
WIDTHS = {
    "u8": 8, "s8": 8, "b8": 8, "u16": 16, "s16": 16, "b16": 16, "u32": 32, "s32": 32, "b32": 32,
    "u64": 64, "s64": 64, "b64": 64, "pred": 1,
}  # fmt: skip


def signed(value: int, width: int) -> int:
    """The bits of a number read in two's complement."""
    return value - (1 << width) if value >> (width - 1) & 1 else value


def integer_type(modifiers: tuple[str, ...]) -> str | None:
    """The last modifier that is an integer type; None where the type is another."""
    last = modifiers[-1] if modifiers else ""
    return last if last in WIDTHS else None


def compute(opcode: str, modifiers: tuple[str, ...], values: tuple[Bits, ...]) -> Bits:
    """The result of one instruction; None where an operand or the instruction is not known."""
    kind = integer_type(modifiers)
    if kind is None:
        return None
    if opcode == "cvt":
        return _convert(modifiers, values)
    width = WIDTHS[kind]
    mask = (1 << width) - 1
    if opcode == "selp":
        first, second, chosen = values
        return None if chosen is None else first if chosen else second
    if None in values:
        return _absorbed(opcode, values)
    known = tuple(value for value in values if value is not None)
    if kind.startswith("s") and opcode not in ("shl", "and", "or", "xor", "not"):
        known = _as_signed(opcode, known, width)
    wide = "wide" in modifiers
    if not kind.startswith("s"):  # a literal may be written as a negative number
        known = (*(value & mask for value in known[:2]), *known[2:])
    function = _FUNCTIONS.get(opcode)
    if function is None:
        return None
    if "hi" in modifiers:
        result = (known[0] * known[1] >> width) + (known[2] if len(known) > 2 else 0)
    else:
        computed = function(known, width)
        if computed is None:
            return None
        result = computed
    return result & ((1 << 2 * width) - 1 if wide else mask)


def _absorbed(opcode: str, values: tuple[Bits, ...]) -> Bits:
    """Zero times or and something unknown is zero."""
    if opcode in ("mul", "and") and 0 in values:
        return 0
    return None


def _as_signed(opcode: str, values: tuple[int, ...], width: int) -> tuple[int, ...]:
    if opcode in ("shr", "bfe"):
        return (signed(values[0] & ((1 << width) - 1), width), *values[1:])
    return tuple(signed(value & ((1 << width) - 1), width) for value in values)


def _convert(modifiers: tuple[str, ...], values: tuple[Bits, ...]) -> Bits:
    types = [item for item in modifiers if item in WIDTHS]
    value = values[0]
    if len(types) != 2 or modifiers[-2:] != tuple(types) or value is None:
        return None
    to, source = types
    width = WIDTHS[source]
    number = value & ((1 << width) - 1)
    if source.startswith("s"):
        number = signed(number, width)
    return int(number) & ((1 << WIDTHS[to]) - 1)


def _divide(values: tuple[int, ...], width: int) -> int | None:
    first, second = values
    if second == 0:
        return None
    quotient = abs(first) // abs(second)
    return quotient if (first < 0) == (second < 0) else -quotient


def _remainder(values: tuple[int, ...], width: int) -> int | None:
    first, second = values
    if second == 0:
        return None
    return abs(first) % abs(second) * (-1 if first < 0 else 1)


def _shift_left(values: tuple[int, ...], width: int) -> int:
    return values[0] << min(values[1], width)


def _shift_right(values: tuple[int, ...], width: int) -> int:
    return values[0] >> min(values[1], width)


def _extract(values: tuple[int, ...], width: int) -> int:
    """`bfe`: unsigned fields only are exact; a signed field keeps its sign."""
    value, position, length = values
    field = (value >> (position & 255)) & ((1 << (length & 255)) - 1)
    return signed(field, length & 255) if value < 0 and length else field


def _insert(values: tuple[int, ...], width: int) -> int:
    piece, base, position, length = values
    mask = ((1 << (length & 255)) - 1) << (position & 255)
    return (base & ~mask) | ((piece << (position & 255)) & mask)


def _logic3(values: tuple[int, ...], width: int) -> int:
    """`lop3`: every bit of the result looked up in the table of eight."""
    first, second, third, table = values
    result = 0
    for row in range(8):
        if table >> row & 1:
            one = first if row & 4 else ~first
            two = second if row & 2 else ~second
            three = third if row & 1 else ~third
            result |= one & two & three
    return result


_FUNCTIONS: dict[str, Callable[[tuple[int, ...], int], int | None]] = {
    "mov": lambda v, w: v[0],
    "cvta": lambda v, w: v[0],
    "add": lambda v, w: v[0] + v[1],
    "sub": lambda v, w: v[0] - v[1],
    "mul": lambda v, w: v[0] * v[1],
    "mul24": lambda v, w: v[0] * v[1],
    "mad": lambda v, w: v[0] * v[1] + v[2],
    "div": _divide,
    "rem": _remainder,
    "min": lambda v, w: min(v),
    "max": lambda v, w: max(v),
    "abs": lambda v, w: abs(v[0]),
    "neg": lambda v, w: -v[0],
    "and": lambda v, w: v[0] & v[1],
    "or": lambda v, w: v[0] | v[1],
    "xor": lambda v, w: v[0] ^ v[1],
    "not": lambda v, w: ~v[0],
    "cnot": lambda v, w: int(v[0] == 0),
    "shl": _shift_left,
    "shr": _shift_right,
    "bfe": _extract,
    "bfi": _insert,
    "lop3": _logic3,
    "popc": lambda v, w: v[0].bit_count(),
}


def compare(relation: str, kind: str, first: Bits, second: Bits) -> bool | None:
    """`setp` without its combination with another predicate."""
    width = WIDTHS.get(kind)
    if first is None or second is None or width is None:
        return None
    mask = (1 << width) - 1
    first, second = first & mask, second & mask
    if kind.startswith("s"):
        first, second = signed(first, width), signed(second, width)
    match relation:
        case "eq":
            return first == second
        case "ne":
            return first != second
        case "lt" | "lo":
            return first < second
        case "le" | "ls":
            return first <= second
        case "gt" | "hi":
            return first > second
        case "ge" | "hs":
            return first >= second
    return None
