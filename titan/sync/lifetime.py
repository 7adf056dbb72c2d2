"""The end of a CTA: its memory and its barriers are gone, and nobody may use them from then on.

Arrivals that engines of another CTA make at its mbarriers (`tcgen05.commit` with a barrier of the
peer) are over for certain once a wait at that barrier has passed: PTX orders a commit behind the
operations that it tracks, and no commit behind another. So a CTA that ends has waited for the last
phase of each barrier at which a peer's engines arrive (CUTLASS: `producer_tail`).

Assumption: a CTA ends when all its agents are at their end, not before and not later. The policy
`exit_in_flight` "allow" takes it that nothing of a CTA goes while anybody uses it.
"""

from __future__ import annotations

from titan.sync import program as ir
from titan.sync.control import ControlFlow
from titan.sync.fault import FaultKind
from titan.sync.parts import peer_commits
from titan.sync.state import BarrierStatus, Draft, ExecutionContext, key_text


class CtaLifetime:
    """Which CTAs have ended, and the faults of using what was theirs."""

    def __init__(self, control: ControlFlow) -> None:
        program = control.program
        self._control = control
        self._allowed = program.policies.exit_in_flight == "allow"
        self._storage_ctas = {
            buffer.storage or buffer.name: buffer.cta
            for buffer in program.buffers
            if buffer.space is not ir.Space.GLOBAL
        }
        self._barrier_ctas = {barrier.name: barrier.cta for barrier in program.barriers}
        first = {agent.role.name: agent.number for agent in reversed(control.agents)}
        self._peer_commits = {
            name: ExecutionContext(first[role.name], operation)
            for name, (role, operation) in peer_commits(program).items()
        }

    def ended(self, draft: Draft) -> frozenset[int]:
        """The CTAs whose agents are all at their end: their memory is no longer theirs."""
        agents = self._control.agents
        running = {agent.role.cta for agent in agents if draft.positions[agent.number].frames}
        return frozenset(agent.role.cta for agent in agents) - running

    def check_alive(self, draft: Draft, context: ExecutionContext, cta: int, name: str) -> None:
        """A CTA other than its own must not have ended."""
        if self._allowed:
            return
        if cta in self.ended(draft):
            message = f"{name} belongs to CTA {cta}, which has ended"
            context.fail(FaultKind.LEAK_AT_EXIT, message, name)

    def check_exit(self, draft: Draft) -> None:
        """No engine may use the memory or a barrier of a CTA whose agents are all at their end."""
        ended = self.ended(draft)
        if not ended or self._allowed:
            return
        homes = self._storage_ctas
        for flight in draft.flights():
            touched = {
                homes[cell[0]]
                for cell, write, *_ in flight.accesses
                if cell[0] in homes and (write or flight.reading)
            }
            touched |= {self._barrier_ctas[key[0]] for key, _ in flight.completes}
            if touched & ended:
                message = "the CTA ends while an asynchronous operation that uses it is in flight"
                self._control.issue_of(flight).fail(FaultKind.LEAK_AT_EXIT, message)
        for key, barrier in draft.barriers.items():
            context = self._peer_commits.get(key[0])
            if context is None or self._barrier_ctas[key[0]] not in ended:
                continue
            waited = barrier.observed and barrier.pending == barrier.expected
            if not waited and barrier.status is not BarrierStatus.ABSENT:
                message = f"the CTA of {key_text(key)} ends before it waits for a peer's commit"
                context.fail(FaultKind.LEAK_AT_EXIT, message, key[0])
