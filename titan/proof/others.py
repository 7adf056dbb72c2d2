"""Whether one step may be followed alone: everything that others can do before it commutes with it.

`alone` decides it from an over-approximation U of what the others can do: every agent goes on as
long as its waits could pass by all that U counts, and whatever is in flight may finish. The step is
then checked against U by a table on kinds. Theorem `persistent_alone` (proofs/AnyNumber.v) says
why this suffices; that the table implies its hypotheses is argued beside each case.

False is always a safe answer. UndecidedError: an agent's way depends on an open size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from titan.foundation.errors import TitanError
from titan.proof.configuration import Configuration, System
from titan.proof.open_sizes import UndecidedError
from titan.sync import program as ir
from titan.sync.expression import evaluate
from titan.sync.fault import Actor, Step
from titan.sync.interpreter import Machine
from titan.sync.mbarrier_rules import TRANSACTION_MAX
from titan.sync.memory_rules import cells_of
from titan.sync.parts import effects_of, queue_of
from titan.sync.state import Cell, Extent, Flight, Key, Position, State, key_of

OPERATIONS_MAX = 600
Accesses = Iterable[tuple[Cell, bool, ir.Proxy, Extent | None]]
UNTOLD = (ir.Init, ir.Invalidate, ir.ExpectTransaction, ir.PoolTake, ir.TokenWait)


class _Conflict(TitanError):
    """Something that the others can do does not commute with the step."""


def reducible(program: ir.SyncProgram) -> bool:
    """Whether the table knows all of the program: no cached proxies, one-way or path fences."""
    for role in program.roles:
        for operation in ir.walk(role.body):
            if isinstance(operation, ir.Init | ir.Invalidate | ir.TokenWait):
                return False
            if isinstance(operation, ir.Arrive) and (operation.drop or operation.token):
                return False
            if isinstance(operation, ir.Fence) and (
                operation.kind is not ir.FenceKind.ASYNC or program.policies.fence_rule != "writer"
            ):
                return False
            if any(effect.proxy in ir.CACHED for effect in effects_of(operation)):
                return False
    return True


def alone(system: System, before: Configuration, step: Step) -> bool:
    """Whether the step, possible and without fault here, stands for all steps."""
    if system.reducible is None:
        system.reducible = reducible(system.program)
    if not system.reducible:
        return False
    system.use_sizes(before.sizes)
    try:
        return _Others(system, before.state, step).commute()
    except _Conflict:
        return False


def first_alone(
    system: System, before: Configuration, steps: list[Step]
) -> tuple[Step | None, list[str]]:
    """The first of the steps that stands for all, engines before agents.

    Where there is none, also the open sizes on which the way of some agent depends. That it is the
    first keeps a certificate from being said in two ways.
    """
    asked: list[str] = []
    for step in sorted(steps, key=lambda step: step.actor is Actor.AGENT):
        try:
            if alone(system, before, step):
                return step, []
        except UndecidedError as question:
            asked.append(question.name)
    return None, asked


class _Others:
    """U of one step, and the step itself."""

    def __init__(self, system: System, state: State, step: Step) -> None:
        self.machine: Machine = system.machine
        self.program, self.state, self.step = system.program, state, step
        self.barriers, self.named = dict(state.barriers), dict(state.named)
        self.queues = {queue.name: queue for queue in self.program.queues}
        self.buffers = {buffer.name: buffer for buffer in self.program.buffers}
        self.marked = system.asynchronous
        self.own = step.agent if step.actor is Actor.AGENT else -1
        self.flight, self.queue = self._flight_of(step)
        self.operation = self._operation()
        self.cells: dict[Cell, list[tuple[bool, Extent | None]]] = defaultdict(list)
        self.generic = False
        # U: arrivals, bytes expected and completed by barrier; who arrives at named barriers
        self.arrivals: dict[Key, int] = defaultdict(int)
        self.expected: dict[Key, int] = defaultdict(int)
        self.completed: dict[Key, int] = defaultdict(int)
        self.waited: set[Key] = set()  # a wait of U passes
        self.late: set[Key] = set()  # bytes are expected without an arrival
        self.named_by: dict[Key, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        self.commits: dict[tuple[int, str], int] = defaultdict(int)
        self.fences: set[int] = set()
        self.issued = False
        self.generic_flights = False
        self.asynchronous: set[Cell] = set()
        self.places = list(state.positions)
        self.phases: dict[tuple[int, Key], int] = {}
        self.executed = 0

    def _flight_of(self, step: Step) -> tuple[Flight | None, str | None]:
        if step.actor is Actor.AGENT:
            return None, None
        mark = (step.agent, step.ordinal)
        for flight in self.state.free_flights:
            if flight[:2] == mark:
                return flight, None
        for (_, name), queue in self.state.queues:
            for group in (*queue.closed, queue.open):
                for flight in group:
                    if flight[:2] == mark:
                        return flight, name
        raise _Conflict

    def _operation(self) -> ir.Operation:
        if self.flight is not None:
            return self.machine.operations[self.flight.site]
        operation = self.machine.control.operation_of(self.state, self.own)
        if operation is None or isinstance(operation, UNTOLD):
            raise _Conflict
        return operation

    # ------------------------------------------------------------------------------- U

    def commute(self) -> bool:
        self._own_cells()
        for flight in self._flying():
            self._fly(flight)
        moving = True
        while moving:
            moving = False
            for agent in self.machine.agents:
                if agent.number != self.own:
                    moving |= self._go_on(agent.number)
        return self._kind_commutes() and self._ends_commute()

    def _flying(self) -> Iterable[tuple[Flight, str | None]]:
        for flight in self.state.free_flights:
            yield flight, None
        for (_, name), queue in self.state.queues:
            for group in (*queue.closed, queue.open):
                for flight in group:
                    yield flight, name

    def _fly(self, item: tuple[Flight, str | None]) -> None:
        """What is in flight may finish: its accesses, arrivals and bytes."""
        flight, queue = item
        if self.flight is not None and flight[:2] == self.flight[:2]:
            return
        touched = [(cell, write, proxy, ext) for cell, write, _, proxy, ext in flight.accesses]
        self._touch(flight.agent, queue, touched, issued=False)
        self._complete(self.machine.operations[flight.site], flight.completes, flight.chunks)

    def _complete(
        self, operation: ir.Operation, completes: Iterable[tuple[Key, int]], chunks: int
    ) -> None:
        for key, amount in completes:
            if not isinstance(operation, ir.Asynchronous):
                self.arrivals[key] += amount
                continue
            done = amount // operation.chunks * (operation.chunks - chunks)
            self.completed[key] += amount - done

    def _touch(self, agent: int, queue: str | None, touched: Accesses, issued: bool) -> None:
        """An access of U to cells of the step, one of the two writing, is a conflict.

        Not in one pipelined, ordered queue: what is in flight there finishes in its order, and what
        is issued meets the same before and after the step where it accumulates into the same
        extent, or reads what a copy will have written (`check_read`, `check_write`).
        """
        piped = (
            queue is not None
            and queue == self._own_queue()
            and agent == self.step.agent
            and self.queues[queue].pipelined
            and self.queues[queue].ordered
        )
        for cell, write, proxy, extent in touched:
            if queue is not None or proxy is not ir.Proxy.GENERIC:
                self.asynchronous.add(cell)
            if proxy is ir.Proxy.GENERIC and cell[0] in self.marked:
                self.generic_flights = True
            for own_write, own_extent in self.cells.get(cell, ()):
                if not write and not own_write:
                    continue
                if write:
                    same = extent is not None and (not own_write or own_extent == extent)
                else:
                    same = own_extent is None
                if not (piped and (same or not issued)):
                    raise _Conflict

    def _own_queue(self) -> str | None:
        if self.flight is not None:
            return self.queue
        return queue_of(self.operation)

    def _own_cells(self) -> None:
        if self.flight is not None:
            found: Accesses = [
                (c, write, proxy, e) for c, write, _, proxy, e in self.flight.accesses
            ]
        else:
            found = self._accesses(self.own, self.operation, self._values(self.own))
        for cell, write, proxy, extent in found:
            self.cells[cell].append((write, extent))
            self.generic |= proxy is ir.Proxy.GENERIC and cell[0] in self.marked

    def _values(self, agent: int) -> dict[str, int]:
        return self.machine.control.environment(
            self.machine.agents[agent], self.places[agent].values
        )

    def _accesses(self, agent: int, operation: ir.Operation, values: dict[str, int]) -> Accesses:
        for effect in effects_of(operation):
            buffer = self.buffers[effect.buffer]
            stage = evaluate(effect.stage, values)
            part = None if effect.part is None else evaluate(effect.part, values)
            if not 0 <= stage < buffer.stages or not 0 <= (part or 0) < buffer.parts:
                raise _Conflict
            cells = cells_of(buffer, stage, part)
            extent = (cells[0], len(cells)) if effect.accumulates else None
            for cell in cells:
                yield cell, effect.write, effect.proxy, extent

    def _go_on(self, number: int) -> bool:
        """The agent goes on as far as what U counts so far lets it."""
        agent, moved = self.machine.agents[number], False
        while (operation := self.machine.control.operation_at(self.places[number])) is not None:
            values = self._values(number)
            if not self._passes(number, operation, values):
                return moved
            self.executed += 1
            if self.executed > OPERATIONS_MAX:
                raise _Conflict
            self._count(number, operation, values)
            self.places[number] = self.machine.control.after(agent, self.places[number])
            moved = True
        return moved

    def _passes(self, number: int, operation: ir.Operation, values: dict[str, int]) -> bool:
        """Whether the operation can pass: False only where it cannot by anything in U."""
        match operation:
            case ir.Wait(barrier=reference, parity=parity):
                key = key_of(reference, values)
                if key not in self.barriers:
                    raise _Conflict
                barrier = self.barriers[key]
                seen = self.phases.get((number, key), barrier.phase)
                if seen & 1 != evaluate(parity, values) & 1:
                    return True
                if not self._ends(key, seen + 1 - barrier.phase):
                    return False
                self.phases[(number, key)] = seen + 1
                return True
            case ir.QueueWait(queue=name, pending=pending, until=until):
                return not self._waits_for_step(number, name, evaluate(pending, values), until)
            case ir.BarrierSync(barrier=reference, threads=threads):
                return self._arrives(number, key_of(reference, values), evaluate(threads, values))
        return True

    def _ends(self, key: Key, times: int) -> bool:
        """Whether U can complete so many phases of the barrier."""
        barrier = self.barriers[key]
        needed = barrier.pending + (times - 1) * barrier.expected
        held_open = barrier.transaction - self.completed[key] > 0
        return self.arrivals[key] >= needed and not held_open

    def _waits_for_step(self, number: int, name: str, pending: int, until: ir.Until) -> bool:
        """Whether a wait on a queue cannot pass before the step, which is in that queue."""
        if self.flight is None or name != self.queue or number != self.flight.agent:
            return False
        if until is ir.Until.READ and not self.flight.reading:
            return False
        if not self.queues[name].ordered:
            return pending < 1
        groups = dict(self.state.queues)[(number, name)].closed
        own = [place for place, group in enumerate(groups) if self.flight in group]
        if not own:
            return False  # in the open group, which a wait may not cover
        return len(groups) - own[0] + self.commits[(number, name)] > pending

    def _arrives(self, number: int, key: Key, threads: int) -> bool:
        """An arrival at a named barrier, counted once; whether U can complete its generation."""
        if key not in self.named:
            raise _Conflict
        held = self.named[key]
        if number not in held.waiting and self.phases.get((number, key), 0) == 0:
            self.named_by[key][number] += 1
            self.phases[(number, key)] = 1
        sums = sum(self.machine.agents[a].role.threads * n for a, n in self.named_by[key].items())
        if held.arrived_threads + sums < threads:
            return False
        self.phases[(number, key)] = 0
        return True

    def _count(self, number: int, operation: ir.Operation, values: dict[str, int]) -> None:
        """The operation is in U."""
        match operation:
            case ir.Init() | ir.Invalidate() | ir.TokenWait():
                raise _Conflict
            case ir.Access():
                self._touch_all(number, None, operation, values)
            case ir.Asynchronous(queue=queue, completes=completes):
                self.issued = True
                self._touch_all(number, queue, operation, values)
                done = [(key_of(c.barrier, values), evaluate(c.bytes, values)) for c in completes]
                self._complete(operation, done, operation.chunks)
            case ir.QueueArrive(barrier=reference, count=count):
                self.issued = True
                self.arrivals[key_of(reference, values)] += evaluate(count, values)
            case ir.Arrive(barrier=reference, count=count, transaction=transaction):
                key = key_of(reference, values)
                self.arrivals[key] += evaluate(count, values)
                self.expected[key] += evaluate(transaction, values)
            case ir.ExpectTransaction(barrier=reference, bytes=amount):
                key = key_of(reference, values)
                self.expected[key] += evaluate(amount, values)
                self.late.add(key)
            case ir.Wait(barrier=reference):
                self.waited.add(key_of(reference, values))
            case ir.Commit(queue=name):
                self.commits[(number, name)] += 1
            case ir.Fence():
                self.fences.add(number)
            case ir.BarrierArrive(barrier=reference):
                self.named_by[key_of(reference, values)][number] += 1

    def _touch_all(
        self, number: int, queue: str | None, operation: ir.Operation, values: dict[str, int]
    ) -> None:
        found = list(self._accesses(number, operation, values))
        if isinstance(operation, ir.Asynchronous):
            self.asynchronous |= {cell for cell, *_ in found}
            self._touch(number, queue, found, issued=True)
            return
        for cell, write, *_ in found:
            if any(write or own_write for own_write, _ in self.cells.get(cell, ())):
                raise _Conflict

    # -------------------------------------------------------------------------- the step

    def _kind_commutes(self) -> bool:
        if self.flight is not None:
            return self._finish_commutes(self.flight)
        operation, values = self.operation, self._values(self.own)
        match operation:
            case ir.Access() | ir.QueueWait() | ir.PoolGive() | ir.BarrierWait():
                return True  # cells were compared; marks are sets by agent; waits change nothing
            case ir.Asynchronous():
                return True  # cells were compared; fences of others only take marks away
            case ir.QueueArrive():
                return True  # a marker of its own; it arrives by a step of its own
            case ir.Commit(queue=name):
                return self.queues[name].ordered
            case ir.Wait(barrier=reference):
                return self._wait_commutes(key_of(reference, values))
            case ir.Arrive(barrier=reference, count=count, transaction=transaction):
                key = key_of(reference, values)
                return self._arrival_commutes(
                    key, evaluate(count, values), evaluate(transaction, values), 0
                )
            case (
                ir.BarrierSync(barrier=reference, threads=threads)
                | ir.BarrierArrive(barrier=reference, threads=threads)
            ):
                return self._named_commutes(key_of(reference, values), evaluate(threads, values))
            case ir.Fence():
                return self._fence_commutes()
        return False

    def _wait_commutes(self, key: Key) -> bool:
        """No phase ends before it, and no arrival has to see that it has passed."""
        barrier = self.barriers[key]
        return not self._ends(key, 1) and (barrier.observed or not self.arrivals[key])

    def _arrival_commutes(self, key: Key, count: int, expects: int, completes: int) -> bool:
        """With all of U the phase ends at most once, by the last of all, whichever that is.

        Then no wait of U may pass on the barrier, and all bytes are expected by arrivals.
        """
        barrier = self.barriers[key]
        total = self.arrivals[key] + count
        bytes_left = (
            barrier.transaction + self.expected[key] + expects - self.completed[key] - completes
        )
        most = abs(barrier.transaction) + self.expected[key] + expects
        if most + self.completed[key] + completes > TRANSACTION_MAX or total > barrier.pending:
            return False
        if total < barrier.pending:
            return True  # the phase cannot end; sums do not depend on the order
        if bytes_left < 0 or key in self.late:
            return False
        return bytes_left > 0 or key not in self.waited

    def _finish_commutes(self, flight: Flight) -> bool:
        """The end of an operation: its bytes or arrivals; fences of others against its marks."""
        if self.fences and self.generic:
            return False
        if self.step.actor is Actor.READS:
            return True
        if (
            self.queue is not None
            and not self.queues[self.queue].ordered
            and self.commits[(flight.agent, self.queue)]
        ):
            return False
        operation = self.operation
        for key, amount in flight.completes:
            if not isinstance(operation, ir.Asynchronous):
                if not self._arrival_commutes(key, amount, 0, 0):
                    return False
                continue
            share = amount // operation.chunks
            part = amount - share * (operation.chunks - 1) if flight.chunks == 1 else share
            if not self._arrival_commutes(key, 0, 0, part):
                return False
        return True

    def _named_commutes(self, key: Key, threads: int) -> bool:
        """With all of U the generation is completed at most once, by the last of all."""
        held, by = self.named[key], self.named_by[key]
        sums = sum(self.machine.agents[a].role.threads * n for a, n in by.items())
        own = self.machine.agents[self.own].role.threads
        return held.arrived_threads + sums + own <= threads and all(n < 2 for n in by.values())

    def _fence_commutes(self) -> bool:
        """Nobody rests on the marks that it takes away, and no engine adds to them."""
        if self.generic_flights:
            return False
        for cell, held in self.state.cells:
            marks = held.writers | held.readers
            if (self.own in marks or -1 in marks) and cell in self.asynchronous:
                return False
        return True

    def _ends_commute(self) -> bool:
        """No CTA ends before or by the step, where that could meet anything in flight."""
        if self.program.policies.exit_in_flight == "allow":
            return True
        places: list[Position] = list(self.places)
        if self.own >= 0:
            agent = self.machine.agents[self.own]
            if not isinstance(self.operation, ir.BarrierSync):
                places[self.own] = self.machine.control.after(agent, places[self.own])
        for cta in {agent.role.cta for agent in self.machine.agents}:
            numbers = [a.number for a in self.machine.agents if a.role.cta == cta]
            ended = all(not places[n].frames for n in numbers)
            was = all(not self.state.positions[n].frames for n in numbers)
            if ended and not was and (self.executed or any(True for _ in self._flying())):
                return False
        return True
