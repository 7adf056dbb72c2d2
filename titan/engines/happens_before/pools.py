"""Whether waiting for a pool can block forever.

A pool makes runs depend on the schedule, so taking orders nothing here. A take never blocks if what
is certainly given before it covers all that may be taken before it. Where some may block, every
state is examined in which all agents are at a take or at their end: if the state can be reached and
none of these takes can continue, a run may block there. One run does not decide that.
"""

from __future__ import annotations

from functools import cached_property

from titan.engines.happens_before.clocks import Clocks, Timestamp
from titan.engines.happens_before.findings import SuspicionCollector, Weight
from titan.engines.happens_before.tables import RunLayout
from titan.engines.happens_before.unfolding import Instance
from titan.foundation.records import dataclass
from titan.sync.fault import Fault, FaultKind

TAKES_MAX = 400
SETS_MAX = 50_000  # sets of takes that are examined, per question


@dataclass(frozen=True)
class PoolChange:
    """A take or a give: when it happened, of which pool, and how many."""

    at: Timestamp
    instance: Instance
    pool: str

    @property
    def amount(self) -> int:
        """How many registers, or units of what the pool holds."""
        return self.instance.amount


class PoolRules:
    """Hears takes and gives; judges all at the end of the run."""

    def __init__(self, clocks: Clocks, layout: RunLayout, findings: SuspicionCollector) -> None:
        self._clocks = clocks
        self._available = {pool.name: pool.available for pool in layout.program.pools}
        self._findings = findings
        self._takes: dict[str, list[PoolChange]] = {}
        self._gives: dict[str, list[PoolChange]] = {}

    def take(self, at: Timestamp, instance: Instance, pool: str) -> None:
        """Remembers when an instance took from the pool; judges nothing yet."""
        self._takes.setdefault(pool, []).append(PoolChange(at, instance, pool))

    def give(self, at: Timestamp, instance: Instance, pool: str) -> None:
        """Remembers when an instance gave to the pool; judges nothing yet."""
        self._gives.setdefault(pool, []).append(PoolChange(at, instance, pool))

    def at_end(self) -> None:
        """Judge the pools that may block, together: a take of one may precede a give of another."""
        scarce = [pool for pool, takes in self._takes.items() if self._may_block_in(pool, takes)]
        if not scarce:
            return
        takes = [change for pool in scarce for change in self._takes[pool]]
        gives = [change for pool in scarce for change in self._gives.get(pool, [])]
        if self._may_stick(scarce, takes, gives):
            fault = Fault(
                FaultKind.POOL_MISUSE,
                f"whether a taker of {scarce[0]} blocks depends on the interleaving",
                tuple(change.at.agent for change in takes[:4]),
                tuple(change.instance.operation for change in takes[:4]),
                scarce[0],
            )
            self._findings.add(Weight.INEXACT, fault)

    def _may_block_in(self, pool: str, takes: list[PoolChange]) -> bool:
        if len(takes) > TAKES_MAX or any(take.amount < 0 for take in takes):
            return True
        gives = self._gives.get(pool, [])
        return any(self._may_block(take, takes, gives) for take in takes)

    def _may_block(
        self, take: PoolChange, takes: list[PoolChange], gives: list[PoolChange]
    ) -> bool:
        clocks = self._clocks
        given = sum(give.amount for give in gives if _precedes(clocks, give, take))
        taken = sum(other.amount for other in takes if not _precedes(clocks, take, other))
        return self._available[take.pool] + given < taken

    def _may_stick(
        self, pools: list[str], takes: list[PoolChange], gives: list[PoolChange]
    ) -> bool:
        if len(takes) > TAKES_MAX or any(change.amount < 0 for change in (*takes, *gives)):
            return True
        available = {pool: self._available[pool] for pool in pools}
        return PoolStates(self._clocks, available, takes, gives).may_stick()


