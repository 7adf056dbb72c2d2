"""Whether a launch with more trips does what this one does, with rounds put into its loops.

A run of N trips is made on the Python machine, and beside each known number stands how it depends
on k, where the launch has N + k * P trips, and on j, the periods put in where it is made
(`growth.py`). Parameters that count the trips, and the place of the CTA in a grid that grows with
them, bring k in. In each loop that makes more rounds
with more trips, at one of its heads, P trips' worth of rounds are put in k times. What is assumed
there of every register, `c + a * j + b * k` with a taken from the rounds before, is shown by
induction: the next P trips' rounds are run from it, and have to leave each register that they read
first as it was, a further on. From there on j is k.

What is to be the same for all k: every branch and guard, the places in shared and local memory, the
barriers, bytes, counts, descriptors of every instruction. Addresses and coordinates in global
memory may move on. Then the run of N + k * P trips is that of N trips with k times the events of
those rounds in each loop; `reach` says up to which k that is shown, and `why` what ends it.

Assumed: what a wait, a poll or an election gives is as in this run, as the conditions under which
one run represents all have it (`outcome.py`). Known bytes of memory that these rounds read have to
be as they were at their end, and nothing that depends on j may be stored where rounds read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from titan.isa.simt.accesses import place, read_value
from titan.isa.simt.arithmetic import signed
from titan.isa.simt.copied_words import COPIED_WORD_BYTES
from titan.isa.simt.execution import SimtExecution
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.growing_cells import GrowingCells, Owner, grid_slopes, parameter_growth
from titan.isa.simt.growth import FIXED, Growth, through, unknown
from titan.isa.simt.lane_growths import Growths, compact, distinct, fixed_as, keep, of_lane
from titan.isa.simt.launch import Launch, Options
from titan.isa.simt.layout import MemoryLayout
from titan.isa.simt.memory import KNOWN
from titan.isa.simt.operations import PURE, DecodedCode, DecodedStep, Op, PresetKind
from titan.isa.simt.passages import (
    Lanes,
    Passage,
    RoundPlan,
    Steps,
    TripGrid,
    TripWord,
    step_between,
)
from titan.isa.simt.rendezvous import TOKEN
from titan.isa.simt.rounds import lanes_at, loops_of
from titan.isa.simt.shown_rounds import ShownRounds
from titan.isa.simt.state import POLL, Cta, Fragment, Warp
from titan.isa.simt.values import LANES, Opaque, Scalar, Value, lane, lanes_of
from titan.isa.simt.variable_ends import global_places, last_inside

_ACCESSES = frozenset({Op.LOAD, Op.STORE, Op.ATOMIC, Op.LOAD_MATRIX, Op.STORE_MATRIX, Op.PREFETCH})
# Results that are made of the operands of all lanes, or of more than registers.
_ACROSS = frozenset(
    {
        Op.SHUFFLE, Op.VOTE, Op.MATCH, Op.REDUX, Op.ELECT, Op.ACTIVE_MASK, Op.COLLECTIVE,
        Op.QUERY_CANCEL,
    }
)  # fmt: skip


@dataclass(eq=False, slots=True)
class _Window:
    """The rounds that are put in, while they are run: what registers held and how they depended on
    k alone, which lanes have read and written them, and the known bytes that were loaded. `done`:
    it has come to its end."""

    passage: Passage
    mask: int
    start: list[Value]
    old: dict[int, Growths]
    taken: dict[int, Growths]
    read: dict[int, int] = field(default_factory=dict)
    written: dict[int, int] = field(default_factory=dict)
    loads: list[tuple[int, tuple[int, Cta | None, int], int, Scalar]] = field(default_factory=list)
    done: bool = False


@dataclass(slots=True)
class _Now:
    """The instruction that is executed: its operands before it."""

    warp: Warp
    step: DecodedStep
    pc: int
    values: list[Value]
    growths: list[Growths | None]
    loaded: dict[tuple[int, int], Growth]


class FurtherRounds(SimtExecution, ShownRounds):
    """One run that represents all with more trips; `reach` is how many periods more."""

    def __init__(
        self,
        code: DecodedCode,
        layout: MemoryLayout,
        launch: Launch,
        options: Options,
        words: Sequence[TripWord],
        plan: RoundPlan,
        grid: TripGrid | None = None,
    ) -> None:
        super().__init__(code, layout, launch, options)
        self.orders_lanes = False  # as judged in the launch itself
        self.words, self.grid = words, grid
        self.plan_rounds(plan, loops_of(code))
        self.growths: dict[int, dict[int, Growths]] = {}
        self.windows: dict[int, list[_Window]] = {}
        self.window_of: dict[tuple[Lanes, int], _Window] = {}  # by passage
        self.cells = GrowingCells()
        self.now: _Now | None = None

    # ----------------------------------------------------------------------------- answers

    def finish_rounds(self) -> None:
        """After the run: passages that had no room for a window, and bytes that moved."""
        self.check_passages(self.window_of)
        if self.grid is not None and self.counters:
            self.limit(0, -1, "what a CTA finds in a counter depends on its place in the grid")
        if self.cells.change_where_seen():
            self.limit(0, -1, "memory that a round reads changes from round to round")

    # --------------------------------------------------------------------------- execution

    def start_cluster(self, numbers: tuple[int, ...]) -> None:
        """Create a cluster's CTAs, whose places move on with the grid."""
        super().start_cluster(numbers)
        slopes = grid_slopes(self.grid, self.launch.cluster)
        for preset in self.code.presets:
            slope = slopes.get(preset.name, 0) if preset.kind is PresetKind.SPECIAL else 0
            for number in numbers if slope else ():
                for warp in self.ctas[number].warps:
                    self.growths.setdefault(id(warp), {})[preset.register] = Growth(0, slope)

    def step(self, fragment: Fragment) -> bool:
        """Execute one instruction, and what its numbers depend on."""
        passage = self.counter.arrive(lanes_at(fragment), fragment.pc)
        if passage is not None:
            self._at_head(fragment, passage)
        pc, warp = fragment.pc, fragment.warp
        step = self.steps[pc]
        table = self.growths.get(id(warp))
        windows = self.windows.get(id(warp))
        if not table and not windows and step.op not in _ACCESSES and step.op is not Op.COPY:
            self.now = None
            return super().step(fragment)
        mask = fragment.mask
        if step.guard >= 0:
            mask = self.guarded(warp, step, mask)[0]
        now = self._operands(fragment, step, mask, table or {})
        for window in windows or ():
            self._note_reads(window, step, fragment.mask, mask)
        if mask and step.op not in PURE:
            self._check(now, mask)
        guard = (table or {}).get(step.guard) if step.guard >= 0 else None
        if guard is not None:
            self._use(guard, fragment.mask, pc, "whether it is executed")
        if step.op in (Op.CALL, Op.RETURN):
            self._check_call(warp, pc)
        elif step.op in (Op.BRANCH, Op.BRANCH_INDEXED):
            self._check_arms(fragment, step, table or {})
        outer, self.now = self.now, now
        try:
            return super().step(fragment)
        finally:
            self.now = outer

    def _operands(
        self, fragment: Fragment, step: DecodedStep, mask: int, table: dict[int, Growths]
    ) -> _Now:
        registers = fragment.warp.registers
        arguments = [register for register in step.args if register >= 0]
        now = _Now(
            fragment.warp,
            step,
            fragment.pc,
            [registers[register] for register in arguments],
            [table.get(register) for register in arguments],
            {},
        )
        if step.op in (Op.LOAD, Op.STORE) and mask:
            self._follow(now, mask)
        elif step.op is Op.ATOMIC and mask:
            self._change(now, mask)
        elif step.op is Op.COPY and mask:
            self._copy(now, mask)
        return now

    def _use(self, growths: Growths, mask: int, pc: int, what: str) -> None:
        """Something is decided by a number: it holds as far as that is known."""
        for item in distinct(growths, mask):
            if item.limit < self.reach:
                self.limit(item.limit, item.site if item.site >= 0 else pc, what)

    def _check(self, now: _Now, mask: int) -> None:
        """Operands of what is not arithmetic have to stay as they are, but for global memory."""
        step = now.step
        if step.op in _ACROSS:
            return
        free = _free(step)
        for number, growths in enumerate(now.growths):
            if growths is None:
                continue
            first = step.op in _ACCESSES and number == 0
            if number in free or (first and self._is_global(now, mask)):
                self._stay_in_variables(now, growths, number, mask)
                continue
            self._use(growths, mask, now.pc, "what it works on")
            if not all(item.fixed for item in distinct(growths, mask)):
                self.limit(0, now.pc, "what it works on moves on with the trips")

    def _is_global(self, now: _Now, mask: int) -> bool:
        space, offset = now.step.flags[:2]
        for index in lanes_of(mask):
            address = lane(now.values[0], index)
            if isinstance(address, Opaque):
                continue
            where = place(self, now.warp, space, (address + offset) & (1 << 64) - 1)
            if where[0] != MemorySpace.GLOBAL:
                return False
        return True

    def _stay_in_variables(self, now: _Now, growths: Growths, number: int, mask: int) -> None:
        """A variable of the module has an end in every launch, where tensors grow."""
        variables = self.layout.module_globals
        for index in lanes_of(mask) if variables else ():
            address, item = lane(now.values[number], index), of_lane(growths, index)
            if isinstance(address, Opaque) or item.fixed:
                continue
            for operand, offset, count in global_places(now.step, now.values, index):
                at = (address + offset) & (1 << 64) - 1
                last = last_inside(at, count, item, variables) if operand == number else None
                if last is not None and last < item.limit:
                    self.limit(last, now.pc, "where it is")

    # --------------------------------------------------------------------------- registers

    def write(self, warp: Warp, register: int, value: Value, mask: int, marks: int = 0) -> None:
        """Write a register, and what it depends on."""
        if register >= 0 and mask:
            self._depend(warp, register, value, mask)
            for window in self.windows.get(id(warp), ()):
                window.written[register] = window.written.get(register, 0) | mask
        super().write(warp, register, value, mask, marks)

    def _depend(self, warp: Warp, register: int, value: Value, mask: int) -> None:
        now = self.now
        table = self.growths.setdefault(id(warp), {})
        moving = (
            now is not None
            and now.warp is warp
            and (
                bool(now.loaded)
                or any(item is not None for item in now.growths)
                or (now.step.op is Op.LOAD_MATRIX and bool(self.cells.moved))
            )
            and register in now.step.out
        )
        made: Growths = FIXED
        if moving and now is not None and not isinstance(value, Opaque):
            made = self._made(now, now.step.out.index(register), value, mask)
        whole = mask & warp.live == warp.live
        if whole and not isinstance(made, list):
            found: Growths = made
        else:
            old = table.get(register, FIXED)
            if old is FIXED and made is FIXED:
                return
            items = list(old) if isinstance(old, list) else [old] * LANES
            for index in lanes_of(mask):
                items[index] = made[index] if isinstance(made, list) else made
            found = compact(items, warp.live)
        keep(table, register, found)

    def _made(self, now: _Now, part: int, value: Value, mask: int) -> Growths:
        """What the lanes of a result depend on."""
        step = now.step
        if step.op in _ACROSS:
            items = [item for growths in now.growths if growths for item in distinct(growths, mask)]
            fixed = all(item.fixed for item in items)
            least = min(items, key=lambda item: item.limit)
            return Growth(0, 0, least.limit, least.site) if fixed else unknown(now.pc)
        if step.op is Op.LOAD_MATRIX and self.cells.moved:
            return unknown(now.pc)
        if step.op in (Op.LOAD, Op.ATOMIC):
            return [self._loaded(now, part, value, index) for index in range(LANES)]
        if step.op not in PURE:
            return FIXED
        if _alike(now, value):
            index = lanes_of(mask)[0]
            values = [lane(item, index) for item in now.values]
            growths = [of_lane(item, index) for item in now.growths]
            return through(step, now.pc, values, growths, part)
        known: dict[tuple[object, ...], Growth] = {}
        made = [FIXED] * LANES
        for index in lanes_of(mask):
            if isinstance(lane(value, index), Opaque):
                continue
            values = [lane(item, index) for item in now.values]
            growths = [of_lane(item, index) for item in now.growths]
            if all(item is FIXED for item in growths):
                continue
            key = (*values, *growths)
            if key not in known:
                known[key] = through(step, now.pc, values, growths, part)
            made[index] = known[key]
        return made

    @staticmethod
    def _loaded(now: _Now, part: int, value: Value, index: int) -> Growth:
        if isinstance(lane(value, index), Opaque):
            return FIXED
        address = of_lane(now.growths[0], index)
        if not address.fixed:
            return unknown(now.pc)
        found = now.loaded.get((part, index), FIXED)
        if address.limit < found.limit:  # from there on another place is read
            return found._replace(limit=address.limit, site=address.site)
        return found

    def _check_call(self, warp: Warp, pc: int) -> None:
        """Arguments and results are copied in local memory, which is not followed."""
        if self.cells.any_in_local(id(warp)):
            self.limit(0, pc, "arguments of calls that depend on the trips")

    def _check_arms(self, fragment: Fragment, step: DecodedStep, table: dict[int, Growths]) -> None:
        """Arms of a branch on data start from the same registers, with growths not restored."""
        register = next((r for r in (step.guard, *step.args) if r >= 0), None)
        if register is None:
            return
        value = fragment.warp.registers[register]
        if not any(isinstance(lane(value, n), Opaque) for n in lanes_of(fragment.mask)):
            return
        region = self.code.regions.get(fragment.pc)
        if region is not None and any(register in table for register in region.written):
            self.limit(0, fragment.pc, "what a branch on data writes grows with the trips")

    # ------------------------------------------------------------------------------ memory

    def _places(self, now: _Now, mask: int) -> list[tuple[int, tuple[int, Cta | None, int], Owner]]:
        """Where each lane loads or stores; nothing for addresses that are not known."""
        space, offset = now.step.flags[:2]
        found = []
        for index in lanes_of(mask):
            address = lane(now.values[0], index)
            if isinstance(address, Opaque):
                continue
            where = place(self, now.warp, space, (address + offset) & (1 << 64) - 1)
            found.append((index, where, self._owner(now.warp, index, where)))
        return found

    @staticmethod
    def _owner(warp: Warp, index: int, where: tuple[int, Cta | None, int]) -> Owner:
        if where[0] == MemorySpace.LOCAL:
            return id(warp), index
        return (where[1].number if where[1] is not None else -1), -1

    def _follow(self, now: _Now, mask: int) -> None:
        """What a load gets, and what a store leaves."""
        size = now.step.flags[4] // 8
        parts = len(now.step.out) if now.step.op is Op.LOAD else len(now.step.args) - 1
        for index, where, owner in self._places(now, mask):
            for part in range(parts):
                at = where[2] + part * size
                if now.step.op is Op.LOAD:
                    self._load(now, (part, index), (where[0], where[1], at), owner, size)
                else:
                    growth = of_lane(now.growths[1 + part], index)
                    if isinstance(lane(now.values[1 + part], index), Opaque):
                        growth = FIXED
                    self.cells.store(now.pc, (where[0], owner), at, size, growth)

    def _change(self, now: _Now, mask: int) -> None:
        """What an atomic finds, and leaves."""
        size, count = now.step.flags[4] // 8, now.step.flags[7]
        windows = self.windows.get(id(now.warp), ())
        for index, where, owner in self._places(now, mask):
            operands = [of_lane(item, index) for item in now.growths[1:]]
            again = any(window.mask >> index & 1 for window in windows)
            for part in range(count):
                at, memory = where[2] + part * size, (where[0], owner)
                found = self.cells.change(now.pc, memory, at, size, operands, again)
                if found != FIXED:
                    now.loaded[(part, index)] = found

    def _load(
        self,
        now: _Now,
        result: tuple[int, int],
        where: tuple[int, Cta | None, int],
        owner: Owner,
        size: int,
    ) -> None:
        space, _, at = where
        if space == MemorySpace.PARAMETER:
            found = parameter_growth(self.words, at, size, now.pc)
        else:
            found = self.cells.load((space, owner), at, size, now.pc)
        if found != FIXED:
            now.loaded[result] = self._extended(now, result[1], where, size, found)
        if space not in (MemorySpace.SHARED, MemorySpace.LOCAL, MemorySpace.GLOBAL):
            return
        if space == MemorySpace.SHARED and (
            where[1] is None or not 0 <= at <= where[1].shared.size - size
        ):
            return
        self._note_read(now, result[1], where, owner, size)

    def _note_read(
        self, now: _Now, index: int, where: tuple[int, Cta | None, int], owner: Owner, size: int
    ) -> None:
        """Known bytes that a round reads."""
        for window in self.windows.get(id(now.warp), ()):
            if window.mask >> index & 1:
                value = read_value(self, now.warp, index, where, size, now.pc)
                if isinstance(value, int):
                    window.loads.append((index, where, size, value))
                    seen = self.cells.seen.setdefault((where[0], owner), set())
                    seen.add((where[2], size))

    def _copy(self, now: _Now, mask: int) -> None:
        """What cp.async leaves in shared memory: what a load of its source would get."""
        to_offset, at_offset, count, _ = now.step.flags
        for index in lanes_of(mask):
            target, source = (lane(value, index) for value in now.values[:2])
            if isinstance(target, Opaque):
                continue
            where = place(self, now.warp, MemorySpace.SHARED, target + to_offset)
            growth = FIXED
            if isinstance(source, int):
                at = signed(source + at_offset, 64)
                growth = self._copied(now, index, at, count)
            owner = self._owner(now.warp, index, where)
            for part in range(0, count, COPIED_WORD_BYTES):
                at = where[2] + part
                self.cells.store(now.pc, (where[0], owner), at, COPIED_WORD_BYTES, growth)

    def _copied(self, now: _Now, index: int, at: int, count: int) -> Growth:
        """What words that a lane copies from global memory depend on, where some are known."""
        if not self.memory.has(at, count, KNOWN):
            return FIXED
        owner = self._owner(now.warp, index, (MemorySpace.GLOBAL, None, at))
        address = of_lane(now.growths[1], index)
        for part in range(at, at + count, COPIED_WORD_BYTES):
            where = (MemorySpace.GLOBAL, None, part)
            self._note_read(now, index, where, owner, COPIED_WORD_BYTES)
            memory = MemorySpace.GLOBAL, owner
            if self.cells.load(memory, part, COPIED_WORD_BYTES, now.pc) != FIXED:
                return unknown(now.pc)
        return address if address.fixed else unknown(now.pc)

    def _extended(
        self, now: _Now, index: int, where: tuple[int, Cta | None, int], size: int, growth: Growth
    ) -> Growth:
        """What is loaded to a wider register is extended as its type says."""
        bits, kind, width = now.step.flags[4:7]
        value = read_value(self, now.warp, index, where, size, now.pc)
        if width <= bits or not isinstance(value, int):
            return growth
        step = DecodedStep(Op.CVT, kind=now.step.kind, bits=width, flags=(kind, bits, 0, width))
        return through(step, now.pc, [value], [growth])

    # ----------------------------------------------------------------------------- windows

    def _at_head(self, fragment: Fragment, passage: Passage) -> None:
        """A head is reached for the n-th time: nothing, the begin of a window, or its end."""
        key = lanes_at(fragment)
        if passage.number < 0:
            return
        added = self.plan.added.get(key, ())
        if passage.number >= len(added) or added[passage.number][0] != passage.head:
            self.disordered = True
            return
        rounds = added[passage.number][1]
        if not rounds:
            return
        own = key, passage.number
        if passage.visits == self.plan.first:
            self.window_of[own] = self._begin(fragment, passage, self.plan.steps.get(own, {}))
        elif passage.visits == self.plan.first + rounds and own in self.window_of:
            self._end(fragment, self.window_of[own])

    def _begin(self, fragment: Fragment, passage: Passage, steps: Steps) -> _Window:
        warp, mask = fragment.warp, fragment.mask
        if any(window.mask & mask for window in self.windows.get(id(warp), ())):
            self.limit(0, passage.head, "loops that make more rounds lie in one another")
        table = self.growths.setdefault(id(warp), {})
        old = dict(table)
        for register, by_lane in steps.items():
            if self.mark_of(warp, register) & POLL:
                continue
            items = [of_lane(table.get(register), index) for index in range(LANES)]
            for index in lanes_of(mask):
                items[index] = items[index]._replace(a=by_lane[index])
            keep(table, register, compact(items, warp.live))
        taken = dict(table)
        window = _Window(passage, mask, list(warp.registers), old, taken)
        self.windows.setdefault(id(warp), []).append(window)
        return window

    def _note_reads(self, window: _Window, step: DecodedStep, lanes: int, holds: int) -> None:
        for register in step.args:
            mask = holds & window.mask & ~window.written.get(register, 0)
            if register >= 0 and mask:
                window.read[register] = window.read.get(register, 0) | mask
        if step.guard >= 0:
            mask = lanes & window.mask & ~window.written.get(step.guard, 0)
            if mask:
                window.read[step.guard] = window.read.get(step.guard, 0) | mask

    def _end(self, fragment: Fragment, window: _Window) -> None:
        """The induction: what the rounds read first is as assumed, one step further on."""
        warp, mask = fragment.warp, window.mask
        self.windows[id(warp)].remove(window)
        window.done = True
        table = self.growths.setdefault(id(warp), {})
        for register, lanes in window.read.items():
            self._closes(warp, register, lanes & mask, window, table)
        for index, where, size, value in window.loads:
            if read_value(self, warp, index, where, size, -1) != value:
                site = window.passage.head
                self.limit(0, site, "memory that a round reads changes from round to round")
                break
        for register in {*table, *window.taken}:
            old = window.old.get(register)
            written = window.written.get(register, 0)
            items = [of_lane(table.get(register), index) for index in range(LANES)]
            for index in lanes_of(mask):
                if written >> index & 1:
                    item = items[index]
                    items[index] = fixed_as(item._replace(a=0, b=item.a + item.b))
                else:
                    items[index] = of_lane(old, index)
            keep(table, register, compact(items, warp.live))
        for index in lanes_of(mask):
            cells = self.cells.in_local((id(warp), index))
            for at, (size, item) in cells.items():
                cells[at] = size, item._replace(a=0, b=item.a + item.b)

    def _closes(
        self, warp: Warp, register: int, lanes: int, window: _Window, table: dict[int, Growths]
    ) -> None:
        taken, items = window.taken.get(register), table.get(register)
        for index in lanes_of(lanes):
            assumed, found = of_lane(taken, index), of_lane(items, index)
            then, now = lane(window.start[register], index), lane(warp.registers[register], index)
            if isinstance(then, Opaque) and isinstance(now, Opaque):
                continue
            name = self.code.names[register]
            if isinstance(then, Opaque) or isinstance(now, Opaque):
                self.limit(0, window.passage.head, f"{name} is known in some rounds only")
                return
            if then & now & TOKEN or self.mark_of(warp, register) & POLL:
                continue
            if step_between(then, now) != assumed.a or (found.a, found.b) != (assumed.a, assumed.b):
                text = f"{name} does not repeat at a fixed step"
                self.limit(0, found.site if found.site >= 0 else window.passage.head, text)
                return
            if found.limit < self.reach:
                self.limit(found.limit, found.site, f"{name}, from round to round")


