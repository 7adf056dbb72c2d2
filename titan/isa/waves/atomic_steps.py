"""Atomic operations on global memory and LDS, for runs that compute: lane after lane.

In any other order of lanes, waves and work-groups the sums of floating-point numbers differ by
rounding, and what is returned differs; which is decided elsewhere. A compare-and-swap of LDS has
the number to compare with first, one of global memory last. Sources: CDNA3, "FLAT, Global and
Scratch address space instructions" and "LDS & GWS instructions".
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from titan.isa.gcn.opcodes import OpcodeKind
from titan.isa.waves.contents import Bytes, Contents, Places, register_rows, set_registers
from titan.isa.waves.decode import DecodedInstruction, register_numbers, written_in_order
from titan.isa.waves.state import LANES, Refused, Wave
from titan.isa.waves.typed_operations import Numbers

Kind = type[np.generic]
# What is stored: of the old number, what the instruction gives, and the second number that it
# gives; all are arrays of one type.
Operation = Callable[[Numbers, Numbers, Numbers], Numbers]
_REALS: dict[str, Kind] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
_INTEGERS: dict[tuple[bool, int], Kind] = {
    (False, 4): np.uint32, (False, 8): np.uint64, (True, 4): np.int32, (True, 8): np.int64,
}  # fmt: skip
_NAME = re.compile(r"(pk_add|\w+?)(?:_([uibf]\d\d|bf16))?$")


def _bfloats(words: Numbers) -> NDArray[np.float64]:
    return (words.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


def _sum_of_bfloats(old: Numbers, new: Numbers, _: Numbers) -> Numbers:
    """Rounded to nearest even; the sum in binary64 is exact where that matters."""
    total = (_bfloats(old) + _bfloats(new)).astype(np.float32)
    exact = _bfloats(old) + _bfloats(new)
    words = total.view(np.uint32)
    below = words & np.uint32(0xFFFF_0000)
    above = below + np.uint32(0x1_0000)
    low, high = (np.abs(one.view(np.float32).astype(np.float64) - exact) for one in (below, above))
    even = below >> np.uint32(16) & np.uint32(1) == 0
    chosen = np.where((low < high) | ((low == high) & even), below, above)
    chosen = np.where(np.isfinite(total), chosen, words & np.uint32(0xFFFF_0000))
    chosen = np.where(np.isnan(total), np.uint32(0x7FC0_0000), chosen)
    return (chosen >> np.uint32(16)).astype(np.uint16)


_OPERATIONS: dict[str, Operation] = {
    "swap": lambda old, new, _: new,
    "wrxchg": lambda old, new, _: new,
    "wrxchg2": lambda old, new, _: new,
    "wrxchg2st64": lambda old, new, _: new,
    "add": lambda old, new, _: old + new,
    "pk_add": lambda old, new, _: old + new,
    "sub": lambda old, new, _: old - new,
    "rsub": lambda old, new, _: new - old,
    "and": lambda old, new, _: old & new,
    "or": lambda old, new, _: old | new,
    "xor": lambda old, new, _: old ^ new,
    "umin": lambda old, new, _: np.minimum(old, new),
    "umax": lambda old, new, _: np.maximum(old, new),
    "smin": lambda old, new, _: np.minimum(old, new),
    "smax": lambda old, new, _: np.maximum(old, new),
    "min": lambda old, new, _: np.fmin(old, new),
    "max": lambda old, new, _: np.fmax(old, new),
    "inc": lambda old, new, _: np.where(old >= new, np.zeros_like(old), old + np.ones_like(old)),
    "dec": lambda old, new, _: np.where((old == 0) | (old > new), new, old - np.ones_like(old)),
    "cmpswap": lambda old, new, wanted: np.where(old == wanted, new, old),
    "cmpst": lambda old, wanted, new: np.where(old == wanted, new, old),
    "mskor": lambda old, mask, new: old & ~mask | new,
    "wrap": lambda old, limit, more: np.where(old >= limit, old - limit, old + more),
}
_OF_TWO = frozenset(("cmpswap", "cmpst", "mskor", "wrap"))


def contents_atomic(
    contents: Contents, wave: Wave, code: DecodedInstruction, places: Places, size: int
) -> None:
    """Do an atomic on global memory by its bytes; `places` are negative where a lane accesses
    nothing. Raises Refused for an operation that is not computed.
    """
    item = code.item
    word = item.base.partition("_atomic_")[2].removesuffix("_x2")
    registers = written_in_order(code)
    buffer = code.opcode.kind is OpcodeKind.BUFFER
    data = register_numbers(item.operands[0 if buffer else 1 + int(bool(registers))])
    count = size // 4
    given = [list(data)[:count], list(data)[count : 2 * count]]
    rows = _given(wave, code, given, size, word in _OF_TWO)
    olds = _done(code, word, places, rows, contents.read, contents.write)
    if registers:
        set_registers(wave, registers, olds, item)


def contents_lds_atomic(
    contents: Contents,
    wave: Wave,
    code: DecodedInstruction,
    places: list[Places],
    size: int,
) -> None:
    """Do an atomic on LDS; `places`: those of the lanes for each address that it has.

    Raises Refused for an operation that is not computed.
    """
    item = code.item
    word = item.base.removeprefix("ds_").replace("_rtn", "")
    registers = written_in_order(code)
    if word in ("append", "consume"):
        _counted(contents, wave, code, places[0], 1 if word == "append" else -1)
        return
    data = [list(register_numbers(one)) for one in item.operands[bool(registers) + 1 :]]
    if not data:
        raise Refused(f"{item.opcode} is not computed")
    each = max(1, size // 4)
    for at, where in enumerate(places):
        given = [data[at], data[-1]] if len(places) > 1 else [data[0], data[-1]]
        rows = _given(wave, code, given, size, word.partition("_")[0] in _OF_TWO)
        olds = _done(code, word, where, rows, contents.read_lds, contents.write_lds)
        if registers:
            set_registers(wave, registers[at * each : (at + 1) * each], olds, item)


def _given(
    wave: Wave, code: DecodedInstruction, registers: list[list[int]], size: int, two: bool
) -> tuple[Bytes, Bytes]:
    """What the lanes give, and the second number where there is one."""
    first = register_rows(wave, registers[0], size, code.item)
    return first, register_rows(wave, registers[1], size, code.item) if two else first


def _done(
    code: DecodedInstruction,
    word: str,
    places: Places,
    given: tuple[Bytes, Bytes],
    read: Callable[[Places, int], Bytes],
    write: Callable[[Places, Bytes], None],
) -> Bytes:
    """What was there before, lane after lane."""
    size = given[0].shape[1]
    form = _form(word, size)
    if form is None:
        raise Refused(f"{code.item.opcode} is not computed")
    kind, operation = form
    olds: Bytes = np.zeros((LANES, size), np.uint8)
    for lane in np.flatnonzero(places >= 0):
        at = places[lane : lane + 1]
        olds[lane] = read(at, size)[0]
        numbers = (np.ascontiguousarray(one[lane]).view(kind) for one in (olds, *given))
        with np.errstate(all="ignore"):
            made = operation(*numbers)
        write(at, np.ascontiguousarray(made.astype(kind)).view(np.uint8)[None])
    return olds


def _form(word: str, size: int) -> tuple[Kind, Operation] | None:
    """The type of the numbers, and what is done with them."""
    found = _NAME.match(word)
    name, suffix = (found[1], found[2] or "") if found else (word, "")
    if suffix == "bf16":
        return (np.uint16, _sum_of_bfloats) if name == "pk_add" else None
    operation = _OPERATIONS.get(name)
    signed = name in ("smin", "smax") or suffix[:1] == "i"
    kind = _REALS.get(suffix) or _INTEGERS.get((signed, size))
    return None if operation is None or kind is None else (kind, operation)


def _counted(
    contents: Contents, wave: Wave, code: DecodedInstruction, places: Places, sign: int
) -> None:
    """ds_append, ds_consume: the number of active lanes is added once, all get what was there."""
    active = np.flatnonzero(places >= 0)
    if not len(active):
        return
    at = places[active[:1]]
    old = contents.read_lds(at, 4)
    new = old.view(np.uint32) + np.uint32(sign * len(active) & 0xFFFF_FFFF)
    contents.write_lds(at, new.view(np.uint8))
    set_registers(wave, written_in_order(code), np.repeat(old, LANES, axis=0), code.item)
