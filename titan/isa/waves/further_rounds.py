"""Whether a launch of AMD assembly with more trips does what this one does, with rounds put in.

What `titan.isa.simt.further_rounds` is for the machine of warps, by the same argument: beside each
known number stands how it grows, `c + a * j + b * k`; at one head of each loop that makes more
rounds with more trips, a period of trips is put in k times, and what the registers hold there is
assumed, and shown by running these rounds from it.

The same for all k have to be: each branch, the execution mask, addresses in LDS, M0 where it is a
place, the words of a resource that say how addresses are made. Where rounds are put in, the wave
has to have in flight what it had before: the same operations on registers, and as many of each
queue as a wait looks back on, by the same instructions. Addresses in global memory may move on.

Registers that decide nothing as they are (`relevance.py`; pointers whose carry would end the
induction) are taken to be unknown there. A register whose value is not known decides nothing in any
launch: the machine stops where it would.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from titan.isa.gcn.opcodes import OpcodeKind
from titan.isa.simt.events import Event
from titan.isa.simt.growth import ENDLESS, FIXED, Growth, unknown
from titan.isa.simt.lane_growths import Growths, compact, distinct, fixed_as, keep, of_lane
from titan.isa.simt.passages import (
    Lanes,
    Passage,
    RoundPlan,
    Steps,
    TripWord,
    step_between,
)
from titan.isa.simt.shown_rounds import ShownRounds
from titan.isa.simt.values import lanes_of
from titan.isa.waves.decode import DecodedInstruction, register_name
from titan.isa.waves.events import CounterFull, CounterWait, OperationIssued, WaveQueue
from titan.isa.waves.followed import CONDITION, MASK, PRIVATE, FollowedInstruction
from titan.isa.waves.grown import Made, any_of, is_known, results, upper_halves
from titan.isa.waves.grown_memory import (
    GrownMemory,
    Loaded,
    known_everywhere,
    private_words,
    stored_registers,
    through_private,
)
from titan.isa.waves.machine import WaveMachine
from titan.isa.waves.memory_steps import lds_offsets
from titan.isa.waves.private_steps import size_of
from titan.isa.waves.rounds import ONE, FollowedKernel, Snapshot, is_uniform, lanes_at
from titan.isa.waves.state import FULL, LANES, OpaqueWord, Wave

_OF_ALL_LANES = ("v_readlane", "v_readfirstlane", "v_writelane", "v_permlane")
InFlight = dict[int, tuple[int, WaveQueue, int, int]]
History = dict[WaveQueue, tuple[int, ...]]
COUNTED = 64  # no wait looks back on more operations


@dataclass(eq=False, slots=True)
class _Window:
    """The rounds that are put in, while they are run: registers before them, how they grew with k
    alone and how they are assumed to, and which lanes were read and written first."""

    passage: Passage
    start: Snapshot
    old: dict[int, Growths]
    taken: dict[int, Growths]
    poisoned: frozenset[int]
    in_flight: InFlight
    history: History
    counted: dict[WaveQueue, int]
    before: dict[WaveQueue, int]
    events: int
    read: dict[int, int] = field(default_factory=dict)
    written: dict[int, int] = field(default_factory=dict)
    loads: Loaded = field(default_factory=list)
    issued: dict[WaveQueue, int] = field(default_factory=dict)
    ended: History | None = None

    @property
    def done(self) -> bool:
        """Whether it has come to its end."""
        return self.ended is not None


class FurtherWaves(ShownRounds):
    """Looks on while one run is made that represents all with more trips; `reach` is how many
    periods more."""

    def __init__(
        self, machine: WaveMachine, text: FollowedKernel, word: TripWord, plan: RoundPlan
    ) -> None:
        self.plan_rounds(plan, text.loops)
        self.machine, self.text = machine, text
        self.memory = GrownMemory(machine.group, word)
        self.growths: dict[int, dict[int, Growths]] = {w.number: {} for w in machine.waves}
        self.windows: dict[int, _Window | None] = dict.fromkeys(self.growths)
        self.window_of: dict[tuple[Lanes, int], _Window] = {}
        self.history = {
            w.number: {queue: deque[int](maxlen=COUNTED) for queue in WaveQueue}
            for w in machine.waves
        }
        self.upper: dict[int, set[int]] = {w.number: set() for w in machine.waves}
        self.marked: dict[int, Growth] = {}  # stores of numbers that grow, by their events
        self._made: Made = {}
        self._lanes = FULL
        self._stored: list[Growths] = []
        self._fixed: set[int] = set()

    # ----------------------------------------------------------------------------- answers

    def finish_rounds(self) -> None:
        """After the run: passages without room for a window, memory that moved, equal stores."""
        self.check_passages(self.window_of)
        if self.memory.seen & self.memory.moved:
            self.limit(0, -1, "memory that a round reads changes from round to round")
        self._check_equal_stores()
        own: dict[int, list[Event]] = {wave.number: [] for wave in self.machine.waves}
        for event in self.machine.group.events:
            own[event.warp].append(event)
        for (lanes, _), window in self.window_of.items():
            if window.ended is not None:
                self._check_lookback(window, window.ended, own[lanes[1]])

    def _check_lookback(self, window: _Window, ended: History, own: list[Event]) -> None:
        """As far as waits look back on what is before the rounds, it is as the rounds leave it."""
        issued, needed = dict.fromkeys(WaveQueue, 0), dict.fromkeys(WaveQueue, 0)
        for event in own:
            if event.sequence < window.events or isinstance(event, CounterFull):
                continue
            if isinstance(event, OperationIssued):
                issued[event.queue] += 1
            elif isinstance(event, CounterWait):
                queue = event.queue
                needed[queue] = max(needed[queue], event.pending - issued[queue])
        for queue, count in needed.items():
            if count and window.history[queue][-count:] != ended[queue][-count:]:
                self.limit(0, window.passage.head, f"waits for {queue} look back before the rounds")
            if count and 0 < window.issued[queue] < count:
                self.limit(0, window.passage.head, f"waits for {queue} look back on more rounds")

    def _check_equal_stores(self) -> None:
        """Waves that store the same number to the same bytes have to do so in all launches."""
        writers: dict[object, set[int]] = {}
        moving: dict[object, int] = {}
        for event in self.machine.group.events:
            for use in event.uses if isinstance(event, OperationIssued) else ():
                if use.value:
                    writers.setdefault((use.footprint, use.value), set()).add(event.warp)
                    if event.sequence in self.marked:
                        moving[use.footprint, use.value] = event.instruction
        for key, site in moving.items():
            if len(writers[key]) > 1:
                self.limit(0, site, "what several waves store to the same bytes grows")

    def _use(self, growths: Growths, mask: int, pc: int, what: str) -> None:
        """Something is decided by a number, which has to be the same for all trips."""
        for item in distinct(growths, mask):
            if item.limit < self.reach:
                self.limit(item.limit, item.site if item.site >= 0 else pc, what)
            if not item.fixed:
                self.limit(0, pc, f"{what} moves on with the trips")

    # --------------------------------------------------------------------------- execution

    def before(self, wave: Wave, code: DecodedInstruction) -> None:
        """What an instruction is about to make of its operands."""
        passage = self.counter.arrive(lanes_at(self.machine.cta, wave), code.number)
        if passage is not None:
            self._at_head(wave, passage)
        table, window = self.growths[wave.number], self.windows[wave.number]
        one, kind = self.text.code[code.number], code.opcode.kind
        self._made, self._stored, self._fixed = {}, [], set[int]()
        self._lanes = FULL if code.item.base.startswith(_OF_ALL_LANES) else wave.exec
        if window is not None:
            self._note_reads(window, one)
        for register in one.critical & table.keys():
            if kind is OpcodeKind.BUFFER and register in self.upper[wave.number]:
                continue  # of its words only bits of the upper half say how addresses are made
            mask = ONE if is_uniform(register) else wave.exec
            if mask:
                self._use(table[register], mask, code.number, _what(one, register))
        if kind is OpcodeKind.CONTROL:
            for register in one.writes:  # of the moment
                table.pop(register, None)
        elif kind is OpcodeKind.SCALAR_MEMORY:
            self._made = self.memory.scalar_load(wave, one, table)
        elif kind is OpcodeKind.LDS:
            loaded = None if window is None else window.loads
            self._made = self.memory.lds(wave, one, table, loaded)
        elif kind is OpcodeKind.SCRATCH:
            self._private(wave, one, table, window)
        elif kind is OpcodeKind.CROSS_LANE:
            self._made = dict.fromkeys(one.writes, any_of(wave, one, table))
        elif kind in (OpcodeKind.SCALAR, OpcodeKind.VECTOR):
            self._made = results(wave, one, table)
        if self._made and kind is OpcodeKind.SCALAR:
            self._fixed = upper_halves(wave, one, table, self.upper[wave.number])
        if table and kind in (
            OpcodeKind.LDS,
            OpcodeKind.GLOBAL,
            OpcodeKind.BUFFER,
            OpcodeKind.FLAT,
        ):
            self._note_stored(wave, one, table)

    def after(self, wave: Wave, code: DecodedInstruction) -> None:
        """What it has made."""
        one, made = self.text.code[code.number], self._made
        table, window = self.growths[wave.number], self.windows[wave.number]
        for register in {*one.writes, *made}:
            if register in MASK:
                continue
            self._keep(wave, table, register, made.get(register, FIXED))
            if window is not None:
                lanes = ONE if is_uniform(register) else self._lanes
                window.written[register] = window.written.get(register, 0) | lanes
        self.upper[wave.number] -= one.writes
        self.upper[wave.number] |= self._fixed
        if self._stored:
            self._after_store()
        events = self.machine.group.events
        if events and isinstance(events[-1], OperationIssued):
            event = events[-1]
            if event.warp == wave.number and event.instruction == code.number:
                self.history[wave.number][event.queue].append(code.number)

    def _keep(self, wave: Wave, table: dict[int, Growths], register: int, made: Growths) -> None:
        if is_uniform(register):
            keep(table, register, made if is_known(wave, register) else FIXED)
            return
        lanes, old = self._lanes, table.get(register, FIXED)
        if old is FIXED and made is FIXED:
            return
        known = lanes
        if register < PRIVATE:
            known &= wave.known[register]
        if lanes == known == FULL and not isinstance(made, list):
            keep(table, register, made)
            return
        items = list(old) if isinstance(old, list) else [old] * LANES
        for lane in lanes_of(lanes):
            items[lane] = of_lane(made, lane) if known >> lane & 1 else FIXED
        keep(table, register, compact(items, FULL))

    def _private(
        self, wave: Wave, one: FollowedInstruction, table: dict[int, Growths],
        window: _Window | None,
    ) -> None:  # fmt: skip
        """Words of private memory are registers that only these instructions name."""
        words = private_words(one)(wave)
        if words is None:
            if "_store_" in one.code.item.base:
                for register in [one for one in table if one >= PRIVATE]:
                    del table[register]
            return
        if window is not None and "_load_" in one.code.item.base:
            for word in words:
                self._note_read(window, word, wave.exec)
        self._made = through_private(one, words, table)

    # ------------------------------------------------------------------------------ stores

    def _note_stored(self, wave: Wave, one: FollowedInstruction, table: dict[int, Growths]) -> None:
        registers = stored_registers(one)
        moving = [table[register] for register in registers if register in table]
        if moving and wave.exec and known_everywhere(wave, registers):
            self._stored = moving

    def _after_store(self) -> None:
        """Lanes that meet have to store the same in all launches, and waves that do."""
        event = self.machine.group.events[-1]
        if not isinstance(event, OperationIssued):
            return
        items = [item for growths in self._stored for item in distinct(growths, event.lanes)]
        least = min(items, key=lambda item: item.limit)
        self.marked[event.sequence] = least
        alike = all(isinstance(growths, Growth) for growths in self._stored)
        if alike and least.limit >= ENDLESS:
            return
        for use in event.uses:
            touched = sum(high - low for low, high in use.footprint.ranges())
            if use.write and touched != event.lanes.bit_count() * _bytes_of(self.text, event):
                reach = least.limit if alike else 0
                self.limit(reach, event.instruction, "what lanes store to the same bytes grows")

    # ----------------------------------------------------------------------------- windows

    def _at_head(self, wave: Wave, passage: Passage) -> None:
        """A head is reached for the n-th time: nothing, the begin of a window, or its end."""
        if passage.number < 0:
            return
        key = lanes_at(self.machine.cta, wave)
        added = self.plan.added.get(key, ())
        if passage.number >= len(added) or added[passage.number][0] != passage.head:
            self.disordered = True
            return
        rounds = added[passage.number][1]
        own = key, passage.number
        if rounds and passage.visits == self.plan.first:
            self.window_of[own] = self._begin(wave, passage, self.plan.steps.get(own, {}))
        elif rounds and passage.visits == self.plan.first + rounds and own in self.window_of:
            self._end(wave, self.window_of[own])

    def _begin(self, wave: Wave, passage: Passage, steps: Steps) -> _Window:
        if self.windows[wave.number] is not None:
            self.limit(0, passage.head, "loops that make more rounds lie in one another")
        table = self.growths[wave.number]
        old = dict(table)
        for register, by_lane in steps.items():
            if is_uniform(register):
                growth = of_lane(table.get(register), 0)
                keep(table, register, growth._replace(a=by_lane[0]))
                continue
            items = [of_lane(table.get(register), lane) for lane in range(LANES)]
            items = [item._replace(a=step) for item, step in zip(items, by_lane, strict=True)]
            keep(table, register, compact(items, FULL))
        poisoned = frozenset(self.text.irrelevant[passage.head]) - set(MASK)
        for register in poisoned:
            table[register] = unknown(passage.head)
        self.upper[wave.number] -= self.text.written[passage.head]
        window = _Window(
            passage, Snapshot(wave), old, dict(table), poisoned, _in_flight(wave),
            self._issued(wave),
            {queue: len(entries) for queue, entries in wave.in_flight.items()}, dict(wave.issued),
            len(self.machine.group.events),
        )  # fmt: skip
        self.windows[wave.number] = window
        return window

    def _issued(self, wave: Wave) -> History:
        """The instructions whose operations each queue had last."""
        return {queue: tuple(items) for queue, items in self.history[wave.number].items()}

    def _note_reads(self, window: _Window, one: FollowedInstruction) -> None:
        for register in one.reads:
            if register not in MASK:
                self._note_read(window, register, ONE if is_uniform(register) else self._lanes)

    @staticmethod
    def _note_read(window: _Window, register: int, lanes: int) -> None:
        first = lanes & ~window.written.get(register, 0)
        if first:
            window.read[register] = window.read.get(register, 0) | first

    def _end(self, wave: Wave, window: _Window) -> None:
        """The induction: what the rounds read first is as assumed, one step further on."""
        self.windows[wave.number] = None
        window.ended = self._issued(wave)
        window.issued = {queue: wave.issued[queue] - window.before[queue] for queue in WaveQueue}
        table, now = self.growths[wave.number], Snapshot(wave)
        for register, first in window.read.items():
            lanes = first & window.written.get(register, 0)  # what stays needs no induction
            if lanes and is_uniform(register):
                self._closes_uniform(register, now, window, table)
            elif lanes:
                self._closes(register, lanes, now, window, table)
        head = window.passage.head
        if now.exec != window.start.exec:
            self.limit(0, head, "the execution mask changes from round to round")
        if not self.memory.is_as_read(window.loads):
            self.limit(0, head, "memory that a round reads changes from round to round")
        self._check_queues(wave, window)
        for register in {*table, *window.taken}:
            written, old = window.written.get(register, 0), window.old.get(register, FIXED)
            found = table.get(register, FIXED)
            if not isinstance(found, list) and (is_uniform(register) or written == FULL):
                keep(table, register, _behind(found) if written else old)
                continue
            items = [of_lane(found, lane) for lane in range(LANES)]
            items = [
                _behind(item) if written >> lane & 1 else of_lane(old, lane)
                for lane, item in enumerate(items)
            ]
            keep(table, register, compact(items, FULL))

    def _check_queues(self, wave: Wave, window: _Window) -> None:
        """What is in flight at both heads, as far as a wait or a register depends on it."""
        head = window.passage.head
        if _in_flight(wave) != window.in_flight:
            self.limit(0, head, "other loads are in flight from round to round")
        counted = {queue: len(entries) for queue, entries in wave.in_flight.items()}
        since = self.machine.group.events[window.events :]
        full = any(isinstance(one, CounterFull) and one.warp == wave.number for one in since)
        if full and counted != window.counted:
            self.limit(0, head, "a counter is full in some rounds only")
        if tuple(wave.recent) != window.start.recent:
            self.limit(0, head, "wait states look back on what is before the rounds")

    def _closes_uniform(
        self, register: int, now: Snapshot, window: _Window, table: dict[int, Growths]
    ) -> None:
        then, value = window.start.scalar(register), now.scalar(register)
        if isinstance(then, OpaqueWord) and isinstance(value, OpaqueWord):
            return
        if isinstance(then, OpaqueWord) or isinstance(value, OpaqueWord):
            self.limit(0, window.passage.head, f"{_name(register)} is known in some rounds only")
        elif register not in window.poisoned:
            pair = of_lane(window.taken.get(register), 0), of_lane(table.get(register), 0)
            self._compare(register, (then, value), pair, window)

    def _closes(
        self, register: int, lanes: int, now: Snapshot, window: _Window, table: dict[int, Growths]
    ) -> None:
        (then, before), (values, behind) = window.start.row(register), now.row(register)
        if (before ^ behind) & lanes:
            self.limit(0, window.passage.head, f"{_name(register)} is known in some rounds only")
            return
        if register in window.poisoned:
            return
        taken, items = window.taken.get(register), table.get(register)
        for lane in lanes_of(lanes & before):
            pair = of_lane(taken, lane), of_lane(items, lane)
            if not self._compare(register, (int(then[lane]), int(values[lane])), pair, window):
                return

    def _compare(
        self, register: int, values: tuple[int, int], growths: tuple[Growth, Growth],
        window: _Window,
    ) -> bool:  # fmt: skip
        """Whether a register goes on as it was assumed to."""
        assumed, found = growths
        same = (found.a, found.b) == (assumed.a, assumed.b)
        if not same or step_between(*values) != assumed.a:
            site = found.site if found.site >= 0 else window.passage.head
            self.limit(0, site, f"{_name(register)} does not repeat at a fixed step")
            return False
        if found.limit < self.reach:
            self.limit(found.limit, found.site, f"{_name(register)}, from round to round")
        return True


def _behind(item: Growth) -> Growth:
    """That of a number behind all rounds that are put in, where j is k."""
    return fixed_as(item._replace(a=0, b=item.a + item.b))


def _in_flight(wave: Wave) -> InFlight:
    """The registers that loads in flight will write, with how many operations are newer, and how
    many counters have to be waited for."""
    found: InFlight = {}
    places = {
        id(entry): len(entries) - at
        for entries in wave.in_flight.values()
        for at, entry in enumerate(entries)
    }
    for register, entry in wave.pending.items():
        newer = places.get(id(entry), 0)
        found[register] = entry.instruction, entry.queue, newer, entry.counters
    return found


def _bytes_of(text: FollowedKernel, event: OperationIssued) -> int:
    """What each lane of a store writes."""
    item = text.code[event.instruction].code.item
    size = size_of(item)
    return size * len(lds_offsets(item, size)) if item.base.startswith("ds_") else size


def _name(register: int) -> str:
    if register == CONDITION:
        return "the condition code"
    return "a word of private memory" if register >= PRIVATE else register_name(register)


def _what(one: FollowedInstruction, register: int) -> str:
    kind = one.code.opcode.kind
    if kind is OpcodeKind.CONTROL:
        return "whether a branch is taken"
    return f"{_name(register)} in {one.code.item.base}"
