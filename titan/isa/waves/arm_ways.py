"""Where ways through the text of a kernel come together again.

Compilers place arms out of line and write the code behind them twice, once for each way to it. Two
places are alike where what is executed from there on is the same up to a place that both come to,
but for waits: these differ, as each way has others to wait for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

from titan.isa.gcn.module import AssemblyInstruction
from titan.isa.waves.decode import DecodedInstruction

_WAIT, _PAUSE, _END, _GO = "s_waitcnt", "s_nop", "s_endpgm", "s_branch"
_ALIKE_MAX = 400
_ENDS = (_END, "s_setpc", "s_swappc", "s_rfe", "s_trap", "s_sethalt")


class _Choice(NamedTuple):
    """Where a conditional branch leads if its condition is zero, and if it is not."""

    condition: str
    zero: int
    other: int


class ArmWays:
    """The ways through one kernel, whose instructions are `start` to `end`."""

    def __init__(self, decoded: Callable[[int], DecodedInstruction], start: int, end: int) -> None:
        self.code, self.start, self.end = decoded, start, end

    def _item(self, place: int) -> AssemblyInstruction:
        return self.code(place).item

    def _following(self, place: int) -> tuple[int, ...]:
        item = self._item(place)
        following: tuple[int, ...] = (place + 1,)
        if item.base.startswith(_ENDS):
            return ()
        if item.base == _GO:
            following = (item.target,)
        elif item.base.startswith("s_cbranch_"):
            following = place + 1, item.target
        return tuple(one for one in following if self.start <= one < self.end)

    # ------------------------------------------------------------------------------- joins

    @cached_property
    def _blocks(self) -> list[int]:
        """The first instructions of blocks."""
        first = {self.start}
        for place in range(self.start, self.end):
            following = self._following(place)
            if following != (place + 1,):
                first |= {place + 1, *following}
        return sorted(one for one in first if self.start <= one < self.end)

    @cached_property
    def _behind(self) -> dict[int, int]:
        """By the first instruction of a block: those blocks that every way from it comes to, as
        bits, itself among them."""
        blocks = self._blocks
        number = {place: at for at, place in enumerate(blocks)}
        last = [*(place - 1 for place in blocks[1:]), self.end - 1]
        following = [[number[one] for one in self._following(place)] for place in last]
        every = (1 << len(blocks)) - 1
        found = [every if one else 0 for one in following]
        changed = True
        while changed:
            changed = False
            for at in reversed(range(len(blocks))):
                here = every if following[at] else 0
                for one in following[at]:
                    here &= found[one]
                here |= 1 << at
                changed |= here != found[at]
                found[at] = here
        return dict(zip(blocks, found, strict=True))

    def join(self, place: int) -> int:
        """The first place that both ways from a branch come to; -1 if there is none."""
        common = -1
        for one in self._following(place):
            common &= self._behind[one]
        return next((block for block, bits in self._behind.items() if bits == common), -1)

    # ------------------------------------------------------------------------------- alike

    def _choice(self, place: int) -> _Choice | None:
        item = self._item(place)
        if not item.base.startswith("s_cbranch_"):
            return None
        name = item.base.removeprefix("s_cbranch_")
        kind = name[:4] if name[:3] in ("exe", "vcc") else name[:3]  # execnz, vccnz, scc1
        kind = {"exec": "exec", "vccz": "vcc", "vccn": "vcc", "scc": "scc"}.get(kind, name)
        jump, on = self._resolved(item.target), self._resolved(place + 1)
        zero = name.endswith("0") or (name.endswith("z") and not name.endswith("nz"))
        return _Choice(kind, jump, on) if zero else _Choice(kind, on, jump)

    def _resolved(self, place: int) -> int:
        for _ in range(_ALIKE_MAX):
            if place >= self.end or self._item(place).base != _GO:
                break
            place = self._item(place).target
        return place

    def _gap(self, place: int) -> tuple[int, list[int]]:
        """Behind waits, pauses and jumps: the next instruction, and these waits."""
        waits = []
        for _ in range(_ALIKE_MAX):
            if place >= self.end:
                break
            item = self._item(place)
            if item.base == _GO:
                place = item.target
            elif item.base in (_WAIT, _PAUSE):
                waits += [place] if item.base == _WAIT else []
                place += 1
            else:
                break
        return place, waits

    def alike(self, place: int, other: int) -> list[int] | None:
        """The waits on the way from `place` that the way from `other` lacks; None where the two are
        not alike."""
        extra: list[int] = []
        for _ in range(_ALIKE_MAX):
            if place == other:
                return extra
            (place, waits), (other, theirs) = self._gap(place), self._gap(other)
            same = {self._item(one).operands for one in theirs}
            extra += [one for one in waits if self._item(one).operands not in same]
            if place == other:
                return extra
            if place >= self.end or other >= self.end:
                return None
            choice = self._choice(place)
            if choice is not None:
                return extra if choice == self._choice(other) else None
            mine, its = self._item(place), self._item(other)
            if (mine.opcode, mine.operands, mine.options) != (
                its.opcode,
                its.operands,
                its.options,
            ):
                return None
            if mine.base == _END:
                return extra
            if mine.base.startswith(_ENDS):
                return None
            place, other = place + 1, other + 1
        return None


def _text(item: AssemblyInstruction) -> tuple[object, ...]:
    return item.opcode, item.operands, item.options
