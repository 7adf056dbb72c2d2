"""Loops within arms that data choose, whose rounds data decide, too: followed as any one round.

What a loop writes is unknown at its head, but for the mask of the lanes that have left it: of the
lanes that enter, those not in it are there. Outside of arms its first round is executed as it is,
with all lanes, up to where data choose; the others are arms. It is left when no lane is there. So
all is true of any round, and what the recording has is its last one: an operation of an earlier
round comes before that in its queue. No load may be in flight from round to round.

A loop in which nothing changes that decides its end either ends at once or waits for others, which
is not followed; nor is one that reads what others may write meanwhile. That others end is assumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from titan.isa.gcn.module import Registers
from titan.isa.gcn.opcodes import OpcodeKind
from titan.isa.gcn.operands import EXEC
from titan.isa.waves.decode import SCALAR_BASE, DecodedInstruction
from titan.isa.waves.masks import Mask

_COMPUTING = (OpcodeKind.VECTOR, OpcodeKind.SCALAR)
_COMPARING = ("v_cmp_", "s_cmp_", "s_bitcmp")
_EXECUTION = {SCALAR_BASE + EXEC, SCALAR_BASE + EXEC + 1}
_COHERENT = ("sc0", "sc1", "glc")


@dataclass(frozen=True, slots=True)
class ArmLoop:
    """A loop by its head, the registers that it writes, and the first of the pair with the lanes
    that have left it; -1 where all lanes leave it together."""

    head: int
    written: frozenset[int]
    left: int

    @property
    def scalars(self) -> set[int]:
        """The scalar registers that it writes."""
        return {at - SCALAR_BASE for at in self.written - _EXECUTION if at >= SCALAR_BASE}

    @property
    def vectors(self) -> frozenset[int]:
        """The vector registers."""
        return frozenset(at for at in self.written if at < SCALAR_BASE)


@dataclass(slots=True)
class OpenLoop:
    """A loop on the way: the lanes that have entered it, those that its register of lanes that have
    left it had before, those at its head in any round, how many steps lay before it, how many
    operations had been issued, and the branches over it."""

    loop: ArmLoop
    entered: Mask
    before: Mask
    at_head: Mask
    steps: int
    issued: int
    branches: tuple[int, ...]


def loop_of(codes: Sequence[DecodedInstruction], back: DecodedInstruction) -> ArmLoop | None:
    """The loop with these instructions, at whose end a branch leads back; None where it is not
    known how lanes leave it, or where it may wait for others."""
    left, base = -1, back.item.base
    if base.startswith("s_cbranch_exec"):
        last = codes[-1].item
        pairs = [one for one in last.operands if isinstance(one, Registers) and one.count == 2]
        narrows = last.base == "s_andn2_b64" and [one.first for one in pairs[:2]] == [EXEC, EXEC]
        if base != "s_cbranch_execnz" or not narrows or len(pairs) != 3:
            return None
        left = pairs[2].first
    written = frozenset(register for code in codes for register in code.writes)
    if any(_looks_at_others(code) for code in codes) or not _changes(codes, back, left):
        return None
    return ArmLoop(codes[0].number, written, left)


def _looks_at_others(code: DecodedInstruction) -> bool:
    item = code.item
    atomic = "_atomic_" in item.base or "_rtn_" in item.base
    return not {*_COHERENT}.isdisjoint(item.options) or (atomic and bool(code.writes))


def _changes(codes: Sequence[DecodedInstruction], back: DecodedInstruction, left: int) -> bool:
    """Whether something that is computed from round to round decides whether the loop ends."""
    masks = {SCALAR_BASE + left, SCALAR_BASE + left + 1} | _EXECUTION
    decides = set(back.reads)
    for code in codes:
        if code.item.base.startswith(_COMPARING) or code.writes & masks:
            decides |= code.reads
    while True:
        more = {at for code in codes if code.writes & decides for at in code.reads} - decides
        if not more:
            break
        decides |= more
    written, carried = set[int](), set[int]()
    for code in codes:
        carried |= code.reads - written
        written |= code.writes
    made = {
        register
        for code in codes
        if code.opcode.kind in _COMPUTING and not code.item.base.startswith(_COMPARING)
        for register in code.writes
    }
    return bool(carried & made & decides - masks)
