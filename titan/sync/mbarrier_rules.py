"""mbarriers: arrivals, transaction counts, phases, and the waits for them.

Sources: PTX "mbarrier" (contents, phase completion, test_wait), "mbarrier.init", "mbarrier.inval".
"""

from __future__ import annotations

from titan.foundation.diagnostics.wording import counted
from titan.sync import program as ir
from titan.sync.control import ControlFlow
from titan.sync.expression import evaluate
from titan.sync.fault import FaultKind
from titan.sync.lifetime import CtaLifetime
from titan.sync.parts import peer_commits
from titan.sync.state import (
    BarrierStatus,
    Draft,
    Environment,
    ExecutionContext,
    Key,
    MbarrierState,
    key_of,
    key_text,
)

TRANSACTION_MAX = 2**20 - 1  # PTX "mbarrier: Contents": range of the transaction count


class MbarrierRules:
    """What operations on mbarriers do to a draft state."""

    def __init__(self, control: ControlFlow, lifetime: CtaLifetime) -> None:
        program = control.program
        self._control = control
        self._lifetime = lifetime
        self._ctas = {barrier.name: barrier.cta for barrier in program.barriers}
        self._may_run_ahead = program.policies.unobserved_phase == "allow"
        self._watched = frozenset(peer_commits(program))  # who has waited is asked when CTAs end
        assumed = program.policies.barrier_init == "assumed"
        self._status_of_init = BarrierStatus.USABLE if assumed else BarrierStatus.UNPUBLISHED

    def declared(
        self,
        draft: Draft,
        context: ExecutionContext,
        reference: ir.Reference,
        environment: Environment,
    ) -> Key:
        """The key of a barrier that exists."""
        key = key_of(reference, environment)
        if key not in draft.barriers:
            message = f"there is no barrier {key_text(key)}"
            context.fail(FaultKind.INDEX_OUT_OF_RANGE, message, key[0])
        return key

    def usable(
        self, draft: Draft, context: ExecutionContext, key: Key, engine: bool = False
    ) -> MbarrierState:
        """The barrier, if it is live and its initialisation is published to who uses it."""
        barrier, cta = draft.barriers[key], self._ctas[key[0]]
        if barrier.status is BarrierStatus.ABSENT:
            message = f"{key_text(key)} is used before it is initialised or after it is invalidated"
            context.fail(FaultKind.BARRIER_UNINITIALISED, message, key[0])
        remote = cta != self._control.agents[context.agent].role.cta
        if (remote or engine) and barrier.status is BarrierStatus.UNPUBLISHED:
            message = f"the initialisation of {key_text(key)} is not published by a fence"
            context.fail(FaultKind.UNPUBLISHED_INIT, message, key[0])
        if remote or engine:
            self._lifetime.check_alive(draft, context, cta, key_text(key))
        return barrier

    def store(
        self, draft: Draft, context: ExecutionContext, key: Key, barrier: MbarrierState
    ) -> None:
        """Store the barrier, completing its phase when nothing is outstanding."""
        if abs(barrier.transaction) > TRANSACTION_MAX:
            message = f"{key_text(key)} overflows its transaction count"
            context.fail(FaultKind.TRANSACTION_MISMATCH, message, key[0])
        if barrier.pending == 0 and barrier.transaction < 0:
            message = f"{key_text(key)} receives more bytes than its phase expects"
            context.fail(FaultKind.TRANSACTION_MISMATCH, message, key[0])
        if barrier.pending == 0 and barrier.transaction == 0:
            barrier = barrier._replace(
                pending=barrier.expected,
                phase=barrier.phase + 1,
                tokens=frozenset(),
                armed=barrier.tokens,
                observed=self._may_run_ahead and key[0] not in self._watched,
            )
        draft.barriers[key] = barrier

    def arrive(
        self,
        draft: Draft,
        context: ExecutionContext,
        operation: ir.Arrive,
        environment: Environment,
    ) -> None:
        """Counts down the phase, after tokens and drops; a dead barrier is a fault of `context`."""
        key = self.declared(draft, context, operation.barrier, environment)
        barrier = self.usable(draft, context, key)
        count = evaluate(operation.count, environment)
        if operation.token:
            own = frozenset((context.agent,))
            barrier = barrier._replace(tokens=barrier.tokens | own, armed=barrier.armed | own)
        if operation.drop:
            barrier = barrier._replace(expected=barrier.expected - count)
        expected_bytes = evaluate(operation.transaction, environment)
        self.count_down(draft, context, key, barrier, count, expected_bytes)

    def count_down(
        self,
        draft: Draft,
        context: ExecutionContext,
        key: Key,
        barrier: MbarrierState,
        count: int,
        expected_bytes: int = 0,
    ) -> None:
        """Expect bytes, then take `count` arrivals off the phase."""
        if not 0 <= count <= barrier.pending or barrier.expected < 0:
            message = f"{key_text(key)} gets more arrivals than its phase expects"
            context.fail(FaultKind.OVER_ARRIVAL, message, key[0])
        if count and not barrier.observed and not self._may_run_ahead:
            message = (
                f"an arrival at {key_text(key)} for phase {barrier.phase}, and no wait has passed "
                f"for phase {barrier.phase - 1}"
            )
            context.fail(FaultKind.UNOBSERVED_PHASE, message, key[0])
        changed = barrier._replace(
            pending=barrier.pending - count, transaction=barrier.transaction + expected_bytes
        )
        self.store(draft, context, key, changed)

    def expect(
        self,
        draft: Draft,
        context: ExecutionContext,
        operation: ir.ExpectTransaction,
        environment: Environment,
    ) -> None:
        """Adds expected bytes; TRANSACTION_MISMATCH after the last arrival of the phase."""
        key = self.declared(draft, context, operation.barrier, environment)
        barrier = self.usable(draft, context, key)
        if barrier.pending == 0:
            message = f"bytes are expected on {key_text(key)} after the last arrival of its phase"
            context.fail(FaultKind.TRANSACTION_MISMATCH, message, key[0])
        transaction = barrier.transaction + evaluate(operation.bytes, environment)
        self.store(draft, context, key, barrier._replace(transaction=transaction))

    def wait_passes(self, draft: Draft, operation: ir.Wait, environment: Environment) -> bool:
        """Whether the parity wait is over. A wait on no usable barrier passes, and then fails."""
        barrier = draft.barriers.get(key_of(operation.barrier, environment))
        if barrier is None or barrier.status is BarrierStatus.ABSENT:
            return True
        return barrier.phase & 1 != evaluate(operation.parity, environment) & 1

    def wait(
        self, draft: Draft, context: ExecutionContext, operation: ir.Wait, environment: Environment
    ) -> None:
        """Passes a wait that may pass; LAPPED_WAIT where another phase was meant."""
        key = self.declared(draft, context, operation.barrier, environment)
        barrier = self.usable(draft, context, key)
        meant = barrier.phase - 1
        if operation.phase is not None:
            meant = evaluate(operation.phase, environment)
        if barrier.phase != meant + 1:
            message = (
                f"the wait for phase {meant} of {key_text(key)} passes after "
                f"{counted(barrier.phase, 'completed phase')}"
            )
            context.fail(FaultKind.LAPPED_WAIT, message, key[0])
        draft.barriers[key] = barrier._replace(observed=True)

    def token_wait(
        self,
        draft: Draft,
        context: ExecutionContext,
        operation: ir.TokenWait,
        environment: Environment,
    ) -> None:
        """A wait for the phase of the agent's last token: of this phase or the one before (PTX)."""
        key = self.declared(draft, context, operation.barrier, environment)
        barrier = self.usable(draft, context, key)
        if context.agent not in barrier.armed:
            who = self._control.agents[context.agent].name
            message = f"{who} waits at {key_text(key)} without a token of this phase or the last"
            context.fail(FaultKind.NAMED_BARRIER_MISUSE, message, key[0])
        draft.barriers[key] = barrier._replace(observed=True)

    def check_lapped(self, draft: Draft) -> None:
        """A waiting agent whose phase is two behind sleeps through it (PTX test_wait)."""
        for agent in self._control.agents:
            position = draft.positions[agent.number]
            operation = self._control.operation_at(position)
            if not isinstance(operation, ir.Wait) or operation.phase is None:
                continue
            environment = self._control.environment(agent, position.values)
            key = key_of(operation.barrier, environment)
            barrier = draft.barriers.get(key)
            meant = evaluate(operation.phase, environment)
            usable = barrier is not None and barrier.status is not BarrierStatus.ABSENT
            if barrier is not None and usable and barrier.phase > meant + 1:
                message = (
                    f"{agent.name} still waits for phase {meant} of {key_text(key)} after "
                    f"{counted(barrier.phase, 'completed phase')}"
                )
                ExecutionContext(agent.number, operation).fail(
                    FaultKind.LAPPED_WAIT, message, key[0]
                )

    def init(
        self, draft: Draft, context: ExecutionContext, operation: ir.Init, environment: Environment
    ) -> None:
        """Makes the barrier live, unpublished unless assumed; BARRIER_LIFECYCLE if it is live."""
        key = self.declared(draft, context, operation.barrier, environment)
        if draft.barriers[key].status is not BarrierStatus.ABSENT:
            message = f"{key_text(key)} is initialised while it is live"
            context.fail(FaultKind.BARRIER_LIFECYCLE, message, key[0])
        count = evaluate(operation.count, environment)
        draft.barriers[key] = MbarrierState(
            self._status_of_init, context.agent, count, count, 0, 0, frozenset(), True
        )

    def invalidate(
        self,
        draft: Draft,
        context: ExecutionContext,
        operation: ir.Invalidate,
        environment: Environment,
    ) -> None:
        """Ends the barrier's life; a fault if it is not live or is still in use."""
        key = self.declared(draft, context, operation.barrier, environment)
        barrier = draft.barriers[key]
        if barrier.status is BarrierStatus.ABSENT:
            message = f"{key_text(key)} is invalidated while it is not live"
            context.fail(FaultKind.BARRIER_UNINITIALISED, message, key[0])
        used = any(key == target for flight in draft.flights() for target, _ in flight.completes)
        if used or barrier.tokens or self._waited_for(draft, key):
            message = f"{key_text(key)} is invalidated while it is in use"
            context.fail(FaultKind.BARRIER_LIFECYCLE, message, key[0])
        draft.barriers[key] = barrier._replace(status=BarrierStatus.ABSENT)

    def _waited_for(self, draft: Draft, key: Key) -> bool:
        """Whether an agent stands at a wait on the barrier."""
        for agent in self._control.agents:
            position = draft.positions[agent.number]
            operation = self._control.operation_at(position)
            if isinstance(operation, ir.Wait | ir.TokenWait):
                environment = self._control.environment(agent, position.values)
                if key_of(operation.barrier, environment) == key:
                    return True
        return False
