"""Clashes of lanes that remain where lanes read what they make no use of.

Where all lanes of a warp load a number and one of them stores another over it, as Triton writes
`x[0] += 1`, the other lanes' loads may come before the store or after it: they use nothing of them.
So a run that has such clashes is made again twice on the Python machine. The first time it is noted
of each register which loads its value in a lane comes from, and what is used of them: what a lane
stores, what decides control or an address. Of what `ldmatrix` gives any use is one by all lanes.
Shuffles hand it on to other lanes, other exchanges use it; what a branch on data leaves, whose arms
only compute, is made of all that they may read. The second time loads count as reads of those lanes
alone that use them; clashes that show then, behind the first ones of their stores, are asked the
same, ROUNDS_MAX times in all. Nothing is shown of runs with other branches on unknown data, with
calls, or of more than INSTRUCTIONS_MAX warp instructions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from titan.isa.ptx.module import Instruction
from titan.isa.simt import events as ev
from titan.isa.simt.collectives import shuffled_from
from titan.isa.simt.execution import SimtExecution
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.operations import PURE, DecodedStep, Op
from titan.isa.simt.outcome import INSTRUCTIONS_MAX, Ending, PreparedLaunch, Run
from titan.isa.simt.state import Fragment, Warp
from titan.isa.simt.tracing.equal_stores import unequal_stores
from titan.isa.simt.tracing.made_of import Loads, MadeOf
from titan.isa.simt.tracing.pure_regions import PureRegions
from titan.isa.simt.tracing.spent_reads import FollowedUses, LeftOutLanes
from titan.isa.simt.values import LANES, any_opaque, lanes_of

ROUNDS_MAX = 16
_NOTHING: frozenset[int] = frozenset()
_WEAK = int(ev.AccessSemantics.WEAK)
_OWN = (MemorySpace.LOCAL, MemorySpace.GENERIC)
_BRANCHES = (Op.BRANCH, Op.BRANCH_INDEXED)
_JUMPS = (Op.BRANCH, Op.BRANCH_INDEXED, Op.CALL, Op.RETURN)


class FollowedLoads(SimtExecution):
    """Follows what the loads in `candidates` give. A load of a lane is a number: the count of
    instructions then, times 32, and the lane. `unsure`: nothing is shown of the run.
    """

    candidates: frozenset[int] = _NOTHING
    unsure = False

    def follow(self, candidates: Iterable[int], instructions: Sequence[Instruction]) -> None:
        """To be called before the run."""
        self.candidates = frozenset(candidates)
        self._instructions = instructions
        self.loaded: dict[int, int] = {}  # lanes by the count of instructions
        self._matrices: set[int] = set()  # of these, loads of matrices: all lanes have one number
        self._kept: set[int] = set()  # of these, loads that some instruction would use
        self._read = {register for step in self.steps for register in (*step.args, step.guard)}
        self.used: set[int] = set()
        self._of: dict[Warp, dict[int, Loads]] = {}
        self._made_of = MadeOf()
        self._own: dict[Warp, Loads] = {}  # what arms have left in the memory of a lane
        self._computing = PureRegions(self.code, memory=True)
        self._in_arms = False

    def start_cluster(self, numbers: tuple[int, ...]) -> None:
        """As any cluster, with uses that find which loads are spent."""
        super().start_cluster(numbers)
        for cta in self.clusters[-1].ctas:
            for warp in cta.warps:
                warp.uses = FollowedUses()

    def step(self, fragment: Fragment) -> bool:
        """Execute one instruction, and note what it uses and makes."""
        if self._in_arms:
            self.unsure |= fragment.pc in self.candidates
            return super().step(fragment)
        self._in_arms = self._skips(fragment, self.steps[fragment.pc])
        uses = fragment.warp.uses
        assert isinstance(uses, FollowedUses)
        uses.count, uses.made = -1, None
        try:
            if not self._in_arms:
                self._note(fragment, self.steps[fragment.pc])
            return super().step(fragment)
        finally:
            self._in_arms = False

    def _skips(self, fragment: Fragment, step: DecodedStep) -> bool:
        """Whether this is a branch on data whose arms only compute, of which the results are noted;
        of another one nothing is shown.
        """
        if step.op not in _JUMPS:
            return False
        warp, maybe = fragment.warp, 0
        if step.guard >= 0:
            _, maybe = self.guarded(warp, step, fragment.mask)
        values = [warp.registers[register] for register in step.args if register >= 0]
        opaque = bool(maybe) or any_opaque(values)
        inputs = self._computing.inputs(fragment.pc) if opaque and step.op in _BRANCHES else ()
        self.unsure |= step.op is Op.CALL or (opaque and not inputs)
        if not inputs:
            return False
        held = self._of.setdefault(warp, {})
        own = self._own.setdefault(warp, [_NOTHING] * LANES)
        sources = [own, *(held[register] for register in inputs if register in held)]
        made = [_NOTHING.union(*(of[at] for of in sources)) for at in range(LANES)]
        for register in self.code.regions[fragment.pc].written:
            self._write(held, register, made, 0, fragment.mask)
        for at in lanes_of(fragment.mask):
            own[at] = made[at]
        written = frozenset(self.code.regions[fragment.pc].written)
        self._made_of.written(warp, written, fragment.mask)
        return True

    def _note(self, fragment: Fragment, step: DecodedStep) -> None:
        warp = fragment.warp
        holds, maybe = fragment.mask, 0
        if step.guard >= 0:
            holds, maybe = self.guarded(warp, step, holds)
        held = self._of.setdefault(warp, {})
        if step.guard in held:
            self._use(held[step.guard], fragment.mask)
        sources = [held[register] for register in step.args if register in held]
        made: Loads = [_NOTHING] * LANES
        if step.op in PURE:
            made = [_NOTHING.union(*(of[at] for of in sources)) for at in range(LANES)]
        elif step.op is Op.SHUFFLE:
            made = self._shuffled(fragment, step, held)
        else:
            alone = step.op in (Op.LOAD, Op.STORE, Op.ATOMIC, *_JUMPS)
            for of in sources:
                self._use(of, holds | maybe if alone else (1 << LANES) - 1)
        uses = warp.uses
        assert isinstance(uses, FollowedUses)
        if step.op is Op.STORE and not self.parted:
            uses.made = self._made_of.stored(warp, step)
        matrices = step.op is Op.LOAD_MATRIX
        loads: Loads | None = None
        if fragment.pc in self.candidates and (matrices or step.flags[2] == _WEAK):
            self._begin(step, holds | maybe)
            uses.count = -1 if matrices else self.count
            made = [frozenset((self.count * LANES + at * (not matrices),)) for at in range(LANES)]
            loads = made
        elif step.op is Op.LOAD and step.flags[0] in _OWN:
            made = self._own.get(warp, made)
        for register in step.out:
            if register >= 0:
                self._write(held, register, made, holds, maybe)
        instruction = self._instructions[fragment.pc]
        self._made_of.executed(fragment, step, instruction, holds, maybe, loads)

    def _begin(self, step: DecodedStep, lanes: int) -> None:
        """A load that is followed."""
        self.loaded[self.count] = self.loaded.get(self.count, 0) | lanes
        if step.op is Op.LOAD_MATRIX:
            self._matrices.add(self.count)
        if not self._read.isdisjoint(step.out):
            self._kept.add(self.count)

    def _shuffled(self, fragment: Fragment, step: DecodedStep, held: dict[int, Loads]) -> Loads:
        """Of each lane what it gets from another; what says from which is used."""
        b, c = (fragment.warp.registers[register] for register in step.args[1:3])
        for register in step.args[1:]:
            if register in held:
                self._use(held[register], (1 << LANES) - 1)
        of = held.get(step.args[0], [_NOTHING] * LANES)
        sources = [shuffled_from(step, b, c, at) for at in range(LANES)]
        return [_NOTHING.union(*of) if source is None else of[source[0]] for source in sources]

    def _use(self, of: Loads, mask: int) -> None:
        self.used.update(*(of[at] for at in lanes_of(mask)))

    @staticmethod
    def _write(held: dict[int, Loads], register: int, made: Loads, holds: int, maybe: int) -> None:
        if register not in held and not any(made):
            return
        now = held.setdefault(register, [_NOTHING] * LANES)
        for at in lanes_of(holds):
            now[at] = made[at]
        for at in lanes_of(maybe):
            now[at] = now[at] | made[at]

    def idle(self) -> dict[int, int]:
        """The lanes that use nothing of a load, by the count of instructions then. One that no lane
        uses stays what it is, unless an instruction that was not reached would use it: elements
        beyond the end of a row, which code loads and does not store.
        """
        found = {}
        for count, lanes in self.loaded.items():
            if count in self._matrices:
                idle = 0 if count * LANES in self.used else lanes
            else:
                idle = sum(1 << at for at in lanes_of(lanes) if count * LANES + at not in self.used)
            if idle and (idle != lanes or count in self._kept):
                found[count] = idle
        return found

    def spent(self) -> dict[int, int]:
        """The lanes of loads that are spent, by the count of instructions then."""
        kept = set[int]().union(*(uses.kept for uses in self._uses()))
        found = {}
        for count, lanes in self.loaded.items():
            if count not in self._matrices:
                spent = sum(1 << at for at in lanes_of(lanes) if count * LANES + at not in kept)
                if spent:
                    found[count] = spent
        return found

    def _uses(self) -> Iterable[FollowedUses]:
        for warp in self._of:
            if isinstance(warp.uses, FollowedUses):
                yield warp.uses


class IdleReads(SimtExecution):
    """A run in which lanes of some loads do not read, or before nothing that is stored later."""

    left_out: LeftOutLanes

    def step(self, fragment: Fragment) -> bool:
        """Execute one instruction."""
        self.left_out.begin(self, fragment)
        try:
            return super().step(fragment)
        finally:
            self.left_out.end(self, fragment)


def clashes_that_remain(run: Run, *, idle: bool, equal: bool) -> tuple[ev.LaneClash, ...] | None:
    """The clashes of plain accesses in a run, but for reads that are idle, and for stores that
    write the same, as asked; None where nothing is shown, or nothing clashes.
    """
    made = run.prepared
    if made is None or run.outcome.ending is not Ending.FINISHED:
        return None
    if run.instructions > INSTRUCTIONS_MAX:
        return None
    clashes = tuple(event for event in run.events if isinstance(event, ev.LaneClash))
    found: tuple[ev.LaneClash, ...] | None = None
    loads: set[int] = set()
    lanes = LeftOutLanes()
    for _ in range(ROUNDS_MAX):
        shown = unequal_stores(run, clashes, lanes) if equal else None
        if shown is not None:
            found = clashes = shown
        # Of each store the first clash alone is recorded: behind it others may show.
        further = _loads(clashes, made.code.steps) - loads if idle else set()
        if not further:
            break
        loads |= further
        result = _without_idle(made, run, loads)
        if result is None:
            break
        clashes, lanes = result
        found = clashes
    return found


def _without_idle(
    made: PreparedLaunch, run: Run, loads: set[int]
) -> tuple[tuple[ev.LaneClash, ...], LeftOutLanes] | None:
    """The clashes of the run without idle and spent lanes of these loads, and these lanes."""
    first = FollowedLoads.again(made)
    first.follow(loads, made.instructions)
    first.run()
    left_out = LeftOutLanes(first.idle(), first.spent())
    if first.unsure or not (left_out.idle or left_out.spent):
        return None
    second = IdleReads.again(made)
    second.left_out = left_out
    again = second.run()
    if again.outcome != run.outcome:
        return None
    return tuple(event for event in again.events if isinstance(event, ev.LaneClash)), left_out


def _loads(events: Sequence[ev.Event], steps: Sequence[DecodedStep]) -> set[int]:
    """The loads that clash with a store."""
    clashes = [event for event in events if isinstance(event, ev.LaneClash)]
    found = {event.other for event in clashes} | {event.instruction for event in clashes}
    return {item for item in found if steps[item].op in (Op.LOAD, Op.LOAD_MATRIX)}
