"""Barriers: mbarriers with phases and transaction counts, and named barriers.

Sources: PTX "mbarrier" (contents, phase completion, test_wait), "bar", "barrier.cluster".
"""

from __future__ import annotations

from collections.abc import Mapping

from titan.sync import program as ir
from titan.sync.control import Agent, Sizes
from titan.sync.expression import evaluate
from titan.sync.fault import FaultKind
from titan.sync.memory_rules import Environment, MemoryRules
from titan.sync.state import BarrierStatus, Doing, Draft, Key, MbarrierState, NamedState, key_text

TRANSACTION_MAX = 2**20 - 1  # PTX "mbarrier: Contents": range of the transaction count


def key_of(reference: ir.Reference, environment: Mapping[str, int]) -> Key:
    """The name and the evaluated index of what is referred to."""
    return reference.name, evaluate(reference.index, environment)


class BarrierRules(MemoryRules):
    """What operations on barriers do to a draft state."""

    def __init__(self, program: ir.SyncProgram, sizes: Sizes | None = None) -> None:
        super().__init__(program, sizes)
        self._barriers = {barrier.name: barrier for barrier in program.barriers}
        self._awaited = {
            operation.barrier.name
            for role in program.roles
            for operation in ir.walk(role.body)
            if isinstance(operation, ir.BarrierWait)
        }

    # -------------------------------------------------------------------------- mbarriers

    def declared(
        self, draft: Draft, doing: Doing, reference: ir.Reference, environment: Environment
    ) -> Key:
        """The key of a barrier that exists."""
        key = key_of(reference, environment)
        if key not in draft.barriers:
            message = f"there is no barrier {key_text(key)}"
            doing.fail(FaultKind.INDEX_OUT_OF_RANGE, message, key[0])
        return key

    def usable(self, draft: Draft, doing: Doing, key: Key, engine: bool = False) -> MbarrierState:
        """The barrier, if it is live and its initialisation is published to who uses it."""
        barrier, cta = draft.barriers[key], self._barriers[key[0]].cta
        if barrier.status is BarrierStatus.ABSENT:
            message = f"{key_text(key)} is used before it is initialised or after it is invalidated"
            doing.fail(FaultKind.BARRIER_UNINITIALISED, message, key[0])
        remote = cta != self.agents[doing.agent].role.cta
        if (remote or engine) and barrier.status is BarrierStatus.UNPUBLISHED:
            message = f"the initialisation of {key_text(key)} is not published by a fence"
            doing.fail(FaultKind.UNPUBLISHED_INIT, message, key[0])
        if remote or engine:
            self.check_alive(draft, doing, cta, key_text(key))
        return barrier

    def store(self, draft: Draft, doing: Doing, key: Key, barrier: MbarrierState) -> None:
        """Store the barrier, completing its phase when nothing is outstanding."""
        if abs(barrier.transaction) > TRANSACTION_MAX:
            message = f"{key_text(key)} counts more bytes than it can"
            doing.fail(FaultKind.TRANSACTION_MISMATCH, message, key[0])
        if barrier.pending == 0 and barrier.transaction < 0:
            message = f"{key_text(key)} receives more bytes than its phase expects"
            doing.fail(FaultKind.TRANSACTION_MISMATCH, message, key[0])
        if barrier.pending == 0 and barrier.transaction == 0:
            barrier = barrier._replace(
                pending=barrier.expected,
                phase=barrier.phase + 1,
                tokens=frozenset(),
                observed=self.program.policies.unobserved_phase == "allow",
            )
        draft.barriers[key] = barrier

    def arrive(
        self, draft: Draft, doing: Doing, operation: ir.Arrive, environment: Environment
    ) -> None:
        """Counts down the phase, after tokens and drops; a dead barrier is a fault of `doing`."""
        key = self.declared(draft, doing, operation.barrier, environment)
        barrier = self.usable(draft, doing, key)
        count = evaluate(operation.count, environment)
        if operation.token:
            own = frozenset((doing.agent,))
            barrier = barrier._replace(tokens=barrier.tokens | own, armed=barrier.armed | own)
        if operation.drop:
            barrier = barrier._replace(expected=barrier.expected - count)
        expected_bytes = evaluate(operation.transaction, environment)
        self.count_down(draft, doing, key, barrier, count, expected_bytes)

    def count_down(
        self,
        draft: Draft,
        doing: Doing,
        key: Key,
        barrier: MbarrierState,
        count: int,
        expected_bytes: int = 0,
    ) -> None:
        """Expect bytes, then take `count` arrivals off the phase."""
        if not 0 <= count <= barrier.pending or barrier.expected < 0:
            message = f"{key_text(key)} gets more arrivals than its phase expects"
            doing.fail(FaultKind.OVER_ARRIVAL, message, key[0])
        if count and not barrier.observed:
            message = (
                f"an arrival at {key_text(key)} for phase {barrier.phase}, and no wait has passed "
                f"for phase {barrier.phase - 1}"
            )
            doing.fail(FaultKind.UNOBSERVED_PHASE, message, key[0])
        changed = barrier._replace(
            pending=barrier.pending - count, transaction=barrier.transaction + expected_bytes
        )
        self.store(draft, doing, key, changed)

    def expect(
        self, draft: Draft, doing: Doing, operation: ir.ExpectTransaction, environment: Environment
    ) -> None:
        """Adds expected bytes; TRANSACTION_MISMATCH after the last arrival of the phase."""
        key = self.declared(draft, doing, operation.barrier, environment)
        barrier = self.usable(draft, doing, key)
        if barrier.pending == 0:
            message = f"bytes are expected on {key_text(key)} after the last arrival of its phase"
            doing.fail(FaultKind.TRANSACTION_MISMATCH, message, key[0])
        transaction = barrier.transaction + evaluate(operation.bytes, environment)
        self.store(draft, doing, key, barrier._replace(transaction=transaction))

    def wait_passes(self, draft: Draft, operation: ir.Wait, environment: Environment) -> bool:
        """Whether the parity wait is over. A wait on no usable barrier passes, and then fails."""
        barrier = draft.barriers.get(key_of(operation.barrier, environment))
        if barrier is None or barrier.status is BarrierStatus.ABSENT:
            return True
        return barrier.phase & 1 != evaluate(operation.parity, environment) & 1

    def wait(
        self, draft: Draft, doing: Doing, operation: ir.Wait, environment: Environment
    ) -> None:
        """Passes a wait that may pass; LAPPED_WAIT where another phase was meant."""
        key = self.declared(draft, doing, operation.barrier, environment)
        barrier = self.usable(draft, doing, key)
        meant = barrier.phase - 1
        if operation.phase is not None:
            meant = evaluate(operation.phase, environment)
        if barrier.phase != meant + 1:
            message = (
                f"the wait for phase {meant} of {key_text(key)} passes while {barrier.phase} "
                "phases are complete"
            )
            doing.fail(FaultKind.LAPPED_WAIT, message, key[0])
        draft.barriers[key] = barrier._replace(observed=True)

    def check_lapped(self, draft: Draft) -> None:
        """A waiting agent whose phase is two behind sleeps through it (PTX test_wait)."""
        for agent in self.agents:
            position = draft.positions[agent.number]
            operation = self.operation_at(position)
            if not isinstance(operation, ir.Wait) or operation.phase is None:
                continue
            environment = self.environment(agent, position.values)
            key = key_of(operation.barrier, environment)
            barrier = draft.barriers.get(key)
            meant = evaluate(operation.phase, environment)
            usable = barrier is not None and barrier.status is not BarrierStatus.ABSENT
            if barrier is not None and usable and barrier.phase > meant + 1:
                message = (
                    f"{agent.name} still waits for phase {meant} of {key_text(key)} while "
                    f"{barrier.phase} phases are complete"
                )
                Doing(agent.number, operation).fail(FaultKind.LAPPED_WAIT, message, key[0])

    def init(
        self, draft: Draft, doing: Doing, operation: ir.Init, environment: Environment
    ) -> None:
        """Makes the barrier live, unpublished unless assumed; BARRIER_LIFECYCLE if it is live."""
        key = self.declared(draft, doing, operation.barrier, environment)
        if draft.barriers[key].status is not BarrierStatus.ABSENT:
            message = f"{key_text(key)} is initialised while it is live"
            doing.fail(FaultKind.BARRIER_LIFECYCLE, message, key[0])
        count = evaluate(operation.count, environment)
        assumed = self.program.policies.barrier_init == "assumed"
        status = BarrierStatus.USABLE if assumed else BarrierStatus.UNPUBLISHED
        draft.barriers[key] = MbarrierState(
            status, doing.agent, count, count, 0, 0, frozenset(), True
        )

    def invalidate(
        self, draft: Draft, doing: Doing, operation: ir.Invalidate, environment: Environment
    ) -> None:
        """Ends the barrier's life; a fault if it is not live or is still in use."""
        key = self.declared(draft, doing, operation.barrier, environment)
        barrier = draft.barriers[key]
        if barrier.status is BarrierStatus.ABSENT:
            message = f"{key_text(key)} is invalidated while it is not live"
            doing.fail(FaultKind.BARRIER_UNINITIALISED, message, key[0])
        used = any(key == target for flight in draft.flights() for target, _ in flight.completes)
        if used or barrier.tokens or self._waited_for(draft, key):
            message = f"{key_text(key)} is invalidated while it is in use"
            doing.fail(FaultKind.BARRIER_LIFECYCLE, message, key[0])
        draft.barriers[key] = barrier._replace(status=BarrierStatus.ABSENT)

    def _waited_for(self, draft: Draft, key: Key) -> bool:
        """Whether an agent stands at a wait on the barrier."""
        for agent in self.agents:
            position = draft.positions[agent.number]
            operation = self.operation_at(position)
            if isinstance(operation, ir.Wait | ir.TokenWait):
                environment = self.environment(agent, position.values)
                if key_of(operation.barrier, environment) == key:
                    return True
        return False

    # --------------------------------------------------------------------- named barriers

    def named_key(
        self, draft: Draft, doing: Doing, reference: ir.Reference, environment: Environment
    ) -> Key:
        """The key of a named barrier that exists."""
        key = key_of(reference, environment)
        if key not in draft.named:
            message = f"there is no named barrier {key_text(key)}"
            doing.fail(FaultKind.INDEX_OUT_OF_RANGE, message, key[0])
        return key

    def blocked_in_sync(self, draft: Draft, agent: Agent) -> bool:
        """Whether the agent has arrived by `bar.sync` and its generation is not complete."""
        return any(agent.number in named.waiting for named in draft.named.values())

    def named_arrive(
        self,
        draft: Draft,
        agent: Agent,
        doing: Doing,
        operation: ir.BarrierSync | ir.BarrierArrive,
    ) -> bool:
        """Arrive with the agent's threads; the last arrival releases all who wait in a `sync`.

        Returns whether the agent goes on: a `sync` that is not the last arrival stays.
        """
        environment = self.environment(agent, draft.positions[agent.number].values)
        threads = evaluate(operation.threads, environment)
        key = self.named_key(draft, doing, operation.barrier, environment)
        named = draft.named[key]
        if agent.number in named.arrived | named.waiting:
            message = f"{agent.name} arrives at {key_text(key)} again before it has completed"
            doing.fail(FaultKind.NAMED_BARRIER_MISUSE, message, key[0])
        arrived = named.arrived_threads + agent.role.threads
        if named.expected_threads not in (0, threads) or arrived > threads:
            message = (
                f"{key_text(key)} counts {arrived} of {threads} threads where "
                f"{named.expected_threads or threads} are expected"
            )
            doing.fail(FaultKind.NAMED_BARRIER_MISUSE, message, key[0])
        sync = isinstance(operation, ir.BarrierSync)
        armed = named.armed - {agent.number}
        if not sync and key[0] in self._awaited:
            armed |= {agent.number}
        if arrived < threads:
            own, nobody = frozenset((agent.number,)), frozenset[int]()
            draft.named[key] = NamedState(
                arrived,
                threads,
                named.arrived | (nobody if sync else own),
                named.waiting | (own if sync else nobody),
                armed,
            )
            return not sync
        draft.named[key] = NamedState(0, 0, frozenset(), frozenset(), armed)
        for other in named.waiting:
            self.advance(draft, self.agents[other])
        return True

    def token_wait(self, draft: Draft, doing: Doing, operation: ir.TokenWait) -> None:
        """A wait for the phase of the agent's last token, which it must have taken."""
        environment = self.environment(
            self.agents[doing.agent], draft.positions[doing.agent].values
        )
        key = self.declared(draft, doing, operation.barrier, environment)
        barrier = self.usable(draft, doing, key)
        if doing.agent not in barrier.armed:
            message = f"{self.agents[doing.agent].name} waits at {key_text(key)} without a token"
            doing.fail(FaultKind.NAMED_BARRIER_MISUSE, message, key[0])
        draft.barriers[key] = barrier._replace(observed=True)

    def named_wait(self, draft: Draft, doing: Doing, operation: ir.BarrierWait) -> None:
        """A wait for the generation of the agent's own arrival, which it must have made."""
        environment = self.environment(
            self.agents[doing.agent], draft.positions[doing.agent].values
        )
        key = self.named_key(draft, doing, operation.barrier, environment)
        named = draft.named[key]
        if doing.agent not in named.armed:
            who = self.agents[doing.agent].name
            message = f"{who} waits at {key_text(key)} without an arrival of its own before"
            doing.fail(FaultKind.NAMED_BARRIER_MISUSE, message, key[0])
        draft.named[key] = named._replace(armed=named.armed - {doing.agent})

    def advance(self, draft: Draft, agent: Agent) -> None:
        """The agent has executed its operation and stands at the next one."""
        draft.positions[agent.number] = self.after(agent, draft.positions[agent.number])
