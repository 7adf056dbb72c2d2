"""Names and numbers that may stand in an emitted text, checked once more.

The program is not trusted: identifiers are matched here again and get a prefix by what they name,
so that none is a keyword, a macro or a name of the device header; numbers are checked for their
range and spelled by this module alone. No other text of a program reaches a file.
"""

from __future__ import annotations

import math
import re
import struct

from titan.codegen.emit.model import EmissionRefused
from titan.codegen.tile.model import TileOperation

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_INSTANCE = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,63})@(\d{1,2})")
_LABEL = re.compile(r"[A-Za-z0-9_@ \[\]().,:+*/%<>=!-]{0,200}")
INTEGER_MAX = 2**31 - 1
DTYPE_BYTES = {
    "f32": 4,
    "f16": 2,
    "bf16": 2,
    "e4m3": 1,
    "e5m2": 1,
    "ue8m0": 1,
    "e2m1x2": 1,
    "i32": 4,
}


def identifier(name: object, what: str) -> str:
    """The name, if it is one. Raises EmissionRefused."""
    if not isinstance(name, str) or not _IDENTIFIER.fullmatch(name):
        raise EmissionRefused(f"the name of {what} is not an identifier: {shown(name)}")
    return name


def instance(name: object, what: str) -> tuple[str, int | None]:
    """`name` or `name@cta`, taken apart. Raises EmissionRefused."""
    if isinstance(name, str) and (found := _INSTANCE.fullmatch(name)):
        return found.group(1), int(found.group(2))
    return identifier(name, what), None


def mangled(prefix: str, name: object, what: str) -> str:
    """The name as the emitted text has it, for instance `v_acc` or `b_ring_full_1`."""
    base, cta = instance(name, what)
    return f"{prefix}_{base}" if cta is None else f"{prefix}_{base}_{cta}"


def label(text: object) -> str:
    """A label that may stand in a comment. Raises EmissionRefused."""
    if not isinstance(text, str) or not _LABEL.fullmatch(text):
        raise EmissionRefused(f"a label holds what no label holds: {shown(text)}")
    return text


def integer(value: object, what: str, low: int = -INTEGER_MAX, high: int = INTEGER_MAX) -> int:
    """Raises EmissionRefused where it is not an integer within the bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise EmissionRefused(f"{what} must be an integer from {low} to {high}: {shown(value)}")
    return value


def dtype(name: object, what: str) -> str:
    """Raises EmissionRefused where it is not an element type that this backend spells."""
    if not isinstance(name, str) or name not in DTYPE_BYTES:
        raise EmissionRefused(f"{what} has an element type without a spelling: {shown(name)}")
    return name


def single(value: object, what: str) -> str:
    """A number of f32 as C++ spells it, exactly."""
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise EmissionRefused(f"{what} must be a number: {shown(value)}")
    number = float(value)
    if math.isinf(number):
        return "titan::infinity()" if number > 0 else "-titan::infinity()"
    try:
        (rounded,) = struct.unpack("<f", struct.pack("<f", number))
    except OverflowError:
        raise EmissionRefused(f"{what} is beyond the numbers of f32: {shown(value)}") from None
    return f"{rounded!r}f"


def spelled_scalar(name: object) -> str:
    """The scalar argument of a kernel as C++ has it."""
    return mangled("f", name, "a scalar argument")


def spelled_number(operation: TileOperation) -> str:
    """The number of a `scale`, `offset` or `raise`, times its scalar argument if it has one.

    The product of two f32 numbers is rounded once, as the tile language says.
    """
    number = single(operation.number, f"the number of {operation.name}")
    if operation.scalar is None:
        return number
    scalar = spelled_scalar(operation.scalar.name)
    return scalar if number == "1.0f" else f"({number} * {scalar})"


def shown(value: object) -> str:
    """At most 60 characters of a value's representation."""
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
