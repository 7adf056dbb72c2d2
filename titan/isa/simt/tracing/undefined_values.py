"""Which reads of what nothing has written decide something, or are left in global memory.

The run is made once more, on the Python machine, with *undefined* values beside the opaque ones:
what a read finds in shared or tensor memory, in the memory of a thread or in a register before
anything has written it, what an instruction leaves undefined (a division by zero), and all that is
made of these, lane by lane and bit by bit, through
arithmetic, products and memory. It is *used* where it decides control, an address or an
asynchronous operation, or is stored to global memory. What `shfl.sync` gives of a lane that does
not execute it is undefined, too. Rows of a tile that are left out, and columns
that a selection masks, are not used. What a branch on data leaves in registers is undefined where
something is that its arms read or write. A register that an instruction with a guard by data writes
is defined where the same guard holds again.

Not followed, and so taken as used: copies from the shared memory of one CTA to another's,
asynchronous stores, stores in the arms of a branch on data. Taken as defined: what a loop on data
loads and stores, and what stands in memory only if data so decide, where data decide to read it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from titan.isa.simt import events as ev
from titan.isa.simt.collectives import shuffled_from
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.operations import MEMBERS, PURE, DecodedCode, Kind, Op
from titan.isa.simt.outcome import INSTRUCTIONS_MAX, Ending, RegisterUse, Run
from titan.isa.simt.state import Fragment, Warp
from titan.isa.simt.tracing.fragments import left_row, sums_at, warp_product
from titan.isa.simt.tracing.undefined_bits import stretched, surely_changes, undefined_bits
from titan.isa.simt.tracing.undefined_memory import (
    UndefinedValue,
    of_register,
    of_result,
    origin_of,
)
from titan.isa.simt.tracing.undefined_state import BRANCHES, Executed, UndefinedState
from titan.isa.simt.tracing.undefined_tensors import wgmma_operands
from titan.isa.simt.values import (
    LANES,
    Opaque,
    Scalar,
    Value,
    lane,
    lanes_of,
    opaque_at,
    uniform,
)

ROW_BYTES = 16

# Whose results are values as they were, or come with their origin from memory.
_MOVED = frozenset({Op.MOV, Op.LOAD, Op.ATOMIC})
# Whose results rest on the operands of all lanes.
_ACROSS = frozenset({Op.VOTE, Op.MATCH, Op.REDUX})
_READERS = frozenset({Op.LOAD, Op.ATOMIC, Op.LOAD_MATRIX, Op.WGMMA, Op.TENSOR_LOAD, Op.SHUFFLE})
# Operations of which the operands from this one on go into registers or memory, and nowhere else.
_VALUES: dict[Op, int] = {
    **dict.fromkeys((*PURE, *_ACROSS, Op.SHUFFLE, Op.COLLECTIVE), 0),
    **dict.fromkeys((Op.STORE, Op.STORE_MATRIX, Op.ATOMIC, Op.TENSOR_STORE), 1),
    Op.WGMMA: 2,
}
Found: TypeAlias = UndefinedValue | None


class UndefinedUses(NamedTuple):
    """What is used: reads of memory, by their instructions, and registers."""

    reads: frozenset[int]
    registers: tuple[RegisterUse, ...] = ()


def undefined_uses(run: Run) -> UndefinedUses | None:
    """What a run reads that nothing has written, and that is used.

    None if the run cannot be made again.
    """
    made = run.prepared
    if made is None or run.outcome.ending is not Ending.FINISHED:
        return None
    if run.instructions > INSTRUCTIONS_MAX:
        return None
    machine = UndefinedExecution(made)
    again = machine.run()
    if again.outcome != run.outcome:
        return None
    uses = [_use_of(made.code, found, *use) for found, use in machine.registers.items()]
    return UndefinedUses(frozenset(machine.used), tuple(uses))


def _use_of(code: DecodedCode, found: int, instruction: int, certain: bool) -> RegisterUse:
    """A use of a register, or of what an instruction left undefined (numbered behind them)."""
    if found < code.registers:
        return RegisterUse(code.names[found], instruction, certain)
    made_at = found - code.registers
    return RegisterUse(code.names[code.steps[made_at].out[0]], instruction, certain, made_at)


Rule: TypeAlias = Callable[[Executed, int, int, Scalar], Found]


class UndefinedExecution(UndefinedState):
    """A run with undefined values."""

    # -------------------------------------------------------------------------- execution

    def step(self, fragment: Fragment) -> bool:
        """Execute one instruction, and note what it uses and leaves undefined."""
        warp, step = fragment.warp, self.steps[fragment.pc]
        registers = warp.registers
        holds, maybe = fragment.mask, 0
        guard: Value = 1
        if step.guard >= 0:
            guard = registers[step.guard]
            holds, maybe = self.guarded(warp, step, holds)
        operands = [registers[register] if register >= 0 else 0 for register in step.args]
        before = [registers[register] if register >= 0 else 0 for register in step.out]
        undefined = any(map(_has_undefined, (*operands, guard)))
        now = Executed(
            warp, step, fragment.pc, operands, before, guard, holds | maybe, maybe, undefined
        )
        now.sure = fragment.mask & ~(holds | maybe), holds
        now.holding = self.holding(now)
        outer, self.now = self.now, now
        first = len(self.events)
        skips = step.op in BRANCHES and _is_open(now)
        if skips:
            inputs = self.computing.inputs(fragment.pc)
            now.inputs = {register: registers[register] for register in inputs}
            if step.guard >= 0:
                now.ways = self.held(warp, step.guard, False), self.held(warp, step.guard, True)
            self.skipped.append(now)
        if undefined and now.lanes and not now.inputs:
            self._note_uses(now)
        if step.op is Op.CALL:
            self.begin(warp, step.flags[0], holds)
            self.forget_results(warp, step, holds)
        try:
            return super().step(fragment)
        finally:
            if skips:
                self.skipped.pop()
            if not self.maybe:
                for event in self.events[first:]:
                    self._note_event(now, event)
            self.now = outer

    def _note_uses(self, now: Executed) -> None:
        """What decides control, an address, or anything but a value."""
        op, operands = now.step.op, now.operands
        first = _VALUES.get(op, len(operands))  # addresses come first
        if op is Op.WGMMA and not now.step.flags[4]:
            first += 1  # the descriptor of A
        self._use(operands[:first], now.lanes)
        if op in MEMBERS:
            self._use(operands[-1:], now.lanes)
        if op not in PURE:
            self._use([now.guard], now.lanes, 1)
        if op is Op.STORE and self.maybe:
            self._use(operands[1:], now.lanes)

    def _use(
        self, values: Sequence[Value], lanes: int, bits: int = 128, *, vector: bool = False
    ) -> None:
        """Values are used, their lowest bits. Some of a vector may fill it up alone, so that nobody
        uses them later."""
        mask = (1 << bits) - 1
        for index in lanes_of(lanes):
            found = [self.still(lane(value, index), mask) for value in values]
            for undefined in found:
                if undefined is not None:
                    self._note(undefined, index, not vector or all(found))

    def _note(self, undefined: UndefinedValue, index: int, whole: bool) -> None:
        now, origin = self.now, undefined.origin
        if origin >= -1 or now is None:
            self.used.add(origin)
            return
        register = of_register(origin)
        perhaps = self.maybe or (now.maybe >> index & 1 and undefined != lane(now.guard, index))
        certain = undefined.certain and whole and not perhaps
        if register not in self.registers or (certain and not self.registers[register][1]):
            self.registers[register] = now.pc, certain

    def _note_event(self, now: Executed, event: ev.Event) -> None:
        """What an access leaves in memory, or takes out of it."""
        op = now.step.op
        if isinstance(event, ev.AccessEvent):
            in_global = event.footprint.space is MemorySpace.GLOBAL
            if op is Op.ATOMIC or (op is Op.STORE and in_global):
                self._use(now.operands[1:], event.lanes, now.step.flags[4], vector=True)
            elif op is Op.STORE_MATRIX and in_global:
                self._use(now.operands[1:], now.warp.live)
            elif op is Op.STORE_MATRIX:
                self._store_rows(now)
        elif isinstance(event, ev.AsynchronousEvent):
            if op in (Op.TENSOR_MULTIPLY, Op.TENSOR_MEMORY_COPY, Op.TENSOR_STORE):
                modifiers = self.instructions[now.pc].modifiers
                self.tensors.note(event, now.step, now.operands, modifiers)
            elif op not in (Op.WGMMA, Op.TENSOR_LOAD):
                self._note_copy(event)

    def _note_copy(self, event: ev.AsynchronousEvent) -> None:
        """Engines read shared memory for global memory, or for another CTA: both are uses."""
        for effect in event.effects:
            footprint = effect.footprint
            if footprint.space is MemorySpace.SHARED and effect.mode is not ev.Mode.WRITE:
                origin = self.shared_of(footprint.cta).origin_in(footprint)
                if origin is not None:
                    self.used.add(origin)

    def _store_rows(self, now: Executed) -> None:
        """stmatrix: without `.trans` four lanes hold a row, otherwise (and of wmma) any may."""
        modifiers = self.instructions[now.pc].modifiers
        plain = "m8n8" in modifiers and "trans" not in modifiers
        space, offset, size, rows, *_ = now.step.flags
        for index in range(rows):
            register, row = divmod(index, 8)
            value = now.operands[1:][register] if register + 1 < len(now.operands) else 0
            holders = range(4 * row, 4 * row + 4) if plain and size == ROW_BYTES else range(LANES)
            origins = [origin_of(lane(value, holder)) for holder in holders]
            where = self.row_at(now, index, space, offset)
            if where is not None:
                cta, at = where
                cta.mark(at, size, next((one for one in origins if one is not None), None))

    def one_of(self, value: Value, lanes: int, site: int) -> Scalar:
        """As the machine; undefined if one of the values is."""
        found = super().one_of(value, lanes, site)
        for index in lanes_of(lanes):
            item = self.still(lane(value, index))
            if item is not None and isinstance(found, Opaque):
                return UndefinedValue(found.site, item.origin)
        return found

    # -------------------------------------------------------------------------- registers

    def write(self, warp: Warp, register: int, value: Value, mask: int, marks: int = 0) -> None:
        """Write a register; what is opaque is undefined where it rests on what is."""
        if register >= 0 and mask:
            if not isinstance(value, int):
                value = self._judged(register, value, mask)
            implied = None if self.now is None else self.implications(self.now)
            self.writes[warp, register] += 1
            self.note_predicate(register, mask, implied)
        super().write(warp, register, value, mask, marks)

    def _judged(self, register: int, value: Value, mask: int) -> Value:
        now = self.now
        if now is not None and now.step.op in BRANCHES:
            return self._left_by_branch(now, register, value, mask)
        if now is None or register not in now.step.out:
            return _defined(value)
        leaves = self.tests[now.pc] is not None or now.step.op in _READERS
        if not (now.undefined or now.maybe & mask or leaves):
            return value
        at = now.step.out.index(register)
        rule = self._rule(now)
        items: list[Scalar] = list(value) if isinstance(value, list) else [value] * LANES
        for index in lanes_of(mask):
            item = items[index]
            if isinstance(item, int):
                continue
            found = rule(now, at, index, item)
            if now.maybe >> index & 1:
                held = lane(now.before[at], index), lane(now.warp.registers[register], index)
                found = self._perhaps(now, index, found, held)
            if found is None:
                items[index] = opaque_at(item.site)
                continue
            items[index] = replace(found, site=item.site)
            if self.skipped:
                self.skipped[-1].arms[index] = found
        single = uniform(items, mask)
        return items if single is None else single

    def _perhaps(
        self, now: Executed, index: int, new: UndefinedValue | None, held: tuple[Scalar, Scalar]
    ) -> UndefinedValue | None:
        """What a register holds that was written or not. The machine writes it twice: what it holds
        by then (the second of `held`) is what this has found before."""
        guard = lane(now.guard, index)
        if new is not None or isinstance(guard, UndefinedValue):
            found = new if new is not None else guard
            assert isinstance(found, UndefinedValue)
            return _unsure(found)
        now_held = held[1]
        if isinstance(now_held, UndefinedValue) and now_held is not held[0]:
            return now_held  # the second time
        guard_held = self.held_guard(now.warp, now.step.guard, not now.step.negated)
        if isinstance(now_held, UndefinedValue) and now_held.unless == guard_held:
            return now_held
        before = held[0] if isinstance(held[0], UndefinedValue) else now_held
        if not isinstance(before, UndefinedValue):
            return None
        if before.unless == guard_held._replace(wanted=not guard_held.wanted):
            return None  # written where the guard holds, and before where it does not
        return replace(_unsure(before), unless=guard_held if before is held[0] else None)

    def _left_by_branch(self, now: Executed, register: int, value: Value, mask: int) -> Value:
        """What a branch on data leaves in a register that held something; an arm may keep it."""
        held = now.warp.registers[register]
        site = value.site if isinstance(value, Opaque) else -1  # of a branch within an arm, too
        arms = self.arms.of(site if site >= 0 and self.steps[site].op in BRANCHES else now.pc)
        keeps = [register not in written for written in arms.written]
        unless = None
        if site == now.pc and keeps[0] is not keeps[1]:  # the arm that writes, or the other one
            unless = now.ways[keeps[0] is not now.step.negated][0]
        read = [
            value
            for source, value in now.inputs.items()
            if source != register or source in arms.read or not arms.read
        ]
        found: dict[int, UndefinedValue] = {}
        for index in lanes_of(mask):
            made = _first(*(lane(value, index) for value in read)) or now.arms.get(index)
            kept = lane(held, index)
            if made is not None:
                found[index] = _unsure(made)
            elif isinstance(kept, UndefinedValue) and any(keeps):
                found[index] = replace(_unsure(kept), unless=unless)
        if not found:
            return _defined(value)
        items: list[Scalar] = list(value) if isinstance(value, list) else [value] * LANES
        for index, undefined in found.items():
            item = items[index]
            if isinstance(item, Opaque):
                items[index] = replace(undefined, site=item.site)
        return items

    def _rule(self, now: Executed) -> Rule:
        """How the results of an instruction rest on its operands."""
        op = now.step.op
        if op in _MOVED:
            return self._moved
        if op is Op.SELP:
            return self._selected
        if op is Op.SHUFFLE:
            return self._shuffled
        if op in _ACROSS:
            return _across
        if op is Op.COLLECTIVE:
            return self._product
        if op is Op.LOAD_MATRIX:
            return _of_origin(self._row)
        if op is Op.WGMMA:
            return _of_origin(self._sum)
        if op is Op.TENSOR_LOAD:
            return _of_origin(self._cell)
        return self._computed

    def _moved(self, now: Executed, at: int, index: int, item: Scalar) -> Found:
        """A value as it is, or from memory, extended to the register."""
        found = self.still(item)
        if found is None or now.step.op is not Op.LOAD:
            return found
        _, _, _, _, bits, kind, width = now.step.flags
        wide = stretched(found.bits, bits, width) if kind == Kind.SIGNED else found.bits
        return replace(found, bits=wide)

    def _computed(self, now: Executed, at: int, index: int, item: Scalar) -> Found:
        """Arithmetic, bit by bit."""
        values = [lane(value, index) for value in now.operands]
        test = self.tests[now.pc]
        if test is not None and test(values):
            return self._left_open(now)
        return self._made_of(now, at, [self.still(value) for value in values], values)

    def _left_open(self, now: Executed) -> UndefinedValue:
        """What an instruction leaves undefined."""
        origin = of_result(now.pc, self.code.registers)
        return UndefinedValue(-1, origin, certain=not now.maybe)

    def _made_of(
        self, now: Executed, at: int, open_: Sequence[UndefinedValue | None],
        values: Sequence[Scalar],
    ) -> Found:  # fmt: skip
        masks = [0 if one is None else one.bits for one in open_]
        instruction = self.instructions[now.pc]
        bits = undefined_bits(now.step, instruction.modifiers, masks, values, at)
        some = [one for one in open_ if one is not None]
        if not bits or not some:
            return None
        changes = instruction.opcode == "cvt" or surely_changes(now.step, masks, values)
        certain = changes and len(some) == 1 and some[0].certain
        unless = some[0].unless if len({one.unless for one in some}) == 1 else None
        return UndefinedValue(some[0].site, some[0].origin, bits, certain, unless)

    def _shuffled(self, now: Executed, at: int, index: int, item: Scalar) -> Found:
        """shfl.sync: what another lane has, or nothing where that lane does not execute it."""
        came = shuffled_from(now.step, now.operands[1], now.operands[2], index)
        if at == 0 and came is not None and not now.lanes >> came[0] & 1:
            return self._left_open(now)
        return _first(item, *(lane(value, index) for value in now.operands[1:]))

    def _selected(self, now: Executed, at: int, index: int, item: Scalar) -> Found:
        """selp: of a known predicate the value that it takes, else either, as it says itself."""
        values = [lane(value, index) for value in now.operands]
        if isinstance(values[2], int):
            return self.still(item)
        open_ = [self.still(value) for value in values]
        for number, wanted in ((0, True), (1, False)):
            one = open_[number]
            if one is not None and one.unless in self.held(now.warp, now.step.args[2], wanted):
                open_[number] = None
        return self._made_of(now, at, open_, values)

    def _row(self, now: Executed, at: int, index: int, item: Scalar) -> int | None:
        """A register of ldmatrix."""
        modifiers = self.instructions[now.pc].modifiers
        space, offset, size, rows, *_ = now.step.flags
        if size != ROW_BYTES or "m8n8" not in modifiers or "b16" not in modifiers:
            parts = [(row, 0, size) for row in range(rows)]
        elif "trans" in modifiers:
            first = 8 * at + 2 * (index % 4)
            parts = [(row, 2 * (index // 4), 2) for row in (first, first + 1)]
        else:
            parts = [(8 * at + index // 4, 4 * (index % 4), 4)]
        for row, byte, count in parts:
            where = self.row_at(now, row, space, offset)
            origin = None if where is None else where[0].origin(where[1] + byte, count)
            if origin is not None:
                return origin
        return None

    def _product(self, now: Executed, at: int, index: int, item: Scalar) -> Found:
        """A register of mma.sync: a row of A, columns of B, and the sum before."""
        product = warp_product(self.instructions[now.pc])
        if product is None:
            return _across(now, at, index, item)
        return _whole(_first(*product.parts(now.operands, index, at)))

    def _sum(self, now: Executed, at: int, index: int, item: Scalar) -> int | None:
        """A register of wgmma."""
        columns, *_, registers, _, _ = now.step.flags
        if now.columns is None:
            now.rows, now.columns = wgmma_operands(self, now.warp, now.step, now.operands)
            for number, value in enumerate(now.operands[2:] if registers else ()):
                for holder in range(LANES):
                    origin = origin_of(lane(value, holder))
                    if origin is not None:
                        now.rows[left_row(holder, number)] = origin
        found: int | None = None
        if now.rows or now.columns:
            row, places = sums_at(index, at, len(now.step.out), columns)
            found = _first_origin(now.rows.get(row), *(now.columns.get(place) for place in places))
        adds = lane(now.operands[0], index) != 0
        return found if found is not None or not adds else origin_of(lane(now.before[at], index))

    def _cell(self, now: Executed, at: int, index: int, item: Scalar) -> int | None:
        """A register of tcgen05.ld."""
        event = self.events[-1]
        if not isinstance(event, ev.AsynchronousEvent):
            return None
        return self.tensors.loaded(event, self.instructions[now.pc].modifiers, at, index)


def _of_origin(rule: Callable[[Executed, int, int, Scalar], int | None]) -> Rule:
    """The rule, of one that knows where something undefined comes from and no more."""

    def found(now: Executed, at: int, index: int, item: Scalar) -> Found:
        origin = rule(now, at, index, item)
        return None if origin is None else UndefinedValue(-1, origin)

    return found


def _across(now: Executed, at: int, index: int, item: Scalar) -> Found:
    values = (lane(value, other) for value in now.operands for other in range(LANES))
    return _whole(_first(*values))


def _first(*values: Scalar) -> Found:
    """The undefined one among some values."""
    return next((value for value in values if isinstance(value, UndefinedValue)), None)


def _whole(found: Found) -> Found:
    """Something is made of it, in all its bits."""
    return None if found is None else UndefinedValue(found.site, found.origin)


def _unsure(found: UndefinedValue) -> UndefinedValue:
    """It is undefined or not, as data decide."""
    return replace(found, certain=False)


def _first_origin(*origins: int | None) -> int | None:
    return next((origin for origin in origins if origin is not None), None)


def _is_open(now: Executed) -> bool:
    """Whether data decide a branch, in some lane."""
    values = [now.guard, *now.operands]
    return any(isinstance(lane(value, i), Opaque) for value in values for i in lanes_of(now.lanes))


def _has_undefined(value: Value) -> bool:
    if isinstance(value, list):
        return any(isinstance(item, UndefinedValue) for item in value)
    return isinstance(value, UndefinedValue)


def _defined(value: Value) -> Value:
    if isinstance(value, list):
        return [opaque_at(v.site) if isinstance(v, UndefinedValue) else v for v in value]
    return opaque_at(value.site) if isinstance(value, UndefinedValue) else value
