"""Which registers can decide something: control, the execution mask, addresses in LDS.

Found by going backwards through the text from what has to hold the same for all trips. What is not
found is taken to be unknown where rounds are put in, so that a mistake here can only leave
something undecided.
"""

from __future__ import annotations

from collections.abc import Mapping

from titan.isa.gcn.loops import successors
from titan.isa.gcn.module import AssemblyFile, AssemblyKernel
from titan.isa.gcn.opcodes import OpcodeKind
from titan.isa.waves.followed import PRIVATE, FollowedInstruction

_IN_LDS = PRIVATE + 1  # what LDS holds; what private memory holds is PRIVATE


def relevant_before(
    assembly: AssemblyFile, kernel: AssemblyKernel, code: Mapping[int, FollowedInstruction]
) -> dict[int, int]:
    """The registers, as bits, that matter before each instruction."""
    before: dict[int, list[int]] = {}
    for number in range(kernel.start, kernel.end):
        for following in successors(assembly, kernel, number):
            before.setdefault(following, []).append(number)
    steps = {number: _step(one) for number, one in code.items()}
    found = dict.fromkeys(range(kernel.start, kernel.end), 0)
    behind = dict.fromkeys(found, 0)
    waiting = set(found)
    while waiting:
        number = max(waiting)
        waiting.remove(number)
        made, uses, killed, needs = steps[number]
        after = behind[number]
        now = after & ~killed | needs
        if after & made:
            now |= uses
        if now != found[number]:
            found[number] = now
            for earlier in before.get(number, ()):
                behind[earlier] |= now
                waiting.add(earlier)
    return found


def _step(one: FollowedInstruction) -> tuple[int, int, int, int]:
    """What an instruction makes, of what, what is over in front of it, and what it needs."""
    made, uses, needs = _bits(one.writes), _bits(one.reads), _bits(one.critical)
    killed = made & ~uses
    kind = one.code.opcode.kind
    memory = {OpcodeKind.SCRATCH: PRIVATE, OpcodeKind.LDS: _IN_LDS}.get(kind)
    if memory is not None:
        if one.writes:
            uses = 1 << memory
        else:
            made = 1 << memory
        killed &= ~(1 << memory)
    elif kind in (OpcodeKind.GLOBAL, OpcodeKind.BUFFER, OpcodeKind.MATRIX):
        uses = 0  # what it makes is never known, and so decides nothing
    return made, uses, killed, needs


def _bits(registers: frozenset[int]) -> int:
    found = 0
    for register in registers:
        found |= 1 << register
    return found
