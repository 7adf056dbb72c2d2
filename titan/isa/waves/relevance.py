"""Which registers can decide something: control, the execution mask, addresses in LDS.

Found by going backwards through the text from what has to hold the same for all trips. What is not
found is taken to be unknown where rounds are put in, so that a mistake here can only leave
something undecided. Of the words of a resource, which begin with a pointer, only the upper halves
say how addresses are made: they are followed for themselves (as `grown.upper_halves` does), so that
the carry of a pointer does not matter where other words of its sum do.
"""

from __future__ import annotations

from collections.abc import Mapping

from titan.isa.gcn.loops import successors
from titan.isa.gcn.module import AssemblyFile, AssemblyKernel, Registers
from titan.isa.gcn.opcodes import OpcodeKind
from titan.isa.waves.decode import register_numbers
from titan.isa.waves.followed import PRIVATE, FollowedInstruction

_IN_LDS = PRIVATE + 1  # what LDS holds; what private memory holds is PRIVATE
_UPPER = _IN_LDS + 1  # and a register: its upper half
_BY_HALVES = ("s_mov_b32", "s_mov_b64", "s_and_b32", "s_or_b32")
Part = tuple[int, int]


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
        parts, killed, needs = steps[number]
        after = behind[number]
        now = after & ~killed | needs
        for made, uses in parts:
            if after & made:
                now |= uses
        if now != found[number]:
            found[number] = now
            for earlier in before.get(number, ()):
                behind[earlier] |= now
                waiting.add(earlier)
    return {number: now | now >> _UPPER for number, now in found.items()}


def _step(one: FollowedInstruction) -> tuple[list[Part], int, int]:
    """What an instruction makes of what, each part that does not matter to the others; what is over
    in front of it, and what it needs."""
    made, uses, needs = _bits(one.writes), _bits(one.reads), _bits(one.critical)
    killed = made & ~uses
    kind = one.code.opcode.kind
    memory = {OpcodeKind.SCRATCH: PRIVATE, OpcodeKind.LDS: _IN_LDS}.get(kind)
    if kind is OpcodeKind.BUFFER:  # words of the resource, of which the first is an address; and M0
        words = _words_of_a_resource(one)
        needs = needs & ~words | (words & needs) << _UPPER
    if memory is not None:
        if one.writes:
            uses = 1 << memory
        else:
            made = 1 << memory
        killed &= ~(1 << memory)
    elif kind in (OpcodeKind.GLOBAL, OpcodeKind.BUFFER, OpcodeKind.MATRIX):
        uses = 0  # what it makes is never known, and so decides nothing
    elif one.result and one.writes == {*one.result, one.condition} - {-1}:
        return _parts(one, uses), made | made << _UPPER, needs
    return [(made | made << _UPPER, uses)], killed | killed << _UPPER, needs


def _words_of_a_resource(one: FollowedInstruction) -> int:
    return _bits(
        frozenset(
            register
            for operand in one.code.item.operands
            if isinstance(operand, Registers) and operand.bank == "s" and operand.count == 4
            for register in register_numbers(operand)
        )
    )


def _parts(one: FollowedInstruction, uses: int) -> list[Part]:
    """Of two words of a move or a bitwise operation, each is made of one word of every operand, and
    the upper half of each of upper halves; the condition of all."""
    parts = []
    for at, register in enumerate(one.result):
        words = uses
        if one.by_words:
            words = _bits(
                frozenset(
                    item.register + min(at, item.count - 1)
                    for item in one.operands
                    if item.register >= 0
                )
            )
        parts.append((1 << register, words))
        parts.append((1 << _UPPER + register, _of_upper_half(one, words)))
    if one.condition >= 0:
        parts.append((1 << one.condition, uses))
    return parts


def _of_upper_half(one: FollowedInstruction, words: int) -> int:
    name = one.code.item.base
    if name == "s_and_b32" and any(
        item.register < 0 and item.value >> 16 == 0 for item in one.operands
    ):
        return 0
    return words << _UPPER if name in _BY_HALVES else words


def _bits(registers: frozenset[int]) -> int:
    found = 0
    for register in registers:
        found |= 1 << register
    return found
