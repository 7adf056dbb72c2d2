"""Which reads of memory that nothing has written decide something, or are left in global memory.

The run is made once more, on the Python machine, with *undefined* values beside the opaque ones:
what a read finds in shared or tensor memory before anything has written it, and all that is made of
it, lane by lane, through arithmetic, products and memory. It is *used* where it decides control, an
address or an asynchronous operation, or is stored to global memory. Rows of a tile that are left
out, and columns that a selection masks, are not used. What a branch on data leaves in registers is
undefined where something is that its arms read or write.

Not followed, and so taken as used: memory of one thread, copies from the shared memory of one CTA
to another's, asynchronous stores, stores in the arms of a branch on data. Taken as defined: the
bytes that such an arm stores, and what a loop on data loads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from titan.isa.simt import events as ev
from titan.isa.simt.accesses import place
from titan.isa.simt.execution import SimtExecution
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.operations import ATOMICS, PURE, DecodedStep, Op
from titan.isa.simt.outcome import INSTRUCTIONS_MAX, Ending, PreparedLaunch, Run
from titan.isa.simt.state import Fragment, Warp
from titan.isa.simt.tracing.fragments import left_row, sums_at, warp_product
from titan.isa.simt.tracing.pure_regions import PureRegions
from titan.isa.simt.tracing.traced import ADDRESS_MASK
from titan.isa.simt.tracing.undefined_memory import UndefinedBytes, UndefinedValue, origin_of
from titan.isa.simt.tracing.undefined_tensors import UndefinedTensors, wgmma_operands
from titan.isa.simt.values import LANES, Opaque, Scalar, Value, lane, lanes_of, opaque_at, uniform

ROW_BYTES = 16

# Whose results are values as they were, or come with their origin from memory.
_MOVED = frozenset({Op.MOV, Op.LOAD, Op.ATOMIC})
# Whose results rest on the operands of all lanes.
_ACROSS = frozenset({Op.VOTE, Op.MATCH, Op.REDUX})
_READERS = frozenset({Op.LOAD, Op.ATOMIC, Op.LOAD_MATRIX, Op.WGMMA, Op.TENSOR_LOAD})
# Operations of which the operands from this one on go into registers or memory, and nowhere else.
_VALUES: dict[Op, int] = {
    **dict.fromkeys((*PURE, *_ACROSS, Op.SHUFFLE, Op.COLLECTIVE), 0),
    **dict.fromkeys((Op.STORE, Op.STORE_MATRIX, Op.ATOMIC, Op.TENSOR_STORE), 1),
    Op.WGMMA: 2,
}
_BRANCHES = (Op.BRANCH, Op.BRANCH_INDEXED)
_REPLACING = ("exch", "store")


def undefined_uses(run: Run) -> frozenset[int] | None:
    """The instructions that read something which nothing has written, and which is used.

    None if the run cannot be made again.
    """
    made = run.prepared
    if made is None or run.outcome.ending is not Ending.FINISHED:
        return None
    if run.instructions > INSTRUCTIONS_MAX:
        return None
    machine = UndefinedExecution(made)
    again = machine.run()
    return frozenset(machine.used) if again.outcome == run.outcome else None


@dataclass(slots=True)
class _Executed:
    """The instruction being executed. `operands`, `before`: what its sources and destinations held;
    `lanes`: of the warp; `maybe`: those whose guard is opaque. `undefined`: whether some source is.
    `inputs`: all that a branch on data can make its results of, if its arms only compute; `arms`:
    of others, the lanes in which an arm has made something undefined.
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
    columns: dict[int, int | None] = field(default_factory=dict)
    inputs: list[Value] = field(default_factory=list)
    arms: dict[int, int] = field(default_factory=dict)


