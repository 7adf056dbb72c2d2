"""Arms whose lanes data choose: code that computes, loads and stores, up to where all lanes go on.

The execution mask is followed through the text as a function of what is not known: each unknown
mask is a symbol, a mask one value for each choice of the symbols, lane by lane. Where all values
are the same, it is known again which lanes go on. What the arms write is unknown then, whichever
lanes were in them. Accesses and waits are followed by what both ways round an arm guarantee
(`arm_queues.py`, `arm_accesses.py`). Nothing is skipped that waits for other waves, reads what is
still being loaded, or may come too soon behind another instruction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from titan.isa.gcn.module import GcnOperand, Literal, Registers
from titan.isa.gcn.opcodes import OpcodeKind
from titan.isa.gcn.operands import EXEC
from titan.isa.waves.arm_loops import ArmLoop, OpenLoop, loop_of
from titan.isa.waves.arm_queues import ArmQueues, is_atomic, is_plain_load, is_plain_store
from titan.isa.waves.arm_ways import ArmWays
from titan.isa.waves.counter_waits import waits_of
from titan.isa.waves.decode import SCALAR_BASE, DecodedInstruction
from titan.isa.waves.masks import Mask, combined, joined
from titan.isa.waves.numbering import keeps_part
from titan.isa.waves.scalar import BITWISE, COMPARE
from titan.isa.waves.scalar_steps import leaves_condition, width_of
from titan.isa.waves.sources import scalar_source
from titan.isa.waves.state import OpaqueWord, Wave, Words
from titan.isa.waves.wait_states import ClosePair

INSTRUCTIONS_MAX, SYMBOLS_MAX, SYMBOLS_KEPT_MAX = 2000, 10, 4
LOOPS_MAX = 8
_OTHER_LANES = ("v_read", "v_write", "v_permlane", "v_swap", "v_s_")
_NO_LANES: Mask = (0,)
_PAUSES = ("s_nop", "s_setprio")
_BY_CONDITION = ("s_cbranch_scc0", "s_cbranch_scc1", "s_cbranch_vccz", "s_cbranch_vccnz")
_EXECUTION = frozenset((SCALAR_BASE + EXEC, SCALAR_BASE + EXEC + 1))


@dataclass(slots=True)
class _Branch:
    """A branch over code that no lane is in, and what holds behind it.

    `target`: where the ways come together. `place`: the branch. `before`: of one by a condition of
    all lanes, which narrows the mask of one arm by a symbol, the mask in front of it. `otherwise`:
    where its other arm begins.
    """

    target: int
    place: int
    execution: Mask
    number: int
    before: Mask | None = None
    otherwise: int = -1
    written: set[int] = field(default_factory=set)
    masks: dict[int, Mask] = field(default_factory=dict)  # in front of it

    def same(self, masks: dict[int, Mask]) -> dict[int, Mask]:
        """Those that are what they were in front of it wherever no lane goes on, so that they are
        right on both ways."""
        if self.before is not None:
            return {}
        none = tuple(-int(lanes == 0) for lanes in self.execution)
        return {
            first: mask
            for first, mask in masks.items()
            if first in self.masks
            and not any(combined(int.__and__, none, combined(int.__xor__, mask, self.masks[first])))
        }


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


class KeptRegister(NamedTuple):
    """A vector register that arms leave the same whatever data choose: its lanes, which of them
    are known, and why the others are not."""

    words: Words
    known: int
    origin: OpaqueWord


@dataclass(frozen=True, slots=True)
class ArmStep:
    """An instruction in arms: the lanes that execute it, and whether some data go round it.

    `on_masks`: it computes a mask of which lanes take part. `forgotten`: scalar registers that
    arms which end in front of it have written, or a loop that begins with it; `changed`: vector
    registers that the loop writes.
    """

    code: DecodedInstruction
    execution: Mask
    by_data: bool
    on_masks: bool
    forgotten: frozenset[int]
    changed: frozenset[int] = frozenset()


@dataclass(slots=True)
class SkippedArms:
    """`place`: where it is known which lanes go on, `execution`. `vectors`, `scalars`: registers
    that are unknown there, but for those that are `kept`; in all lanes where some were there that
    had not come (`more_lanes`).

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
    kept: dict[int, KeptRegister] = field(default_factory=dict)
    loops: bool = False

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
    def __init__(self, wave: Wave, before: LeftArms) -> None:
        self.wave = wave
        self.execution: Mask = (wave.exec,)
        self.masks = before.still(wave)  # by the first register of a pair
        self.symbols = before.symbols
        self.written: set[int] = set()
        self.within: dict[int, Mask] = {}  # of what comparisons write: in other lanes zeros

    def any_lanes(self) -> Mask:
        """A new symbol."""
        every, count = (1 << 64) - 1, 1 << self.symbols
        self.symbols += 1
        return (0,) * count + (every,) * count

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
                within = self.within.get(operand.first, (-1,))
                self.masks[operand.first] = combined(int.__and__, self.any_lanes(), within)
            else:
                self.masks[operand.first] = (known,)
        return self.masks[operand.first]

    def forget(self, registers: Iterable[int]) -> None:
        for register in registers:
            self.written.add(register)
            for first in (register, register - 1):
                self.masks.pop(first, None)
                self.within.pop(first, None)

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


