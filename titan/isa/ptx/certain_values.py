"""Whether all that a function reads and gives is written before, on every way through it.

By the text alone, and to be on the safe side: a guarded write counts as none, and so does what an
instruction gives that is not in the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from titan.isa.ptx.labels import labels_of
from titan.isa.ptx.module import (
    Address,
    Function,
    Group,
    Instruction,
    Negated,
    Operand,
    Pair,
    PtxRegister,
    Symbol,
    Vector,
)

# Instructions whose first operand is what they give, and nothing that they read.
_GIVE = frozenset(
    {
        "abs", "activemask", "add", "addc", "and", "atom", "bfe", "bfi", "bfind", "bmsk",
        "brev", "clz", "cnot", "copysign", "cos", "cvt", "cvta", "div", "dp2a", "dp4a", "elect",
        "ex2", "fma", "fns", "getctarank", "isspacep", "ld", "ldmatrix", "ldu", "lg2", "lop3",
        "mad", "mad24", "madc", "mapa", "match", "max", "min", "mma", "mov", "mul", "mul24",
        "neg", "not", "or", "popc", "prmt", "rcp", "redux", "rem", "rsqrt", "sad", "selp",
        "set", "setp", "shf", "shfl", "shl", "shr", "sin", "slct", "sqrt", "sub", "subc",
        "szext", "tanh", "testp", "vote", "xor",
    }
)  # fmt: skip
_BARRIER_WORDS = frozenset(("test_wait", "try_wait", "arrive", "arrive_drop"))  # give one, too
_ENDS = frozenset(("ret", "exit", "trap"))


def values_are_certain(function: Function, items: Sequence[Instruction]) -> bool:
    """Whether no register of a function, and no byte of its results at its ends, may be unwritten.
    Labels of `items` count from the first of them."""
    results: dict[str, range] = {}
    bit = len(function.registers)
    for variable in function.results:
        results[variable.name] = range(bit, bit + variable.size_bytes)
        bit += variable.size_bytes
    given = (1 << bit) - (1 << len(function.registers))
    unwritten = [0] * len(items)
    waiting = [(0, (1 << bit) - 1)]
    while waiting:
        at, left = waiting.pop()
        if at >= len(items):
            if left & given:
                return False
            continue
        if at and not left & ~unwritten[at]:
            continue
        unwritten[at] |= left
        left, item = unwritten[at], items[at]
        if any(left >> number & 1 for number in _read(item)):
            return False
        if item.opcode == "ret" and left & given:
            return False
        if item.guard < 0:
            left &= ~_written(item, results)
        waiting += [(to, left) for to in _behind(item, at)]
    return True


def _behind(item: Instruction, at: int) -> Iterator[int]:
    jumps = item.opcode in ("bra", "brx")
    if item.guard >= 0 or not (jumps or item.opcode in _ENDS):
        yield at + 1
    if jumps:
        yield from labels_of(item)


def _gives(item: Instruction) -> bool:
    """Whether the first operand is what an instruction gives."""
    if item.opcode == "mbarrier":
        waits = bool(item.modifiers) and item.modifiers[0] in _BARRIER_WORDS
        return waits and bool(item.operands) and not isinstance(item.operands[0], Address)
    return item.opcode in _GIVE


def _read(item: Instruction) -> Iterator[int]:
    for operand in item.operands[1:] if _gives(item) else item.operands:
        yield from _registers(operand)
    if item.guard >= 0:
        yield item.guard


def _written(item: Instruction, results: dict[str, range]) -> int:
    """The registers, and bytes of results, that an instruction writes: a bit set."""
    if item.opcode == "st":
        return _stored(item, results)
    if not _gives(item):
        return 0
    found = 0
    for number in _registers(item.operands[0]) if item.operands else ():
        found |= 1 << number
    return found


def _stored(item: Instruction, results: dict[str, range]) -> int:
    address, value = item.operands[0], item.operands[-1]
    if not isinstance(address, Address) or not isinstance(address.base, Symbol):
        return 0
    word = item.modifiers[-1]
    if address.base.name not in results or not word[1:].isdecimal():
        return 0
    count = len(value.items) if isinstance(value, Vector) else 1
    within = results[address.base.name]
    start = within.start + address.base.offset + address.offset
    written = range(start, start + count * int(word[1:]) // 8)
    return sum(1 << place for place in written if place in within)


def _registers(operand: Operand) -> Iterator[int]:
    if isinstance(operand, PtxRegister):
        yield operand.number
    elif isinstance(operand, Address):
        if isinstance(operand.base, PtxRegister):
            yield operand.base.number
        for item in operand.coordinates or ():
            yield from _registers(item)
    elif isinstance(operand, Vector | Group):
        for item in operand.items:
            yield from _registers(item)
    elif isinstance(operand, Pair):
        yield from _registers(operand.first)
        yield from _registers(operand.second)
    elif isinstance(operand, Negated):
        yield from _registers(operand.operand)
