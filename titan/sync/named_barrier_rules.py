"""Named barriers: generations of threads that arrive, wait, or do both.

Sources: PTX "bar", "barrier.cluster".
"""

from __future__ import annotations

from titan.sync import program as ir
from titan.sync.control import Agent, ControlFlow
from titan.sync.expression import evaluate
from titan.sync.fault import FaultKind
from titan.sync.state import Draft, Environment, ExecutionContext, Key, NamedState, key_of, key_text


class NamedBarrierRules:
    """What operations on named barriers do to a draft state."""

    def __init__(self, control: ControlFlow) -> None:
        self._control = control
        self._awaited = {
            operation.barrier.name
            for role in control.program.roles
            for operation in ir.walk(role.body)
            if isinstance(operation, ir.BarrierWait)
        }

    def declared(
        self,
        draft: Draft,
        context: ExecutionContext,
        reference: ir.Reference,
        environment: Environment,
    ) -> Key:
        """The key of a named barrier that exists."""
        key = key_of(reference, environment)
        if key not in draft.named:
            message = f"there is no named barrier {key_text(key)}"
            context.fail(FaultKind.INDEX_OUT_OF_RANGE, message, key[0])
        return key

    @staticmethod
    def blocked_in_sync(draft: Draft, agent: Agent) -> bool:
        """Whether the agent has arrived by `bar.sync` and its generation is not complete."""
        return any(agent.number in named.waiting for named in draft.named.values())

    def arrive(
        self,
        draft: Draft,
        context: ExecutionContext,
        operation: ir.BarrierSync | ir.BarrierArrive,
        environment: Environment,
    ) -> bool:
        """Arrive with the agent's threads; the last arrival releases all who wait in a `sync`.

        Returns whether the agent continues: a `sync` that is not the last arrival stays.
        """
        agent = self._control.agents[context.agent]
        threads = evaluate(operation.threads, environment)
        key = self.declared(draft, context, operation.barrier, environment)
        named = draft.named[key]
        if agent.number in named.arrived | named.waiting:
            message = f"{agent.name} arrives at {key_text(key)} again before it has completed"
            context.fail(FaultKind.NAMED_BARRIER_MISUSE, message, key[0])
        arrived = named.arrived_threads + agent.role.threads
        if named.expected_threads not in (0, threads) or arrived > threads:
            message = (
                f"{key_text(key)} counts {arrived} of {threads} threads where "
                f"{named.expected_threads or threads} are expected"
            )
            context.fail(FaultKind.NAMED_BARRIER_MISUSE, message, key[0])
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
            self._control.advance(draft, self._control.agents[other])
        return True

    def wait(
        self,
        draft: Draft,
        context: ExecutionContext,
        operation: ir.BarrierWait,
        environment: Environment,
    ) -> None:
        """A wait for the generation of the agent's own arrival, which it must have made."""
        key = self.declared(draft, context, operation.barrier, environment)
        named = draft.named[key]
        if context.agent not in named.armed:
            who = self._control.agents[context.agent].name
            message = f"{who} waits at {key_text(key)} without an arrival of its own before"
            context.fail(FaultKind.NAMED_BARRIER_MISUSE, message, key[0])
        draft.named[key] = named._replace(armed=named.armed - {context.agent})
