"""What must be over when a CTA ends, and whether waiting for a pool can block for ever.

A CTA has ended when all its agents are at their end. An operation that uses its memory or its
barriers is over by then in every run exactly if it is before the last event of one of its agents.

A pool makes runs depend on the schedule, so taking orders nothing here. A take never blocks if what
is certainly given before it covers all that may be taken before it. Where some may block, the
states in which only takes come next are gone through: if one of these takes can go on in each, all
do in every run. Otherwise one run does not decide.
"""

from __future__ import annotations

from titan.engines.happens_before.clocks import Clocks, Timestamp
from titan.engines.happens_before.findings import (
    Plan,
    SuspicionCollector,
    Weight,
    bounds_of,
    name_of,
    up_to,
    with_event,
)
from titan.engines.happens_before.run_state import RunState
from titan.engines.happens_before.tables import IssuedOperation, RunLayout
from titan.engines.happens_before.unfolding import Instance
from titan.sync.fault import Fault, FaultKind

Counted = tuple[Timestamp, Instance, str]  # a take or a give, and its pool

TAKES_MAX = 400
SETS_MAX = 50_000  # of takes that come next together


class ExitRules:
    """Hears of remote operations; judges all at the end of the run."""

    def __init__(self, clocks: Clocks, layout: RunLayout, findings: SuspicionCollector) -> None:
        self._clocks = clocks
        self._layout = layout
        self._findings = findings
        self._remote: list[tuple[Timestamp, Instance, int, str]] = []

    def remote(self, at: Timestamp, instance: Instance, cta: int, name: str) -> None:
        """An operation on memory or a barrier of another CTA."""
        self._remote.append((at, instance, cta, name))

    def at_end(self, execution: RunState) -> None:
        """All agents have ended."""
        if self._layout.program.policies.exit_in_flight == "allow":
            return
        last: dict[int, list[Timestamp]] = {}
        for agent in self._layout.agents:
            timestamp = self._clocks.timestamp(execution, agent.number)
            last.setdefault(agent.role.cta, []).append(timestamp)
        for at, instance, cta, name in self._remote:
            timestamps = last.get(cta, [])
            if timestamps and not any(
                self._clocks.before(at.agent, at.index, end) for end in timestamps
            ):
                message = f"{name} belongs to CTA {cta}, which may have ended"
                bounds = up_to(bounds_of(self._clocks, at, *timestamps), at.agent, at.index)
                self._add(message, at.agent, instance, Plan(bounds, last=at.agent))
        for flight in self._clocks.flights:
            if not flight.instance.touches and not flight.instance.completes:
                continue
            for cta, reads_only in self._touched(flight).items():
                timestamps = last.get(cta, [])
                done = self._clocks.read if reads_only else self._clocks.over
                if timestamps and not any(done(flight, end) for end in timestamps):
                    self._leak(flight, timestamps, reads_only)

    def _touched(self, flight: IssuedOperation) -> dict[int, bool]:
        """The CTAs that the flight uses, and whether it only reads there."""
        touched: dict[int, bool] = {}
        for touch in flight.instance.touches:
            cta = self._layout.homes.get(touch.cell[0], -1)
            touched[cta] = touched.get(cta, True) and not touch.write
        for key, _ in flight.instance.completes:
            touched[self._layout.barrier_ctas[key[0]]] = False
        return touched

    def _leak(self, flight: IssuedOperation, timestamps: list[Timestamp], reading: bool) -> None:
        issue = self._clocks.flights[flight].issue
        bounds = bounds_of(self._clocks, issue, *timestamps)
        bounds = with_event(bounds, issue.agent, issue.index)
        message = "a CTA may end while an asynchronous operation that uses it is in flight"
        plan = Plan(bounds, {name_of(flight): reading})
        self._add(message, flight.agent, flight.instance, plan)

    def _add(self, message: str, agent: int, instance: Instance, *plans: Plan) -> None:
        fault = Fault(FaultKind.LEAK_AT_EXIT, message, (agent,), (instance.operation,))
        self._findings.add(Weight.FAULT, fault, *plans)


