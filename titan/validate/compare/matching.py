"""Which instructions spell which operation, and whether a thread's next ones do.

A table in code: `Wait` is one test of an mbarrier, an asynchronous multiplication is a fence and
wgmma instructions on its operands, a bulk copy is one copy for each box, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise

from titan.foundation.errors import TitanError
from titan.isa.simt.footprints import merged
from titan.sync import program as ir
from titan.sync.expression import ZERO
from titan.sync.parts import scope_of
from titan.validate.compare.bindings import Bindings
from titan.validate.compare.expected import BufferRegion, Occurrence
from titan.validate.compare.scales import ATOM_BYTES, copied
from titan.validate.compare.tensor import LANES_OF_WARP, ROWS, STEP_BYTES, TensorSide, shape_of
from titan.validate.compare.thread_events import CTA_SHIFT, PAIR, TENSOR_BASE, Range, ThreadEvent

EVERY = "every thread"
WARP = "one thread of each warp"
ONE = "one thread"
NAMED_BARRIERS = 16
ANSWER_BYTES = 16  # of clusterlaunchcontrol.try_cancel
_ROW_BYTES = 4
_COLUMNS_OF_STEP = STEP_BYTES // 4  # of a left operand in tensor memory
_DESCRIPTOR_MASK = 0x3FFF  # matrix descriptors hold bits 4 to 17 of an address
Boxes = Mapping[int, tuple[str, int, bool]]  # by the number of the parameter


class CutShort(TitanError):
    """The events of the thread end where the run did."""


class OperationMismatch(TitanError):
    """The next instructions are not those of the operation; says what they are."""


def multiplications(program: ir.SyncProgram) -> frozenset[str]:
    """The queues of a warpgroup's multiplications: the data path itself keeps their order.

    Those without groups are of one thread, which multiplies into tensor memory.
    """
    return frozenset(queue.name for queue in program.queues if queue.pipelined and queue.grouped)


def kind_of(operation: ir.Operation, matrix: frozenset[str]) -> str:
    """Which threads of an agent execute an operation; `matrix`: queues of multiplications."""
    match operation:
        case ir.Arrive():
            return ONE if _expects(operation) else WARP
        case ir.ExpectTransaction() | ir.QueueArrive():
            return ONE
        case ir.Asynchronous() | ir.Commit() | ir.QueueWait():
            return EVERY if operation.queue in matrix else ONE
    return EVERY


def in_cluster(address: int, rank: int) -> int:
    """An address of shared memory as one of the whole cluster; those of other CTAs already are."""
    return address if address >> CTA_SHIFT else address | (rank + 1) << CTA_SHIFT


def _strong(event: ThreadEvent, occurrence: Occurrence) -> bool:
    """Whether the order and scope of an instruction are at least those of the operation."""
    operation = occurrence.operation
    wide = scope_of(operation) is ir.Scope.CLUSTER
    weak = isinstance(operation, ir.Arrive | ir.Wait) and operation.order is ir.Order.RELAXED
    ordered = weak or "relaxed" not in event.modifiers
    return ordered and (not wide or "cluster" in event.modifiers)


def _expects(operation: ir.Arrive) -> bool:
    return operation.transaction != ZERO


class Matcher:
    """Follows the events of one thread of the CTA with this rank in its cluster.

    `cut`: the run ended before the thread did, so that what it would do next is not known.
    """

    def __init__(
        self,
        bindings: Bindings,
        boxes: Boxes,
        events: list[ThreadEvent],
        rank: int = 0,
        tensor: TensorSide | None = None,
        warp: int = 0,
        cut: bool = False,
    ) -> None:
        self.cut = cut
        self.bindings = bindings
        self.rank = rank
        program = bindings.program
        self.matrix = multiplications(program)
        self.ctas = {barrier.name: barrier.cta for barrier in program.barriers}
        self.ctas |= {buffer.name: buffer.cta for buffer in program.buffers}
        self.boxes = boxes
        self.events = events
        self.position = 0
        self.tensor = tensor if tensor is not None else TensorSide()
        self.warp = warp
        self.added: set[BufferRegion] = (
            set()
        )  # accumulators with a product that has not been published
        self.early: list[ThreadEvent] = []  # stores of what was loaded, before all was
        self.beside: list[ThreadEvent] = []  # reads and writes of shared memory, likewise

    def rest(self) -> ThreadEvent | None:
        """The first event that belongs to no operation, once all operations are matched."""
        if self.early or self.beside:
            return (self.early or self.beside)[0]
        return next((e for e in self.events[self.position :] if e.kind != "mma_wait"), None)

    def left(self) -> ThreadEvent | None:
        """The next event that no operation has matched; None at the end of the thread."""
        return self.events[self.position] if self.position < len(self.events) else None

    def take(self, occurrence: Occurrence) -> ThreadEvent | None:
        """The first event of the operation; None where this thread need not execute it.

        Raises OperationMismatch.
        """
        operation = occurrence.operation
        rule = self._rule(occurrence)
        first = self.position
        if self.early and not any(region[0] in self.tensor.buffers for region in occurrence.writes):
            raise OperationMismatch(
                f"line {self.early[0].line}: an unexpected store to tensor memory"
            )
        if self.beside and not self._takes_beside(occurrence):
            first_one = self.beside[0]
            raise OperationMismatch(f"line {first_one.line}: an unexpected {first_one.kind}")
        while True:
            start = self.position
            event = self.left()
            if event is not None and rule():
                return event
            self.position = start
            if event is None or event.kind != "mma_wait":
                break
            self.position += 1  # a drain more than the program has only waits longer
        if event is None and self.cut:
            raise CutShort
        if kind_of(operation, self.matrix) != EVERY or self._one_of_four(occurrence):
            self.position = first
            return None
        found = f"{event.kind} {event.values} in line {event.line}" if event else "nothing"
        raise OperationMismatch(f"{occurrence.text} is expected, {found} is there")

    def _takes_beside(self, occurrence: Occurrence) -> bool:
        """Whether threads read or write shared memory there, as they did amid the fetch."""
        kinds = {event.kind for event in self.beside}
        places = {region[0] for region in occurrence.reads if "read" in kinds}
        places |= {region[0] for region in occurrence.writes if "write" in kinds}
        others = places & (self.tensor.buffers.keys() | self.tensor.handed)
        return isinstance(occurrence.operation, ir.Access) and bool(places) and not others

    def _rule(self, occurrence: Occurrence) -> Callable[[], bool]:
        """What matches the operation with the next events. Raises OperationMismatch for no rule."""
        match occurrence.operation:
            case ir.Wait():
                return partial(self.wait, occurrence)
            case ir.Arrive() as operation:
                return partial(self.arrive, occurrence, operation)
            case ir.ExpectTransaction():
                return partial(self.expect, occurrence)
            case ir.BarrierSync() | ir.BarrierArrive():
                return partial(self.named, occurrence)
            case ir.Fence() as operation:
                return partial(self.fence, operation)
            case ir.Commit() as operation:
                return partial(self.commit, operation)
            case ir.QueueWait() as operation:
                return partial(self.queue_wait, occurrence, operation)
            case ir.Access():
                return partial(self.access, occurrence)
            case ir.Asynchronous() as operation:
                return partial(self.asynchronous, occurrence, operation)
            case ir.QueueArrive():
                return partial(self.queue_arrive, occurrence)
            case ir.PoolTake() | ir.PoolGive():
                return partial(self.registers, occurrence)
        raise OperationMismatch(f"{occurrence.text} has no known form here")

    def _next(self, *kinds: str) -> ThreadEvent | None:
        event = self.left()
        if event is None or event.kind not in kinds:
            return None
        self.position += 1
        return event

    def _barrier(self, event: ThreadEvent, occurrence: Occurrence) -> bool:
        address = event.values[0]
        if address is None:
            return False
        return self.bindings.barrier(in_cluster(address, self.rank), occurrence.place)

    def wait(self, occurrence: Occurrence) -> bool:
        """Whether the next event waits for the same parity of the same barrier, as strongly."""
        event = self._next("wait")
        if event is None or not _strong(event, occurrence) or event.values[1] is None:
            return False
        return event.values[1] % 2 == occurrence.number and self._barrier(event, occurrence)

    def arrive(self, occurrence: Occurrence, operation: ir.Arrive) -> bool:
        """With bytes one instruction for both; a plain arrival may count for several.

        Of an agent of several warps one expects the bytes, the others arrive (`_who` counts them).
        """
        plain = not _expects(operation)
        event = self._next("arrive") if plain else self._next("arrive_expect", "arrive")
        if event is None or not _strong(event, occurrence):
            return False
        if not plain and event.values[1] != (1 if event.kind == "arrive" else occurrence.bytes):
            return False
        return self._barrier(event, occurrence)

    def expect(self, occurrence: Occurrence) -> bool:
        """Whether the next event expects as many bytes at the same barrier."""
        event = self._next("expect")
        good = event is not None and event.values[1] == occurrence.bytes
        return good and event is not None and self._barrier(event, occurrence)

    def named(self, occurrence: Occurrence) -> bool:
        """Whether the next event is at the same named barrier, not 0, with as many threads."""
        sync = isinstance(occurrence.operation, ir.BarrierSync)
        event = self._next("sync" if sync else "sync_arrive")
        if event is None or event.values[0] is None or event.values[1] != occurrence.number:
            return False
        number = event.values[0] + self.rank * NAMED_BARRIERS  # every CTA has its own
        return event.values[0] != 0 and self.bindings.name(number, occurrence.place)

    def fence(self, operation: ir.Fence) -> bool:
        """Whether the next event is the fence of that kind; only two kinds have an event."""
        kinds = {ir.FenceKind.ASYNC: "fence_async", ir.FenceKind.BARRIER_INIT: "fence_init"}
        return self._next(kinds.get(operation.kind, "-")) is not None

    def commit(self, operation: ir.Commit) -> bool:
        """Whether the next event commits a group of the queue's kind, matrix or bulk."""
        matrix = operation.queue in self.matrix
        return self._next("mma_commit" if matrix else "bulk_commit") is not None

    def queue_wait(self, occurrence: Occurrence, operation: ir.QueueWait) -> bool:
        """Whether the next event leaves as many groups pending in a queue of that kind."""
        kind = "bulk_wait_read" if operation.until is ir.Until.READ else "bulk_wait"
        matrix = operation.queue in self.matrix
        event = self._next("mma_wait" if matrix else kind)
        return event is not None and event.values[0] == occurrence.number

    def access(self, occurrence: Occurrence) -> bool:
        """All accesses of shared memory up to the next other event, within the regions."""
        if any(region[0] in self.tensor.buffers for region in occurrence.reads):
            return self._fetch(occurrence)
        if any(region[0] in self.tensor.buffers for region in occurrence.writes):
            return self._put(occurrence)
        if any(p[0] in self.tensor.handed for p in (*occurrence.reads, *occurrence.writes)):
            return self._rows(occurrence)
        regions = {"read": occurrence.reads, "write": occurrence.writes}
        if not occurrence.reads and not occurrence.writes:
            return True
        beside = [event for event in self.beside if regions[event.kind]]
        self.beside = [event for event in self.beside if not regions[event.kind]]
        found = bool(beside)
        for early in beside:
            for span in early.spans:
                self._touch(span, regions[early.kind], early.line)
        while (event := self._next("read", "write")) is not None:
            if not regions[event.kind]:
                return False
            found = True
            for span in event.spans:
                self._touch(span, regions[event.kind], event.line)
        return found

    def _touch(self, span: tuple[Range, ...], regions: tuple[BufferRegion, ...], line: int) -> None:
        """All of these bytes must lie within the regions; what recurs is taken up once."""
        if not self.bindings.fresh((span, self.rank, regions, line)):
            return
        for low, high in span:
            first = in_cluster(low, self.rank)
            self.bindings.access((first, first + high - low), regions, line)

    def asynchronous(self, occurrence: Occurrence, operation: ir.Asynchronous) -> bool:
        """Whether the next events spell the copy or the multiplication of that queue."""
        if operation.queue in self.matrix:
            return self._multiplication(occurrence)
        if operation.queue in self.tensor.queues:
            if occurrence.writes[0][0] in self.tensor.scales:
                return self._scale_copies(occurrence)
            return self._tensor_multiplication(occurrence)
        if occurrence.writes:
            asks = (event := self.left()) is not None and event.kind == "ask"
            return self._ask(occurrence) if asks else self._load(occurrence)
        return self._store(occurrence)

    def _multiplication(self, occurrence: Occurrence) -> bool:
        """A fence, then at least one wgmma; their descriptors point into the operands."""
        if self._next("mma_fence") is None:
            return False
        found = False
        while (event := self._next("mma")) is not None:
            found = True
            self._touch(event.spans[-1], occurrence.reads[-1:], event.line)
            if not event.values[0]:
                self._touch(event.spans[0], occurrence.reads[:1], event.line)
        return found

    def _tensor_multiplication(self, occurrence: Occurrence) -> bool:
        """All steps along K of one product, upwards; the first of a work item does not add."""
        reads = [region for region in occurrence.reads if region[0] not in self.tensor.scales]
        (left, right), into = (reads[:1] + reads[-1:]), occurrence.writes[0]
        scaled = [left, right, *(r for r in occurrence.reads if r[0] in self.tensor.scales)]
        ctas = len(occurrence.writes)
        steps = ctas * self._bytes(right) // (self.tensor.width(into) * STEP_BYTES)
        several = left[0] not in self.tensor.buffers and (
            self._bytes(left) > steps * ROWS * STEP_BYTES
        )
        seen: list[tuple[int, int]] = []
        while len(seen) < steps and (event := self._next("tensor_mma")) is not None:
            d, a, b, _, accumulate, in_tensor = event.values[:6]
            if not all(self.tensor.column(one, d) for one in occurrence.writes):
                return False
            fault = (
                self.tensor.scaled(event, scaled, into, len(seen), ctas)
                if len(scaled) > 2
                else self.tensor.instruction(event, left, right, into, ctas)
            )
            if fault:
                raise OperationMismatch(f"line {event.line}: {fault}")
            if accumulate is None or bool(accumulate) != (into in self.added):
                raise OperationMismatch(
                    f"line {event.line}: whether the product is added or replaces"
                )
            self.added.update(occurrence.writes)
            places = ((a or 0) & _DESCRIPTOR_MASK) << 4, ((b or 0) & _DESCRIPTOR_MASK) << 4
            if in_tensor:
                at = None if a is None else a - _COLUMNS_OF_STEP * len(seen)
                if not self.tensor.column(left, at):
                    raise OperationMismatch(
                        f"line {event.line}: another column of the left operand"
                    )
                places = len(seen), places[1]
            elif several and not seen and not self.tensor.rows_begin(left[0], into, places[0]):
                raise OperationMismatch(f"line {event.line}: the rows of another sub-tile")
            if seen and not (places[0] > seen[-1][0] and places[1] > seen[-1][1]):
                raise OperationMismatch(f"line {event.line}: not the next step along K")
            seen.append(places)
            for span, region in zip(event.spans[::-1], self._read(occurrence), strict=False):
                self._touch(span, (region,), event.line)
        return len(seen) == steps

    def _scale_copies(self, occurrence: Occurrence) -> bool:
        """A tile of scales to tensor memory, atom by atom, in each CTA of a pair."""
        reads, writes = occurrence.reads, occurrence.writes
        atoms = self._bytes(reads[0]) // ATOM_BYTES
        events: list[ThreadEvent] = []
        while len(events) < atoms and (event := self._next("scale_copy")) is not None:
            if (PAIR in event.modifiers) is not (len(writes) > 1) or len(event.spans) != len(reads):
                raise OperationMismatch(f"line {event.line}: number of CTAs that copy scales")
            events.append(event)
            for span, read in zip(event.spans, reads, strict=True):
                self._touch(span, (read,), event.line)
        for cta, into in enumerate(writes):
            first = copied(events, atoms, self.tensor.apart(into[0]), cta)
            if first is None or not self.tensor.column(into, first[0]):
                raise OperationMismatch(f"{occurrence.text}: not whole atoms of scales in order")
        return True

    def _read(self, occurrence: Occurrence) -> list[BufferRegion]:
        """The operands of a product, the last one first: those of each CTA, or the two of one."""
        ctas = len(occurrence.writes)
        reads = [region for region in occurrence.reads if region[0] not in self.tensor.scales]
        reads = reads if ctas > 1 else reads[:1] + reads[-1:]
        if ctas > 1 and len(reads) != 2 * ctas:
            raise OperationMismatch(f"{occurrence.text} does not read two operands of each CTA")
        return list(reversed(reads))

    def queue_arrive(self, occurrence: Occurrence) -> bool:
        """Whether the next event is a tensor commit of count 1 at the same barrier."""
        event = self._next("tensor_commit")
        if event is None or occurrence.number != 1 or not self._published(event, occurrence):
            return False
        places = [place for place, _ in occurrence.completes] or [occurrence.place]
        for name, stage in places:
            for buffer, own in self.tensor.publishing.get(name, {}).items():
                self.added = {
                    region
                    for region in self.added
                    if region[0] != buffer or (own and region[1] != stage)
                }
        return True

    def _published(self, event: ThreadEvent, occurrence: Occurrence) -> bool:
        """Whether a commit arrives at the barrier of the program, or at that of every CTA."""
        targets = {self.ctas[place[0]]: place for place, _ in occurrence.completes}
        if (PAIR in event.modifiers) is not bool(targets):
            return False
        if not targets:
            return len(event.values) == 1 and self._barrier(event, occurrence)
        address, *masks = event.values
        if address is None or masks != [sum(1 << cta for cta in targets)]:
            return False
        return all(
            self.bindings.barrier(in_cluster(address, cta), place) for cta, place in targets.items()
        )

    def _one_of_four(self, occurrence: Occurrence) -> bool:
        """Of the four lanes that have the number of a row, one writes it to shared memory."""
        return any(region[0] in self.tensor.handed for region in occurrence.writes)

    def _cells(self, event: ThreadEvent, region: BufferRegion) -> set[tuple[int, int]]:
        """First lanes of 16, and columns counted from the first of the region, of a fetch or a
        store.
        """
        rows, columns = shape_of(event)
        address = event.values[0]
        if address is None or not rows:
            raise OperationMismatch(f"line {event.line}: an unknown access to tensor memory")
        lane, column = address >> 16, (address & 0xFFFF) - TENSOR_BASE
        first = column - self.tensor.places.get(region, column)
        return {(lane + r, first + c) for r in range(0, rows, 16) for c in range(columns)}

    def _all_cells(self, region: BufferRegion) -> set[tuple[int, int]]:
        own = self.warp % 4 * LANES_OF_WARP
        return {(own + half, c) for half in (0, 16) for c in range(self.tensor.width(region))}

    def _fetch(self, occurrence: Occurrence) -> bool:
        """Fetches of all columns of an accumulator, of the 32 lanes of the warp.

        What is fetched may be put back, or go to shared memory, before the rest is fetched, and
        what is computed with it may come from there.
        """
        ((region),) = occurrence.reads
        wanted = self._all_cells(region)
        seen: set[tuple[int, int]] = set()
        early: list[ThreadEvent] = []
        beside: list[ThreadEvent] = []
        kinds = "tensor_load", "tensor_put", "read", "write"
        while seen != wanted and (event := self._next(*kinds)) is not None:
            if event.kind in ("read", "write") and seen:
                beside.append(event)
                continue
            cells = self._cells(event, region)
            if event.kind == "tensor_load":
                seen |= cells
            elif cells <= seen:
                early.append(event)
            else:
                return False
        self.early, self.beside = early, beside
        return seen == wanted and region in self.tensor.places

    def _put(self, occurrence: Occurrence) -> bool:
        """Puts to all columns, of the 32 lanes of the warp. Where no product has been compared
        that reads or writes them, the first put says where they begin."""
        ((region),) = occurrence.writes
        wanted = self._all_cells(region)
        seen: set[tuple[int, int]] = set()
        for early in self.early:
            self._begins(early, region)
            seen |= self._cells(early, region)
        while seen != wanted and (event := self._next("tensor_put")) is not None:
            self._begins(event, region)
            seen |= self._cells(event, region)
        self.early = []
        return seen == wanted and region in self.tensor.places

    def _begins(self, event: ThreadEvent, region: BufferRegion) -> None:
        """Notes the column of a put as that of its region, unless that is known."""
        address = event.values[0]
        if address is not None and region not in self.tensor.places:
            self.tensor.column(region, address & 0xFFFF)

    def _rows(self, occurrence: Occurrence) -> bool:
        """The numbers of the warp's rows: those of a lane in the order of a fragment."""
        ((region),) = occurrence.reads or occurrence.writes
        kind = "read" if occurrence.reads else "write"
        found: list[Range] = []
        while (event := self._next(kind)) is not None:
            found += [run for span in event.spans for run in span]
        own = self.warp % 4 * LANES_OF_WARP
        if not found:
            return False
        base = min(found)[0] - _ROW_BYTES * own
        first = base + _ROW_BYTES * own
        whole = merged(found) == ((first, first + _ROW_BYTES * LANES_OF_WARP),)
        once = sum(high - low for low, high in found) == _ROW_BYTES * LANES_OF_WARP
        span = frozenset({(base, base + self._bytes(region))})
        return whole and once and self.bindings.extent(region, span)

    def _load(self, occurrence: Occurrence) -> bool:
        """Boxes into one region that complete its barrier, with the bytes of the model in total.

        A multicast writes to the same place of several CTAs and completes the barrier of each.
        """
        name = occurrence.writes[0][0].partition("@")[0]
        ranges: set[tuple[int, int]] = set()
        total = 0
        while (event := self.left()) is not None and event.kind == "load":
            buffer, size, _ = self._box(event)
            if buffer != name or total + size > occurrence.bytes:
                break
            place = event.values[0]
            if place is None or not self._completes(event, occurrence):
                return False
            self.position += 1
            total += size
            ranges.add((place, place + size))
        if total != occurrence.bytes:
            return False
        return all(
            self._extent(
                region, ranges, self.ctas[region[0]] if self._several(occurrence) else None
            )
            for region in occurrence.writes
        )

    def _ask(self, occurrence: Occurrence) -> bool:
        """A question to the hardware whose answer fills one region and completes its barrier."""
        event = self._next("ask")
        if event is None or len(occurrence.writes) != 1 or None in event.values[:2]:
            return False
        place, barrier = event.values[0] or 0, event.values[1] or 0
        size = self._bytes(occurrence.writes[0])
        if occurrence.bytes != size or occurrence.bytes != ANSWER_BYTES:
            return False
        if not self.bindings.barrier(in_cluster(barrier, self.rank), occurrence.place):
            return False
        return self._extent(occurrence.writes[0], {(place, place + size)})

    def _box(self, event: ThreadEvent) -> tuple[str, int, bool]:
        """The buffer of the copies through a tensor map, the bytes of its box, and whether they
        add."""
        number = event.values[1]
        return self.boxes.get(-1 if number is None else number, ("", 0, False))

    def _several(self, occurrence: Occurrence) -> bool:
        return len(occurrence.completes) > 1

    def _completes(self, event: ThreadEvent, occurrence: Occurrence) -> bool:
        """Whether a copy goes to the CTAs of the model and completes their barriers."""
        address, mask = event.values[2], event.values[3]
        if address is None or mask is None:
            return False
        if not self._several(occurrence):
            place = occurrence.place
            away = self.ctas[place[0]] != self.rank
            paired = PAIR in event.modifiers or not away  # PTX: only so it may complete at a peer's
            barrier = in_cluster(address, self.rank)
            return not mask and paired and self.bindings.barrier(barrier, place)
        targets = {self.ctas[place[0]]: place for place, _ in occurrence.completes}
        if mask != sum(1 << cta for cta in targets):
            return False
        return all(
            size == occurrence.bytes
            and self.bindings.barrier(in_cluster(address, self.ctas[place[0]]), place)
            for place, size in occurrence.completes
        )

    def _store(self, occurrence: Occurrence) -> bool:
        """Boxes out of one region, all of its bytes."""
        (region,) = occurrence.reads[:1]
        wanted = self._bytes(region)
        ranges: set[tuple[int, int]] = set()
        total = 0
        while total < wanted and (event := self._next("store", "add")) is not None:
            place = event.values[0]
            _, size, adds = self._box(event)
            if place is None or not size or adds is not (event.kind == "add"):
                return False
            total += size
            ranges.add((place, place + size))
        return bool(ranges) and total == wanted and self._extent(region, ranges)

    def _bytes(self, region: BufferRegion) -> int:
        """The size of a part, or of a stage where no part is named."""
        buffers = self.bindings.program.buffers
        buffer = next(item for item in buffers if item.name == region[0])
        return buffer.bytes_per_stage // (buffer.parts if region[2] is not None else 1)

    def _extent(
        self, region: BufferRegion, ranges: set[tuple[int, int]], rank: int | None = None
    ) -> bool:
        """Whether the region lies there, in this CTA or in that of `rank`."""
        cta = self.rank if rank is None else rank
        spans = sorted((in_cluster(a, cta), in_cluster(b, cta)) for a, b in ranges)
        apart = all(one[1] <= other[0] for one, other in pairwise(spans))
        return apart and self.bindings.extent(region, frozenset(spans))

    def registers(self, occurrence: Occurrence) -> bool:
        """Whether the next event raises the register count for a take, lowers it for a give."""
        take = isinstance(occurrence.operation, ir.PoolTake)
        return self._next("registers_up" if take else "registers_down") is not None
