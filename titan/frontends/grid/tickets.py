"""Tickets that the CTAs of a launch draw from counters in global memory, and a run of each CTA with
each ticket.

The last block of a reduction is the one whose atomic on a counter finds the last number. Where each
CTA draws one ticket of a counter, and nothing else touches it before the last has been drawn, the
tickets of any schedule are an order of the CTAs, and a CTA runs as it does alone in a launch whose
counter begins with the number that it finds. So each CTA is run once for each place in that order.
What an atomic makes of a number is read from the counter after the run, so that the numbers are
those of `add`, `inc` or anything else that all CTAs do alike.

Large grids: where the ticket is compared for equality once, and used nowhere else, a CTA does one
of two things; if it does the same with the first and the second ticket, and something else with
the last, then all but the last are alike.

Bytes that CTAs write have no known value at the start in these runs: a CTA reads what others have
written before it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from titan.foundation.errors import TitanError
from titan.isa.simt import events as ev
from titan.isa.simt.control_flow import successors
from titan.isa.simt.footprints import Footprint, MemorySpace, merged
from titan.isa.simt.launch import Allocation, Launch
from titan.isa.simt.memory import KNOWN, PAGE_BITS, Sparse
from titan.isa.simt.operations import COMPARISONS, DecodedCode, Op
from titan.isa.simt.outcome import Ending, Policy, PreparedLaunch, Run
from titan.isa.simt.run import run_prepared
from titan.isa.simt.written import global_accesses

ALL_MAX = 16  # CTAs of a counter that are run with every ticket
CTAS_MAX = 256  # of a grid
STEPS_MAX = 2_000_000  # warp instructions of a run
_KNOWN_RUN = re.compile(bytes((KNOWN,)) + b"+")
Ranges = tuple[tuple[int, int], ...]


class NoTickets(TitanError):
    """Tickets do not decide what the CTAs do; `str()` is why."""


@dataclass(frozen=True, slots=True)
class Counter:
    """A word of global memory; `numbers` are what its drawers find, one after the other."""

    address: int
    size: int
    numbers: tuple[int, ...]
    drawers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Behaviour:
    """A run of a CTA, which does the same with each of `tickets` (places in the order of the
    counter's drawers). Without a counter it draws none."""

    cta: int
    tickets: tuple[int, ...]
    run: Run
    counter: Counter | None = None
    ticket: ev.AccessEvent | None = None

    @property
    def is_last(self) -> bool:
        """Whether the CTA does this with the last ticket alone."""
        return self.counter is not None and self.tickets == (len(self.counter.drawers) - 1,)


def behaviours_of(drawing: Run) -> list[Behaviour]:
    """What each CTA does with each ticket, by the run of one that draws one. Raises NoTickets."""
    made, launch = drawing.prepared, drawing.launch
    if made is None:
        raise NoTickets("the launch cannot be run again")
    if launch.cluster_size > 1:
        raise NoTickets("clusters of several CTAs draw tickets")
    if launch.ctas > CTAS_MAX:
        raise NoTickets(f"tickets are followed in grids of up to {CTAS_MAX} CTAs")
    launch = replace(launch, in_turn=False)
    start = known_memory(made)
    written: Ranges = ()
    for _ in range(4):
        found = _Runs(made, launch, start, written).behaviours()
        now = merged([*written, *(pair for item in found for pair in _written(item))])
        if now == written or not _meets(start, now):
            return found
        written = now
    raise NoTickets("what CTAs write depends on what they find in memory")


def _written(item: Behaviour) -> list[tuple[int, int]]:
    """What a CTA writes, but for its counter."""
    counter = item.counter
    own = () if counter is None else (counter.address, counter.address + counter.size)
    accesses = global_accesses(item.run, set())
    return [
        pair
        for _, footprint, mode in accesses
        if mode is not ev.Mode.READ
        for pair in footprint.ranges()
        if pair != own
    ]


def _meets(start: dict[int, bytes], written: Ranges) -> bool:
    return any(
        low < at + len(data) and at < high for at, data in start.items() for low, high in written
    )


def is_drawn(event: ev.Event) -> bool:
    """Whether an event is an atomic on one place of global memory whose old value is used."""
    return (
        isinstance(event, ev.AccessEvent)
        and event.footprint.space is MemorySpace.GLOBAL
        and event.mode is ev.Mode.ATOMIC
        and event.returns
    )


def known_memory(made: PreparedLaunch) -> dict[int, bytes]:
    """What is known of global memory when the launch begins, in disjoint pieces."""
    memory = Sparse()
    for at, size, data in made.layout.module_globals:
        memory.store(at, data + bytes(max(0, min(size, 1 << 20) - len(data))))
    for at, given in made.launch.memory.items():
        memory.store(at, bytes(given))
    return {
        (number << PAGE_BITS) + found.start(): bytes(page.data[found.start() : found.end()])
        for number, page in memory.pages.items()
        for found in _KNOWN_RUN.finditer(page.state)
    }


@dataclass(slots=True)
class _Runs:
    """Runs of the CTAs of one launch; nothing is known of the bytes `written` at the start."""

    made: PreparedLaunch
    launch: Launch
    start: dict[int, bytes]
    written: Ranges

    def behaviours(self) -> list[Behaviour]:
        """Of all CTAs, in order."""
        launch = self.launch
        firsts: dict[int, tuple[Run, ev.AccessEvent | None]] = {}
        drawers: dict[tuple[int, int], list[int]] = {}
        for cta in range(launch.ctas):
            run, _ = self._run(cta, {}, ())
            ticket = self._ticket(run)
            firsts[cta] = run, ticket
            if ticket is not None:
                low, high = ticket.footprint.bounds
                drawers.setdefault((low, high - low), []).append(cta)
        found: dict[int, list[Behaviour]] = {}
        for place, ctas in drawers.items():
            counter = self._counter(place, ctas)
            for cta in ctas:
                found[cta] = self._of_counter(counter, cta)
        for cta, (run, _) in firsts.items():
            if cta not in found:
                _check_end(run)
                found[cta] = [Behaviour(cta, (), run)]
        return [item for cta in range(launch.ctas) for item in found[cta]]

    def _run(self, cta: int, words: dict[int, bytes], reads: Ranges) -> tuple[Run, list[bytes]]:
        """The run of a CTA where counters hold `words`, and what it leaves in ranges of memory."""
        layout = replace(self.made.layout, module_globals=())
        allocations = self.launch.allocations
        if allocations:
            allocations += tuple(
                Allocation(at, size) for at, size, _ in self.made.layout.module_globals
            )
        memory = {**without(self.start, self.written), **words}
        launch = replace(self.launch, memory=memory, allocations=allocations, tickets=tuple(words))
        made = replace(self.made, layout=layout, launch=launch)
        steps = min(STEPS_MAX, made.options.steps_max)  # few, where a CTA polls
        options = replace(made.options, ctas=(cta,), steps_max=steps)
        run, left = run_prepared(replace(made, options=options), reads)
        return run, [b"" if data is None else data for data in left]

    def _ticket(self, run: Run) -> ev.AccessEvent | None:
        """The one ticket that a CTA draws, if it does."""
        drawn = [
            event for event in run.events if is_drawn(event) and isinstance(event, ev.AccessEvent)
        ]
        if not drawn:
            return None
        if len(drawn) > 1:
            raise NoTickets("a CTA draws several tickets")
        (ticket,) = drawn
        if ticket.lanes & (ticket.lanes - 1) or len(ticket.footprint.ranges()) != 1:
            raise NoTickets("several lanes draw a ticket at once")
        low, high = ticket.footprint.bounds
        if high - low not in (4, 8) or ticket.instruction in run.unknown_addresses():
            raise NoTickets("the address of a counter is not known")
        code = self.made.code
        if any(perhaps(code, event, ticket.instruction) for event in run.events):
            raise NoTickets("data decide whether a CTA draws a ticket")
        return ticket

    def _counter(self, place: tuple[int, int], ctas: Sequence[int]) -> Counter:
        """The counter at an address, with the numbers that it goes through."""
        address, size = place
        number = Sparse()
        for at, data in self.start.items():
            if at < address + size and address < at + len(data):
                number.store(at, data)
        word = number.bytes_at(address, size)
        if word is None:
            raise NoTickets(
                f"each CTA draws a ticket of the counter at global+{address:#x}, whose number at "
                "the start is not known: the launch may give it"
            )
        numbers = [word]
        for _ in ctas[1:]:
            _, (after,) = self._run(ctas[0], {address: numbers[-1]}, ((address, address + size),))
            if len(after) != size:
                raise NoTickets("what a ticket leaves in the counter is not known")
            numbers.append(after)
        values = tuple(int.from_bytes(item, "little") for item in numbers)
        return Counter(address, size, values, tuple(ctas))

    def _of_counter(self, counter: Counter, cta: int) -> list[Behaviour]:
        """What a CTA does with each ticket, those that are alike together."""
        last = len(counter.drawers) - 1
        if last < ALL_MAX:
            return self._alike(counter, cta, range(last + 1))
        found = self._alike(counter, cta, (0, 1, last))
        tickets = [item.tickets for item in found]
        code, ticket = self.made.code, found[0].ticket
        if ticket is None or tickets != [(0, 1), (last,)] or not _compared(code, ticket):
            raise NoTickets(
                f"what a CTA does with each of {last + 1} tickets is followed where the ticket is "
                "compared once, with the last one"
            )
        return [replace(found[0], tickets=tuple(range(last))), found[1]]

    def _alike(self, counter: Counter, cta: int, tickets: Sequence[int]) -> list[Behaviour]:
        found: list[Behaviour] = []
        last = len(counter.drawers) - 1
        span = counter.address, counter.address + counter.size
        for at in tickets:
            word = counter.numbers[at].to_bytes(counter.size, "little")
            run, (after,) = self._run(cta, {counter.address: word}, (span,))
            _check_end(run)
            ticket = self._ticket(run)
            if ticket is None or ticket.footprint.bounds != span:
                raise NoTickets("a CTA does not draw the same ticket in each run")
            if at < last:
                _check_left(run, counter, ticket, after, counter.numbers[at + 1])
            same = next((item for item in found if _same(item.run, run)), None)
            if same is None:
                found.append(Behaviour(cta, (at,), run, counter, ticket))
            else:
                found[found.index(same)] = replace(same, tickets=(*same.tickets, at))
        return found


def _check_left(
    run: Run, counter: Counter, ticket: ev.AccessEvent, after: bytes, expected: int
) -> None:
    """The counter is left to the ticket's atomic alone, which makes the next number of it."""
    place = Footprint(MemorySpace.GLOBAL, ticket.footprint.cta, ticket.footprint.boxes)
    low, high = place.bounds
    for event, footprint, _ in global_accesses(run, set()):
        if event.sequence == ticket.sequence:
            continue
        if any(start < high and low < end for start, end in footprint.ranges()):
            raise NoTickets("something else touches the counter before the last ticket is drawn")
    if after != expected.to_bytes(counter.size, "little"):
        raise NoTickets("CTAs do not raise the counter alike")


def _check_end(run: Run) -> None:
    if run.outcome.ending is not Ending.FINISHED:
        raise NoTickets("the run of a CTA with a ticket does not come to its end")


def _same(one: Run, other: Run) -> bool:
    return list(one.events) == list(other.events)


def without(start: dict[int, bytes], written: Ranges) -> dict[int, bytes]:
    """Pieces of memory with ranges left out."""
    left: dict[int, bytes] = {}
    for at, data in start.items():
        low = at
        for first, end in written:
            if first >= at + len(data) or end <= low:
                continue
            if first > low:
                left[low] = data[low - at : first - at]
            low = max(low, end)
        if low < at + len(data):
            left[low] = data[low - at :]
    return left


def perhaps(code: DecodedCode, event: ev.Event, instruction: int) -> bool:
    """Whether an event shows that data decide if an instruction is executed."""
    if isinstance(event, ev.Assumption):
        return event.policy == Policy.OPAQUE_GUARD and event.instruction == instruction
    if not isinstance(event, ev.Skipped):
        return False
    return instruction in _reached(code, event.instruction, event.until)


def _reached(code: DecodedCode, start: int, until: int = -1) -> set[int]:
    """The instructions that may follow one, up to another."""
    steps, work, seen = code.steps, [start], set[int]()
    while work:
        for following in successors(steps, work.pop(), len(steps)):
            if following not in seen and following not in (until, len(steps)):
                seen.add(following)
                work.append(following)
    return seen


def _compared(code: DecodedCode, ticket: ev.AccessEvent) -> bool:
    """Whether the ticket is compared for equality once in a run, and used nowhere else."""
    (register,) = code.steps[ticket.instruction].out
    uses = [
        at for at, step in enumerate(code.steps) if register in step.args or register == step.guard
    ]
    if len(uses) != 1 or any(step.op is Op.CALL for step in code.steps):
        return False
    use = code.steps[uses[0]]
    equal = COMPARISONS.index("eq"), COMPARISONS.index("ne")
    once = uses[0] not in _reached(code, uses[0]) and use.args.count(register) == 1
    return use.op is Op.SETP and use.flags[0] in equal and once
