"""Which accesses write the same value, and which loads are used for nothing.

A run has concrete control and opaque data. It is made once more, on the Python machine, with a
*number* for every opaque value: values get one number if instructions of one form make them of
values of the same numbers, or are loaded from bytes of one mark (`traced_memory.py`). So two
stores of one number write the same bytes in every interleaving, as long as what was loaded for them
is ordered; where it is not, that race is reported by itself. Where lanes of one store write common
bytes, they have to write the same (`alike`); where several warps do that with one table of values,
it is taken to be the same lane's that stays in each (`same_lane`).

Beside its number, a value knows the execution of an instruction that it comes from. What decides
control, an address or an asynchronous operation, or is stored, is *used*, and so is all that it was
made from. A load that is not used may read anything. So it is with loads that give a number, where
a launch says what memory holds (`known_sources.py`).

Nothing is shown (values get new numbers, loads count as used) of: atomics, accesses that are not
weak, asynchronous operations but wgmma and bulk stores, and what a branch on opaque data writes,
unless its arms only compute, load, or store in memory of the thread. The trace is refused where the
address of a store is unknown or the events differ from those of the run that it explains.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable

from titan.isa.simt import events as ev
from titan.isa.simt.accesses import place
from titan.isa.simt.execution import SimtExecution
from titan.isa.simt.footprints import Footprint, MemorySpace
from titan.isa.simt.memory import Bytes
from titan.isa.simt.operations import ATOMICS, COLLECTIVE, PURE, Op
from titan.isa.simt.outcome import (
    INSTRUCTIONS_MAX,
    Alike,
    Ending,
    PreparedLaunch,
    Run,
    TracedAccesses,
)
from titan.isa.simt.state import Fragment, Warp
from titan.isa.simt.tracing.alike_lanes import AlikeLanes, apart, keys_of, parts_of, row_keys
from titan.isa.simt.tracing.executed_step import (
    ExecutedStep,
    alike,
    doubtful,
    is_untraced,
    moves,
)
from titan.isa.simt.tracing.fragments import MatrixForm, matrix_form, warp_product
from titan.isa.simt.tracing.instruction_forms import instruction_form
from titan.isa.simt.tracing.known_sources import KnownSources
from titan.isa.simt.tracing.loads_anywhere import LoadsAnywhere
from titan.isa.simt.tracing.own_memory import OWN_MAX, ArmsInMemory, OwnBytes
from titan.isa.simt.tracing.perhaps_stored import perhaps_stored
from titan.isa.simt.tracing.pure_regions import PureRegions
from titan.isa.simt.tracing.traced_memory import (
    Traced,
    TracedBytes,
    TracedSparse,
    ValueNumbers,
    nodes_of,
)
from titan.isa.simt.values import LANES, Opaque, Scalar, Value, lane, lanes_of, uniform

ADDRESS_MASK = (1 << 64) - 1
WARPGROUP_WARPS = 4
SWIZZLE_BYTES = 1024  # patterns of swizzles repeat
_WARP = (1 << LANES) - 1

_ALL_LANES, _MATRICES = -1, -2  # keys of `ExecutedStep.content`, beside the lanes

# Every lane's result is made of the operands of all lanes.
_PLAIN = PURE - {Op.SELP, Op.MOV, Op.SHUFFLE}  # that hand no value on as it is
_ACROSS = frozenset({Op.VOTE, Op.MATCH, Op.REDUX, Op.COLLECTIVE})
# The first two operands may change places, bit for bit, in all types, packed ones too.
_COMMUTING = frozenset(
    {"add", "addc", "mul", "mul24", "mad", "mad24", "madc", "fma", "min", "max", "and", "or", "xor"}
)
_IDEMPOTENT = frozenset({"min", "max", "and", "or"})  # reductions of redux, not of sums
# Operations whose operands go into registers and nowhere else.
_BRANCHES = (Op.BRANCH, Op.BRANCH_INDEXED)
_FLOW = PURE | _ACROSS | {Op.SHUFFLE, Op.LOAD, Op.LOAD_MATRIX, Op.WGMMA}
_COPIES = (ev.RecordedOperation.BULK_COPY, ev.RecordedOperation.TENSOR_COPY)
_OWN = (MemorySpace.LOCAL, MemorySpace.GENERIC)
_LOADS = frozenset({Op.LOAD, Op.LOAD_MATRIX})
_STORES = frozenset({Op.STORE, Op.STORE_MATRIX})


def traced(run: Run) -> TracedAccesses | None:
    """What is shown of the accesses of a finished run; None if nothing is."""
    made = run.prepared
    if made is None or run.outcome.ending is not Ending.FINISHED:
        return None
    if run.instructions > INSTRUCTIONS_MAX:
        return None
    if any(is_untraced(event, made.code.steps) for event in run.events):
        return None
    machine = TracingExecution(made)
    again = machine.run()
    if machine.unsure or list(again.events) != list(run.events) or again.outcome != run.outcome:
        return None
    return TracedAccesses(
        machine.written, frozenset(machine.unused()), tuple(machine.same_lane), machine.alike,
        tuple(machine.chosen_own),
    )  # fmt: skip


class TracingExecution(SimtExecution):
    """A run with numbered values. `written`: by event, the number of what a weak store wrote;
    `same_lane`: those of which lanes write common bytes, and that count as equal to one before."""

    def __init__(self, made: PreparedLaunch) -> None:
        self.numbers = ValueNumbers()
        self.current: ExecutedStep | None = None
        super().__init__(made.code, made.layout, made.launch, made.options)
        of = self.numbers.of
        self.forms = [of(("form", instruction_form(item))) for item in made.instructions]
        self.commuting = frozenset(
            number for number, item in enumerate(made.instructions) if item.opcode in _COMMUTING
        )
        self.matrices = [matrix_form(item) for item in made.instructions]
        self.products = [warp_product(item) for item in made.instructions]
        self.computing = PureRegions(made.code, memory=True)
        self.parameters = TracedBytes(self.parameters.size, self.numbers)
        self.memory = self.global_memory = TracedSparse(self.numbers)
        self._fill_memory()
        self.load_parameters(list(made.parameters))
        self.written: dict[int, int] = {}
        self.same_lane: list[int] = []
        self.alike: dict[int, Alike] = {}
        self.lanes = AlikeLanes(self.numbers)
        self._choices: set[object] = set()
        self.unsure = False
        self._nodes = 0
        self._anywhere = LoadsAnywhere(self.events)
        self._made_of: dict[int, set[int]] = {}
        self._used: set[int] = set()
        self._reads: dict[int, list[int]] = {}
        self._known = KnownSources(self._joined)
        self._arms: ArmsInMemory | None = None  # that are being executed
        self._left_own: dict[Warp, set[int]] = {}  # branches that leave something in own memory
        self.chosen_own: list[int] = []

    def start_cluster(self, numbers: tuple[int, ...]) -> None:
        """As any cluster, with traced shared memory."""
        super().start_cluster(numbers)
        for cta in self.clusters[-1].ctas:
            cta.shared = TracedBytes(cta.shared.size, self.numbers)

    def own_memory(self, size_bytes: int) -> Bytes:
        """New memory of one thread."""
        follow = size_bytes <= OWN_MAX
        return OwnBytes(size_bytes, self.numbers) if follow else super().own_memory(size_bytes)

    # -------------------------------------------------------------------------- execution

    def step(self, fragment: Fragment) -> bool:
        """Execute one instruction, and note what it uses and makes."""
        pc, warp = fragment.pc, fragment.warp
        step = self.steps[pc]
        if self._arms is not None:
            self._arms.note(step, fragment.mask)
            return super().step(fragment)
        self._nodes += 1
        guard = warp.registers[step.guard] if step.guard >= 0 else 1
        # In what lanes execute together others than those of the fragment take part, too.
        there = warp.live if step.op in COLLECTIVE else fragment.mask
        holds, maybe = self.guarded(warp, step, there) if step.guard >= 0 else (there, 0)
        now = ExecutedStep(
            warp,
            step,
            pc,
            self._nodes,
            [warp.registers[register] for register in step.args if register >= 0],
            [warp.registers[register] for register in step.out if register >= 0],
            not maybe,
            [],
        )
        if step.op in _BRANCHES and doubtful(now):
            now.inputs = [warp.registers[register] for register in self.computing.inputs(pc)]
            if now.inputs and self.computing.touches(pc):
                now.arms = ArmsInMemory(self, warp, len(self.events), self.content)
                now.arms.enter(fragment.mask, self.code.regions[pc].accesses)
        if step.guard >= 0 and not now.inputs:
            self._note_guard(now, any_lane=bool(holds or maybe))
        if holds or maybe:
            self._note_operands(now, guard)
        outer, self.current, self.numbers.node = self.current, now, now.node
        first, lanes = len(self.events), fragment.mask
        self._arms = now.arms
        try:
            return super().step(fragment)
        finally:
            self._arms = None
            if now.arms is not None:
                self._note_arms(now, now.arms, lanes)
            self._note_accesses(now, self.events[first:])
            self.current = outer
            self.numbers.node = outer.node if outer is not None else 0

    def _note_arms(self, now: ExecutedStep, arms: ArmsInMemory, lanes: int) -> None:
        """What the arms of a branch have loaded is used where its results are."""
        if arms.made(lanes_of(lanes)[0]) is None:
            self._used |= self._made_of[now.node]
        elif arms.chosen:
            self.chosen_own.append(len(self.events) - 1)
        loads = [event.sequence for event in arms.loads()]
        self._reads.setdefault(now.node, []).extend(loads)
        arms.leave({index: self._branch_key(now, index) for index in lanes_of(lanes)})
        self._left_own.setdefault(now.warp, set()).add(now.node)

    def _branch_key(self, now: ExecutedStep, index: int) -> object | None:
        """What the results of a branch on data are made of; None if that is not followed."""
        made = keys_of([lane(value, index) for value in now.inputs])
        memory = () if now.arms is None else now.arms.made(index)
        return None if made is None or memory is None else ("branch", now.pc, made, memory)

    def _note_guard(self, now: ExecutedStep, *, any_lane: bool) -> None:
        """Which lanes take part is a use; which registers keep their value is part of it."""
        known = self._known.of(now.warp, (now.step.guard,))
        if now.step.op not in PURE:
            self._used |= known
        elif not any_lane:
            for source in known:
                for register in now.step.out:
                    self._known.add(now.warp, register, source)

    def _note_operands(self, now: ExecutedStep, guard: Value) -> None:
        sources = nodes_of([*now.operands, guard])
        known = self._known.of(now.warp, (*now.step.args, now.step.guard))
        if now.step.op is Op.WGMMA or not now.certain:
            sources |= nodes_of(now.before)
            known |= self._known.of(now.warp, now.step.out)
        if now.inputs:
            known |= self._known.of(now.warp, self.computing.inputs(now.pc))
            now.known = bool(known)
            own = self._left_own.get(now.warp, set()) if now.arms is not None else set()
            self._made_of[now.node] = nodes_of(now.inputs) | known | own
            return
        if now.step.op in _BRANCHES and doubtful(now):
            left = self.computing.concerned(now.pc)
            self._used |= nodes_of(now.warp.registers[register] for register in left)
            self._used |= self._known.of(now.warp, left)
        now.known = bool(known) and now.step.op not in _LOADS  # of these the address is used
        sources |= known
        if now.step.op in _FLOW:
            if sources:
                self._made_of[now.node] = sources
        else:
            self._used |= sources
        if now.step.op in _LOADS:
            self._used |= nodes_of(now.operands) | known
            if now.step.flags[0] in _OWN and now.warp in self._left_own:
                self._made_of[now.node] = sources | self._left_own[now.warp]

    def _note_accesses(self, now: ExecutedStep, events: list[ev.Event]) -> None:
        elsewhere = now.step.op is Op.STORE_MATRIX and now.step.flags[0] != MemorySpace.SHARED
        if now.step.op is Op.ATOMIC or elsewhere:
            for event in events:
                if isinstance(event, ev.AccessEvent):
                    self.forget(event.footprint)
        if now.step.op in (Op.BULK_COPY, Op.TENSOR_COPY):
            for event in events:
                if isinstance(event, ev.AsynchronousEvent):
                    self._note_bulk_store(event)
        if elsewhere or now.step.op not in _LOADS | _STORES:
            return
        accesses = [event for event in events if isinstance(event, ev.AccessEvent)]
        if now.step.op is Op.STORE_MATRIX and accesses:
            rows = self._store_rows(now, now.warp.live)
            self.alike |= {event.sequence: rows for event in accesses}
        elif any(event.collides for event in accesses):
            lanes = functools.reduce(operator.or_, (event.lanes for event in accesses))
            found = self.lanes.stored(self, now.warp, now.step, now.operands, lanes)
            self.alike |= {event.sequence: found for event in accesses}
        for event in accesses:
            if event.semantics is not ev.AccessSemantics.WEAK:
                self._used.add(now.node)
                if now.step.op in _STORES:
                    self.forget(event.footprint)
            elif now.step.op in _STORES:
                if not self.maybe and now.certain:
                    self.written[event.sequence] = self.content(event.footprint)
                elif stored := perhaps_stored(self, now.warp, now.step, event):
                    self.written[event.sequence] = self.numbers.of(("content", stored))
            else:
                self._reads.setdefault(now.node, []).append(event.sequence)
                if self.maybe:
                    self._used.add(now.node)

    def _note_bulk_store(self, event: ev.AsynchronousEvent) -> None:
        """A copy of shared to global memory: what it writes is what its source holds."""
        if event.kind not in _COPIES or event.completes or len(event.effects) != 2:
            return
        source, target = sorted(event.effects, key=lambda effect: effect.mode)
        spaces = source.footprint.space, target.footprint.space
        if source.mode is not ev.Mode.READ or spaces != (MemorySpace.SHARED, MemorySpace.GLOBAL):
            return
        if event.clipped and not self.launch.boxes_fit():
            return
        ranges = source.footprint.ranges()
        first = ranges[0][0]
        layout = first % SWIZZLE_BYTES, tuple((low - first, high - first) for low, high in ranges)
        key = "copied", event.tensor_map, layout, self.content(source.footprint)
        self.written[event.sequence] = self.numbers.of(key)

    def _store_rows(self, now: ExecutedStep, mask: int) -> Alike:
        """stmatrix: four lanes hold a row of b16; other rows are made of the sources of all lanes.

        `mask`: the lanes of the warp. It takes all of them, whichever give the addresses. Returns
        how far rows at one place are the same.
        """
        space, offset, size, rows, *_ = now.step.flags
        keys = keys_of(lane(value, at) for value in now.operands[1:] for at in lanes_of(mask))
        sources = None if keys is None else self.numbers.of(("sources", mask, keys))
        form = self.matrices[now.pc]
        plain = form is MatrixForm.ROWS and mask == _WARP and keys is not None
        places: dict[tuple[int, int], list[int]] = {}
        for index in range(rows):
            address = lane(now.operands[0], index)
            if isinstance(address, Opaque):
                return Alike.NOT_SHOWN
            where = place(self, now.warp, space, (address + offset) & ADDRESS_MASK)
            cta = where[1]
            if cta is not None and 0 <= where[2] <= cta.shared.size - size:
                places.setdefault((cta.number, where[2]), []).append(index)
        alike = Alike.EXACTLY
        for (number_of_cta, at), indices in places.items():
            made: set[tuple[int | None, ...] | None]
            if plain:
                made = {row_keys(now.operands[1:], index) for index in indices}
            else:
                made = {(self.forms[now.pc], index, sources) for index in indices}
            known = len(made) == 1 and sources is not None
            number = self.numbers.of(("row", made.pop())) if known else self.numbers.fresh()
            shared = self.shared_of(number_of_cta)
            shared.write_unknown(at, size, Traced(now.pc, number, now.node))
            kept = [row_keys(now.operands[1:], index) if plain else None for index in indices]
            for other in kept[1:]:
                alike = min(alike, self.lanes.compared(kept[0], other))
        return alike if apart(places, size) else Alike.NOT_SHOWN

    def one_of(self, value: Value, lanes: int, site: int) -> Scalar:
        """As the machine; the same lane's value stays where the lanes hold the same values."""
        keys = keys_of(lane(value, index) for index in lanes_of(lanes))
        if keys is None or self.current is None or self.maybe:
            return super().one_of(value, lanes, site)
        key = "one of", self.forms[self.current.pc], lanes, keys
        if key in self._choices:
            self.same_lane.append(len(self.events) - 1)
        self._choices.add(key)
        return Traced(site, self.numbers.of(key), self.current.node)

    # -------------------------------------------------------------------------- registers

    def write(self, warp: Warp, register: int, value: Value, mask: int, marks: int = 0) -> None:
        """Write a register; what is opaque gets its number."""
        if register >= 0 and mask:
            value = self._numbered(register, value, mask)
            self._note_known(warp, register, value, mask)
        super().write(warp, register, value, mask, marks)

    def _note_known(self, warp: Warp, register: int, value: Value, mask: int) -> None:
        now = self.current
        if now is None:
            return
        behind = now.known or (
            now.step.op in _LOADS
            and now.step.flags[0] != MemorySpace.PARAMETER
            and any(isinstance(lane(value, index), int) for index in lanes_of(mask))
        )
        source = now.node if behind else None
        whole = warp is now.warp and register in now.step.out and not warp.live & ~mask
        (self._known.replace if whole else self._known.add)(warp, register, source)

    def _joined(self, one: int, other: int) -> int:
        """An execution that represents two."""
        self._nodes += 1
        self._made_of[self._nodes] = {one, other}
        return self._nodes

    def _numbered(self, register: int, value: Value, mask: int) -> Value:
        now = self.current
        if isinstance(value, int):
            return value
        items: list[Scalar] = list(value) if isinstance(value, list) else [value] * LANES
        if now is not None and now.step.op is Op.WGMMA and self._is_followed(now, register):
            return self._sums(now, register, items, mask)
        if now is not None and isinstance(value, Opaque) and alike(now):
            index = lanes_of(mask)[0]
            moved = isinstance(value, Traced) and moves(now, index)
            if moved or self._key(now, register, items[index], index, mask) is not None:
                return self._number_of(now, register, items[index], index, mask)
        if now is not None and now.step.op in _PLAIN and self._is_followed(now, register):
            self._computed(now, register, items, mask)
        else:
            for index in lanes_of(mask):
                items[index] = self._number_of(now, register, items[index], index, mask)
        found = uniform(items, mask)
        return items if found is None else found

    def _computed(self, now: ExecutedStep, register: int, items: list[Scalar], mask: int) -> None:
        """As `_number_of` for all lanes, of an instruction that computes from registers alone."""
        result = self.forms[now.pc], now.step.out.index(register)
        commuting, of, fresh = now.pc in self.commuting, self.numbers.of, self.numbers.fresh
        node = now.node
        columns = [v if isinstance(v, list) else [v] * LANES for v in now.operands]
        for index in lanes_of(mask):
            item = items[index]
            if isinstance(item, int):
                continue
            lanes = parts_of(self.numbers, [column[index] for column in columns])
            if lanes is not None and commuting and lanes[0] > lanes[1]:
                lanes = (lanes[1], lanes[0], *lanes[2:])
            items[index] = Traced(item.site, of((result, lanes)) if lanes else fresh(), node)

    def _number_of(
        self, now: ExecutedStep | None, register: int, value: Scalar, index: int, mask: int
    ) -> Scalar:
        """The value of one lane."""
        if isinstance(value, int):
            return value
        if now is None:
            return Traced(value.site, self.numbers.fresh(), 0)
        if isinstance(value, Traced) and now.certain and moves(now, index):
            return value
        key = self._key(now, register, value, index, mask)
        number = self.numbers.fresh() if key is None else self.numbers.of(key)
        return Traced(value.site, number, now.node)

    def _key(
        self, now: ExecutedStep, register: int, value: Scalar, index: int, mask: int
    ) -> object | None:
        """What the value of a lane is made of; None if that is not followed."""
        step = now.step
        if now.inputs and not self.maybe:
            made_by = self._branch_key(now, index)
            return None if made_by is None else (made_by, register)
        if not self._is_followed(now, register):
            return None
        result = self.forms[now.pc], step.out.index(register)
        if step.op in PURE:
            lanes = parts_of(
                self.numbers, [v[index] if isinstance(v, list) else v for v in now.operands]
            )
            if lanes is not None and now.pc in self.commuting and lanes[0] > lanes[1]:
                lanes = (lanes[1], lanes[0], *lanes[2:])
            return (result, lanes) if lanes else None
        if step.op is Op.LOAD:
            weak = step.flags[2] == int(ev.AccessSemantics.WEAK)
            if weak and isinstance(value, Traced):
                return "ld", step.flags[4:], value.number
            return self._anywhere.key(now, register, index) if weak else None
        if step.op is Op.REDUX:
            reduced = self._reduced(now, mask)
            return None if reduced is None else (result, (reduced,))
        product = self.products[now.pc] if step.op is Op.COLLECTIVE else None
        if product is not None:
            made = keys_of(product.parts(now.operands, index, step.out.index(register)))
            return None if made is None else ("product", self.forms[now.pc], made)
        if step.op in _ACROSS:
            sources = self._of_all(now, mask)
            at = 0 if step.op is Op.VOTE else index  # a vote gives all lanes the same
            return None if sources is None else (result, at, sources)
        if step.op is Op.LOAD_MATRIX:
            rows, form = self._rows_read(now, mask), self.matrices[now.pc]
            if rows is None or form is None or mask != _WARP:
                return None if rows is None else (result, index, mask, rows)
            cells = form.bytes_of(index, step.out.index(register))
            return "bytes", tuple(rows[row][byte] for row, byte in cells)
        return None

    def _is_followed(self, now: ExecutedStep, register: int) -> bool:
        """Whether anything may be known of what the instruction writes to a register."""
        if not now.certain or self.maybe:
            return False
        return register in now.step.out

    def _of_all(self, now: ExecutedStep, mask: int) -> int | None:
        """One number for the operands of all lanes."""
        if _ALL_LANES not in now.content:
            keys = keys_of(
                lane(operand, index) for operand in now.operands for index in lanes_of(mask)
            )
            now.content[_ALL_LANES] = 0 if keys is None else self.numbers.of(("all", mask, keys))
        return now.content[_ALL_LANES] or None

    def _reduced(self, now: ExecutedStep, mask: int) -> int | None:
        """One number for what redux reduces, in whatever order the lanes have it."""
        if _ALL_LANES not in now.content:
            members = lane(now.operands[1], lanes_of(mask)[0])
            whole = isinstance(members, int) and members & _WARP == mask
            keys = keys_of(lane(now.operands[0], index) for index in lanes_of(mask))
            number = 0
            if whole and keys is not None:
                once = ATOMICS[now.step.flags[0]] in _IDEMPOTENT
                number = self.numbers.of(("reduced", tuple(sorted(set(keys) if once else keys))))
            now.content[_ALL_LANES] = number
        return now.content[_ALL_LANES] or None

    def _rows_read(self, now: ExecutedStep, mask: int) -> tuple[tuple[int, ...], ...] | None:
        """What the rows hold that ldmatrix reads, in the order of lanes with their addresses."""
        if now.rows is None:
            space, offset, size, rows, *_ = now.step.flags
            found: list[tuple[int, ...]] = []
            for index in lanes_of(mask & ((1 << rows) - 1)):
                address = lane(now.operands[0], index)
                if isinstance(address, Opaque):
                    return None
                where = place(self, now.warp, space, (address + offset) & ADDRESS_MASK)
                if where[1] is None:
                    return None
                found.append(self.shared_of(where[1].number).content(where[2], size))
            now.rows = tuple(found)
        return now.rows

    def _sums(
        self, now: ExecutedStep, register: int, items: list[Scalar], mask: int
    ) -> list[Scalar]:
        """A register of wgmma's sums: numbers of one lane's registers follow each other."""
        position = now.step.out.index(register)
        for index in lanes_of(mask):
            item = items[index]
            if isinstance(item, int):
                continue
            first = self._product(now, index, mask)
            number = first + position if first else self.numbers.fresh()
            items[index] = Traced(item.site, number, now.node)
        return items

    def _product(self, now: ExecutedStep, index: int, mask: int) -> int:
        """The number of a lane's first sum: of the operands in memory, the registers of all lanes,
        and the accumulator; 0 if that is not followed."""
        if _MATRICES not in now.content:
            last = self.events[-1]
            if not isinstance(last, ev.AsynchronousEvent):
                return 0
            if not last.accumulates:
                now.before = []
            reads = tuple(self.content(effect.footprint) for effect in last.effects)
            now.content[_MATRICES] = self.numbers.of(("operands", reads))
        if index not in now.content:
            sums = keys_of(lane(value, index) for value in now.before)
            sources = self._of_all(now, mask)
            warp = now.warp.index % WARPGROUP_WARPS
            form = self.forms[now.pc]
            key = "sums", form, index, warp, now.content[_MATRICES], sources, sums
            known = sums is not None and sources is not None
            now.content[index] = self.numbers.of(key, len(now.step.out)) if known else 0
        return now.content[index]

    # ----------------------------------------------------------------------------- memory

    def content(self, footprint: Footprint) -> int:
        """One number for what a footprint holds now."""
        found: list[int] = []
        for low, high in footprint.ranges():
            if footprint.space is MemorySpace.GLOBAL:
                found += self.global_memory.content(low, high - low)
            else:
                found += self.shared_of(footprint.cta).content(low, high - low)
        return self.numbers.of(("content", tuple(found)))

    def forget(self, footprint: Footprint) -> None:
        """Another interleaving may leave other values here; if they are known, nothing is shown,
        but for words whose numbers are all tried (`Launch.answers`)."""
        for low, high in footprint.ranges():
            if footprint.space is MemorySpace.GLOBAL:
                tried = self.launch.answers is not None and low in self.launch.tickets
                known = self.global_memory.renew(low, high - low) and not tried
            else:
                known = self.shared_of(footprint.cta).renew(low, high - low)
            self.unsure = self.unsure or known

    def shared_of(self, cta: int) -> TracedBytes:
        """The shared memory of a CTA."""
        shared = self.ctas[cta].shared
        assert isinstance(shared, TracedBytes)
        return shared

    # ------------------------------------------------------------------------------- uses

    def unused(self) -> Iterable[int]:
        """The weak loads, by their events, of which nothing is used."""
        used = self._all_used()
        for node, events in self._reads.items():
            if node not in used:
                yield from events

    def _all_used(self) -> set[int]:
        """The executions whose results are used, directly or by way of others."""
        waiting, used = list(self._used), set(self._used)
        while waiting:
            for source in self._made_of.get(waiting.pop(), ()):
                if source not in used:
                    used.add(source)
                    waiting.append(source)
        return used