def _alike(now: _Now, value: Value) -> bool:
    """Whether the lanes of a result depend on the trips alike, whatever numbers they hold."""
    if isinstance(value, list) and any(isinstance(item, Opaque) for item in value):
        return False
    if any(isinstance(item, list) for item in now.growths):
        return False
    if not any(isinstance(item, list) for item in now.values):
        return True
    op = now.step.op
    if op in (Op.MUL_LOW, Op.MAD_LOW, Op.SHL):  # by one factor for all lanes
        fixed = [n for n in (0, 1) if of_lane(now.growths[n], 0).fixed]
        return any(not isinstance(now.values[n], list) for n in fixed[-1:])
    return op in (Op.MOV, Op.ADD, Op.SUB, Op.NEG, Op.NOT)


def _free(step: DecodedStep) -> frozenset[int]:
    """Operands that may be anything: addresses in global memory, coordinates, data."""
    count = len(step.args)
    match step.op:
        case Op.STORE | Op.TENSOR_STORE:
            return frozenset(range(1, count))
        case Op.COPY:
            return frozenset({1})
        case Op.TENSOR_COPY:
            # Barrier and mask may be absent, and are then no operands here.
            return frozenset(range(4 - sum(item < 0 for item in step.args[:4]), count))
        case Op.BULK_COPY:
            spaces = step.flags[1:3]
            return frozenset(n for n in (0, 1) if spaces[n] == MemorySpace.GLOBAL)
        case Op.BARRIER_WAIT if not step.flags[4]:
            return frozenset({1})  # a token, that of a phase
    return frozenset()