@dataclass(frozen=True)
class PoolStates:
    """The states of some pools, each given by the takes and gives that have happened.

    Sets of takes or gives are bit masks over their positions.
    """

    clocks: Clocks
    available: dict[str, int]
    takes: list[PoolChange]
    gives: list[PoolChange]

    def may_stick(self) -> bool:
        """Whether there may be a reachable state with takes next, none of which can continue.

        Let B be the takes that come next in such a state: none is before another, everything that
        is after none of them has happened, and what is after one of them has not. So B alone shows
        what each pool holds. All such sets are examined; with more than `SETS_MAX` the answer is
        yes.
        """
        count = len(self.takes)
        # A set of takes, the takes and the gives after it, and the first take that may be added.
        open_sets = [(0, 0, 0, 0)]
        for _ in range(SETS_MAX):
            if not open_sets:
                return False
            chosen, later, later_gives, first = open_sets.pop()
            happened = ~(later | chosen) & (1 << count) - 1, ~later_gives & self._all_gives
            if chosen and self._blocks(chosen, self._held(*happened)) and self._reaches(*happened):
                return True
            for n in range(first, count):
                after_takes, after_gives = self._after[n]
                if not later >> n & 1 and not after_takes & chosen:
                    more = chosen | 1 << n, later | after_takes, later_gives | after_gives, n + 1
                    open_sets.append(more)
        return True

    def _blocks(self, chosen: int, held: dict[str, int]) -> bool:
        """Whether none of the chosen takes can continue; no pool ever holds less than nothing."""
        if min(held.values()) < 0:
            return False
        members = (take for n, take in enumerate(self.takes) if chosen >> n & 1)
        return all(held[take.pool] < take.amount for take in members)

    def _reaches(self, takes: int, gives: int) -> bool:
        """Whether these takes can happen in some order, with these gives as early as possible."""
        seen, open_sets = {0}, [0]
        while open_sets:
            if len(seen) > SETS_MAX:
                return True
            taken = open_sets.pop()
            if taken == takes:
                return True
            given = sum(
                1 << n
                for n in range(len(self.gives))
                if gives >> n & 1 and not self._takes_before_give[n] & ~taken
            )
            held = self._held(taken, given)
            for n, take in enumerate(self.takes):
                more = taken | 1 << n
                if not takes >> n & 1 or more in seen or self._takes_before[n] & ~taken:
                    continue
                if take.amount <= held[take.pool]:
                    seen.add(more)
                    open_sets.append(more)
        return False

    def _held(self, takes: int, gives: int) -> dict[str, int]:
        held = dict(self.available)
        for n, give in enumerate(self.gives):
            held[give.pool] += give.amount if gives >> n & 1 else 0
        for n, take in enumerate(self.takes):
            held[take.pool] -= take.amount if takes >> n & 1 else 0
        return held

    @cached_property
    def _all_gives(self) -> int:
        return (1 << len(self.gives)) - 1

    @cached_property
    def _after(self) -> list[tuple[int, int]]:
        """For each take, the takes and the gives after it."""
        return [
            (self._mask_after(first, self.takes), self._mask_after(first, self.gives))
            for first in self.takes
        ]

    @cached_property
    def _takes_before(self) -> list[int]:
        return [self._before(take) for take in self.takes]

    @cached_property
    def _takes_before_give(self) -> list[int]:
        return [self._before(give) for give in self.gives]

    def _before(self, change: PoolChange) -> int:
        return sum(
            1 << n for n, take in enumerate(self.takes) if _precedes(self.clocks, take, change)
        )

    def _mask_after(self, first: PoolChange, changes: list[PoolChange]) -> int:
        return sum(
            1 << n for n, change in enumerate(changes) if _precedes(self.clocks, first, change)
        )


def _precedes(clocks: Clocks, first: PoolChange, second: PoolChange) -> bool:
    return clocks.before(first.at.agent, first.at.index, second.at)