class UndefinedExecution(SimtExecution):
    """A run with undefined values. `used`: the reads whose values are used."""

    def __init__(self, made: PreparedLaunch) -> None:
        self.now: _Executed | None = None
        self.instructions = made.instructions
        super().__init__(made.code, made.layout, made.launch, made.options)
        self.load_parameters(list(made.parameters))
        self.tensors = UndefinedTensors(self)
        self.computing = PureRegions(made.code, memory=False)
        self.used: set[int] = set()
        self._skipped: list[_Executed] = []  # branches on data whose arms are being executed

    def start_cluster(self, numbers: tuple[int, ...]) -> None:
        """As any cluster, with shared memory that knows what is undefined."""
        super().start_cluster(numbers)
        for cta in self.clusters[-1].ctas:
            cta.shared = UndefinedBytes(cta.shared.size, self.reader, self._adds)

    def shared_of(self, cta: int) -> UndefinedBytes:
        """The shared memory of a CTA."""
        shared = self.ctas[cta].shared
        assert isinstance(shared, UndefinedBytes)
        return shared

    def reader(self) -> int:
        """The instruction being executed, -1 for none."""
        return -1 if self.now is None else self.now.pc

    def _adds(self) -> bool:
        """Whether an atomic operation is being executed that leaves something of what was there."""
        step = None if self.now is None else self.now.step
        return (
            step is not None and step.op is Op.ATOMIC and ATOMICS[step.flags[6]] not in _REPLACING
        )

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
        now = _Executed(
            warp, step, fragment.pc, operands, before, guard, holds | maybe, maybe, undefined
        )
        outer, self.now = self.now, now
        first = len(self.events)
        skips = step.op in _BRANCHES and _is_open(now)
        if skips:
            now.inputs = [registers[register] for register in self.computing.inputs(fragment.pc)]
            self._skipped.append(now)
        if undefined and now.lanes and not now.inputs:
            self._note_uses(now)
        try:
            return super().step(fragment)
        finally:
            if skips:
                self._skipped.pop()
            if not self.maybe:
                for event in self.events[first:]:
                    self._note_event(now, event)
            self.now = outer

    def _note_uses(self, now: _Executed) -> None:
        """What decides control, an address, or anything but a value."""
        op = now.step.op
        first = _VALUES.get(op, len(now.operands))  # addresses come first
        self._use(now.operands[:first], now.lanes)
        if op not in PURE:
            self._use([now.guard], now.lanes)
        spaces = (MemorySpace.SHARED, MemorySpace.GENERIC, MemorySpace.GLOBAL)
        if op is Op.STORE and (self.maybe or now.step.flags[0] not in spaces):
            self._use(now.operands[1:], now.lanes)

    def _use(self, values: Iterable[Value], lanes: int) -> None:
        for value in values:
            for index in lanes_of(lanes) if isinstance(value, list) else (0,):
                origin = origin_of(lane(value, index))
                if origin is not None:
                    self.used.add(origin)

    def _note_event(self, now: _Executed, event: ev.Event) -> None:
        """What an access leaves in memory, or takes out of it."""
        op = now.step.op
        if isinstance(event, ev.AccessEvent):
            in_global = event.footprint.space is MemorySpace.GLOBAL
            if op is Op.ATOMIC or (op is Op.STORE and in_global):
                self._use(now.operands[1:], event.lanes)
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

    def _store_rows(self, now: _Executed) -> None:
        """stmatrix: without `.trans` four lanes hold a row, otherwise (and of wmma) any may."""
        modifiers = self.instructions[now.pc].modifiers
        plain = "m8n8" in modifiers and "trans" not in modifiers
        space, offset, size, rows, *_ = now.step.flags
        for index in range(rows):
            register, row = divmod(index, 8)
            value = now.operands[1:][register] if register + 1 < len(now.operands) else 0
            holders = range(4 * row, 4 * row + 4) if plain and size == ROW_BYTES else range(LANES)
            origins = [origin_of(lane(value, holder)) for holder in holders]
            where = self._row_at(now, index, space, offset)
            if where is not None:
                cta, at = where
                cta.mark(at, size, next((one for one in origins if one is not None), None))

    def _row_at(
        self, now: _Executed, index: int, space: int, offset: int
    ) -> tuple[UndefinedBytes, int] | None:
        """Where the row is whose address a lane gives to ldmatrix or stmatrix."""
        address = lane(now.operands[0], index)
        if isinstance(address, Opaque):
            return None
        _, cta, at = place(self, now.warp, space, (address + offset) & ADDRESS_MASK)
        return None if cta is None else (self.shared_of(cta.number), at)

    def one_of(self, value: Value, lanes: int, site: int) -> Scalar:
        """As the machine; undefined if one of the values is."""
        found = super().one_of(value, lanes, site)
        for index in lanes_of(lanes):
            origin = origin_of(lane(value, index))
            if origin is not None and isinstance(found, Opaque):
                return UndefinedValue(found.site, origin)
        return found

    # -------------------------------------------------------------------------- registers

    def write(self, warp: Warp, register: int, value: Value, mask: int, marks: int = 0) -> None:
        """Write a register; what is opaque is undefined where it rests on what is."""
        if register >= 0 and mask and not isinstance(value, int):
            value = self._judged(register, value, mask)
        super().write(warp, register, value, mask, marks)

    def _judged(self, register: int, value: Value, mask: int) -> Value:
        now = self.now
        if now is not None and now.step.op in _BRANCHES:
            return self._left_by_branch(now, now.warp.registers[register], value, mask)
        if now is None or register not in now.step.out:
            return _defined(value)
        if not now.undefined and not now.maybe & mask and now.step.op not in _READERS:
            return value
        at = now.step.out.index(register)
        rule = self._rule(now)
        items: list[Scalar] = list(value) if isinstance(value, list) else [value] * LANES
        for index in lanes_of(mask):
            item = items[index]
            if isinstance(item, int):
                continue
            origin = rule(now, at, index, item)
            if now.maybe >> index & 1 and origin is None:
                held = now.guard, now.before[at], now.warp.registers[register]
                origin = _first(*(lane(value, index) for value in held))
            if origin is None:
                items[index] = opaque_at(item.site)
                continue
            items[index] = UndefinedValue(item.site, origin, _parts(now, index))
            if self._skipped:
                self._skipped[-1].arms[index] = origin
        found = uniform(items, mask)
        return items if found is None else found

    def _left_by_branch(self, now: _Executed, held: Value, value: Value, mask: int) -> Value:
        """What a branch on data leaves in a register that held something; an arm may keep it."""
        if now.inputs:
            found = {
                index: _first(*(lane(value, index) for value in now.inputs))
                for index in lanes_of(mask)
            }
        else:
            found = {
                index: now.arms.get(index, origin_of(lane(held, index))) for index in lanes_of(mask)
            }
        if not any(origin is not None for origin in found.values()):
            return _defined(value)
        items: list[Scalar] = list(value) if isinstance(value, list) else [value] * LANES
        for index, origin in found.items():
            item = items[index]
            if isinstance(item, Opaque) and origin is not None:
                items[index] = UndefinedValue(item.site, origin)
        return items

    def _rule(self, now: _Executed) -> Callable[[_Executed, int, int, Scalar], int | None]:
        """How the results of an instruction rest on its operands."""
        op = now.step.op
        if op in _MOVED:
            return _moved
        if op is Op.SELP:
            return _selected
        if op is Op.UNPACK:
            return _unpacked
        if op is Op.SHUFFLE:
            return _shuffled
        if op in _ACROSS:
            return _across
        if op is Op.COLLECTIVE:
            return self._product
        if op is Op.LOAD_MATRIX:
            return self._row
        if op is Op.WGMMA:
            return self._sum
        if op is Op.TENSOR_LOAD:
            return self._cell
        return _computed

    def _row(self, now: _Executed, at: int, index: int, item: Scalar) -> int | None:
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
            where = self._row_at(now, row, space, offset)
            origin = None if where is None else where[0].origin(where[1] + byte, count)
            if origin is not None:
                return origin
        return None

    def _product(self, now: _Executed, at: int, index: int, item: Scalar) -> int | None:
        """A register of mma.sync: a row of A, columns of B, and the sum before."""
        product = warp_product(self.instructions[now.pc])
        if product is None:
            return _across(now, at, index, item)
        return _first(*product.parts(now.operands, index, at))

    def _sum(self, now: _Executed, at: int, index: int, item: Scalar) -> int | None:
        """A register of wgmma."""
        columns, *_, registers, _, _ = now.step.flags
        if not now.columns:
            now.rows, now.columns = wgmma_operands(self, now.warp, now.step, now.operands)
            for number, value in enumerate(now.operands[2:] if registers else ()):
                for holder in range(LANES):
                    origin = origin_of(lane(value, holder))
                    if origin is not None:
                        now.rows[left_row(holder, number)] = origin
        row, places = sums_at(index, at, len(now.step.out), columns)
        found = _first_origin(now.rows.get(row), *(now.columns.get(place) for place in places))
        adds = lane(now.operands[0], index) != 0
        return found if found is not None or not adds else origin_of(lane(now.before[at], index))

    def _cell(self, now: _Executed, at: int, index: int, item: Scalar) -> int | None:
        """A register of tcgen05.ld."""
        event = self.events[-1]
        if not isinstance(event, ev.AsynchronousEvent):
            return None
        return self.tensors.loaded(event, self.instructions[now.pc].modifiers, at, index)


