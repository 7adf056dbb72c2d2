"""Which branches on data the comparison of emitted code allows: corrections of tensor memory.

Attention multiplies an accumulator in tensor memory by a factor a row, and leaves it as it is where
that is 1 in all rows of a warp. Such an arm loads columns, computes, stores to the same columns; it
touches no other memory, waits for nothing that was started before it (the machine of warps sees
to that) and synchronises with nobody. Both arms are in the recording, so that the comparison sees
the loads and stores as if they were always made. A run that leaves them out has fewer accesses and
the same order of all others: what the sync program allows with them it allows without. That the
branch is taken where a factor is not 1 is a matter of numbers, which are tried (`titan/device`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from titan.isa.ptx.module import Address, Instruction

WAITS = ("wait::ld", "wait::st")
ARITHMETIC = frozenset(("add", "sub", "mul", "fma", "mov", "neg", "cvt", "and", "or", "shl", "shr"))


def only_corrects(instructions: Sequence[Instruction], begin: int, end: int) -> bool:
    """Whether the instructions from `begin` up to `end` load columns of tensor memory, compute, and
    store as many to the same columns."""
    loaded: Counter[tuple[object, ...]] = Counter()
    stored: Counter[tuple[object, ...]] = Counter()
    addresses: set[object] = set()
    written: set[object] = set()
    for instruction in instructions[begin:end]:
        if instruction.opcode == "tcgen05" and instruction.modifiers[:1] in (("ld",), ("st",)):
            places = [item for item in instruction.operands if isinstance(item, Address)]
            into = loaded if instruction.modifiers[0] == "ld" else stored
            into[(*instruction.modifiers[1:], *places)] += 1
            addresses.update(place.base for place in places)
        elif instruction.opcode in ARITHMETIC and instruction.guard < 0:
            written.add(instruction.operands[0])
        elif instruction.opcode != "tcgen05" or instruction.modifiers[0] not in WAITS:
            return False
    return bool(loaded) and loaded == stored and not addresses & written
