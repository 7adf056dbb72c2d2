"""What must be over when a CTA ends.

A CTA has ended when all its agents are at their end. An operation that uses its memory or its
barriers is over by then in every run exactly if it is before the last event of one of its agents.
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
from titan.sync import program as ir
from titan.sync.fault import Fault, FaultKind


class ExitRules:
    """Hears of remote operations; judges all at the end of the run."""

    def __init__(self, clocks: Clocks, layout: RunLayout, findings: SuspicionCollector) -> None:
        self._clocks = clocks
        self._layout = layout
        self._findings = findings
        self._remote: list[tuple[Timestamp, Instance, int, str, tuple[int, int] | None]] = []

    def remote(
        self,
        at: Timestamp,
        instance: Instance,
        cta: int,
        name: str,
        counted: tuple[int, int] | None = None,
    ) -> None:
        """An operation on memory or a barrier of another CTA.

        `counted`: of an arrival the slot of the barrier and how many phases are complete with it.
        """
        self._remote.append((at, instance, cta, name, counted))

    def at_end(self, execution: RunState) -> None:
        """All agents have ended."""
        if self._layout.program.policies.exit_in_flight == "allow":
            return
        last: dict[int, list[Timestamp]] = {}
        for agent in self._layout.agents:
            timestamp = self._clocks.timestamp(execution, agent.number)
            last.setdefault(agent.role.cta, []).append(timestamp)
        for at, instance, cta, name, counted in self._remote:
            timestamps = last.get(cta, [])
            if timestamps and not any(
                self._clocks.before(at.agent, at.index, end) for end in timestamps
            ):
                message = f"{name} belongs to CTA {cta}, which may have ended"
                bounds = up_to(bounds_of(self._clocks, at, *timestamps), at.agent, at.index)
                self._add(message, at.agent, instance, Plan(bounds, last=at.agent))
            elif timestamps and self._clocks.weak:
                self._check_visible(at, instance, cta, name, counted, timestamps)
        for flight in self._clocks.flights:
            if not flight.instance.touches and not flight.instance.completes:
                continue
            for cta, reads_only in self._touched(flight).items():
                timestamps = last.get(cta, [])
                done = self._clocks.read if reads_only else self._clocks.over
                if timestamps and not any(done(flight, end) for end in timestamps):
                    self._leak(flight, timestamps, reads_only)

    def _check_visible(
        self,
        at: Timestamp,
        instance: Instance,
        cta: int,
        name: str,
        counted: tuple[int, int] | None,
        timestamps: list[Timestamp],
    ) -> None:
        """What a thread has done there is over for certain by order that carries visibility.

        An arrival is over as well once a wait has passed that counts it.
        """
        operation = instance.operation
        if isinstance(operation, ir.Asynchronous | ir.QueueArrive | ir.Wait | ir.TokenWait):
            return
        for end in timestamps:
            if self._clocks.before(at.agent, at.index, end, seen=True):
                return
            if counted is not None and end.clock[counted[0]] >= counted[1]:
                return
        message = (
            f"{name} belongs to CTA {cta}, which ends on synchronisation that carries no visibility"
        )
        fault = Fault(FaultKind.WEAK_SYNCHRONISATION, message, (at.agent,), (operation,), name)
        plan = Plan(bounds_of(self._clocks, *timestamps))
        self._findings.add(Weight.WEAK, fault, plan)

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
