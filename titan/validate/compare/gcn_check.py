"""Does the machine program synchronise as the sync program says? Inclusion of two automata.

The sync program of a wave is read as a regular language over events: every copy with its number of
instructions, every wait with its threshold, barriers, reads and writes of LDS; loops repeat any
number of times, branches go either way. The machine program is its control flow graph. Every path
through the graph must be a word of the language, so that a wait that is missing, has another
threshold, or comes after its barrier is found wherever it is; and every operation of the sync
program must be matched on some path, so that nothing has vanished.

What the compiler may add: waits for lgkmcnt(0) anywhere, and waits for vmcnt where it loads values
into registers: behind a `vector` or a tile that is held, but not inside a later loop, where it
would drain the copies that are to stay in flight; where tiles pass through registers; behind the
last loop. What is not checked: that branches are taken for the right numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from titan.codegen.tile.held import held_operands
from titan.codegen.tile.model import TileProgram
from titan.codegen.tile.operations import VECTORS
from titan.isa.gcn.listing import BARRIER, COPY, LGKM, READ, WRITE, GcnFunction, events
from titan.sync import program as ir
from titan.sync.expression import Binary, Constant, Expression

VMCNT_MAX = 62
ANY_VMCNT = "vmcnt"
PAIRS_MAX = 2_000_000


@dataclass(frozen=True, slots=True)
class LanguageMismatch:
    """`address` is where the machine program leaves the language; `expected` what could follow."""

    text: str
    address: int = 0
    expected: tuple[str, ...] = ()


@dataclass(slots=True)
class Language:
    """A nondeterministic automaton. `free`: events that leave a state where it is."""

    steps: list[dict[str, list[int]]] = field(default_factory=list)
    silent: list[list[int]] = field(default_factory=list)
    free: list[frozenset[str]] = field(default_factory=list)
    sites: dict[int, str] = field(default_factory=dict)  # state after the last event of a site
    start: int = 0
    end: int = 0

    def state(self, free: Iterable[str] = ()) -> int:
        """Adds a state and gives its number; LGKM and the `free` events leave it in place."""
        self.steps.append({})
        self.silent.append([])
        self.free.append(frozenset((LGKM, *free)))
        return len(self.steps) - 1

    def closure(self, states: Iterable[int]) -> frozenset[int]:
        """The given states and all that are reached from them without an event."""
        found = set(states)
        waiting = list(found)
        while waiting:
            for target in self.silent[waiting.pop()]:
                if target not in found:
                    found.add(target)
                    waiting.append(target)
        return frozenset(found)

    def after(self, states: frozenset[int], event: str) -> tuple[frozenset[int], set[int]]:
        """The states after the event, and those that the event itself has led to."""
        kind = ANY_VMCNT if event.startswith("vmcnt") else event
        led = {target for state in states for target in self.steps[state].get(event, ())}
        stayed = {state for state in states if kind in self.free[state]}
        return self.closure(led | stayed), led


class _Builder:
    """The language of one role. `copies`: instructions of one copy of each buffer."""

    def __init__(
        self, role: ir.Role, kinds: Mapping[str, str], copies: Mapping[str, int],
        tile: TileProgram,
    ) -> None:  # fmt: skip
        self.role = role
        self.kinds = kinds
        self.copies = copies
        self.language = Language()
        vectors = {item.name for item in tile.operations if item.kind in VECTORS}
        self.vectors = vectors | held_operands(tile)
        self.passing = any(not self._is_copy(item) for item in self._fills())
        self.each = min(
            (self._count(item) for item in self._fills() if self._is_copy(item)), default=1
        )
        loops = [number for number, item in enumerate(role.body) if isinstance(item, ir.Loop)]
        self.tail = loops[-1] if loops else -1

    def _fills(self) -> list[ir.Asynchronous]:
        return [
            item
            for item in ir.walk(self.role.body)
            if isinstance(item, ir.Asynchronous) and self._kind(item.queue) == "vmcnt"
        ]

    def _kind(self, queue: str | None) -> str:
        return self.kinds.get(queue or "", "")

    def _is_copy(self, item: ir.Asynchronous) -> bool:
        return all(effect.buffer in self.copies for effect in item.effects)

    def _count(self, item: ir.Asynchronous) -> int:
        return sum(self.copies[effect.buffer] for effect in item.effects)

    def build(self) -> Language:
        language = self.language
        free = {ANY_VMCNT} if self.passing else set()
        here = language.start = language.state(free)
        for number, item in enumerate(self.role.body):
            if isinstance(item, ir.Compute) and item.what in self.vectors:
                free.add(ANY_VMCNT)  # the compiler waits for the registers at their first use
                here = self._join([here], free)
            here = self._operation(item, here, free)
            if number == self.tail:
                free = {ANY_VMCNT}  # after the loop nothing is to stay in flight
                here = self._join([here], free)
        language.end = here
        return language

    def _join(self, states: list[int], free: set[str]) -> int:
        made = self.language.state(free)
        for state in states:
            self.language.silent[state].append(made)
        return made

    def _block(self, block: ir.Block, here: int, free: set[str]) -> int:
        local = set(free)
        for item in block:
            if isinstance(item, ir.Compute) and item.what in self.vectors:
                local.add(ANY_VMCNT)
                here = self._join([here], local)
            here = self._operation(item, here, local)
        return here

    def _event(self, here: int, event: str, free: set[str], site: str = "") -> int:
        behind = self.language.state(free)
        self.language.steps[here].setdefault(event, []).append(behind)
        if site:
            self.language.sites[behind] = site
        return behind

    def _operation(self, item: ir.Operation, here: int, free: set[str]) -> int:
        match item:
            case ir.Loop(body=body):
                inside = free if self.passing else free - {ANY_VMCNT}
                head = self._join([here], inside)
                end = self._block(body, head, inside)
                self.language.silent[end].append(head)
                return self._join([head], free)
            case ir.Branch(then=then, otherwise=otherwise):
                ends = [self._block(then, here, free), self._block(otherwise, here, free)]
                return self._join(ends, free)
            case ir.BarrierSync():
                return self._event(here, BARRIER, free, "a barrier")
            case ir.QueueWait():
                return self._wait(item, here, free)
            case ir.Asynchronous():
                return self._asynchronous(item, here, free)
            case ir.Compute():
                return here
        raise ValueError(f"an operation that CDNA does not have: {type(item).__name__}")

    def _wait(self, item: ir.QueueWait, here: int, free: set[str]) -> int:
        if self._kind(item.queue) == "lgkmcnt":
            free -= {READ, WRITE}
            return self._event(here, LGKM, free, "a wait for lgkmcnt")
        most = largest(item.pending)
        if most is None:
            raise ValueError("a threshold without a bound")
        ends = []
        for pending in range(most, -1, -1):
            event = f"vmcnt({min(VMCNT_MAX, pending * self.each)})"
            here = self._event(here, event, free, f"a wait for {event}")
            ends.append(here)
        return self._join(ends, free)

    def _asynchronous(self, item: ir.Asynchronous, here: int, free: set[str]) -> int:
        if self._kind(item.queue) == "vmcnt":
            if not self._is_copy(item):
                return here
            count = self._count(item)
            for number in range(count):
                site = "a copy to LDS" if number == count - 1 else ""
                here = self._event(here, COPY, free, site)
            return here
        writes = any(effect.write for effect in item.effects)
        event = WRITE if writes else READ
        free.add(event)  # the accesses may continue until the wait for them
        behind = self._event(here, event, free, f"a {event} of LDS")
        # Lanes without a share of a tile write nothing, and a wave of such lanes branches around.
        return self._join([here, behind], free) if writes else behind


def largest(pending: Expression) -> int | None:
    """An upper bound of a threshold, where one can be derived."""
    match pending:
        case Constant(value):
            return value
        case Binary("min", left, right):
            bounds = [bound for bound in (largest(left), largest(right)) if bound is not None]
            return min(bounds, default=None)
    return None


def language_of(
    program: ir.SyncProgram, tile: TileProgram, kinds: Mapping[str, str], copies: Mapping[str, int]
) -> Language:
    """What a wave may do. `kinds`: of the queues; `copies`: instructions of one copy of a buffer.

    Raises ValueError for a program that is not a pipeline of one role on CDNA.
    """
    if len(program.roles) != 1:
        raise ValueError("the waves of a CDNA pipeline run one role")
    return _Builder(program.roles[0], kinds, copies, tile).build()


def compare(function: GcnFunction, language: Language) -> list[LanguageMismatch]:
    """Where the function leaves the language, and which operations of the program it never does.

    Raises NotUnderstood for what the reader does not know.
    """
    first = (0, language.closure([language.start]))
    seen = {first}
    waiting = [first]
    met: set[int] = set()
    while waiting:
        number, states = waiting.pop()
        item = function.instructions[number]
        for event in events(item):
            following, led = language.after(states, event)
            if not following:
                wanted = expected(language, states)
                text = f"{item.text} is not what the sync program does here"
                return [LanguageMismatch(text, item.address, wanted)]
            states = following
            met |= led
        targets = function.successors(number)
        if not targets and language.end not in states:
            wanted = expected(language, states)
            return [LanguageMismatch("the wave ends before its program does", item.address, wanted)]
        for target in targets:
            pair = (target, states)
            if pair not in seen:
                if len(seen) >= PAIRS_MAX:
                    return [LanguageMismatch("too many paths to compare", item.address)]
                seen.add(pair)
                waiting.append(pair)
    missing = sorted(language.sites[state] for state in set(language.sites) - met)
    return [LanguageMismatch(f"nowhere in the machine program: {text}") for text in missing]


def expected(language: Language, states: Iterable[int]) -> tuple[str, ...]:
    """The events that may follow, beside those that are free."""
    found = {event for state in states for event in language.steps[state]}
    return tuple(sorted(found))
