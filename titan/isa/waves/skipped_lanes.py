"""Arms whose lanes data choose: code that computes, loads and stores, up to where all lanes go on.

The execution mask is followed through the text as a function of what is not known: each unknown
mask is a symbol, a mask one value for each choice of the symbols, lane by lane. Where all values
are the same, it is known again which lanes go on. What the arms write is unknown then, whichever
lanes were in them. Accesses and waits are followed by what both ways round an arm guarantee
(`arm_queues.py`, `arm_accesses.py`). Nothing is skipped that waits for other waves, reads what is
still being loaded, or may come too soon behind another instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from titan.isa.gcn.module import GcnOperand, Literal, Registers
from titan.isa.gcn.opcodes import OpcodeKind
from titan.isa.gcn.operands import EXEC
from titan.isa.waves.arm_queues import ArmQueues, is_atomic, is_plain_load, is_plain_store
from titan.isa.waves.counter_waits import waits_of
from titan.isa.waves.decode import SCALAR_BASE, DecodedInstruction
from titan.isa.waves.masks import Mask, combined, joined
from titan.isa.waves.numbering import keeps_part
from titan.isa.waves.scalar import BITWISE
from titan.isa.waves.state import OpaqueWord, Wave
from titan.isa.waves.wait_states import ClosePair

INSTRUCTIONS_MAX, SYMBOLS_MAX, SYMBOLS_KEPT_MAX = 2000, 10, 4
_OTHER_LANES = ("v_read", "v_write", "v_permlane", "v_swap", "v_s_")
_PAUSES = ("s_nop", "s_setprio")
_BY_CONDITION = ("s_cbranch_scc0", "s_cbranch_scc1", "s_cbranch_vccz", "s_cbranch_vccnz")
_EXECUTION = frozenset((SCALAR_BASE + EXEC, SCALAR_BASE + EXEC + 1))


@dataclass(slots=True)
class _Branch:
    """A branch over code that no lane is in: where it leads, and what holds there, too.

    `before`: of one by a condition of all lanes, which narrows the mask of the code behind it by a
    symbol, the mask in front of it. `otherwise`: where the code that it leads to ends.
    """

    target: int
    execution: Mask
    number: int
    before: Mask | None = None
    otherwise: int = -1
    written: set[int] = field(default_factory=set)


@dataclass(slots=True)
class LeftArms:
    """What arms have left for those behind them, as of an `else`: how many symbols there are, the
    masks in scalar registers, with what these held, and the lanes that wrote vector registers."""

    symbols: int = 0
    masks: dict[int, Mask] = field(default_factory=dict)
    words: dict[int, OpaqueWord] = field(default_factory=dict)
    written: dict[int, Mask] = field(default_factory=dict)

    def still(self, wave: Wave) -> dict[int, Mask]:
        """The masks whose registers have not been written since."""
        return {
            first: mask
            for first, mask in self.masks.items()
            if all(wave.scalars[at] is self.words[at] for at in (first, first + 1))
        }


@dataclass(frozen=True, slots=True)
class ArmStep:
    """An instruction in arms: the lanes that execute it, and whether some data go round it.

    `on_masks`: it computes a mask of which lanes take part. `forgotten`: scalar registers that
    arms which end in front of it have written.
    """

    code: DecodedInstruction
    execution: Mask
    by_data: bool
    on_masks: bool
    forgotten: frozenset[int]


@dataclass(slots=True)
class SkippedArms:
    """`place`: where it is known which lanes go on, `execution`. `vectors`, `scalars`: registers
    that are unknown there; in all lanes where some were there that had not come (`more_lanes`).

    `reads`: registers, by the lanes that may read what they held before. `surely`: those that are
    written whatever the choices, by these lanes. Scalar registers have `SCALAR_BASE` added, and 1.
    """

    number: int
    place: int
    execution: int
    more_lanes: bool
    vectors: set[int]
    scalars: set[int]
    reads: dict[int, int]
    surely: dict[int, int]
    left: LeftArms
    steps: list[ArmStep]
    queues: ArmQueues

    @property
    def branches(self) -> bool:
        """Whether conditions of all lanes choose, too."""
        return any(step.code.item.base in _BY_CONDITION for step in self.steps)

    @property
    def reads_condition(self) -> bool:
        """Whether a branch may read the condition code from before the arms."""
        for step in self.steps:
            if step.code.item.base.startswith("s_cmp"):
                return False
            if "scc" in step.code.item.base:
                return True
        return False


class _Lanes:
    """Which lanes read and write registers in arms, for each choice of the symbols. `before`: which
    have written vector registers in arms of which this is the other one."""

    def __init__(self, before: dict[int, Mask]) -> None:
        self.reads: dict[int, int] = {}
        self._written = dict(before)

    def note(self, code: DecodedInstruction, execution: Mask, branches: list[_Branch]) -> None:
        """An instruction is executed by these lanes, where no branch leads over it."""
        scalar: Mask = (1,)
        for branch in branches:
            taken = tuple(int(lanes != 0) for lanes in branch.execution)
            scalar = combined(int.__and__, scalar, taken)
        reads = code.reads | code.writes if keeps_part(code.item) else code.reads
        anywhere = takes_all_lanes(code)
        for register in reads - _EXECUTION:
            lanes = scalar if register >= SCALAR_BASE else ((-1,) if anywhere else execution)
            left = combined(_without, lanes, self._written.get(register, (0,)))
            found = self.reads.get(register, 0)
            for one in left:
                found |= one
            if found:
                self.reads[register] = found
        for register in code.writes - _EXECUTION:
            if anywhere and register < SCALAR_BASE:
                continue  # which lanes are written is not known
            lanes = scalar if register >= SCALAR_BASE else execution
            before = self._written.get(register, (0,))
            self._written[register] = combined(int.__or__, before, lanes)

    def vectors(self) -> dict[int, Mask]:
        """The lanes that have written vector registers."""
        return {at: mask for at, mask in self._written.items() if at < SCALAR_BASE}

    def surely(self) -> dict[int, int]:
        """The lanes that are written for every choice."""
        found = {}
        for register, written in self._written.items():
            lanes = -1
            for one in written:
                lanes &= one
            found[register] = lanes
        return found


def _without(lanes: int, others: int) -> int:
    return lanes & ~others


class _Followed:
    def __init__(self, wave: Wave, before: LeftArms, queues: ArmQueues) -> None:
        self.wave, self.queues = wave, queues
        self.execution: Mask = (wave.exec,)
        self.masks = before.still(wave)  # by the first register of a pair
        self.symbols = before.symbols
        self.written: set[int] = set()

    def value(self, operand: GcnOperand) -> Mask | None:
        """The values of a source of 64 bits."""
        if isinstance(operand, Literal):
            return None if operand.real else (operand.value & (1 << 64) - 1,)
        if not isinstance(operand, Registers) or operand.bank != "s" or operand.count != 2:
            return None
        if operand.first == EXEC:
            return self.execution
        if operand.first not in self.masks:
            known = self.wave.scalar(operand.first, 2)
            if isinstance(known, OpaqueWord) or operand.first in self.written:
                if self.symbols == SYMBOLS_MAX:
                    return None
                every = (1 << 64) - 1
                self.masks[operand.first] = (0,) * (1 << self.symbols) + (every,) * (
                    1 << self.symbols
                )
                self.symbols += 1
            else:
                self.masks[operand.first] = (known,)
        return self.masks[operand.first]

    def forget(self, registers: Iterable[int]) -> None:
        for register in registers:
            self.written.add(register)
            for first in (register, register - 1):
                self.masks.pop(first, None)

    def put(self, target: GcnOperand, value: Mask) -> bool:
        if not isinstance(target, Registers) or target.bank != "s" or target.count != 2:
            return False
        if target.first == EXEC:
            self.execution = tuple(one & self.wave.lanes_all for one in value)
        else:
            self.forget((target.first, target.first + 1))
            self.masks[target.first] = value
        return True

    def step(self, code: DecodedInstruction) -> bool:
        """An instruction on masks of 64 bits; whether it is followed."""
        word, _, rest = code.item.base.removeprefix("s_").partition("_")
        operands = code.item.operands
        if code.item.base == "s_mov_b64":
            value = self.value(operands[1])
            return value is not None and self.put(operands[0], value)
        function = BITWISE.get(word)
        if function is None or rest not in ("b64", "saveexec_b64"):
            return False
        sources = [self.value(one) for one in operands[1:]]
        if rest == "saveexec_b64":
            sources.append(self.execution)
        if len(sources) != 2 or sources[0] is None or sources[1] is None:
            return False
        before = self.execution
        made = combined(function, sources[0], sources[1])
        if rest == "b64":
            return self.put(operands[0], made)
        self.execution = tuple(one & self.wave.lanes_all for one in made)
        return self.put(operands[0], before)


def skipped_arms(
    wave: Wave, number: int, decoded: Callable[[int], DecodedInstruction], end: int,
    close: Iterable[ClosePair],
) -> SkippedArms | None:  # fmt: skip
    """The arms that begin with an instruction; None where they are not skipped."""
    near = {place for pair in close for place in (pair.first, pair.second)}
    before = LeftArms()
    if isinstance(wave.arms, LeftArms) and wave.arms.symbols <= SYMBOLS_KEPT_MAX:
        before = wave.arms if wave.arms.still(wave) else before
    queues = ArmQueues(wave)
    followed, branches = _Followed(wave, before, queues), list[_Branch]()
    vectors: set[int] = set()
    lanes, steps = _Lanes(before.written), list[ArmStep]()

    def made(place: int) -> SkippedArms:
        scalars = followed.written - {EXEC, EXEC + 1}
        left = LeftArms(followed.symbols, dict(followed.masks), {}, lanes.vectors())
        ends = decoded(place).item.base == "s_endpgm"
        execution = wave.exec if ends else followed.execution[0]
        more = any(joined(int.__or__, step.execution) & ~wave.exec for step in steps)
        return SkippedArms(
            number, place, execution, more, vectors, scalars, lanes.reads, lanes.surely(), left,
            steps, queues,
        )  # fmt: skip

    for place in range(number, min(end, number + INSTRUCTIONS_MAX)):
        code = decoded(place)
        forgotten = _joined(followed, branches, place)
        if forgotten is None:
            return None
        if place > number and not branches and _all_go_on(followed, code):
            return made(place)
        scope = frozenset(branch.number for branch in branches)
        touched = code.reads if is_plain_load(code) else code.touches
        if place in near or not queues.may_use(touched, scope):
            return None
        writes = {register - SCALAR_BASE for register in code.writes if register >= SCALAR_BASE}
        lanes.note(code, followed.execution, branches)
        execution = followed.execution
        if is_plain_load(code) or is_plain_store(code) or is_atomic(code):
            on_masks = False
            followed.forget(writes)
            if writes & {EXEC, EXEC + 1} or not queues.issue(code, scope):
                return None
        elif code.item.base == "s_waitcnt":
            on_masks = True
            for counter, limit in waits_of(code.item.operands[0] if code.item.operands else None):
                queues.wait(place, counter, limit, scope)
        else:
            on_masks = followed.step(code)
            if not on_masks and not _is_followed(followed, code, branches, writes):
                return None
        steps.append(ArmStep(code, execution, bool(scope), on_masks, frozenset(forgotten)))
        vectors |= {register for register in code.writes if register < SCALAR_BASE}
        for branch in branches:
            branch.written |= writes - {EXEC, EXEC + 1}
        if not branches and place + 1 < end and len(set(followed.execution)) == 1:
            return made(place + 1)
    return None


def _all_go_on(followed: _Followed, code: DecodedInstruction) -> bool:
    """Whether it is known which lanes execute it, or the wave ends, whichever are there."""
    return len(set(followed.execution)) == 1 or code.item.base == "s_endpgm"


def _joined(followed: _Followed, branches: list[_Branch], place: int) -> set[int] | None:
    """Branches end at a place: the scalar registers that are unknown then; None if it is not
    known which lanes go on."""
    forgotten = set[int]()
    for branch in [one for one in branches if one.target == place]:
        branches.remove(branch)
        # Where the branch is taken none of its lanes is there, nor any of those that are left.
        differ = int.__xor__ if branch.before is not None else _without
        if any(combined(differ, followed.execution, branch.execution)):
            return None
        followed.forget(branch.written)
        forgotten |= branch.written
        if branch.before is not None:
            followed.execution = branch.before
        if branch.otherwise >= 0 and branch.before is not None:
            left = combined(_without, branch.before, branch.execution)
            _enter(followed, branches, branch.otherwise, left, branch.before, branch.number)
    return forgotten


def _enter(
    followed: _Followed, branches: list[_Branch], target: int, execution: Mask,
    before: Mask | None = None, other: int | None = None,
) -> None:  # fmt: skip
    """A branch leads over what comes next, which is executed by these lanes. `other`: that over
    the other one of two arms, of which all lanes take one."""
    followed.wave.branches_by_data += 1
    number = followed.wave.branches_by_data
    followed.execution = execution
    followed.queues.enter(number, execution, other)
    branches.append(_Branch(target, execution, number, before))


def _branches(followed: _Followed, code: DecodedInstruction, branches: list[_Branch]) -> bool:
    """A branch ahead; whether it is followed."""
    base, target, now = code.item.base, code.item.target, followed.execution
    if target <= code.number:
        return False
    if base == "s_cbranch_execz":
        _enter(followed, branches, target, now)
        return True
    if base in _BY_CONDITION and followed.symbols < SYMBOLS_MAX:
        every, count = (1 << 64) - 1, 1 << followed.symbols
        followed.symbols += 1
        goes_on = combined(int.__and__, now, (0,) * count + (every,) * count)
        _enter(followed, branches, target, goes_on, now)
        return True
    last = branches[-1] if branches else None
    ends = base == "s_branch" and last is not None and last.target == code.number + 1
    if not ends or last is None or last.before is None or last.otherwise >= 0:
        return False
    last.otherwise = target
    return not any(combined(int.__xor__, last.execution, now))


def _is_followed(
    followed: _Followed, code: DecodedInstruction, branches: list[_Branch], writes: set[int]
) -> bool:
    kind, base = code.opcode.kind, code.item.base
    if kind is OpcodeKind.CONTROL:
        return base in _PAUSES or _branches(followed, code, branches)
    if kind is OpcodeKind.SCALAR:
        followed.forget(writes)
        masks = base.endswith(("_saveexec_b64", "_wrexec_b64"))
        return not masks and not writes & {EXEC, EXEC + 1}
    followed.forget(writes)
    computes = kind in (OpcodeKind.VECTOR, OpcodeKind.MATRIX)
    return computes and not base.startswith("v_cmpx") and not writes & {EXEC, EXEC + 1}


def takes_all_lanes(code: DecodedInstruction) -> bool:
    """Whether what a lane gets, or a scalar register, may come from any lane, active or not."""
    kind = code.opcode.kind
    if kind in (OpcodeKind.MATRIX, OpcodeKind.CROSS_LANE) or code.item.opcode.endswith("_dpp"):
        return True
    return kind is OpcodeKind.VECTOR and code.item.base.startswith(_OTHER_LANES)


def leave(wave: Wave, arms: SkippedArms, origin: OpaqueWord) -> None:
    """All lanes go on behind the arms."""
    for register in sorted(arms.vectors):
        wave.forget(register, 1, origin, whole=arms.more_lanes)
    wave.set_exec(arms.execution)
    left = arms.left
    for register in sorted(arms.scalars):
        left.words[register] = replace(origin)  # another object, so that a copy is none of these
        wave.set_scalar(register, left.words[register])
    left.masks = {
        first: mask
        for first, mask in left.masks.items()
        if first in left.words and first + 1 in left.words
    }
    wave.arms = left
    wave.condition = origin
    wave.place = arms.place