class _Walk:
    """Along one way through arms, which has the instructions of all of them."""

    def __init__(
        self, wave: Wave, number: int, ways: ArmWays, close: Iterable[ClosePair],
        loops: dict[int, ArmLoop],
    ) -> None:  # fmt: skip
        before = LeftArms()
        if isinstance(wave.arms, LeftArms) and wave.arms.symbols <= SYMBOLS_KEPT_MAX:
            before = wave.arms if wave.arms.still(wave) else before
        self.wave, self.number, self.ways = wave, number, ways
        self.near = {place for pair in close for place in (pair.first, pair.second)}
        self.queues = ArmQueues(wave)
        self.followed, self.lanes = _Followed(wave, before), _Lanes(before.written)
        self.branches: list[_Branch] = []
        self.vectors: set[int] = set()
        self.steps: list[ArmStep] = []
        self.forgotten: set[int] = set()
        self.waits: dict[int, set[int]] = {}  # that not every way has: by the branches round them
        self.place = number
        self.loops, self.found = loops, list[ArmLoop]()  # known, and one that is not
        self.open: list[OpenLoop] = []
        self.changed: frozenset[int] = frozenset()
        self.joined = 0  # steps up to the last place where ways came together, or a loop began

    def arms(self) -> SkippedArms | None:
        """The arms; None where they are not followed."""
        seen = self.seen = set[int]()
        while len(self.steps) < INSTRUCTIONS_MAX and self.place < self.ways.end:
            if not self._join():
                return None
            code = self.ways.code(self.place)
            within = self.branches or self.waits or self.open
            if self.steps and not within and self._is_known(code):
                return self._made()
            if self.place in seen or not self._begin_loop():
                return None
            seen.add(code.number)
            if not self._step(code):
                return None
        return None

    def _is_known(self, code: DecodedInstruction) -> bool:
        """Whether it is known which lanes go on, and there are some, or the wave ends, whichever
        are there."""
        some, *others = set(self.followed.execution)
        return bool(some and not others) or code.item.base == "s_endpgm"

    def _made(self) -> SkippedArms:
        wave, followed, lanes = self.wave, self.followed, self.lanes
        scalars = followed.written - {EXEC, EXEC + 1}
        left = LeftArms(followed.symbols, dict(followed.masks), {}, lanes.vectors())
        known = len(set(followed.execution)) == 1  # else the wave ends
        execution = followed.execution[0] if known else wave.exec
        more = any(joined(int.__or__, step.execution) & ~wave.exec for step in self.steps)
        return SkippedArms(
            self.number, self.place, execution, more, self.vectors, scalars, lanes.reads,
            lanes.surely(), left, self.steps, self.queues, loops=bool(self.loops),
        )  # fmt: skip

    def _join(self) -> bool:
        """Branches end at this place, and the other one of two arms begins; whether it is known
        which lanes go on."""
        while self.branches:
            branch, followed = self.branches[-1], self.followed
            extra = self._ends(branch)
            if extra is None:
                return True
            for place in extra:
                self.waits.setdefault(place, set()).add(branch.number)
            self.branches.pop()
            self.joined = len(self.steps)
            # Where the branch is taken none of its lanes is there, nor any of those that are left.
            differ = int.__xor__ if branch.before is not None else _without
            if any(combined(differ, followed.execution, branch.execution)):
                return False
            kept = branch.same(followed.masks)
            followed.forget(branch.written)
            followed.masks |= kept
            self.forgotten |= branch.written
            if branch.before is not None:
                followed.execution = branch.before
            if branch.otherwise >= 0 and branch.before is not None:
                left = combined(_without, branch.before, branch.execution)
                self._enter(branch.target, left, branch.before, branch.number)
                self.place = branch.otherwise
        return True

    def _ends(self, branch: _Branch) -> list[int] | None:
        """The waits behind this place that the way of a branch lacks; None if it does not end."""
        if self.place == branch.target:
            return []
        begins = not self.steps or self.steps[-1].code.number == branch.place
        if branch.before is not None or begins or self.waits:
            return None
        return self.ways.alike(self.place, branch.target)

    def _step(self, code: DecodedInstruction) -> bool:
        """Follow an instruction; whether that is possible."""
        followed, queues, place = self.followed, self.queues, self.place
        scope = frozenset(branch.number for branch in self.branches)
        touched = code.reads if is_plain_load(code) else code.touches
        if place in self.near or not queues.may_use(touched, scope):
            return False
        writes = {register - SCALAR_BASE for register in code.writes if register >= SCALAR_BASE}
        self.lanes.note(code, followed.execution, self.branches)
        execution, on_masks = followed.execution, False
        self.place = place + 1
        if is_plain_load(code) or is_plain_store(code) or is_atomic(code):
            followed.forget(writes)
            if writes & {EXEC, EXEC + 1} or not queues.issue(code, scope):
                return False
        elif code.item.base == "s_waitcnt":
            on_masks = True
            scope |= self.waits.pop(place, set())
            for counter, limit in waits_of(code.item.operands[0] if code.item.operands else None):
                queues.wait(place, counter, limit, scope)
        else:
            on_masks = followed.step(code)
            if not on_masks and not self._is_followed(code, writes):
                return False
        forgotten, changed = frozenset(self.forgotten), self.changed
        self.forgotten, self.changed = set(), frozenset()
        self.steps.append(ArmStep(code, execution, bool(scope), on_masks, forgotten, changed))
        self.vectors |= {register for register in code.writes if register < SCALAR_BASE}
        for branch in self.branches:
            branch.written |= writes - {EXEC, EXEC + 1}
        return True

    def _enter(
        self, target: int, execution: Mask, before: Mask | None = None, other: int | None = None,
        otherwise: int = -1,
    ) -> None:  # fmt: skip
        """A branch leads over what comes next, which is executed by these lanes. `other`: that over
        the other one of two arms, of which all lanes take one."""
        self.wave.branches_by_data += 1
        number = self.wave.branches_by_data
        self.followed.execution = execution
        self.queues.enter(number, execution, other)
        branch = _Branch(target, self.place, execution, number, before, otherwise)
        branch.masks = dict(self.followed.masks)
        self.branches.append(branch)

    def _begin_loop(self) -> bool:
        """A loop may begin at this place; whether its lanes are known."""
        loop, followed = self.loops.get(self.place), self.followed
        if loop is None:
            return True
        self.joined = len(self.steps)
        entered, before = followed.execution, _NO_LANES
        if loop.left >= 0:
            left = followed.value(Registers("s", loop.left, 2))
            room = followed.symbols < SYMBOLS_MAX
            if not room or left is None or any(combined(int.__and__, left, entered)):
                return False
            before = left
        followed.forget(loop.scalars)
        self.forgotten |= loop.scalars
        self.changed = loop.vectors
        if loop.left >= 0:
            gone = combined(int.__and__, entered, followed.any_lanes())
            followed.masks[loop.left] = combined(int.__or__, before, gone)
            followed.execution = combined(_without, entered, gone)
        over = tuple(branch.number for branch in self.branches)
        issued = self.queues.total
        at_head = followed.execution
        self.open.append(OpenLoop(loop, entered, before, at_head, len(self.steps), issued, over))
        return True

    def _ends_loop(self, code: DecodedInstruction) -> bool:
        """A branch back; whether what holds at the head of a loop holds in the next round, too."""
        head, followed = code.item.target, self.followed
        if not self.open or self.open[-1].loop.head != head:
            codes = [step.code for step in self.steps]
            first = next((at for at, one in enumerate(codes) if one.number == head), len(codes))
            loop = loop_of(codes[first:], code) if first < len(codes) else None
            self.found += [loop] if loop is not None and head not in self.loops else []
            return False
        opened = self.open.pop()
        over = tuple(branch.number for branch in self.branches)
        if over != opened.branches or not self.queues.none_loading(opened.issued, frozenset(over)):
            return False
        here, left = opened.at_head, opened.loop.left
        if left >= 0:
            gone = followed.masks.get(left)
            if gone is None:
                return False
            others = combined(_without, gone, opened.entered)
            if any(combined(int.__xor__, others, opened.before)):
                return False
            here = combined(_without, opened.entered, gone)
        if any(combined(int.__xor__, here, followed.execution)):
            return False
        if left >= 0:  # no lane is left, so that all have gone
            followed.masks[left] = combined(int.__or__, opened.before, opened.entered)
            followed.execution = (0,)
        self.place = code.number + 1
        return True

    def _branches(self, code: DecodedInstruction) -> bool:
        """A branch; whether it is followed."""
        base, target, followed = code.item.base, code.item.target, self.followed
        if base.startswith("s_cbranch_") and (target in self.seen or target == code.number):
            return self._ends_loop(code)
        if base == "s_branch":
            self.place = target
            return True
        back = target <= code.number  # to the head of a loop in which the arms have begun
        if base in ("s_cbranch_execz", "s_cbranch_execnz"):
            over, on = (target, code.number + 1)[:: 1 if base.endswith("cz") else -1]
            self._enter(over, followed.execution)
            self.branches[-1].place = code.number
            self._go_on(on)
            return True
        holds = self._known_condition() if base in _BY_CONDITION[:2] else None
        if holds is not None:
            self.place = target if holds is base.endswith("1") else code.number + 1
            return True
        join = self.ways.join(code.number) if base in _BY_CONDITION else -1
        join = code.number + 1 if back and base in _BY_CONDITION else join
        if join < 0 or followed.symbols == SYMBOLS_MAX:
            return False
        now = followed.execution
        goes_on = combined(int.__and__, now, followed.any_lanes())
        self._enter(join, goes_on, now, otherwise=-1 if target == join or back else target)
        if back:
            self._go_on(target)
        return True

    def _go_on(self, place: int) -> None:
        """The way goes on there; behind a branch back, whose round was executed with known lanes up
        to where the arms begin, all of the loop comes once more."""
        if place < self.place:
            self.seen.clear()
        self.place = place

    def _known_condition(self) -> bool | None:
        """Whether the comparison in front of a branch holds, where data do not decide it."""
        for step in reversed(self.steps[self.joined :]):
            item = step.code.item
            if step.code.opcode.kind is not OpcodeKind.SCALAR or leaves_condition(item.base):
                continue
            read = {register - SCALAR_BASE for register in step.code.reads}
            if item.base not in COMPARE or read & self.followed.written:
                return None
            values = [scalar_source(one, width_of(one, item.base), 0) for one in item.operands]
            left, right = (value(self.wave) for value in values)
            if isinstance(left, OpaqueWord) or isinstance(right, OpaqueWord):
                return None
            return bool(COMPARE[item.base](left, right))
        return None

    def _is_followed(self, code: DecodedInstruction, writes: set[int]) -> bool:
        kind, base, followed = code.opcode.kind, code.item.base, self.followed
        if kind is OpcodeKind.CONTROL:
            return base in _PAUSES or self._branches(code)
        followed.forget(writes)
        if kind is OpcodeKind.SCALAR:
            masks = base.endswith(("_saveexec_b64", "_wrexec_b64"))
            return not masks and not writes & {EXEC, EXEC + 1}
        if base.startswith("v_cmp_") and len(writes) == len(_EXECUTION):
            followed.within[min(writes)] = followed.execution
        computes = kind in (OpcodeKind.VECTOR, OpcodeKind.MATRIX)
        return computes and not base.startswith("v_cmpx") and not writes & {EXEC, EXEC + 1}


def skipped_arms(
    wave: Wave, number: int, ways: ArmWays, close: Iterable[ClosePair]
) -> SkippedArms | None:
    """The arms that begin with an instruction; None where they are not skipped."""
    loops: dict[int, ArmLoop] = {}
    while len(loops) <= LOOPS_MAX:
        walk = _Walk(wave, number, ways, close, dict(loops))
        arms = walk.arms()
        if arms is not None or not walk.found:
            return arms
        loops |= {loop.head: loop for loop in walk.found}
    return None


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
        kept = arms.kept.get(register)
        if kept is not None:
            wave.vectors[register], wave.known[register], wave.origins[register] = kept
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
