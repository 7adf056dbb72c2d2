"""Atomic operations on global memory, for runs that compute: lane after lane.

In any other order of lanes, waves and work-groups the sums of floating-point numbers differ by
rounding, and what is returned differs; which is decided elsewhere. Source: CDNA3, "FLAT, Global and
Scratch address space instructions".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from titan.isa.gcn.opcodes import OpcodeKind
from titan.isa.waves.contents import Bytes, Contents, Places, register_rows, set_registers
from titan.isa.waves.decode import DecodedInstruction, register_numbers, written_in_order
from titan.isa.waves.state import LANES, Refused, Wave

Numbers = NDArray[Any]
Kind = type[np.generic]
_REAL: dict[str, Kind] = {"_f32": np.float32, "_f64": np.float64, "_f16": np.float16}
_OPERATIONS: dict[str, Callable[[Numbers, Numbers], Numbers]] = {
    "swap": lambda old, new: new,
    "add": np.add,
    "pk_add": np.add,
    "sub": np.subtract,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "umin": np.minimum,
    "umax": np.maximum,
    "smin": np.minimum,
    "smax": np.maximum,
    "min": np.fmin,
    "max": np.fmax,
    "inc": lambda old, new: np.where(old >= new, np.zeros_like(old), old + np.ones_like(old)),
    "dec": lambda old, new: np.where((old == 0) | (old > new), new, old - np.ones_like(old)),
}  # fmt: skip


def contents_atomic(
    contents: Contents, wave: Wave, code: DecodedInstruction, places: Places, size: int
) -> None:
    """Do an atomic by its bytes; `places` are negative where a lane accesses nothing.

    Raises Refused for an operation that is not computed.
    """
    item = code.item
    word = item.base.partition("_atomic_")[2].removesuffix("_x2")
    compares = word == "cmpswap"
    kind, operation = _form(word, size)
    registers = written_in_order(code)
    buffer = code.opcode.kind is OpcodeKind.BUFFER
    data = item.operands[0 if buffer else 1 + int(bool(registers))]
    if (operation is None and not compares) or kind is None:
        raise Refused(f"{item.opcode} is not computed")
    count = size * (2 if compares else 1)
    given = register_rows(wave, register_numbers(data)[: count // 4], count, item)
    olds: Bytes = np.zeros((LANES, size), np.uint8)
    for lane in np.flatnonzero(places >= 0):
        at = places[lane : lane + 1]
        olds[lane] = contents.read(at, size)[0]
        new = given[lane, :size]
        if compares and not np.array_equal(olds[lane], given[lane, size:]):
            continue
        if operation is not None:
            with np.errstate(all="ignore"):
                made = operation(olds[lane].view(kind), np.ascontiguousarray(new).view(kind))
            new = np.ascontiguousarray(made.astype(kind)).view(np.uint8)
        contents.write(at, new[None])
    if registers:
        set_registers(wave, registers, olds, item)


def _form(word: str, size: int) -> tuple[Kind | None, Callable[[Numbers, Numbers], Numbers] | None]:
    """The type of the numbers, and what is done with them; bfloat16 is not computed."""
    if word.endswith("_bf16"):
        return None, None
    suffix = next((end for end in _REAL if word.endswith(end)), "")
    name = word.removesuffix(suffix)
    signed = name in ("smin", "smax")
    integers: dict[tuple[bool, int], Kind] = {
        (False, 4): np.uint32, (False, 8): np.uint64, (True, 4): np.int32, (True, 8): np.int64,
    }  # fmt: skip
    return _REAL[suffix] if suffix else integers.get((signed, size)), _OPERATIONS.get(name)