def _moved(now: _Executed, at: int, index: int, item: Scalar) -> int | None:
    return origin_of(item)


def _parts(now: _Executed, index: int) -> tuple[int | None, ...]:
    """The origins of what is packed into one register, or of what a move finds there."""
    if now.maybe >> index & 1:
        return ()
    if now.step.op is Op.PACK:
        return tuple(origin_of(lane(value, index)) for value in now.operands)
    held = lane(now.operands[0], index) if now.step.op is Op.MOV else None
    return held.parts if isinstance(held, UndefinedValue) else ()


def _unpacked(now: _Executed, at: int, index: int, item: Scalar) -> int | None:
    """A part of a register: what was packed there, where the parts are the same."""
    held = lane(now.operands[0], index)
    if isinstance(held, UndefinedValue) and len(held.parts) == len(now.step.out):
        return held.parts[at]
    return _computed(now, at, index, item)


def _computed(now: _Executed, at: int, index: int, item: Scalar) -> int | None:
    return _first(*(lane(value, index) for value in now.operands))


def _selected(now: _Executed, at: int, index: int, item: Scalar) -> int | None:
    if isinstance(lane(now.operands[2], index), int):
        return origin_of(item)
    return _computed(now, at, index, item)


def _shuffled(now: _Executed, at: int, index: int, item: Scalar) -> int | None:
    return _first(item, *(lane(value, index) for value in now.operands[1:]))


def _across(now: _Executed, at: int, index: int, item: Scalar) -> int | None:
    return _first(*(lane(value, other) for value in now.operands for other in range(LANES)))


def _first(*values: Scalar) -> int | None:
    """The origin of an undefined one among some values."""
    return next((value.origin for value in values if isinstance(value, UndefinedValue)), None)


def _first_origin(*origins: int | None) -> int | None:
    return next((origin for origin in origins if origin is not None), None)


def _is_open(now: _Executed) -> bool:
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
