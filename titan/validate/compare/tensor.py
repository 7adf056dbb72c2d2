"""Tensor memory in a comparison: its allocation, fences, multiplications, commits and accesses.

`unframed` and `fenced` remove from a thread's events what the sync program does not contain, and
judge it: the allocation by one warp before the first barrier of all threads and its release after
their last one, a fence after every wait before tensor memory is accessed, and after loads the wait
for them and a fence before the thread synchronises; what is in an arm that a run may leave out
counts within it alone. `TensorSide` knows the columns of the accumulators and what an instruction
must say of them. Source: PTX ISA, tcgen05: memory consistency model, instruction and matrix
descriptors, data movement shapes. Assumes 128 rows for each CTA; in a cluster all instructions work
in pairs of CTAs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations

from titan.codegen.tile.manifest import Manifest
from titan.sync import program as ir
from titan.sync.parts import effects_of, queue_of
from titan.validate.compare import scales as of_scales
from titan.validate.compare.expected import BufferRegion
from titan.validate.compare.thread_events import PAIR, TENSOR_BASE, ThreadEvent

ROWS = 128
LANES_OF_WARP = 32
STEP_BYTES = 32  # of K in one multiplication
_SYNCHRONISING = ("arrive", "arrive_expect", "sync", "sync_arrive", "tensor_commit")
_MODES = {32: 6, 64: 4, 128: 2}  # of the swizzle in a descriptor
_KINDS = {"f16": ("kind::f16", 0), "bf16": ("kind::f16", 1),
          "e4m3": ("kind::f8f6f4", 0), "e5m2": ("kind::f8f6f4", 1)}  # fmt: skip
_TRANSPOSE_B = 1 << 16


def unframed(
    prologue: list[ThreadEvent],
    events: list[ThreadEvent],
    threads: int,
    columns: int,
    pair: bool = False,
) -> tuple[list[ThreadEvent], list[ThreadEvent], list[str]]:
    """Both without allocation, return and the fences around them; and what is wrong with these.

    Of a `pair` both CTAs meet before the release, at the end of their roles.
    """
    faults = []
    meeting = ["cluster_arrive", "cluster_wait"] if pair else ["sync"]
    taken = [event for event in prologue if event.kind in ("tensor_alloc", "tensor_relinquish")]
    kinds = [event.kind for event in taken]
    if kinds not in ([], ["tensor_alloc", "tensor_relinquish"]):
        faults.append("tensor memory is not allocated once, with the permit relinquished")
    if taken and not taken[0].warp_met:
        faults.append("tensor memory is allocated before the warp has synchronised")
    if any(event.values[1:] not in ((), (columns,)) for event in taken):
        faults.append(f"not {columns} columns of tensor memory are allocated")
    if not prologue or prologue[-1].kind != "tensor_before":
        faults.append("no fence precedes the barrier after the allocation")
    if not events or events[0].kind != "tensor_after":
        faults.append("no fence follows the barrier after the allocation")
    freed = bool(events) and events[-1].kind == "tensor_free"
    body, free = (events[:-1], events[-1:]) if freed else (events, [])
    if any(event.values != (TENSOR_BASE, columns) for event in free):
        faults.append("the tensor memory that is freed is not what was allocated")
    tail = body[-2 - len(meeting) :]
    meets = [event.kind for event in tail] == ["tensor_before", *meeting, "tensor_after"]
    if meets and (pair or tail[1].values == (0, threads)):
        body = [*body[: -len(tail)], *(tail[1:-1] if pair else ())]
    else:
        faults.append("no barrier with fences around it precedes the release of tensor memory")
    if any((PAIR in event.modifiers) is not pair for event in (*taken, *free)):
        faults.append("tensor memory is allocated or freed for another number of CTAs")
    if bool(taken) != freed:
        faults.append("tensor memory is freed by another thread than allocated it")
    kept = [e for e in prologue if e.kind not in (*kinds, "tensor_before")]
    return kept, body[1:] if body and body[0].kind == "tensor_after" else body, faults


@dataclass(frozen=True, slots=True)
class _Unordered:
    """What a thread has not ordered, as lines (0: nothing): `waited`, the last wait, behind which
    no fence stands; the last load and store that are not waited for, or behind which no fence
    stands."""

    waited: int = 0
    loading: int = 0
    storing: int = 0
    loaded: int = 0
    stored: int = 0

    def after(self, event: ThreadEvent) -> _Unordered:
        """The same behind an event, whose faults are reported."""
        match event.kind:
            case "tensor_after":
                return replace(self, waited=0)
            case "tensor_before":
                return replace(
                    self,
                    loaded=self.loaded if self.loading else 0,
                    stored=self.stored if self.storing else 0,
                )
            case "tensor_wait":
                return replace(self, loading=0)
            case "tensor_put_wait":
                return replace(self, storing=0)
            case "wait":
                return replace(self, waited=event.line)
            case "tensor_load":
                return replace(self, loading=event.line, loaded=event.line)
            case "tensor_put":
                return replace(self, loading=0, storing=event.line, stored=event.line)
            case kind if kind in _SYNCHRONISING:
                return _Unordered(event.line if kind == "sync" else self.waited)
        return self

    def faults(self, event: ThreadEvent) -> Iterator[str]:
        """What an event may not follow, or publishes too early."""
        line = event.line
        if self.waited and event.kind in (*_MOVES, "tensor_mma", "scale_copy"):
            yield f"line {line}: no fence after the wait in line {self.waited}"
        if event.kind == "tensor_put" and self.loading:
            yield f"line {line}: a store before a load is waited for"
        if event.kind in _SYNCHRONISING:
            for what, running, unfenced in self.moves():
                if unfenced:
                    missing = "no wait" if running else "no fence"
                    yield f"line {line}: {missing} after the {what} in line {unfenced}"

    def moves(self) -> tuple[tuple[str, int, int], tuple[str, int, int]]:
        """Loads and stores: their name, what is not waited for, what is not fenced."""
        return ("fetch", self.loading, self.loaded), ("put", self.storing, self.stored)

    def joined(self, other: _Unordered) -> _Unordered:
        """Behind an arm, where a run has gone one way or the other."""
        return _Unordered(
            self.waited or other.waited,
            self.loading or other.loading,
            self.storing or other.storing,
            self.loaded or other.loaded,
            self.stored or other.stored,
        )


_MOVES = ("tensor_load", "tensor_put")
_ORDERING = ("tensor_after", "tensor_before", "tensor_wait", "tensor_put_wait")


def fenced(events: list[ThreadEvent]) -> tuple[list[ThreadEvent], list[str]]:
    """The events without the fences of tensor memory and the waits for fetches and puts; what is
    wrong there, whichever arms of branches on data a run leaves out."""
    faults: list[str] = []
    state = before = _Unordered()  # now; where the arm begins
    arm = 0
    for event in events:
        if event.arm != arm:
            state = state.joined(before) if arm else state
            before, arm = state, event.arm
        faults += state.faults(event)
        state = state.after(event)
    state = state.joined(before) if arm else state
    for name, _, unfenced in state.moves():
        if unfenced:
            text = f"nothing waits for this {name}, or no fence follows"
            faults.append(f"line {unfenced}: {text}")
    return [event for event in events if event.kind not in _ORDERING], faults


@dataclass(slots=True)
class TensorSide:
    """What a program has in tensor memory. `places`: first column of each stage, found while
    comparing; `rows`: first row of the left operand of each accumulator, as an address.

    `publishing`: by barrier the accumulators that its commit hands on, so that the next
    multiplication on them overwrites: what is read behind a wait for it, before any other such
    wait, unless threads put it back there to be added to; of each whether only the stage with the
    number of the barrier's. `formats`: swizzle
    in bytes and element type of each buffer that is copied. `handed`: shared buffers that only
    threads touch, one number for each row. `scales`: by buffer in tensor memory the one in shared
    memory from which an engine fills it; `beside`: by one of the right operand how many tiles of
    them lie side by side, atom by atom.
    """

    queues: frozenset[str] = frozenset()
    buffers: dict[str, ir.Buffer] = field(default_factory=dict)
    publishing: dict[str, dict[str, bool]] = field(default_factory=dict)
    handed: frozenset[str] = frozenset()
    scales: dict[str, str] = field(default_factory=dict)
    beside: dict[str, int] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    formats: dict[str, tuple[int, str]] = field(default_factory=dict)
    places: dict[BufferRegion, int] = field(default_factory=dict)
    rows: dict[tuple[str, BufferRegion], int] = field(default_factory=dict)
    columns: int = 0

    def width(self, region: BufferRegion) -> int:
        """Columns of one stage."""
        return self.buffers[region[0]].bytes_per_stage // (4 * ROWS)

    def apart(self, buffer: str) -> int:
        """Columns from one atom of scales to the next."""
        return of_scales.ATOM_COLUMNS * self.beside.get(buffer, 1)

    def columns_of(self, region: BufferRegion, first: int) -> set[int]:
        """The columns of a stage that begins at that one."""
        width, apart = self.width(region), self.apart(region[0])
        if region[0] not in self.beside:
            return set(range(first, first + width))
        atoms = range(first, first + width // of_scales.ATOM_COLUMNS * apart, apart)
        return {at + n for at in atoms for n in range(of_scales.ATOM_COLUMNS)}

    def column(self, region: BufferRegion, address: int | None) -> bool:
        """Whether the accumulator begins there; the first time it says so."""
        if address is None:
            return False
        return self.places.setdefault(region, address - TENSOR_BASE) == address - TENSOR_BASE

    def rows_begin(self, left: str, into: BufferRegion, address: int) -> bool:
        """Whether a sub-tile begins at that address of an operand with the rows of several: each
        accumulator has its own rows, in the order of their stages."""
        if self.rows.setdefault((left, into), address) != address:
            return False
        others = [(region[1], at) for (name, region), at in self.rows.items()
                  if name == left and region[0] == into[0]]  # fmt: skip
        ordered = [at for _, at in sorted(others)]
        return ordered == sorted(set(ordered))

    def scaled(
        self,
        event: ThreadEvent,
        reads: list[BufferRegion],
        into: BufferRegion,
        step: int,
        ctas: int = 1,
    ) -> str:
        """What is wrong with step `step` of a product whose scales are the last of `reads`, those
        of each tile in all CTAs one after the other; empty where nothing is."""
        if (PAIR in event.modifiers) is not (ctas > 1):
            return "number of CTAs that multiply"
        left, right, *scales = reads
        elements = {self._type(left[0]), self._type(right[0])}
        types = {self._type(self.scales[name]) for name, *_ in scales}
        tiles, rest = divmod(len(scales), ctas)
        if len(elements) != 1 or len(types) != 1 or tiles < 2 or rest or len(event.values) != 8:
            return "operands of a multiplication with scales"
        (element,), (kind,) = elements, types
        if fault := of_scales.instruction(event, element, kind, self.width(into), step, ctas):
            return fault
        places = of_scales.first_columns(event, element, kind, step, tiles - 1)
        for cta in range(ctas):
            mine = scales[cta::ctas]
            if len({self.buffers[name].cta for name, *_ in mine}) != 1 or not all(
                self.column(one, at) for one, at in zip(mine, places, strict=True)
            ):
                return "columns of the scales"
        return self._descriptors({left[0]: event.values[1], right[0]: event.values[2]})

    def instruction(
        self,
        event: ThreadEvent,
        left: BufferRegion,
        right: BufferRegion,
        into: BufferRegion,
        ctas: int = 1,
    ) -> str:
        """What is wrong with kind and descriptors of a multiplication, by one CTA or a pair; empty
        where nothing is wrong.
        """
        if (PAIR in event.modifiers) is not (ctas > 1):
            return "number of CTAs that multiply"
        if len(event.values) != 6:
            return "scales of a multiplication without any"
        _, a, b, stated, _, in_tensor = event.values
        if bool(in_tensor) != (left[0] in self.buffers):
            return "where the left operand is"
        descriptors = {right[0]: b} if in_tensor else {left[0]: a, right[0]: b}
        types = {self._format(name)[1] for name in descriptors}
        kind, number = _KINDS.get(min(types), ("", 0))
        rows = ctas * ROWS
        wanted = 1 << 4 | number << 7 | number << 10 | self.width(into) >> 3 << 17 | rows >> 4 << 24
        if len(types) != 1 or kind not in event.modifiers:
            return "kind of a multiplication"
        if stated is None or stated & ~_TRANSPOSE_B != wanted:
            return "instruction descriptor"
        return self._descriptors(descriptors)

    def _descriptors(self, descriptors: dict[str, int | None]) -> str:
        """What is wrong with the descriptors of matrices in shared memory."""
        for name, value in descriptors.items():
            mode = _MODES.get(self._format(name)[0])
            if value is None or value >> 46 & 7 != 1 or value >> 61 != mode:
                return "version or swizzle of a matrix descriptor"
        return ""

    def _type(self, buffer: str) -> str:
        """Element type, the same in every CTA."""
        return self.types[buffer.partition("@")[0]]

    def _format(self, buffer: str) -> tuple[int, str]:
        """Swizzle and element type, the same in every CTA."""
        return self.formats[buffer.partition("@")[0]]

    def faults(self) -> list[str]:
        """Columns that overlap or reach beyond the allocation."""
        ordered = sorted((at, region) for region, at in self.places.items())
        spans = [(self.columns_of(region, at), region) for at, region in ordered]
        found = [
            f"{one[0]}[{one[1]}] and {other[0]}[{other[1]}] overlap in tensor memory"
            for (mine, one), (others, other) in combinations(spans, 2)
            if mine & others
            and self.buffers[one[0]].cta == self.buffers[other[0]].cta
            and not self._shared(one, other)
        ]
        used = set[int]().union(*(columns for columns, _ in spans))
        if used and (min(used) < 0 or max(used) >= self.columns):
            found.append(f"an accumulator is not within the {self.columns} allocated columns")
        return found

    def _shared(self, one: BufferRegion, other: BufferRegion) -> bool:
        """Whether the program says that the two lie in the same columns."""
        storages = [self.buffers[region[0]].storage or region[0] for region in (one, other)]
        return storages[0] == storages[1] and one[1] == other[1]


def tensor_side(program: ir.SyncProgram, manifest: Manifest) -> TensorSide:
    """What is known beforehand; without buffers where the program has none in tensor memory."""
    buffers = {b.name: b for b in program.buffers if b.space is ir.Space.TENSOR}
    if not buffers:
        return TensorSide()
    queues = set[str]()
    put, touched = set[str](), set[str]()
    filled: dict[str, str] = {}
    taken, products = set[str](), list[list[str]]()
    for role in program.roles:
        operations = list(ir.walk(role.body))
        for operation in operations:
            effects = effects_of(operation)
            queue = queue_of(operation)
            if queue and any(item.buffer in buffers and item.write for item in effects):
                queues.add(queue)
            written = {item.buffer for item in effects if item.write}
            if isinstance(operation, ir.Asynchronous):
                read = {item.buffer for item in effects if not item.write}
                taken |= read
                products.append([item.buffer for item in effects if not item.write])
                filled |= _moved(effects)
                touched |= {item.buffer for item in effects}
            elif isinstance(operation, ir.Access):
                put |= written
    mapped = [item for item in manifest["arguments"] if item["kind"] == "tensor_map"]
    formats = {
        item["operation"]: (int(str(item["swizzle"]).removesuffix("B")), item["dtype"])
        for item in (*mapped, *manifest.get("filled", ()))
        if str(item.get("swizzle", "none")).lower() != "none"
    }
    columns = int(manifest["resources"]["tensor_columns"])
    shared = {b.name for b in program.buffers if b.space is ir.Space.SHARED}
    scales = {name: of for name, of in filled.items() if name in taken & set(buffers)}
    of_right = [
        [name for name in read if name in scales and buffers[name].cta == cta][1:]
        for read in products
        for cta in {buffer.cta for buffer in buffers.values()}
    ]
    return TensorSide(
        frozenset(queues), buffers, _handed_on(program, set(buffers)),
        handed=frozenset(shared & put - touched), formats=formats, columns=columns,
        scales=scales, beside={name: len(names) for names in of_right for name in names},
        types={item["operation"]: item["dtype"] for item in mapped},
    )  # fmt: skip


def _moved(effects: tuple[ir.Effect, ...]) -> dict[str, str]:
    """By buffer that is written the one that is read, where one is copied to the other, in each CTA
    of a pair by itself."""
    read = [item.buffer for item in effects if not item.write]
    written = [item.buffer for item in effects if item.write]
    names = [{name.partition("@")[0] for name in found} for found in (read, written)]
    if len(read) != len(written) or any(len(found) != 1 for found in names):
        return {}
    return dict(zip(written, read, strict=True))


def _handed_on(program: ir.SyncProgram, buffers: set[str]) -> dict[str, dict[str, bool]]:
    """By barrier at which products arrive: accumulators that are read behind a wait for it, and not
    written there; of each whether always that of the stage that was waited for."""
    roles = [list(ir.walk(role.body)) for role in program.roles]
    arrivals = (item for operations in roles for item in operations)
    read: dict[str, dict[str, bool]] = {
        item.barrier.name: {} for item in arrivals if isinstance(item, ir.QueueArrive)
    }
    written: set[tuple[str, str]] = set()
    for operations in roles:
        waited = None
        for operation in operations:
            if isinstance(operation, ir.Wait) and operation.barrier.name in read:
                waited = operation.barrier
            elif isinstance(operation, ir.Access) and waited is not None:
                for item in (item for item in operation.effects if item.buffer in buffers):
                    if item.write:
                        written.add((waited.name, item.buffer))
                        continue
                    found = read[waited.name]
                    found[item.buffer] = found.get(item.buffer, True) and item.stage == waited.index
    return {
        name: {buffer: own for buffer, own in found.items() if (name, buffer) not in written}
        for name, found in read.items()
    }


def shape_of(event: ThreadEvent) -> tuple[int, int]:
    """Rows and columns of a fetch or put; no rows where the shape is not known here."""
    times = next((int(w[1:]) for w in event.modifiers if w[:1] == "x" and w[1:].isdigit()), 0)
    if "16x256b" in event.modifiers:
        return 16, 8 * times
    if "16x128b" in event.modifiers and event.kind == "tensor_put":
        return 16, 4 * times
    return (32, times) if "32x32b" in event.modifiers else (0, 0)
