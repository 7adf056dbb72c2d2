"""Loads of which other lanes make what they store over them.

The lanes of a reduction load the parts, hand them on by shuffles, and all of them store the sum
over the first part. Shuffles order no memory, and yet no lane stores before the load: its value is
made of what has been loaded (`made_of.py`), and nothing is read out of thin air (PTX memory model).
So such a load does not race with stores behind it. Stores before it are compared with it as ever.

What is noted of each byte: which load of each lane was the last, until the lanes meet. It is
*spent* where each lane that then stores there, other than its own, stores what is made of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from titan.isa.simt.execution import SimtExecution
from titan.isa.simt.lane_uses import WRITES, LaneAccess, LaneUses
from titan.isa.simt.state import Fragment
from titan.isa.simt.tracing.made_of import Loads
from titan.isa.simt.values import LANES, lanes_of

_Place = tuple[int, int]  # CTA, and byte


@dataclass(frozen=True, slots=True)
class LeftOutLanes:
    """Lanes of loads by the count of instructions: `idle` ones do not read, `spent` ones read
    before nothing that is stored later."""

    idle: dict[int, int] = field(default_factory=dict)
    spent: dict[int, int] = field(default_factory=dict)

    def begin(self, machine: SimtExecution, fragment: Fragment) -> None:
        """The step that follows is one of a run without these."""
        machine.idle_lanes = self.idle.get(machine.count, 0)
        fragment.warp.uses.spent = self.spent.get(machine.count, 0)

    @staticmethod
    def end(machine: SimtExecution, fragment: Fragment) -> None:
        """The step is over."""
        machine.idle_lanes = fragment.warp.uses.spent = 0


@dataclass
class FollowedUses(LaneUses):
    """The accesses of lanes, with the loads that are followed. To be given before each step:
    `count`, the number of the load if it is one that is followed, or -1; `made`: of what each lane
    stores, if it is known. `kept`: the loads that are not spent."""

    count: int = -1
    made: Loads | None = None
    kept: set[int] = field(default_factory=set)
    _last: dict[_Place, dict[int, int]] = field(default_factory=dict)

    def note(
        self, place: _Place, lanes: int, access: LaneAccess, instruction: int, some: bool
    ) -> int | None:  # fmt: skip
        """As of any uses."""
        if access is LaneAccess.READ and self.count >= 0:
            last = self._last.setdefault(place, {})
            for at in lanes_of(lanes):
                last[at] = self.count * LANES + at
        elif access in WRITES and place in self._last:
            self._stored_over(place, lanes)
        return super().note(place, lanes, access, instruction, some)

    def first_clash(
        self, number: int, ranges: Sequence[tuple[int, int]], lanes: int, writes: bool
    ) -> tuple[int, int] | None:
        """As of any uses; what an engine writes is made of no load."""
        if writes:
            for place, last in self._last.items():
                if place[0] == number and any(low <= place[1] < high for low, high in ranges):
                    self.kept.update(last.values())
        return super().first_clash(number, ranges, lanes, writes)

    def all_meet(self) -> None:
        """As of any uses."""
        self._last.clear()
        super().all_meet()

    def _stored_over(self, place: _Place, lanes: int) -> None:
        for at, load in self._last[place].items():
            others = lanes_of(lanes & ~(1 << at))
            if others and (self.made is None or any(load not in self.made[by] for by in others)):
                self.kept.add(load)
