"""Whether one step may be followed alone: everything that others can do before it commutes with it.

`alone` decides it from an over-approximation U of what the others can do: every agent continues as
long as its waits could pass by all that U counts, and whatever is in flight may finish. The step is
then held against U by what both touch: memory, arrivals and bytes of barriers, the open phases
that waits see, proxy fences, the end of a CTA. Theorem `persistent_alone` (proofs/AnyNumber.v) says
why this suffices; that no conflict implies its hypotheses is argued beside each case.

An agent whose way depends on an open size, or is long, is *widened*: it may execute all that lies
ahead of it, with any index, any number of times. False is always a safe answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from titan.foundation.errors import TitanError
from titan.proof.configuration import Configuration, System
from titan.sync import program as ir
from titan.sync.expression import evaluate
from titan.sync.fault import Actor, Step
from titan.sync.mbarrier_rules import TRANSACTION_MAX
from titan.sync.memory_rules import cells_of
from titan.sync.open_numbers import UndecidedError
from titan.sync.parts import barriers_of, effects_of
from titan.sync.state import ENGINE, Cell, Flight, Key, MbarrierState, State, flying, key_of

OPERATIONS_MAX = 100  # of one agent, until it is widened
UNCOUNTED = 2**40
UNCLAIMED = ir.Init | ir.Invalidate | ir.ExpectTransaction | ir.TokenWait  # nothing is claimed
TENSORMAP = {ir.FenceKind.TENSORMAP_RELEASE, ir.FenceKind.TENSORMAP_ACQUIRE}

Values = dict[str, int] | None  # None: of a widened agent, whatever they may be
Touched = list[tuple[Cell, bool, ir.Proxy]]  # cell, whether written, by which way
Signal = tuple[Key, int, int, int]  # barrier, arrivals, bytes expected, bytes completed


class _Conflict(TitanError):
    """Something that the others can do does not commute with the step."""


def alone(system: System, before: Configuration, step: Step, asked: set[str] | None = None) -> bool:
    """Whether the step, possible and without fault here, represents all steps.

    `asked` gathers the sizes that ways depend on.
    """
    if not system.reduces(before.state):
        return False
    system.use_sizes(before.sizes)
    others = _Others(system, before.state, step)
    try:
        return others.commute()
    except _Conflict:
        return False
    finally:
        if asked is not None:
            asked |= others.asked


class _Others:
    """U of one step, and the step itself."""

    def __init__(self, system: System, state: State, step: Step) -> None:
        self.system, self.machine, self.state, self.step = system, system.machine, state, step
        self.control = self.machine.control
        self.barriers, self.named = dict(state.barriers), dict(state.named)
        self.own = step.agent if step.actor is Actor.AGENT else -1
        self.flying = list(flying(state))
        self.flight: Flight | None = None
        self.queue: str | None = None
        operation = self.control.operation_of(state, step.agent)
        for flight, queue in self.flying if self.own < 0 else ():
            if (flight.agent, flight.ordinal) == (step.agent, step.ordinal):
                self.flight, self.queue = flight, queue
                operation = self.machine.operations[flight.site]
        assert operation is not None
        self.operation = operation
        self.cells: dict[Cell, bool] = {}  # of the step: whether written
        # U: what arrives at barriers, who waits there, what is committed, fenced and touched
        self.arrivals: Counter[Key] = Counter()
        self.expected: Counter[Key] = Counter()
        self.completed: Counter[Key] = Counter()
        self.waited: set[Key] = set()
        self.commits: Counter[tuple[int, str]] = Counter()
        self.fences: set[ir.FenceKind] = set()
        self.reaching: Touched = []  # by an engine or through another proxy
        self.touched: set[str] = set()
        self.places = list(state.positions)
        self.seen: dict[tuple[int, Key], int] = {}
        self.syncing: set[int] = set()  # whose arrival at a named barrier is counted
        self.executed: Counter[int] = Counter()
        self.widened: set[int] = set()
        self.asked: set[str] = set()

    # ------------------------------------------------------------------------------- U

    def commute(self) -> bool:
        """Whether everything in U commutes with the step."""
        values = {} if self.own < 0 else self._values(self.own)
        own = self._touches(self.operation, values) if self.flight is None else _held(self.flight)
        for cell, write, _ in own:
            self.cells[cell] = write or self.cells.get(cell, False)
        for flight, _ in self.flying:
            if flight is not self.flight:
                self._meet(_held(flight), True)
                self._signal(self._completions(flight))
        while any([self._moves(n) for n in range(len(self.places)) if n != self.own]):
            pass
        return (
            self._kind_commutes(values)
            and self._fences_commute(own)
            and all(self._signal_commutes(s, values) for s in self._own_signals(values))
            and self._ends_commute()
        )

    def _values(self, agent: int) -> dict[str, int]:
        return self.control.environment(self.machine.agents[agent], self.places[agent].values)

    def _touches(self, operation: ir.Operation, values: Values) -> Touched:
        found: Touched = []
        for effect in effects_of(operation):
            buffer = self.system.buffers[effect.buffer]
            stages, part = range(buffer.stages), None
            if values is not None:
                stage = evaluate(effect.stage, values)
                part = None if effect.part is None else evaluate(effect.part, values)
                if not 0 <= stage < buffer.stages or not 0 <= (part or 0) < buffer.parts:
                    raise _Conflict
                stages = range(stage, stage + 1)
            cells = [cell for stage in stages for cell in cells_of(buffer, stage, part)]
            found += [(cell, effect.write, effect.proxy) for cell in cells]
        return found

    def _meet(self, touched: Touched, asynchronous: bool) -> None:
        """U touches memory: of the step's cells, only what both read."""
        if any(write or self.cells[c] for c, write, _ in touched if c in self.cells):
            raise _Conflict
        self.touched |= {cell[0] for cell, *_ in touched}
        self.reaching += [t for t in touched if asynchronous or t[2] is not ir.Proxy.GENERIC]

    def _signal(self, signals: Iterable[Signal]) -> None:
        for key, arrivals, expected, completed in signals:
            self.arrivals[key] += arrivals
            self.expected[key] += expected
            self.completed[key] += completed

    def _signals(self, number: int, op: ir.Operation, values: Values) -> list[Signal]:
        """What an operation does to barriers, now or when it has finished."""
        if values is None:
            keys = (*self.barriers, *map(_named, self.named))
            names = {name for r in barriers_of(op) for name in (r.name, _named((r.name, 0))[0])}
            return [(k, UNCOUNTED, UNCOUNTED, UNCOUNTED) for k in keys if k[0] in names]
        match op:
            case ir.Arrive(barrier=barrier, count=count, transaction=expects):
                expected = evaluate(expects, values)
                return [(key_of(barrier, values), evaluate(count, values), expected, 0)]
            case ir.QueueArrive(barrier=barrier, count=count):
                return [(key_of(barrier, values), evaluate(count, values), 0, 0)]
            case ir.Asynchronous(completes=done):
                return [(key_of(c.barrier, values), 0, 0, evaluate(c.bytes, values)) for c in done]
            case ir.BarrierSync(barrier=barrier) | ir.BarrierArrive(barrier=barrier):
                threads = self.machine.agents[number].role.threads
                return [(_named(key_of(barrier, values)), threads, 0, 0)]
        return []

    def _completions(self, flight: Flight) -> list[Signal]:
        """What the end of an operation does to barriers, with all that is left of it."""
        operation = self.machine.operations[flight.site]
        if not isinstance(operation, ir.Asynchronous):
            return [(key, amount, 0, 0) for key, amount in flight.completes]
        done = operation.chunks - flight.chunks
        return [(k, 0, 0, n - n // operation.chunks * done) for k, n in flight.completes]

    def _moves(self, number: int) -> bool:
        """Whether the agent adds anything to U."""
        before = self.executed[number]
        try:
            while number not in self.widened and self._goes_on(number):
                if self.executed[number] > OPERATIONS_MAX:
                    raise UndecidedError("")
        except UndecidedError as question:
            self.asked.add(question.name)
            self.widened.add(number)
            for operation in self.control.lies_ahead(self.places[number].frames):
                self._add(number, operation, None)
                self.waited |= {key for key, *_ in self._signals(number, operation, None)}
        return self.executed[number] > before

    def _goes_on(self, number: int) -> bool:
        """Whether one more operation of the agent is possible by what U counts so far."""
        operation = self.control.operation_at(self.places[number])
        if operation is None:
            return False
        values = self._values(number)
        if not self._passes(number, operation, values):
            return False
        after = self.control.after(self.machine.agents[number], self.places[number])
        self._add(number, operation, values)
        self.places[number] = after
        return True

    def _add(self, number: int, operation: ir.Operation, values: Values) -> None:
        """What the operation does is in U."""
        dropped = isinstance(operation, ir.Arrive) and (operation.drop or operation.token)
        if dropped or isinstance(operation, UNCLAIMED):
            raise _Conflict
        if isinstance(operation, ir.Commit):
            self.commits[(number, operation.queue)] += 1
        if isinstance(operation, ir.Fence):
            self.fences.add(operation.kind)
        self._meet(self._touches(operation, values), isinstance(operation, ir.Asynchronous))
        if values is None or not isinstance(operation, ir.BarrierSync):  # that arrived before
            self._signal(self._signals(number, operation, values))
        self.executed[number] += 1

    def _passes(self, number: int, operation: ir.Operation, values: dict[str, int]) -> bool:
        """Whether the operation can pass: False only where it cannot by anything in U."""
        match operation:
            case ir.Wait(barrier=reference, parity=parity):
                key = key_of(reference, values)
                phase = self._barrier(key).phase
                seen = self.seen.get((number, key), phase)
                if seen & 1 == evaluate(parity, values) & 1:
                    seen += 1
                    if not self._ends(key, seen - phase):
                        return False
                self.seen[(number, key)] = seen
                self.waited.add(key)
            case ir.QueueWait(queue=name, pending=pending, until=until):
                return not self._waits_for_step(number, name, evaluate(pending, values), until)
            case ir.BarrierSync(barrier=reference, threads=threads):
                key = key_of(reference, values)
                if number not in self.syncing | self.named[key].waiting:
                    self._signal(self._signals(number, operation, values))
                    self.syncing.add(number)
                arrived = self.named[key].arrived_threads + self.arrivals[_named(key)]
                if arrived < evaluate(threads, values):
                    return False
                self.syncing.discard(number)
        return True

    def _barrier(self, key: Key) -> MbarrierState:
        if key not in self.barriers:
            raise _Conflict
        return self.barriers[key]

    def _ends(self, key: Key, times: int) -> bool:
        """Whether U can complete `times` phases of the barrier.

        Where that takes every arrival of U, it takes also the bytes that they expect.
        """
        barrier = self._barrier(key)
        needed = barrier.pending + (times - 1) * barrier.expected
        arrived, bytes_left = self.arrivals[key], barrier.transaction
        if arrived == needed:
            bytes_left += self.expected[key]
        return arrived >= needed and bytes_left <= self.completed[key]

    def _waits_for_step(self, number: int, name: str, pending: int, until: ir.Until) -> bool:
        """Whether a wait on a queue cannot pass before the step, which is in that queue."""
        if self.flight is None or (name, number) != (self.queue, self.flight.agent):
            return False
        if until is ir.Until.READ and not self.flight.reading:
            return False
        groups = dict(self.state.queues)[(number, name)].closed
        own = [place for place, group in enumerate(groups) if self.flight in group]
        if not self.system.queues[name].ordered or not own:
            return bool(own) and pending < 1
        return len(groups) - own[0] + self.commits[(number, name)] > pending

    # -------------------------------------------------------------------------- the step

    def _own_signals(self, values: dict[str, int]) -> list[Signal]:
        if self.flight is not None:
            return self._completions(self.flight) if self.step.actor is Actor.FINISH else []
        issued = isinstance(self.operation, ir.Asynchronous | ir.QueueArrive)
        return [] if issued else self._signals(self.own, self.operation, values)

    def _kind_commutes(self, values: dict[str, int]) -> bool:
        operation = self.operation
        if self.flight is not None:  # without order, a commit counts what is unfinished
            commits = self.commits[(self.flight.agent, self.queue or "")]
            return not self.queue or self.system.queues[self.queue].ordered or not commits
        match operation:
            case ir.Commit(queue=name):
                return self.system.queues[name].ordered
            case ir.Wait(barrier=reference):  # no phase ends before it; no arrival has to see it
                key = key_of(reference, values)
                seen = self._barrier(key).observed or not self.arrivals[key]
                return seen and not self._ends(key, 1)
            case ir.Arrive(drop=drop, token=token):
                return not (drop or token)
        return not isinstance(operation, ir.PoolTake | UNCLAIMED)

    def _signal_commutes(self, signal: Signal, values: dict[str, int]) -> bool:
        """With all of U the phase ends at most once, by the last of all, whichever that is.

        Then no wait of U may pass on the barrier. Of a named barrier: its generation.
        """
        key, count, expects, completes = signal
        arrived = self.arrivals[key] + count
        operation = self.operation
        if isinstance(operation, ir.BarrierSync | ir.BarrierArrive):
            held = self.named[key_of(operation.barrier, values)]
            return held.arrived_threads + arrived <= evaluate(operation.threads, values)
        barrier = self._barrier(key)
        most = abs(barrier.transaction) + self.expected[key] + expects
        if most + self.completed[key] + completes > TRANSACTION_MAX or arrived > barrier.pending:
            return False
        left = barrier.transaction + self.expected[key] + expects - self.completed[key] - completes
        # Below the count the phase cannot end, and sums do not depend on the order.
        return arrived < barrier.pending or left > 0 or (left == 0 and key not in self.waited)

    def _fences_commute(self, touched: Touched) -> bool:
        """No fence takes away a mark that the other side makes or meets."""
        mine = {self.operation.kind} if isinstance(self.operation, ir.Fence) else set()
        maps = self.system.tensormaps
        if self.fences & TENSORMAP and (maps & {c[0] for c, *_ in touched} or mine & TENSORMAP):
            return False
        if mine & TENSORMAP and self.touched & maps:
            return False
        generic = {cell[0] for cell, _, proxy in touched if proxy is ir.Proxy.GENERIC}
        if self.flight is not None and self.fences and generic & self.system.asynchronous:
            return False  # the end of an operation leaves a mark of the engine
        if ir.FenceKind.ASYNC not in mine:
            return True
        generic = {cell[0] for cell, _, proxy in self.reaching if proxy is ir.Proxy.GENERIC}
        reached = {cell for cell, *_ in self.reaching}
        gone = {self.own, ENGINE}
        meets = any(gone & (h.writers | h.readers) for c, h in self.state.cells if c in reached)
        return not (generic & self.system.asynchronous or meets)

    def _ends_commute(self) -> bool:
        """No CTA ends before or by the step, where that could meet the step or what is in U."""
        program, agents = self.system.program, self.machine.agents
        if program.policies.exit_in_flight == "allow":
            return True
        places = list(self.places)
        if self.own >= 0 and not isinstance(self.operation, ir.BarrierSync):
            places[self.own] = self.control.after(agents[self.own], places[self.own])
        goes_on = {a.number for a in agents if places[a.number].frames} - self.widened
        now = {a.role.cta for a in agents if self.state.positions[a.number].frames}
        ended = now - {agents[number].role.cta for number in goes_on}
        storages, names = {c[0] for c in self.cells}, {r.name for r in barriers_of(self.operation)}
        used = {b.cta for b in program.buffers if (b.storage or b.name) in storages}
        used |= {b.cta for b in program.barriers if b.name in names}
        if self.own >= 0 and (self.executed or self.flying):
            used.add(agents[self.own].role.cta)
        return not ended & used


def _held(flight: Flight) -> Touched:
    return [(cell, write, proxy) for cell, write, _, proxy, *_ in flight.accesses]


def _named(key: Key) -> Key:
    """The key under which arrivals at a named barrier are summed; no mbarrier has such a name."""
    return f"named barrier {key[0]}", key[1]
