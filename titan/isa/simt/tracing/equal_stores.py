"""Clashes of lanes that remain where lanes store the same to one place by several instructions.

Which of two stores comes first is open where their lanes have not met; it does not matter where
both write the same. So a run in which such stores clash is made again with its values traced, and
each plain store is compared, byte by byte, with the plain stores of the warp to that byte that its
lanes need not come after. Where all leave the same, by known bytes or by numbers, the clashes of
stores with stores are left out; those with loads, with strong accesses, and of lanes of one store
stay, of this store and of those behind it. Once a clash is left out, what the same lanes store
there without having met has to be the same, too: a lane that is behind may store the old value.
Nothing is shown of stores in the arms of branches on data, of copies and of matrices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from titan.isa.simt import events as ev
from titan.isa.simt.accesses import read_value
from titan.isa.simt.footprints import NO_CTA, MemorySpace
from titan.isa.simt.lane_uses import ITSELF, LaneAccess, LaneUse, LaneUses
from titan.isa.simt.operations import DecodedStep, Op
from titan.isa.simt.outcome import INSTRUCTIONS_MAX, Ending, PreparedLaunch, Run
from titan.isa.simt.state import Fragment
from titan.isa.simt.tracing.alike_lanes import keys_of
from titan.isa.simt.tracing.executed_step import is_untraced
from titan.isa.simt.tracing.spent_reads import LeftOutLanes
from titan.isa.simt.tracing.traced import TracingExecution
from titan.isa.simt.values import lane, lanes_of

_Place = tuple[int, int]  # CTA, and byte


class _Written(NamedTuple):
    """What lanes write to a byte. `other`: the store that it clashes with, if that is left out;
    `unordered`: accesses with stores that these lanes need not come after, and what they have left;
    `first`: whether `use`, that of the store, has none before; `left`: what these have left."""

    place: _Place
    lanes: int
    other: int | None
    unordered: list[tuple[LaneUse, int | None]]
    use: LaneUse
    first: bool
    left: int | None


@dataclass
class StoreUses(LaneUses):
    """The accesses of lanes, with the stores of a step that are to be compared. `comparing`: the
    access now is by a store that can be."""

    written: list[_Written] = field(default_factory=list)
    comparing: bool = False

    def note(
        self, place: tuple[int, int], lanes: int, access: LaneAccess, instruction: int, some: bool
    ) -> int | None:  # fmt: skip
        """As of any uses, but for stores with stores."""
        if access is not LaneAccess.WRITE:
            return super().note(place, lanes, access, instruction, some)
        beside: int | None = None
        unordered: list[tuple[LaneUse, int | None]] = []
        for table, known, parted in ((self.now, ITSELF, some), *self._earlier(some)):
            use = table.get(place)
            if use is None:
                continue
            if beside is None:
                beside = use.clash(lanes, access, known, parted, beside=access)
            if any(lanes & ~known[at] for at in lanes_of(use.lanes[access])):
                unordered.append((use, use.left))
        now = self.now.setdefault(place, LaneUse())
        first, left = not now.lanes[access], now.left
        found = super().note(place, lanes, access, instruction, some)
        now.left = None  # until it is compared
        left_out = self.comparing and not some and beside is None
        other = found if left_out else None
        self.written.append(_Written(place, lanes, other, unordered, now, first, left))
        return None if left_out else found


class EqualStores(TracingExecution):
    """A traced run without the clashes of stores that write the same. `left_out`: lanes of loads
    that do not read, or before nothing later. `found`: stores that write something else."""

    def __init__(self, made: PreparedLaunch, left_out: LeftOutLanes) -> None:
        super().__init__(made)
        self.left_out = left_out
        self.found: dict[int, ev.LaneClash] = {}

    def start_cluster(self, numbers: tuple[int, ...]) -> None:
        """As any cluster, with uses that compare stores."""
        super().start_cluster(numbers)
        for cta in self.clusters[-1].ctas:
            for warp in cta.warps:
                warp.uses = StoreUses()

    def step(self, fragment: Fragment) -> bool:
        """Execute one instruction."""
        uses, step = fragment.warp.uses, self.steps[fragment.pc]
        assert isinstance(uses, StoreUses)
        pc, first = fragment.pc, len(uses.written)
        in_arms = self._arms is not None or self.maybe or self.uncertain or bool(uses.outer)
        plain = step.op is Op.STORE and step.flags[2] == int(ev.AccessSemantics.WEAK)
        uses.comparing = plain and not (in_arms or self.looping or self.parted)
        self.left_out.begin(self, fragment)
        try:
            result = super().step(fragment)
        finally:
            self.left_out.end(self, fragment)
        written = uses.written[first:]
        del uses.written[first:]
        self._compare(fragment, pc, written, comparable=uses.comparing)
        uses.comparing = False
        return result

    def _compare(
        self, fragment: Fragment, pc: int, written: Sequence[_Written], *, comparable: bool
    ) -> None:
        """Compare what a step has written with what was stored there before."""
        uses, step = fragment.warp.uses, self.steps[pc]
        assert isinstance(uses, StoreUses)
        count = step.flags[4] // 8 * (len(step.args) - 1) if comparable else 1
        for number, item in enumerate(written):
            known = comparable and self._alike(fragment, step, item.lanes)
            left = self._left(fragment, item.place, pc) if known else None
            apart = item.other is not None or any(use.apart for use, _ in item.unordered)
            if apart and (left is None or any(other != left for _, other in item.unordered)):
                where = item.place[0], written[number - number % count].place[1], count
                before = item.other
                if before is None:
                    before = item.unordered[0][0].at[LaneAccess.WRITE]
                self._clash(fragment, pc, where, item.lanes, before)
            item.use.left = left if item.first or left == item.left else None
            for use in (item.use, *(use for use, _ in item.unordered)):
                use.apart |= apart

    def _alike(self, fragment: Fragment, step: DecodedStep, lanes: int) -> bool:
        """Whether these lanes store the same."""
        if not lanes & lanes - 1:
            return True
        registers = [fragment.warp.registers[item] for item in step.args[1:]]
        found = {keys_of(lane(item, at) for item in registers) for at in lanes_of(lanes)}
        return len(found) == 1 and None not in found

    def _left(self, fragment: Fragment, place: _Place, pc: int) -> int | None:
        """A number for what a byte holds."""
        number, at = place
        cta = None if number == NO_CTA else self.ctas[number]
        space = MemorySpace.GLOBAL if cta is None else MemorySpace.SHARED
        found = keys_of([read_value(self, fragment.warp, 0, (space, cta, at), 1, pc)])
        return None if found is None else found[0]

    def _clash(
        self, fragment: Fragment, pc: int, where: tuple[int, int, int], lanes: int, other: int
    ) -> None:
        number, at, count = where
        space = MemorySpace.GLOBAL if number == NO_CTA else MemorySpace.SHARED
        footprint = self.footprint(space, number, ((at, at + count),))
        header = len(self.events), fragment.warp.cta.number, fragment.warp.index, lanes, pc
        self.found.setdefault(pc, ev.LaneClash(*header, footprint, ev.Mode.WRITE, other))


def unequal_stores(
    run: Run, clashes: Iterable[ev.LaneClash], left_out: LeftOutLanes
) -> tuple[ev.LaneClash, ...] | None:
    """The clashes of a run without those of lanes that are left out, and of stores that write the
    same; None where nothing is shown, or no stores clash. `clashes`: what it has without.
    """
    made = run.prepared
    if made is None or run.outcome.ending is not Ending.FINISHED:
        return None
    steps = made.code.steps
    if not any(are_stores(event, steps) for event in clashes):
        return None
    if run.instructions > INSTRUCTIONS_MAX or any(is_untraced(e, steps) for e in run.events):
        return None
    machine = EqualStores(made, left_out)
    again = machine.run()
    if machine.unsure or machine.chosen_own or again.outcome != run.outcome:
        return None
    if _beside_clashes(again.events) != _beside_clashes(run.events):
        return None
    remain = [event for event in again.events if isinstance(event, ev.LaneClash)]
    return (*remain, *machine.found.values())


def are_stores(event: ev.LaneClash, steps: Sequence[DecodedStep]) -> bool:
    """Whether a clash is one of a store with a store."""
    return steps[event.instruction].op is Op.STORE and steps[event.other].op is Op.STORE


def _beside_clashes(events: Iterable[ev.Event]) -> list[ev.Event]:
    """The events that are no clashes, without their places among the others."""
    return [replace(event, sequence=0) for event in events if not isinstance(event, ev.LaneClash)]
