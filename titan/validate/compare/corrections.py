"""Which branches on data the comparison of emitted code allows: corrections of tensor memory.

Attention multiplies an accumulator in tensor memory by a factor a row, and leaves it as it is where
that is 1 in all rows of a warp. Such an arm loads columns, computes, stores to the same columns; it
touches no other memory, waits for nothing that was started before it (the machine of warps sees
to that) and synchronises with nobody. Both arms are in the recording, so that the comparison sees
the loads and stores as if they were always made. A run that leaves them out has fewer accesses and
the same order of all others: what the sync program allows with them it allows without. Fences of
tensor memory may be in the arm, around its loads and stores; they count for these alone
(`tensor.py`). That the branch is taken where a factor is not 1 is a matter of numbers, which are
tried (`titan/device`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from titan.isa.ptx.module import Address, Immediate, Instruction, Operand, PtxRegister, Vector

WAITS = ("wait::ld", "wait::st")
FENCES = ("fence::before_thread_sync", "fence::after_thread_sync")
ARITHMETIC = frozenset(("add", "sub", "mul", "fma", "mov", "neg", "cvt", "and", "or", "shl", "shr"))


def only_corrects(instructions: Sequence[Instruction], begin: int, end: int) -> bool:
    """Whether the instructions from `begin` up to `end` load columns of tensor memory, compute, and
    store as many to the same columns."""
    loaded: Counter[tuple[object, ...]] = Counter()
    stored: Counter[tuple[object, ...]] = Counter()
    known: dict[PtxRegister, Sum | None] = {}
    for instruction in instructions[begin:end]:
        if instruction.guard >= 0:
            return False
        if instruction.opcode == "tcgen05" and instruction.modifiers[:1] in (("ld",), ("st",)):
            places = [
                _place(one, known) for one in instruction.operands if isinstance(one, Address)
            ]
            if len(places) != 1 or places[0] is None:
                return False
            into = loaded if instruction.modifiers[0] == "ld" else stored
            into[(*instruction.modifiers[1:], *places)] += 1
            if instruction.modifiers[0] == "ld":
                known |= dict.fromkeys(_registers(instruction.operands[0]))
        elif instruction.opcode in ARITHMETIC:
            known |= {one: _sum(instruction, known) for one in _registers(instruction.operands[0])}
        elif instruction.opcode != "tcgen05" or instruction.modifiers[0] not in (*WAITS, *FENCES):
            return False
    return bool(loaded) and loaded == stored


Sum = tuple[PtxRegister, int]  # what a register held at the beginning, plus a number


def _place(address: Address, known: dict[PtxRegister, Sum | None]) -> Sum | None:
    """An address as a sum; None where it is nothing that is known."""
    if not isinstance(address.base, PtxRegister):
        return None
    base = known.get(address.base, (address.base, 0))
    return None if base is None else (base[0], base[1] + address.offset)


def _sum(instruction: Instruction, known: dict[PtxRegister, Sum | None]) -> Sum | None:
    """What an addition of 32 bits or a move gives, where it adds a number to a known sum."""
    _, first, *rest = instruction.operands
    kind = (instruction.opcode, *instruction.modifiers)
    moves = kind in (("mov", "b32"), ("mov", "u32")) and not rest
    adds = kind in (("add", "s32"), ("add", "u32")) and len(rest) == 1
    if not (moves or adds) or not isinstance(first, PtxRegister):
        return None
    base = known.get(first, (first, 0))
    if moves or base is None:
        return base
    return (base[0], base[1] + rest[0].value) if isinstance(rest[0], Immediate) else None


def _registers(operand: Operand) -> list[PtxRegister]:
    items = operand.items if isinstance(operand, Vector) else (operand,)
    return [item for item in items if isinstance(item, PtxRegister)]
