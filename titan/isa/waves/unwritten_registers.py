"""Registers that nothing has written when a launch begins, and instructions that may read such.

A run only notes that there is one (`Run.reads_unwritten`); what becomes of it is followed in a
second run (`undefined.py`). What the launch sets is named in `start.py`. The text of AMD: a wave
begins with these, and the other registers hold what was there (LLVM, AMDGPU usage).
"""

from __future__ import annotations

from titan.isa.gcn.opcodes import OpcodeKind
from titan.isa.gcn.operands import M0, VCC
from titan.isa.waves.decode import SCALAR_BASE, DecodedInstruction
from titan.isa.waves.moved_lanes import dpp_zeros
from titan.isa.waves.numbering import keeps_part, of_all_lanes
from titan.isa.waves.skipped_lanes import SkippedArms
from titan.isa.waves.sources import scalar_source
from titan.isa.waves.state import BANK, NOT_WRITTEN, OpaqueWord, Wave

NAMED_SCALARS = 102  # s0 to s101; behind them are registers of the device
_PARTLY = ("s_cmov", "s_bitset")  # leave their result as it was, or bits of it
ONE = 1  # the mask of a scalar register


def unwritten_at_start(wave: Wave) -> dict[int, int]:
    """The registers that a wave begins with and that nothing has set, with the lanes of these."""
    found = dict.fromkeys(range(2 * BANK), wave.lanes_all)
    found[0] = wave.lanes_all & ~wave.exec
    if not found[0]:
        del found[0]
    for at in (*range(NAMED_SCALARS), VCC, VCC + 1, M0):
        if wave.scalars[at] is NOT_WRITTEN:
            found[SCALAR_BASE + at] = ONE
    return found


def may_read_unwritten(wave: Wave, code: DecodedInstruction) -> bool:
    """Whether an instruction may read a register of `wave.unwritten`; what it writes leaves it."""
    left, item = wave.unwritten, code.item
    lanes = wave.lanes_all if of_all_lanes(code) else wave.exec
    if item.base in ("v_readlane_b32", "v_readfirstlane_b32"):
        lanes = _lane_read(wave, code)
    reads = code.reads
    if item.base == "v_writelane_b32":
        reads = reads - code.writes
    elif (
        item.base.startswith(_PARTLY)
        or keeps_part(item)
        or (item.opcode.endswith("_dpp") and not dpp_zeros(item))
    ):
        reads = reads | code.writes
    for register in left.keys() & reads:
        if register >= SCALAR_BASE or left[register] & lanes:
            return True
    written = _written(wave, code)
    for register in left.keys() & code.writes:
        rest = 0 if register >= SCALAR_BASE else left[register] & ~written
        if rest:
            left[register] = rest
        else:
            del left[register]
    return False


def arms_read_unwritten(wave: Wave, arms: SkippedArms) -> bool:
    """The same of arms that are skipped."""
    left = wave.unwritten
    for register in left.keys() & arms.reads.keys():
        if left[register] & arms.reads[register]:
            return True
    for register in left.keys() & arms.surely.keys():
        left[register] &= ~arms.surely[register]
        if not left[register]:
            del left[register]
    return False


def _lane_read(wave: Wave, code: DecodedInstruction) -> int:
    """The lane that v_readlane or v_readfirstlane reads."""
    if code.item.base == "v_readfirstlane_b32":
        return wave.exec & -wave.exec or 1
    return _lane_named(wave, code, wave.lanes_all)


def _lane_named(wave: Wave, code: DecodedInstruction, unknown: int) -> int:
    lane = scalar_source(code.item.operands[2], 1, code.number)(wave)
    return unknown if isinstance(lane, OpaqueWord) else 1 << (lane & wave.width - 1)


def _written(wave: Wave, code: DecodedInstruction) -> int:
    """The lanes in which an instruction writes its vector registers."""
    if code.item.base == "v_writelane_b32":
        return _lane_named(wave, code, 0)
    whole = code.opcode.kind is OpcodeKind.MATRIX
    return wave.lanes_all if whole else wave.exec
