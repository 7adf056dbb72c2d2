"""Runs a launch with numbers on the native core (native/*.c), which has the semantics of `machine`.

Each cluster runs on a machine of its own, clusters on as many threads as are asked for; memory is
the caller's. Sums of tensor cores are those of `sums` with `exact`, else binary32 sums in the order
of K, each product exact: off by at most K * 2**-24 of the sum of the products' sizes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from titan.foundation.native_core import CData, check_core
from titan.isa.numbers.forms import form_of
from titan.isa.ptx.module import Instruction
from titan.isa.simt import native as simt
from titan.isa.simt.accesses import global_bounds
from titan.isa.simt.launch import Launch, Options
from titan.isa.simt.layout import MemoryLayout
from titan.isa.simt.memory import KNOWN, OPAQUE, PAGE, PAGE_BITS
from titan.isa.simt.operations import DecodedCode, Op
from titan.isa.simt.outcome import Confluence, Ending, Outcome, Run

# Operations on global memory whose order among CTAs can show in what they leave.
_ORDERED = (Op.ATOMIC, Op.TRY_CANCEL)
THREADS_MAX = 64
# Which warp runs: in turn; one starves while others can run; one runs ahead as far as it can; in
# turn, and clusters after each other, each for some rounds (of one thread).
SCHEDULES = ("turn", "starve", "ahead", "mixed")
# When asynchronous operations complete: after some rounds; at once; only when nothing else can go
# on, or a warp waits for them; after a random number of rounds.
ENGINES = ("soon", "early", "late", "random")


def core() -> CData:
    """The compiled module, or None where it was not built. Raises StaleCoreError."""
    try:
        from titan.isa.numbers import _core  # type: ignore[attr-defined]
    except ImportError:
        return None
    here = Path(__file__).parent
    check_core(_core, here, here.parent / "simt")
    return _core


@dataclass(slots=True)
class FlatMemory:
    """Global memory behind a run: allocations as (start, data, state or None), and other bytes."""

    allocations: list[tuple[int, CData, bytes | None]] = field(default_factory=list)
    others: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)

    def contents(self, address: int, count: int) -> tuple[bytes, int]:
        """Bytes, and how many of them are not known."""
        for start, data, state in self.allocations:
            at = address - start
            if at >= 0 and at + count <= len(data):
                found = bytes(data[at : at + count])
                return found, 0 if state is None else count - state[at : at + count].count(KNOWN)
        data, unknown = bytearray(), 0
        for place in range(address, address + count):
            byte, known = self._byte(place)
            data.append(byte)
            unknown += not known
        return bytes(data), unknown

    def unknown(self, address: int, count: int) -> int:
        """How many of some bytes are not known."""
        for start, data, state in self.allocations:
            if start <= address and address + count <= start + len(data):
                at = address - start
                return 0 if state is None else count - state[at : at + count].count(KNOWN)
        return self.contents(address, count)[1]

    def _byte(self, place: int) -> tuple[int, bool]:
        for start, data, state in self.allocations:
            if start <= place < start + len(data):
                return data[place - start], state is None or state[place - start] == KNOWN
        page = self.others.get(place >> PAGE_BITS)
        if page is None:
            return 0, False
        return page[0][place & (PAGE - 1)], page[1][place & (PAGE - 1)] == KNOWN


@dataclass(frozen=True, slots=True)
class CoreOptions:
    """What the native core is asked for beside the launch.

    `exact`: sums of tensor cores to the bit. `threads`: None for all processors. `schedule` of
    warps and `engines`: one of `SCHEDULES` and of `ENGINES`; ValueError for any other.
    `polls_max`: so often a wait on an mbarrier gives false where nothing can complete its phase;
    then the run hangs.
    """

    exact: bool = True
    threads: int | None = None
    schedule: str = "turn"
    engines: str = "soon"
    polls_max: int = 0


class NumbersCore(simt.Native):
    """One run; the tables live as long as this object."""

    def __init__(
        self, code: DecodedCode, layout: MemoryLayout, launch: Launch, options: Options,
        instructions: tuple[Instruction, ...], asked: CoreOptions,
    ) -> None:  # fmt: skip
        bare = Launch(
            launch.entry, launch.grid, launch.block, launch.cluster, launch.dynamic_shared_bytes,
            launch.parameters, launch.tensor_maps, {}, launch.allocations,
            cancelled=launch.cancelled,
        )  # fmt: skip
        super().__init__(code, layout, bare, options)
        self.given = launch
        self.instructions = instructions
        self.exact = asked.exact
        self.schedule = SCHEDULES.index(asked.schedule)
        self.engines = ENGINES.index(asked.engines)
        self.polls_max = asked.polls_max
        # Where no memory is given, all of it may be touched: too much to hold as an allocation.
        self.bounds = global_bounds(self.machine) if self.machine.launch.allocations else ()
        self.threads = self._threads(asked.threads)

    def module(self) -> CData:
        """The compiled module, or None."""
        return core()

    def _threads(self, asked: int | None) -> int:
        """One where the order of CTAs can show in the numbers, or memory has no bounds."""
        ordered = any(
            step.op in _ORDERED or "reduce" in (item.opcode, *item.modifiers)
            for step, item in zip(self.code.steps, self.instructions, strict=False)
        )
        if ordered or not self.bounds or SCHEDULES[self.schedule] == "mixed":
            return 1
        count = len(os.sched_getaffinity(0)) if asked is None else asked
        return max(1, min(count, THREADS_MAX))

    def _allocations(self) -> tuple[CData, list[tuple[int, CData, CData]]]:
        """Memory that was given, then what else may be touched, in the order of addresses."""
        pieces: list[tuple[int, CData, CData]] = []
        for at, data in self.given.memory.items():
            own = isinstance(data, memoryview) and not data.readonly
            whole = data if own else memoryview(bytearray(data))
            if len(whole):
                pieces.append((at, whole, None))
        for number, page in self.machine.memory.pages.items():
            pieces.append((number << PAGE_BITS, page.data, bytearray(page.state)))
        covered = sorted((at, at + len(data)) for at, data, _ in pieces)
        for low, high in self.bounds or ():
            for start, end in _gaps(low, high, covered):
                size = end - start
                pieces.append((start, bytearray(size), bytearray(bytes((OPAQUE,)) * size)))
        pieces.sort(key=lambda piece: piece[0])
        rows = []
        for start, data, state in pieces:
            flat = self.ffi.from_buffer("uint8_t[]", data, require_writable=True)
            known = self.ffi.NULL
            if state is not None:
                known = self.ffi.from_buffer("uint8_t[]", state, require_writable=True)
            self.kept += [flat, known]
            rows.append((start, len(data), flat, known, 0))
        return self._array("titan_allocation", rows or [(0, 0, self.ffi.NULL, self.ffi.NULL, 0)]), [
            *pieces
        ]

    def compute(self, places: list[tuple[int, int]]) -> tuple[Run, FlatMemory]:
        """Run to an end: how it ended, and the memory behind it."""
        lib = self.lib
        code, launch = self._code(), self._launch(places)
        given = self.ffi.new("titan_numbers *")
        rows = [
            form_of(instruction, step).row()
            for instruction, step in zip(self.instructions, self.code.steps, strict=True)
        ]
        given.forms = self._array("titan_form", rows)
        given.allocations, pieces = self._allocations()
        given.allocation_count = len(pieces)
        given.exact, given.threads = self.exact, self.threads
        given.schedule, given.engines = self.schedule, self.engines
        given.polls_max = self.polls_max
        shared = lib.titan_numbers_new(code, launch, given)
        try:
            ending = Ending(lib.titan_numbers_run(shared))
            run = self._outcome(shared, ending)
            memory = FlatMemory()
            for place, (start, data, _) in enumerate(pieces):
                state = given.allocations[place].state
                known = None if not state else bytes(self.ffi.buffer(state, len(data)))
                memory.allocations.append((start, data, known))
            if not self.bounds:
                memory.others = self._others(shared)
            return run, memory
        finally:
            lib.titan_numbers_free(shared)

    def _outcome(self, shared: CData, ending: Ending) -> Run:
        numbers = self.ffi.new("int64_t[]", self.lib.RESULT_NUMBERS)
        self.lib.titan_numbers_outcome(shared, numbers)
        site, cta, warp, count, *_, waiting, origin, map_offset, _ = list(numbers)
        words = self.lib.titan_numbers_waiters(shared)
        rows = list(self.ffi.unpack(words, waiting)) if waiting else []
        waiters = tuple(simt.waiter_of(rows[n : n + 11]) for n in range(0, len(rows), 11))
        reason = self.ffi.string(self.lib.titan_numbers_reason(shared)).decode()
        outcome = Outcome(ending, reason, site, cta, warp, waiters, origin, map_offset)
        return Run(self.given, [], outcome, Confluence(), count)

    def _others(self, shared: CData) -> dict[int, tuple[bytes, bytes]]:
        """Pages of memory without bounds."""
        count = self.lib.titan_numbers_pages(shared, self.ffi.NULL)
        numbers = self.ffi.new("int64_t[]", count or 1)
        self.lib.titan_numbers_pages(shared, numbers)
        found = {}
        data, state = self.ffi.new("uint8_t[]", PAGE), self.ffi.new("uint8_t[]", PAGE)
        for number in list(numbers)[:count]:
            self.lib.titan_numbers_read(shared, number << PAGE_BITS, PAGE, data, state)
            found[number] = (bytes(self.ffi.buffer(data)), bytes(self.ffi.buffer(state)))
        return found


def _gaps(low: int, high: int, covered: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """What of [low, high) is in none of the sorted ranges."""
    found = []
    for start, end in covered:
        if end <= low or start >= high:
            continue
        if start > low:
            found.append((low, start))
        low = max(low, end)
    return [*found, (low, high)] if low < high else found
