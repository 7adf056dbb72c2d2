"""The machine for runs with undefined values: what it knows of memory, registers and guards.

What becomes of the values is in `undefined_values.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from titan.isa.simt.accesses import place
from titan.isa.simt.execution import SimtExecution
from titan.isa.simt.memory import UNWRITTEN
from titan.isa.simt.operations import ATOMICS, COMBINATIONS, DecodedStep, Kind, Op
from titan.isa.simt.outcome import PreparedLaunch
from titan.isa.simt.state import Warp
from titan.isa.simt.tracing.arm_registers import Arms
from titan.isa.simt.tracing.pure_regions import PureRegions
from titan.isa.simt.tracing.traced import ADDRESS_MASK
from titan.isa.simt.tracing.undefined_bits import ALL_BITS
from titan.isa.simt.tracing.undefined_memory import (
    Chosen,
    HeldGuard,
    UndefinedBytes,
    UndefinedValue,
    of_register,
)
from titan.isa.simt.tracing.undefined_tensors import UndefinedTensors
from titan.isa.simt.undefined_results import undefined_test
from titan.isa.simt.unwritten_registers import unwritten_registers
from titan.isa.simt.values import Opaque, Scalar, Value, any_opaque, lane, lanes_of, merge

BRANCHES = (Op.BRANCH, Op.BRANCH_INDEXED)
AND, OR = COMBINATIONS.index("and"), COMBINATIONS.index("or")
_REPLACING = ("exch", "store")


# What follows of other predicates where one does not hold, and where it does.
Implied = tuple[tuple[HeldGuard, ...], tuple[HeldGuard, ...]]


@dataclass(slots=True)
class Executed:
    """The instruction being executed. `operands`, `before`: what its sources and destinations held;
    `lanes`: of the warp; `maybe`: those whose guard is opaque; `sure`: those for which it does
    not hold, and does. `undefined`: whether some source is.
    `inputs`: all that a branch on data can make its results of, if its arms only compute; `arms`:
    of others, the lanes in which an arm has made something undefined. `holding`: what is known of
    predicates where it is executed; `ways`: the same in the arms of a branch where its guard does
    not hold, and where it does.
    """

    warp: Warp
    step: DecodedStep
    pc: int
    operands: list[Value]
    before: list[Value]
    guard: Value
    lanes: int
    maybe: int
    undefined: bool
    rows: dict[int, int | None] = field(default_factory=dict)  # of a product
    columns: dict[int, int | None] | None = None  # None until a first sum has asked for them
    inputs: dict[int, Value] = field(default_factory=dict)
    arms: dict[int, UndefinedValue] = field(default_factory=dict)
    holding: tuple[HeldGuard, ...] = ()
    ways: Implied = ((), ())
    sure: tuple[int, int] = (0, 0)


class UndefinedState(SimtExecution):
    """A run with undefined values. `used`: the reads of memory whose values are used; `registers`:
    those used unwritten, each with the instruction and whether it is certain, and, with numbers
    behind theirs, what instructions left undefined."""

    def __init__(self, made: PreparedLaunch) -> None:
        self.now: Executed | None = None
        self.instructions = made.instructions
        super().__init__(made.code, made.layout, made.launch, made.options)
        self.load_parameters(list(made.parameters))
        self.tensors = UndefinedTensors(self)
        self.computing = PureRegions(made.code, memory=False)
        self.arms = Arms(made.code)
        self.used: set[int] = set()
        self.registers: dict[int, tuple[int, bool]] = {}
        self.tests = [undefined_test(step) for step in made.code.steps]
        self.unwritten = unwritten_registers(made.code).registers
        self.writes: Counter[tuple[Warp, int]] = Counter()
        self.implied: dict[tuple[Warp, int], Implied] = {}
        self.skipped: list[Executed] = []  # branches on data whose arms are being executed

    def start_cluster(self, numbers: tuple[int, ...]) -> None:
        """As any cluster, with memory and registers that know what is undefined."""
        super().start_cluster(numbers)
        for cta in self.clusters[-1].ctas:
            cta.shared = self._memory(cta.shared.size)
            for warp in cta.warps:
                self.begin(warp, self.code.start, warp.live)
                for index in lanes_of(warp.live) if self.code.local_bytes else ():
                    warp.local[index] = self._memory(self.code.local_bytes)

    def _memory(self, size: int) -> UndefinedBytes:
        return UndefinedBytes(size, self)

    def begin(self, warp: Warp, start: int, lanes: int) -> None:
        """A function begins: what it may read before it writes it is undefined."""
        for register in self.unwritten.get(start, ()):
            value = UndefinedValue(-1, of_register(register), certain=True)
            warp.registers[register] = merge(warp.registers[register], value, lanes)

    def forget_results(self, warp: Warp, step: DecodedStep, lanes: int) -> None:
        """A function is called: what it gave the last time is not what it gives now."""
        results = step.flags[2 + 3 * step.flags[1] :]
        for index in lanes_of(lanes):
            for inner, size in zip(results[::3], results[2::3], strict=True):
                warp.local[index].fill(inner, size, UNWRITTEN)

    def shared_of(self, cta: int) -> UndefinedBytes:
        """The shared memory of a CTA."""
        shared = self.ctas[cta].shared
        assert isinstance(shared, UndefinedBytes)
        return shared

    def reader(self) -> int:
        """The instruction being executed, -1 for none."""
        return -1 if self.now is None else self.now.pc

    def adds(self) -> bool:
        """Whether an atomic operation is being executed that leaves something of what was there."""
        step = None if self.now is None else self.now.step
        return (
            step is not None and step.op is Op.ATOMIC and ATOMICS[step.flags[6]] not in _REPLACING
        )

    def by_choice(self) -> Chosen | None:
        """What data decide that the instruction is executed, by its guard and by those of branches;
        None where they do not for some lane, or in loops."""
        now = self.now
        if now is None:
            return None
        ways = [self._way(branch, now) for branch in self.skipped]
        if any(ways):
            ways += self._inner_ways(now)
        if now.maybe and not now.sure[1] and now.step.op not in BRANCHES:
            ways.append(self.held_guard(now.warp, now.step.guard, not now.step.negated))
        found = frozenset(way for way in ways if way is not None)
        return Chosen(now.pc, found) if found else None

    def _way(self, branch: Executed, now: Executed) -> HeldGuard | None:
        """The arm of a branch in which an instruction stands, if no lane comes there for sure."""
        within = [now.pc in arm for arm in self.arms.of(branch.pc).instructions]
        if branch.warp is not now.warp or not branch.maybe or within[0] is within[1]:
            return None
        if branch.sure[within[1]]:
            return None
        return branch.ways[within[1] is not branch.step.negated][0]

    def _inner_ways(self, now: Executed) -> Iterator[HeldGuard]:
        """The arms of branches within an arm, which the machine executes with those around."""
        for at in self.arms.within(self.skipped[-1].pc):
            step = self.steps[at]
            inside = [now.pc in arm for arm in self.arms.of(at).instructions]
            guard = now.warp.registers[step.guard]
            if inside[0] is not inside[1] and any_opaque((guard,)):
                yield self.held_guard(now.warp, step.guard, inside[1] is not step.negated)

    def holding(self, now: Executed) -> tuple[HeldGuard, ...]:
        """The guard, and that of a branch on data in whose arm the instruction stands."""
        found: list[HeldGuard] = []
        if now.step.guard >= 0 and now.step.op not in BRANCHES:
            found += self.held(now.warp, now.step.guard, not now.step.negated)
        if self.skipped:
            branch = self.skipped[-1]
            within = [now.pc in arm for arm in self.arms.of(branch.pc).instructions]
            if branch.warp is now.warp and within[0] is not within[1]:
                found += branch.ways[within[1] is not branch.step.negated]
        return tuple(found)

    def held_guard(self, warp: Warp, register: int, wanted: bool) -> HeldGuard:
        """That a predicate holds, or does not, with what it was written last."""
        return HeldGuard(register, self.writes[warp, register], wanted)

    def held(self, warp: Warp, register: int, wanted: bool) -> tuple[HeldGuard, ...]:
        """The same, and what follows of the predicates that it was made of."""
        made = self.implied.get((warp, register), ((), ()))
        return (self.held_guard(warp, register, wanted), *made[wanted])

    def note_predicate(self, register: int, mask: int, implied: Implied | None) -> None:
        """A register is written: of what it was made is known if all lanes write it."""
        now = self.now
        if now is None:
            return
        whole = mask & now.warp.live == now.warp.live and not now.maybe
        if implied is not None and whole and now.step.out[0] == register:
            self.implied[now.warp, register] = implied
        else:
            self.implied.pop((now.warp, register), None)

    def implications(self, now: Executed) -> Implied | None:
        """What follows where the predicate that is written does not hold, and where it does."""
        warp, step = now.warp, now.step
        if step.op is Op.SETP and step.flags[1] in (AND, OR):
            third = step.args[2]
            negated = bool(step.flags[2])
            if step.flags[1] == AND:
                return (), self.held(warp, third, not negated)
            return self.held(warp, third, negated), ()
        if step.kind is not Kind.PREDICATE and step.bits != 1:
            return None
        both = [(self.held(warp, one, False), self.held(warp, one, True)) for one in step.args]
        if step.op is Op.AND:
            return (), (*both[0][1], *both[1][1])
        if step.op is Op.OR:
            return (*both[0][0], *both[1][0]), ()
        if step.op is Op.MOV:
            return both[0]
        return (both[0][1], both[0][0]) if step.op is Op.NOT else None

    def still(self, value: Scalar, bits: int = ALL_BITS) -> UndefinedValue | None:
        """What is undefined of a value in some bits, if no guard shows that it is not."""
        if not isinstance(value, UndefinedValue) or not value.bits & bits:
            return None
        if value.unless is not None and self.now is not None and value.unless in self.now.holding:
            return None
        return value

    def row_at(
        self, now: Executed, index: int, space: int, offset: int
    ) -> tuple[UndefinedBytes, int] | None:
        """Where the row is whose address a lane gives to ldmatrix or stmatrix."""
        address = lane(now.operands[0], index)
        if isinstance(address, Opaque):
            return None
        _, cta, at = place(self, now.warp, space, (address + offset) & ADDRESS_MASK)
        return None if cta is None else (self.shared_of(cta.number), at)