class PoolRules:
    """Hears takes and gives; judges all at the end of the run."""

    def __init__(self, clocks: Clocks, layout: RunLayout, findings: SuspicionCollector) -> None:
        self._clocks = clocks
        self._available = {pool.name: pool.available for pool in layout.program.pools}
        self._findings = findings
        self._takes: dict[str, list[tuple[Timestamp, Instance]]] = {}
        self._gives: dict[str, list[tuple[Timestamp, Instance]]] = {}

    def take(self, at: Timestamp, instance: Instance, pool: str) -> None:
        """Remembers when an instance took from the pool; judges nothing yet."""
        self._takes.setdefault(pool, []).append((at, instance))

    def give(self, at: Timestamp, instance: Instance, pool: str) -> None:
        """Remembers when an instance gave to the pool; judges nothing yet."""
        self._gives.setdefault(pool, []).append((at, instance))

    def at_end(self) -> None:
        """Judge the pools that may block, together: one may wait for what another lets go on."""
        scarce = [pool for pool, takes in self._takes.items() if self._may_block_in(pool, takes)]
        if not scarce:
            return
        takes = [(at, item, pool) for pool in scarce for at, item in self._takes[pool]]
        gives = [(at, item, pool) for pool in scarce for at, item in self._gives.get(pool, [])]
        if len(takes) > TAKES_MAX or self._may_stick(scarce, takes, gives):
            fault = Fault(
                FaultKind.POOL_MISUSE,
                f"whether a taker of {scarce[0]} blocks depends on the interleaving",
                tuple(at.agent for at, _, _ in takes[:4]),
                tuple(instance.operation for _, instance, _ in takes[:4]),
                scarce[0],
            )
            self._findings.add(Weight.INEXACT, fault)

    def _may_block_in(self, pool: str, takes: list[tuple[Timestamp, Instance]]) -> bool:
        if len(takes) > TAKES_MAX or any(instance.amount < 0 for _, instance in takes):
            return True
        gives = self._gives.get(pool, [])
        return any(self._may_block(pool, at, takes, gives) for at, _ in takes)

    def _may_block(
        self,
        pool: str,
        at: Timestamp,
        takes: list[tuple[Timestamp, Instance]],
        gives: list[tuple[Timestamp, Instance]],
    ) -> bool:
        given = sum(instance.amount for give, instance in gives if self._before(give, at))
        taken = sum(instance.amount for take, instance in takes if not self._before(at, take))
        return self._available[pool] + given < taken

    def _may_stick(self, pools: list[str], takes: list[Counted], gives: list[Counted]) -> bool:
        """Whether there may be a state in which nothing but takes comes next and none can go on.

        Let B be the takes that come next in such a state: none is before another, everything that
        is after none of them has happened, and what is after one of them has not. So B alone shows
        what each pool holds, and all such sets are gone through (at most `SETS_MAX`).
        """
        if any(instance.amount < 0 for _, instance, _ in takes):
            return True
        count = len(takes)
        after = [
            (
                sum(1 << n for n in range(count) if self._before(at, takes[n][0])),
                sum(1 << n for n, (give, _, _) in enumerate(gives) if self._before(at, give)),
            )
            for at, _, _ in takes
        ]
        # A set of takes, the takes and the gives after it, and the first take that may be added.
        open_sets = [(0, 0, 0, 0)]
        for _ in range(SETS_MAX):
            if not open_sets:
                return False
            chosen, later, later_gives, first = open_sets.pop()
            held = {pool: self._available[pool] for pool in pools}
            for n, (_, give, pool) in enumerate(gives):
                held[pool] += 0 if later_gives >> n & 1 else give.amount
            for n, (_, take, pool) in enumerate(takes):
                held[pool] -= 0 if (later | chosen) >> n & 1 else take.amount
            members = [takes[n] for n in range(count) if chosen >> n & 1]
            if members and all(held[pool] < take.amount for _, take, pool in members):
                return True
            for n in range(first, count):
                if not later >> n & 1 and not after[n][0] & chosen:
                    more = (chosen | 1 << n, later | after[n][0], later_gives | after[n][1], n + 1)
                    open_sets.append(more)
        return True

    def _before(self, first: Timestamp, second: Timestamp) -> bool:
        return self._clocks.before(first.agent, first.index, second)
