"""Asynchronous operations: their start by an agent, and what an engine does of them later.

Assumption: a flight holds its footprint from its start to its finish; it finishes in as many equal
instalments as it has chunks, and its writes take effect with the last one. Sources: PTX "Async
Proxy", "cp.async.bulk", "mbarrier complete_tx", "tcgen05.commit".
"""

from __future__ import annotations

from titan.sync import program as ir
from titan.sync.control import ControlFlow
from titan.sync.expression import evaluate
from titan.sync.fault import Actor, Step
from titan.sync.mbarrier_rules import MbarrierRules
from titan.sync.memory_rules import MemoryRules
from titan.sync.queue_rules import QueueRules
from titan.sync.state import ENGINE, Draft, Environment, ExecutionContext, Flight, FlightAccess


class FlightRules:
    """What the start and the steps of a flight do to memory, barriers and queues."""

    def __init__(
        self,
        control: ControlFlow,
        memory: MemoryRules,
        mbarriers: MbarrierRules,
        queues: QueueRules,
    ) -> None:
        self._control = control
        self._memory = memory
        self._mbarriers = mbarriers
        self._queues = queues

    # ---------------------------------------------------------------------------- start

    def issue(
        self,
        draft: Draft,
        context: ExecutionContext,
        operation: ir.Asynchronous,
        environment: Environment,
    ) -> None:
        """Start an asynchronous operation: its reads and writes are possible from here on."""
        accesses: list[FlightAccess] = []
        effects: list[ir.Effect] = []
        for effect in operation.effects:
            cells, tile = self._memory.resolve(draft, context, effect, environment)
            extent = (cells[0], len(cells)) if effect.accumulates else None
            kind = self._memory.kind_of(context, effect)
            accesses += [(cell, effect.write, tile, effect.proxy, extent, kind) for cell in cells]
            effects += [effect] * len(cells)
        for effect, (cell, write, tile, _, extent, kind) in zip(effects, accesses, strict=True):
            self._memory.check_cached(draft, context, cell, effect)
            self._memory.check_proxy(draft, context, cell, effect)
            if write:
                self._memory.check_write(draft, context, cell, operation.queue, extent, kind)
                self._memory.check_sum(draft, context, cell, tile, effect)
            else:
                self._memory.check_read(draft, context, cell, tile, operation.queue)
        completes = tuple(
            (
                self._mbarriers.declared(draft, context, completion.barrier, environment),
                evaluate(completion.bytes, environment),
            )
            for completion in operation.completes
        )
        ordinal, site = draft.issued[context.agent], self._control.site_of(operation)
        flight = Flight(
            context.agent, ordinal, site, tuple(accesses), completes, True, operation.chunks
        )
        self._queues.enqueue(draft, operation.queue, flight)

    def queue_arrive(
        self,
        draft: Draft,
        context: ExecutionContext,
        operation: ir.QueueArrive,
        environment: Environment,
    ) -> None:
        """A marker behind everything issued so far; it arrives when its turn comes."""
        key = self._mbarriers.declared(draft, context, operation.barrier, environment)
        count = evaluate(operation.count, environment)
        ordinal, site = draft.issued[context.agent], self._control.site_of(operation)
        flight = Flight(context.agent, ordinal, site, (), ((key, count),), False, 1)
        self._queues.enqueue(draft, operation.queue, flight)

    # ---------------------------------------------------------------------------- engines

    def engine_step(self, draft: Draft, step: Step) -> None:
        """An engine finishes one operation (or a chunk of it), or is done with its reads."""
        mark = (step.agent, step.ordinal)
        for index, flight in enumerate(draft.free_flights):
            if flight[:2] == mark:
                draft.free_flights[index : index + 1] = self._finish(draft, flight, step.actor)
                return
        for key, queue in draft.queues.items():
            for number, group in enumerate((*queue.closed, queue.open)):
                for index, flight in enumerate(group):
                    if flight[:2] == mark:
                        rest = self._finish(draft, flight, step.actor)
                        groups = [*queue.closed, queue.open]
                        groups[number] = (*group[:index], *rest, *group[index + 1 :])
                        draft.queues[key] = self._queues.retired(key[1], groups)
                        return
        raise ValueError(f"no operation in flight for {step}")

    def _finish(self, draft: Draft, flight: Flight, actor: Actor) -> tuple[Flight, ...]:
        """One engine step of a flight; returns what is left of it."""
        if actor is Actor.READS:
            self._have_read(draft, flight)
            return (flight._replace(reading=False),)
        context, last = self._control.issue_of(flight), flight.chunks == 1
        if last:
            self._take_effect(draft, flight)
        for key, amount in flight.completes:
            barrier = self._mbarriers.usable(draft, context, key, engine=True)
            if not isinstance(context.operation, ir.Asynchronous):
                self._mbarriers.count_down(draft, context, key, barrier, amount)
                continue
            share = amount // context.operation.chunks
            part = amount - share * (context.operation.chunks - 1) if last else share
            changed = barrier._replace(transaction=barrier.transaction - part)
            self._mbarriers.store(draft, context, key, changed)
        return () if last else (flight._replace(chunks=flight.chunks - 1),)

    def _take_effect(self, draft: Draft, flight: Flight) -> None:
        """The writes of a finished operation are what the memory holds now."""
        if flight.reading:
            self._have_read(draft, flight)
        for cell, write, named, proxy, _, reduction in flight.accesses:
            tile = draft.cells[cell].tile if reduction else named
            if write and proxy is ir.Proxy.GENERIC:
                self._memory.note_write(draft, cell, tile, ENGINE)
            elif write:
                cell_state = self._memory.outside(draft.cells[cell], cell, True)
                authors = cell_state.authors | {ENGINE}
                draft.cells[cell] = cell_state._replace(tile=tile, authors=authors, released=False)
            elif proxy is ir.Proxy.GENERIC:
                self._memory.note_read(draft, cell, ENGINE)

    def _have_read(self, draft: Draft, flight: Flight) -> None:
        """Reads through other proxies that are over: their completion has its implicit fence."""
        for cell, write, _, proxy, *_ in flight.accesses:
            if not write and proxy is not ir.Proxy.GENERIC:
                draft.cells[cell] = self._memory.outside(draft.cells[cell], cell, False)
