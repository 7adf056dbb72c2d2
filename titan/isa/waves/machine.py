"""Runs one work-group of a launch, wave by wave from barrier to barrier, and records it.

Scalar control flow is concrete; where it would depend on a value that is not known, the run stops
with REFUSED. A wave runs until it waits at `s_barrier` or ends; when all that have not ended are at
the barrier, they go on (CDNA3, S_BARRIER: waves that have ended are not waited for).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Protocol, runtime_checkable

import numpy as np

from titan.isa.gcn.module import (
    AssemblyFile,
    AssemblyKernel,
    SymbolOperand,
    integer_of,
)
from titan.isa.gcn.names_gfx1250 import LANES as LANES_GFX1250
from titan.isa.gcn.names_gfx1250 import TARGET as GFX1250
from titan.isa.gcn.opcodes import OpcodeKind
from titan.isa.gcn.operands import VCC
from titan.isa.simt.launch import EVENTS_MAX, EVENTS_SPENT, Launch
from titan.isa.simt.outcome import Confluence, Ending, Outcome, Run
from titan.isa.waves.arm_accesses import access_memory
from titan.isa.waves.arm_queues import end_operations
from titan.isa.waves.arm_ways import ArmWays
from titan.isa.waves.contents import Contents
from titan.isa.waves.copies_gfx1250 import copy_step
from titan.isa.waves.counter_waits import waits_of
from titan.isa.waves.decided_ways import ConditionDecider, GivenWays, narrowing_mask
from titan.isa.waves.decode import (
    SCALAR_BASE,
    DecodedInstruction,
    Step,
    decoded,
    register_name,
)
from titan.isa.waves.events import (
    UNORDERED,
    CounterWait,
    LanesByData,
    LoopByData,
    PendingRegister,
    WaitStatesMissing,
    WaveBarrier,
    WaveEnd,
    WaveQueue,
)
from titan.isa.waves.flat_steps import flat_step
from titan.isa.waves.group import OF_GFX1250, OLDER, WaveGroup
from titan.isa.waves.lane_arms import ArmsValues
from titan.isa.waves.lane_values import LaneValues
from titan.isa.waves.later_target import LaterTarget
from titan.isa.waves.memory_steps import memory_step
from titan.isa.waves.numbering import Numbering
from titan.isa.waves.real_steps import value_step
from titan.isa.waves.scalar_steps import BY_CONDITION, scalar_step
from titan.isa.waves.skipped_lanes import SkippedArms, leave, skipped_arms
from titan.isa.waves.sources import scalar_source
from titan.isa.waves.standing_loops import STANDS, StandingLoops
from titan.isa.waves.start import constants_of, lds_bytes, private_bytes, waves_of
from titan.isa.waves.state import (
    LANES,
    NOT_WRITTEN,
    UNKNOWN_BRANCH,
    UNKNOWN_MASK,
    OpaqueWord,
    Refused,
    Wave,
)
from titan.isa.waves.unwritten_registers import (
    arms_read_unwritten,
    may_read_unwritten,
    unwritten_at_start,
)
from titan.isa.waves.vector_states_gfx1250 import states_of_gfx1250
from titan.isa.waves.vector_steps import opaque_step, vector_step
from titan.isa.waves.wait_states import ClosePair, states_of

_MEMORY = frozenset(
    (
        OpcodeKind.SCALAR_MEMORY, OpcodeKind.LDS, OpcodeKind.CROSS_LANE, OpcodeKind.GLOBAL,
        OpcodeKind.SCRATCH, OpcodeKind.BUFFER, OpcodeKind.CACHE,
    )
)  # fmt: skip
_QUEUES = {
    "vmcnt": (WaveQueue.VECTOR, WaveQueue.FLAT_GLOBAL),
    "lgkmcnt": (WaveQueue.LDS, WaveQueue.SCALAR, WaveQueue.FLAT_LDS),
}
_IN_ORDER = (WaveQueue.VECTOR, WaveQueue.LOADS)  # a later load of them also returns later
_FLAT = (WaveQueue.FLAT_LDS, WaveQueue.FLAT_GLOBAL)
COUNTER_OF = {queue: counter for counter, queues in _QUEUES.items() for queue in queues}
COUNTER_OF[WaveQueue.FLAT_GLOBAL] = "vmcnt and lgkmcnt"


class Follower(Protocol):
    """Looks on while a run is made."""

    def before(self, wave: Wave, code: DecodedInstruction) -> None:
        """A wave is about to execute an instruction."""

    def after(self, wave: Wave, code: DecodedInstruction) -> None:
        """It has executed it; not called behind instructions of control."""


@runtime_checkable
class ArmsFollower(Follower, Protocol):
    """One that also looks on where arms are skipped; for others a run ends there."""

    def skipped(self, wave: Wave, arms: SkippedArms, begun: int) -> None:
        """In place of an instruction and what follows, arms have been skipped, whose events are
        those from `begun` on."""


class WaveMachine:
    """One run. `steps_max` counts wave instructions; `close`: the pairs to look out for.

    `contents`: the run computes, in this memory. Where `numbering` is set, values get numbers.
    """

    def __init__(
        self,
        code: AssemblyFile,
        kernel: AssemblyKernel,
        launch: Launch,
        cta: int,
        steps_max: int,
        close: Iterable[ClosePair] = (),
        contents: Contents | None = None,
    ) -> None:
        self.code, self.kernel, self.launch, self.cta = code, kernel, launch, cta
        self.steps_max = steps_max
        constants = constants_of(kernel, launch)
        later = code.target == GFX1250
        queues = OF_GFX1250 if later else OLDER
        self.group = WaveGroup(cta, lds_bytes(kernel, launch), constants, contents, queues)
        self.group.private_bytes = private_bytes(kernel)
        if contents is None and launch.memory:
            self.group.initial = Contents(
                [(start, np.frombuffer(data, np.uint8)) for start, data in launch.memory.items()]
            )
        self.waves = waves_of(kernel, launch, cta, LANES_GFX1250 if later else LANES)
        self.later = LaterTarget(self.group, self.waves) if later else None
        for wave in self.waves:
            wave.place = kernel.start
            if contents is None:
                wave.unwritten = unwritten_at_start(wave)
        self.decoded: dict[int, DecodedInstruction] = {}
        self.loops = StandingLoops(self.group)
        self.ways = ArmWays(self._decoded, kernel.start, kernel.end)
        self.steps = 0
        self.at: tuple[int, int] = (-1, -1)
        self.watched: dict[int, list[ClosePair]] = {}
        for pair in close:
            self.watched.setdefault(pair.second, []).append(pair)
        self.missed: set[ClosePair] = set()
        self.numbering: Numbering | LaneValues | None = None
        self.decider: ConditionDecider | None = GivenWays(launch) if launch.wave_ways else None
        self.follower: Follower | None = None

    def run(self) -> Run:
        """The run of the work-group."""
        try:
            if self.kernel.settings.get("tg_split"):
                raise Refused("the order of global memory between waves that share no cache")
            outcome = self._go()
            overwritten = self.group.overwritten()
            if overwritten is not None:
                outcome = Outcome(
                    Ending.REFUSED, "memory that the work-group writes is read before", overwritten,
                    self.cta,
                )  # fmt: skip
        except Refused as refusal:
            origin = refusal.origin
            outcome = Outcome(
                Ending.REFUSED, str(refusal), self.at[1], self.cta, self.at[0],
                origin=-1 if origin is None else origin.instruction,
                map_offset=-1 if origin is None else origin.offset,
            )  # fmt: skip
        return Run(
            self.launch, self.group.events, outcome, Confluence(), self.steps,
            reads_unwritten=self.group.reads_unwritten,
        )  # fmt: skip

    def _go(self) -> Outcome:
        while True:
            for wave in self.waves:
                if not wave.ended and not self._advance(wave):
                    return Outcome(Ending.BUDGET, self._spent(), wave.place)
            live = [wave for wave in self.waves if not wave.ended]
            if not live:
                return Outcome(Ending.FINISHED)
            if self.later is not None and not any(
                self.later.complete(wave.barriers) for wave in live
            ):
                for _ in self.later.hung(self._decoded):
                    pass
                return Outcome(Ending.HUNG, "a barrier that is never complete", live[0].place)
            for wave in live:
                wave.at_barrier = False

    def _spent(self) -> str:
        """Which budget is used, where one is."""
        return "the step budget" if self.steps >= self.steps_max else EVENTS_SPENT

    def _events_most(self) -> int:
        """What computes is read by no checker, and bounded by its steps."""
        return EVENTS_MAX if self.group.contents is None else sys.maxsize

    def _advance(self, wave: Wave) -> bool:
        """Until the wave waits or ends; False when the budget is spent."""
        known, end, later = self.decoded, self.kernel.end, self.later
        start, follower = self.kernel.start, self.follower
        events, most = self.group.events, self._events_most()
        while not wave.ended and not wave.at_barrier:
            if self.steps >= self.steps_max or len(events) >= most:
                return False
            self.steps += 1
            number = wave.place
            self.at = (wave.number, number)
            if not start <= number < end:
                self.at = (wave.number, end - 1)
                raise Refused("execution leaves the kernel")
            code = known.get(number) or self._decoded(number)
            if wave.skips and code.opcode.kind in SKIPPED:
                wave.place = number + 1
                continue
            if wave.pending and not wave.pending.keys().isdisjoint(code.touches):
                self._check_pending(wave, code)
            if wave.unwritten and not wave.unwritten.keys().isdisjoint(code.touches):
                self._check_written(wave, code)
            if self.watched:
                self._check_states(wave, code)
            if later is not None:
                later.before(wave, code)
            wave.place = number + 1
            if follower is not None:
                follower.before(wave, code)
            if code.opcode.kind is OpcodeKind.CONTROL:
                try:
                    self._control(wave, code)
                except Refused as refusal:
                    if not self._skipped(wave, code, refusal):
                        self._jump_as_decided(wave, code, refusal)
                continue
            if code.step is None:
                code.step = self._step(code)
            try:
                self._perform(wave, code)
            except Refused as refusal:
                if not self._skipped(wave, code, refusal):
                    self._narrow_as_decided(wave, code, refusal)
            if later is not None:
                later.after(wave, code)
            if follower is not None:
                follower.after(wave, code)
        return True

    def _perform(self, wave: Wave, code: DecodedInstruction) -> None:
        if self.numbering is not None:
            self.numbering.step(wave, code)
        elif code.step is not None:
            code.step(wave)

    # ------------------------------------------------------------------- conditions on data

    def _jump_as_decided(self, wave: Wave, code: DecodedInstruction, refusal: Refused) -> None:
        """A branch on data, as the decider says."""
        truth = self._decided(wave, code, refusal, UNKNOWN_BRANCH)
        if "scc" in code.item.base:
            wave.condition = int(truth)
        elif not truth:
            wave.set_scalar(VCC, 0, wave.width // 32)
        if truth is not code.item.base.endswith(("0", "vccz")):
            self._jump(wave, code)

    def _narrow_as_decided(self, wave: Wave, code: DecodedInstruction, refusal: Refused) -> None:
        """An instruction narrows the execution mask by one that data decide: to all lanes of it, or
        to none."""
        mask = narrowing_mask(wave, code)
        if mask is None:
            raise refusal
        truth = self._decided(wave, code, refusal, UNKNOWN_MASK)
        unknown, in_part = wave.scalars[mask.first : mask.first + mask.count], wave.vcc_in_part
        known = wave.exec if truth else 0
        wave.set_scalar(mask.first, known, mask.count)
        self._perform(wave, code)
        if code.writes.isdisjoint(SCALAR_BASE + mask.first + at for at in range(mask.count)):
            wave.scalars[mask.first : mask.first + mask.count] = unknown
            wave.vcc_in_part = in_part

    def _decided(self, wave: Wave, code: DecodedInstruction, refusal: Refused, what: str) -> bool:
        """What the decider says of a condition; raises the refusal where it says nothing."""
        origin, truth = refusal.origin, None
        on_data = origin is not None and origin.offset < 0  # and no argument that is not given
        if self.decider is not None and on_data and str(refusal).startswith(what):
            truth = self.decider.holds(wave, code)
        if truth is None:
            raise refusal
        return truth

    def _skipped(self, wave: Wave, code: DecodedInstruction, refusal: Refused) -> bool:
        """Whether the lanes that go on are not known, and the arms they are in are skipped."""
        follower = self.follower
        computes = self.group.contents is not None or not (
            follower is None or isinstance(follower, ArmsFollower)
        )
        if (
            not str(refusal).startswith((UNKNOWN_MASK, UNKNOWN_BRANCH))
            or refusal.origin is None
            or computes
            or self.later is not None
            or wave.skips
            or not isinstance(self.numbering, ArmsValues | None)
        ):
            return False
        pairs = [pair for pairs in self.watched.values() for pair in pairs]
        arms = skipped_arms(wave, code.number, self.ways, pairs)
        if arms is None or (arms.reads_condition and wave.condition is NOT_WRITTEN):
            return False
        unknown = OpaqueWord("lanes that data choose", code.number)
        origin = unknown if refusal.origin is None else refusal.origin
        begun = len(self.group.events)
        values, self.group.values = self.group.values, None  # no number is followed through arms
        followed = access_memory(self.group, wave, arms, self._step, origin)
        self.group.values = values
        if not followed:
            return False
        self.group.events.append(LanesByData(*self.group.header(wave, code.number)))
        if arms.loops:
            self.group.events.append(LoopByData(*self.group.header(wave, code.number)))
        if wave.unwritten and arms_read_unwritten(wave, arms):
            self.group.reads_unwritten = True
            wave.unwritten.clear()
        if isinstance(follower, ArmsFollower):
            follower.skipped(wave, arms, begun)
        if isinstance(self.numbering, ArmsValues):
            self.numbering.skipped(wave, arms, begun)
        leave(wave, arms, origin)
        self.steps += len(arms.steps) - 1
        return True

    def _decoded(self, number: int) -> DecodedInstruction:
        code = self.decoded.get(number)
        if code is None:
            code = self.decoded[number] = decoded(number, self.code.instructions[number])
        return code

    def _step(self, code: DecodedInstruction):  # type: ignore[no-untyped-def]
        try:
            if code.opcode.kind is OpcodeKind.TENSOR or "_async_" in code.item.base:
                return copy_step(code, self.group)
            if code.opcode.kind is OpcodeKind.FLAT:
                return flat_step(code, self.group)
            if code.opcode.kind in _MEMORY:
                return memory_step(code, self.group)
            if code.opcode.kind is OpcodeKind.SCALAR:
                return self._scalar_step(code)
            computed = None if self.group.contents is None else value_step(code, self.code.target)
            if computed is not None:
                return computed
            if code.opcode.kind is OpcodeKind.MATRIX:
                return opaque_step(code)
            return vector_step(code)
        except (IndexError, ValueError, AssertionError):
            raise Refused(f"operands of {code.item.opcode} that are not understood") from None

    def _scalar_step(self, code: DecodedInstruction) -> Step:
        """Its step; the condition code, which the text does not name, may be unwritten."""
        plain, group = scalar_step(code), self.group
        if not code.item.base.startswith(BY_CONDITION):
            return plain

        def step(wave: Wave) -> None:
            group.reads_unwritten |= wave.condition is NOT_WRITTEN
            plain(wave)

        return step

    # ---------------------------------------------------------------------------- control

    def _control(self, wave: Wave, code: DecodedInstruction) -> None:
        name = code.item.base
        if self.later is not None and self.later.control(wave, code):
            if self.numbering is not None:
                self.numbering.control(wave, code)
            return
        header = self.group.header(wave, code.number)
        if name == "s_waitcnt":
            self._wait(wave, code)
        elif name == "s_barrier":
            self.group.events.append(WaveBarrier(*header, wave.barriers))
            wave.barriers += 1
            wave.at_barrier = True
        elif name == "s_endpgm":
            self.group.events.append(WaveEnd(*header))
            wave.ended = True
        elif name == "s_branch" or name.startswith("s_cbranch_"):
            if name == "s_branch" or taken(wave, name):
                self._jump(wave, code)
        elif name == "s_setvskip":
            wave.skips = _skipping(wave, code)
        elif name in _UNFOLLOWED or changes_execution(wave, code):
            raise Refused(f"{name} is not followed")
        elif code.opcode.results or self.numbering is not None:
            if self.numbering is not None:
                self.numbering.control(wave, code)
            unknown = OpaqueWord(f"the result of {name}", code.number)
            for register in code.writes:
                wave.set_scalar(register - 512, unknown)

    def _jump(self, wave: Wave, code: DecodedInstruction) -> None:
        wave.place = code.item.target
        if wave.place <= code.number and self.loops.stands(wave, code.number):
            raise Refused(STANDS)

    def _wait(self, wave: Wave, code: DecodedInstruction) -> None:
        for counter, limit in waits_of(code.item.operands[0] if code.item.operands else None):
            for queue in _QUEUES.get(counter, ()):
                entries = wave.in_flight[queue]
                if queue in UNORDERED and limit:
                    continue  # returned in any order
                if not entries and queue in _FLAT:
                    continue
                left = end_operations(wave, queue, limit)
                header = self.group.header(wave, code.number)
                if queue not in UNORDERED or not left:
                    self.group.events.append(CounterWait(*header, queue, left))

    def _check_pending(self, wave: Wave, code: DecodedInstruction) -> None:
        for register in sorted(code.touches & wave.pending.keys()):
            read, loads = register in code.reads, _is_vector_load(code)
            entries = [
                entry
                for entry in wave.pending[register].writers(register)
                # A later load also returns later.
                if read or not loads or entry.queue not in _IN_ORDER
            ]
            if not entries:
                continue
            entry = next((one for one in entries if not one.unsure), None)
            if entry is None:
                raise Refused("whether a load by data is waited for")
            del wave.pending[register]
            self.group.events.append(
                PendingRegister(
                    *self.group.header(wave, code.number),
                    register_name(register, self.later is not None), not read,
                    entry.instruction, COUNTER_OF.get(entry.queue, entry.queue),
                )
            )  # fmt: skip

    def _check_written(self, wave: Wave, code: DecodedInstruction) -> None:
        """Whether the instruction may read a register that nothing has written; one is enough."""
        if self.group.reads_unwritten or may_read_unwritten(wave, code):
            self.group.reads_unwritten = True
            wave.unwritten.clear()

    def _check_states(self, wave: Wave, code: DecodedInstruction) -> None:
        """Whether as many wait states have passed as the instruction needs."""
        for pair in self.watched.get(code.number, ()):
            passed = 0
            for number, states in reversed(wave.recent):
                if number == pair.first and passed < pair.needed and pair not in self.missed:
                    self.missed.add(pair)
                    header = self.group.header(wave, code.number)
                    self.group.events.append(
                        WaitStatesMissing(
                            *header, pair.first, pair.needed, passed, pair.register, pair.why
                        )
                    )
                passed += states
        if self.later is None:
            wave.recent.append((code.number, states_of(code.item)))
        elif code.opcode.kind in (OpcodeKind.VECTOR, OpcodeKind.MATRIX):
            wave.recent.append((code.number, states_of_gfx1250(code.item)))


_UNFOLLOWED = frozenset(
    (
        "s_setpc_b64", "s_swappc_b64", "s_call_b64", "s_rfe_b64", "s_cbranch_join", "s_trap",
        "s_set_gpr_idx_on", "s_set_gpr_idx_mode", "s_endpgm_saved", "s_setkill", "s_sendmsghalt",
    )
)  # fmt: skip
# Not issued, nor counted, while VSKIP is set (CDNA3, S_SETVSKIP).
SKIPPED = frozenset(OpcodeKind) - {OpcodeKind.CONTROL, OpcodeKind.SCALAR, OpcodeKind.SCALAR_MEMORY}
_MODE = re.compile(r"hwreg\(\s*(HW_REG_MODE|1)\b(?:\s*,\s*(\w+)\s*,\s*(\w+))?")
_INDEXING, _SKIPPING = 27, 28  # bits of the mode: registers by an index, vector code is skipped


def changes_execution(wave: Wave, code: DecodedInstruction) -> bool:
    """Whether an instruction of control halts a wave, or sets a mode in which others differ."""
    item = code.item
    if item.base == "s_sethalt":
        return scalar_source(item.operands[0], 1, code.number)(wave) != 0
    if not item.base.startswith("s_setreg"):
        return False
    names = [one.name for one in item.operands if isinstance(one, SymbolOperand)]
    if not names:
        return True  # a hardware register by its number alone
    found = _MODE.match(names[0])
    if found is None:
        return False
    first, count = integer_of(found[2] or "0"), integer_of(found[3] or "32")
    if first is None or count is None:
        return True
    value = scalar_source(item.operands[-1], 1, code.number)(wave)
    field = (1 << count) - 1
    changed = field if isinstance(value, OpaqueWord) else value & field
    return bool(changed << first & (1 << _INDEXING | 1 << _SKIPPING))


def _skipping(wave: Wave, code: DecodedInstruction) -> bool:
    """The bit of the first operand that the second one names."""
    value_of, bit_of = (scalar_source(one, 1, code.number) for one in code.item.operands[:2])
    value, bit = value_of(wave), bit_of(wave)
    for one in (value, bit):
        if isinstance(one, OpaqueWord):
            raise Refused("whether vector instructions are skipped", one)
    assert isinstance(value, int) and isinstance(bit, int)
    return bool(value >> (bit & 31) & 1)


def _is_vector_load(code: DecodedInstruction) -> bool:
    kinds = (OpcodeKind.GLOBAL, OpcodeKind.BUFFER, OpcodeKind.SCRATCH)
    return code.opcode.kind in kinds


def taken(wave: Wave, name: str) -> bool:
    """Whether a wave takes a conditional branch. Raises Refused where that is not known."""
    condition = name.removeprefix("s_cbranch_")
    if condition in ("execz", "execnz"):
        return (wave.exec == 0) == (condition == "execz")
    if condition in ("vccz", "vccnz"):
        if wave.vcc_in_part:
            raise Refused("a branch on vccz behind a write of one half of vcc")
        value = wave.scalar(VCC, wave.width // 32)
    elif condition in ("scc0", "scc1"):
        value = wave.condition
    else:
        return False  # of a debugger
    if isinstance(value, OpaqueWord):
        raise Refused(UNKNOWN_BRANCH, value)
    return (value == 0) == (condition in ("vccz", "scc0"))
