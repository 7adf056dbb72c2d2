"""Wait states that the compiler cannot keep for direct-to-LDS copies, since they are assembly.

Between a vector instruction that writes a scalar register and a buffer instruction that reads it
five wait states must pass; between a write of M0 and a copy to LDS one. Every instruction is one,
`s_nop N` is N + 1. Checked backwards over all paths. Sources: CDNA3 instruction set architecture
4.5 (manually inserted wait states); HARDWARE A14.
"""

from __future__ import annotations

import re

from titan.isa.gcn.listing import COPY, GcnFunction, GcnInstruction, events

VECTOR_TO_BUFFER = 5
M0_TO_COPY = 1
_SCALARS = re.compile(r"\bs(?:(\d+)\b|\[(\d+):(\d+)\])")


def hazards(function: GcnFunction) -> list[str]:
    """Reads too close before a copy to LDS, one line each."""
    before: list[list[int]] = [[] for _ in function.instructions]
    for number in range(len(function.instructions)):
        for target in function.successors(number):
            before[target].append(number)
    found = []
    for number, item in enumerate(function.instructions):
        if COPY in events(item):
            found += _close(function, before, number, scalars(item.operands))
    return found


def _close(
    function: GcnFunction, before: list[list[int]], copy: int, read: frozenset[int]
) -> list[str]:
    found = []
    seen: dict[int, int] = {}
    waiting = [(place, 0) for place in before[copy]]
    while waiting:
        number, passed = waiting.pop()
        if passed >= VECTOR_TO_BUFFER or seen.get(number, VECTOR_TO_BUFFER) <= passed:
            continue
        seen[number] = passed
        item = function.instructions[number]
        where = f"{item.text} at {item.address:x}, {passed} wait states before a copy to LDS"
        if item.mnemonic.startswith("v_") and written(item) & read:
            found.append(where)
        if passed < M0_TO_COPY and item.operands.split(",")[0].strip() == "m0":
            found.append(where)
        waiting += [(place, passed + states(item)) for place in before[number]]
    return found


def states(item: GcnInstruction) -> int:
    """Wait states that an instruction is worth."""
    return int(item.operands) + 1 if item.mnemonic == "s_nop" else 1


def written(item: GcnInstruction) -> frozenset[int]:
    """The scalar registers that a vector instruction writes: its first operand, or its second."""
    head = item.operands.split(",")
    carries = item.mnemonic.startswith(("v_add_co", "v_sub_co", "v_addc_co", "v_subb_co", "v_mad_"))
    return scalars(",".join(head[: 2 if carries else 1]))


def scalars(text: str) -> frozenset[int]:
    """Numbers of the scalar registers that are named."""
    found: set[int] = set()
    for one, first, last in _SCALARS.findall(text):
        found |= {int(one)} if one else set(range(int(first), int(last) + 1))
    return frozenset(found)
