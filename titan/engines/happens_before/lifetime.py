"""What must be over when a CTA ends, and whether waiting for a pool can block for ever.

A CTA has ended when all its agents are at their end. An operation that uses its memory or its
barriers is over by then in every run exactly if it is before the last event of one of its agents.

A pool makes runs depend on the schedule, so taking orders nothing here. A take never blocks if what
is certainly given before it covers all that may be taken before it. Where some may block, all go on
in every run if the pool, with all gives that are after none of those, covers all takes together:
a state in which only takes are blocked has all those gives behind it. Otherwise one run does not
decide.
"""

from __future__ import annotations

from titan.engines.happens_before.clocks import Clocks, Moment
from titan.engines.happens_before.findings import (
    Findings,
    Plan,
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

TAKES_MAX = 400


class ExitRules:
    """Hears of remote operations; judges all at the end of the run."""

    def __init__(self, clocks: Clocks, layout: RunLayout, findings: Findings) -> None:
        self._clocks = clocks
        self._layout = layout
        self._findings = findings
        self._remote: list[tuple[Moment, Instance, int, str]] = []

    def remote(self, at: Moment, instance: Instance, cta: int, name: str) -> None:
        """An operation on memory or a barrier of another CTA."""
        self._remote.append((at, instance, cta, name))

    def at_end(self, execution: RunState) -> None:
        """All agents have ended."""
        if self._layout.program.policies.exit_in_flight == "allow":
            return
        last: dict[int, list[Moment]] = {}
        for agent in self._layout.agents:
            moment = self._clocks.moment(execution, agent.number)
            last.setdefault(agent.role.cta, []).append(moment)
        for at, instance, cta, name in self._remote:
            moments = last.get(cta, [])
            if moments and not any(self._clocks.before(at.agent, at.index, end) for end in moments):
                message = f"{name} belongs to CTA {cta}, which may have ended"
                bounds = up_to(bounds_of(self._clocks, at, *moments), at.agent, at.index)
                self._add(message, at.agent, instance, Plan(bounds, last=at.agent))
        for flight in self._clocks.flights:
            if not flight.instance.touches and not flight.instance.completes:
                continue
            for cta, reads_only in self._touched(flight).items():
                moments = last.get(cta, [])
                done = self._clocks.read if reads_only else self._clocks.over
                if moments and not any(done(flight, end) for end in moments):
                    self._leak(flight, moments, reads_only)

    def _touched(self, flight: IssuedOperation) -> dict[int, bool]:
        """The CTAs that the flight uses, and whether it only reads there."""
        touched: dict[int, bool] = {}
        for touch in flight.instance.touches:
            cta = self._layout.homes.get(touch.cell[0], -1)
            touched[cta] = touched.get(cta, True) and not touch.write
        for key, _ in flight.instance.completes:
            touched[self._layout.barrier_ctas[key[0]]] = False
        return touched

    def _leak(self, flight: IssuedOperation, moments: list[Moment], reading: bool) -> None:
        issue = self._clocks.flights[flight].issue
        bounds = bounds_of(self._clocks, issue, *moments)
        bounds = with_event(bounds, issue.agent, issue.index)
        message = "a CTA may end while an asynchronous operation that uses it is in flight"
        plan = Plan(bounds, {name_of(flight): reading})
        self._add(message, flight.agent, flight.instance, plan)

    def _add(self, message: str, agent: int, instance: Instance, *plans: Plan) -> None:
        fault = Fault(FaultKind.LEAK_AT_EXIT, message, (agent,), (instance.operation,))
        self._findings.add(Weight.FAULT, fault, *plans)


class PoolRules:
    """Hears takes and gives; judges all at the end of the run."""

    def __init__(self, clocks: Clocks, layout: RunLayout, findings: Findings) -> None:
        self._clocks = clocks
        self._available = {pool.name: pool.available for pool in layout.program.pools}
        self._findings = findings
        self._takes: dict[str, list[tuple[Moment, Instance]]] = {}
        self._gives: dict[str, list[tuple[Moment, Instance]]] = {}

    def take(self, at: Moment, instance: Instance, pool: str) -> None:
        self._takes.setdefault(pool, []).append((at, instance))

    def give(self, at: Moment, instance: Instance, pool: str) -> None:
        self._gives.setdefault(pool, []).append((at, instance))

    def at_end(self) -> None:
        for pool, takes in self._takes.items():
            if len(takes) > TAKES_MAX or not self._all_go_on(pool, takes):
                fault = Fault(
                    FaultKind.POOL_MISUSE,
                    f"whether a taker of {pool} blocks depends on the interleaving",
                    tuple(at.agent for at, _ in takes[:4]),
                    tuple(instance.operation for _, instance in takes[:4]),
                    pool,
                )
                self._findings.add(Weight.INEXACT, fault)

    def _all_go_on(self, pool: str, takes: list[tuple[Moment, Instance]]) -> bool:
        gives = self._gives.get(pool, [])
        if any(instance.amount < 0 for _, instance in takes):
            return False
        blocking = [take for take in takes if self._may_block(pool, take[0], takes, gives)]
        if not blocking:
            return True
        certain = sum(
            instance.amount
            for at, instance in gives
            if not any(self._before(take, at) for take, _ in blocking)
        )
        return self._available[pool] + certain >= sum(take.amount for _, take in takes)

    def _may_block(
        self,
        pool: str,
        at: Moment,
        takes: list[tuple[Moment, Instance]],
        gives: list[tuple[Moment, Instance]],
    ) -> bool:
        given = sum(instance.amount for give, instance in gives if self._before(give, at))
        taken = sum(instance.amount for take, instance in takes if not self._before(at, take))
        return self._available[pool] + given < taken

    def _before(self, first: Moment, second: Moment) -> bool:
        return self._clocks.before(first.agent, first.index, second)
