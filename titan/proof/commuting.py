"""Whether one step may be followed alone: everything that others can do before it commutes with it.

`alone` decides it from an over-approximation U of what the others can do: every agent continues as
long as its waits could pass by all that U counts, and whatever is in flight may finish. The step is
then held against U by what both touch: memory, arrivals and bytes of barriers, the open phases
that waits see, proxy fences, the end of a CTA. Theorem `persistent_alone` (proofs/AnyNumber.v) says
why this suffices; that no conflict implies its hypotheses is argued beside each case.

Where an agent's way depends on an unknown, U has both ways: what it executes on each is in U, and
sums of both are no less than those of one. An agent whose way is long, or divides often, is
*widened*: it may execute all that lies ahead of it, any number of times, with any index but one
that its own number alone decides. What the n-th operation of an agent at a barrier does is counted
once if it is the same on all its ways. A step private to its agent (`titan/sync/private.py`)
is held against that agent alone: no other comes near what it touches, and what lets its agent go on
is taken for granted. False is always a safe answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import partial

from titan.foundation.errors import TitanError
from titan.proof.configuration import Configuration, System
from titan.sync import footprints
from titan.sync import program as ir
from titan.sync.expression import evaluate
from titan.sync.fault import Actor, Step
from titan.sync.footprints import Signal, Touched, held_by, named_key, signals_at_end
from titan.sync.mbarrier_rules import TRANSACTION_MAX
from titan.sync.open_numbers import UndecidedError
from titan.sync.parts import barriers_of, effects_of, queue_of
from titan.sync.pipe_order import pipe_pairs
from titan.sync.state import ENGINE, Cell, Flight, Key, MbarrierState, flying, key_of
from titan.sync.ways import Counts, Made, Way
from titan.sync.widened import WidenedAgent

OPERATIONS_MAX = 1000  # of one agent, until it is widened
Signals = Iterable[Signal]
FORK = 12  # operations that two ways in the place of one count for
UNCLAIMED = ir.Init | ir.Invalidate | ir.ExpectTransaction | ir.TokenWait  # nothing is claimed
TENSORMAP = {ir.FenceKind.TENSORMAP_RELEASE, ir.FenceKind.TENSORMAP_ACQUIRE}


class _Conflict(TitanError):
    """Something that the others can do does not commute with the step."""


def alone(system: System, before: Configuration, step: Step, asked: set[str] | None = None) -> bool:
    """Whether the step, possible and without fault here, represents all steps.

    `asked` gathers the sizes that ways depend on.
    """
    if not system.reduces(before.state):
        return False
    others = _Others(system, before, step)
    for private in (True, False) if system.ways.private(step.agent, others.operation) else (False,):
        with suppress(_Conflict):
            if others.commute(private):
                return True
        if asked is not None:
            asked |= others.asked
        others = _Others(system, before, step)
    return False


class _Others:
    """U of one step, and the step itself."""

    def __init__(self, system: System, before: Configuration, step: Step) -> None:
        self.system, self.machine, self.all = system, system.machine, system.ways
        self.before, self.step = before, step
        self.state = state = before.state
        self.control = self.machine.control
        self.barriers, self.named = dict(state.barriers), dict(state.named)
        self.queues = dict(state.queues)
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
        self.counts = Counts.none()
        self.arrivals, self.expected, self.completed = self.counts
        self.made: set[Made] = set()
        self.waited: set[Key] = set()
        self.commits: Counter[tuple[int, str]] = Counter()
        self.fences: set[ir.FenceKind] = set()
        self.reaching: Touched = []  # by an engine or through another proxy
        self.touched: set[str] = set()
        self.ways = [
            [Way(place)] for place in self.all.places(state.positions, before.sizes, before.origins)
        ]
        self.executed: Counter[int] = Counter()
        self.widened: dict[int, WidenedAgent] = {}
        self.unseen: set[int] = set()  # agents that the step is private against, wherever they go
        self.asked: set[str] = set()

    # ------------------------------------------------------------------------------- U

    def commute(self, private: bool) -> bool:
        """Whether everything in U commutes with the step.

        Of a private one, U has only what its own agent may do, whatever the others do.
        """
        place = self.ways[self.step.agent][0].place  # of who executes it now, or has issued it
        values = self.all.values(place)
        own = held_by(self.flight) if self.flight else self.all.touched(place, self.operation)
        if own is None:
            return False
        for cell, write, *_ in own:
            self.cells[cell] = write or self.cells.get(cell, False)
        for flight, queue in self.flying:
            if flight is not self.flight and not self._is_behind(flight.agent, queue):
                self._meet(held_by(flight), True)
                self._signal(signals_at_end(flight, self.machine.operations[flight.site]))
        moving = set(range(len(self.ways))) - {self.own}
        if private:
            self.unseen = moving - {self.step.agent}
            moving -= self.unseen
            self._move(moving)
            for number in moving:  # where it does not wait for the step, it may be anywhere ahead
                at = [self.control.operation_at(way.place.position) for way in self.ways[number]]
                if not all(isinstance(operation, ir.QueueWait) for operation in at):
                    self._widen(number, [])
        self._move(moving)
        self.system.use(self.before)
        return (
            self._kind_commutes(values)
            and self._fences_commute(own)
            and all(self._signal_commutes(s, values) for s in self._own_signals())
            and self._ends_commute()
        )

    def _meet(self, touched: Touched, asynchronous: bool, kept: bool = False) -> None:
        """U touches memory: of the step's cells, only what both read, or what a pipe orders."""
        if not kept and any(w or self.cells[c] for c, w, *_ in touched if c in self.cells):
            raise _Conflict
        self.touched |= {cell[0] for cell, *_ in touched}
        self.reaching += [t for t in touched if asynchronous or t[2] is not ir.Proxy.GENERIC]

    def _is_behind(self, number: int, queue: str | None) -> bool:
        """Whether what the agent has in the queue cannot finish before the step.

        The step is the first of that queue then, which is in order; only reads may be over before.
        """
        if self.flight is None or self.step.actor is not Actor.FINISH or queue is None:
            return False
        same = (number, queue) == (self.flight.agent, self.queue)
        return same and self.system.queues[queue].ordered

    def _keeps(self, number: int, operation: ir.Operation, touched: Touched) -> bool:
        """Whether the step's operation is in flight in a pipe that keeps what is issued behind it.

        The new one meets a write to its end, or the content that this will be, and no mark of it.
        """
        name = queue_of(operation) if isinstance(operation, ir.Asynchronous) else None
        if self.flight is None or name is None or not self._is_behind(number, name):
            return False
        pairs = pipe_pairs(self.system.queues[name], self.system.program.policies)
        reduces = any(effect.reduction for effect in effects_of(operation))
        marked = self.system.tensormaps | self.system.asynchronous
        return not reduces and footprints.kept_in_order(self.flight, touched, pairs, marked)

    def _signal(self, signals: Signals) -> None:
        for key, arrivals, expected, completed in signals:
            if min(arrivals - bool(expected), expected, completed) < 0:
                raise _Conflict  # bytes that no arrival brings may be of any phase
            self.arrivals[key] += arrivals
            self.expected[key] += expected
            self.completed[key] += completed

    def _move(self, numbers: set[int]) -> None:
        while any([self._moves(number) for number in sorted(numbers)]):
            pass

    def _moves(self, number: int) -> bool:
        """Whether the agent adds anything to U."""
        before = self.executed[number], sum(self.arrivals.values())
        ready = [way for way in self.ways[number] if not way.waits(self.counts)]
        self.ways[number] = [way for way in self.ways[number] if way.waits(self.counts)]
        while ready:
            way = ready.pop()
            try:
                further = self._goes_on(number, way)
            except UndecidedError as question:
                self.asked.add(question.name)
                self._widen(number, [way, *ready])
                break
            ready += further
            if not further:
                way.stopped = self.all.counted(way.place, self.counts)
                self.ways[number].append(way)
        if number in self.widened:
            self._goes_anywhere(number)
        return before != (self.executed[number], sum(self.arrivals.values()))

    def _widen(self, number: int, ways: list[Way]) -> None:
        """What lies ahead on all ways of the agent is in U, without numbers but its own."""
        places = {way.stands(self.queue) for way in (*ways, *self.ways[number])}
        agent, turning = self.machine.agents[number], dict(self.before.origins)
        waits = self.queue, partial(self._waits_for_step, number)
        self.widened[number] = WidenedAgent(
            self.control, agent, places, self.state, turning, *waits
        )
        self.ways[number] = []

    def _goes_anywhere(self, number: int) -> None:
        """The agent goes on from wherever it may be."""
        going = self.widened[number]
        for operation in going.further(self.arrivals):
            touched = footprints.touched_by(operation, going.fixed, self.system.buffers)
            signals = going.signals(operation, self.barriers)
            self._add(number, operation, touched, signals)
            self.waited |= {key for key, *_ in signals}

    def _goes_on(self, number: int, way: Way) -> list[Way]:
        """The way, or two, with one more operation, if that is possible by what U counts so far."""
        if self.flight is None or self.flight.agent != number:
            self.executed[number] += self.all.passes_own(way)
        place = way.place
        operation = self.control.operation_at(place.position)
        if operation is None:
            return []
        if not place.done:
            if not self._passes(way, operation, self.all.values(place)):
                return []
            sync = isinstance(operation, ir.BarrierSync)  # it arrived before
            signals = [] if sync else self.all.signals(place, operation)
            unmet = way.unmet(signals, self.made)
            self._add(number, operation, self.all.touched(place, operation), unmet)
            if isinstance(operation, ir.Commit):
                way.commits[operation.queue] += 1
        further = self.all.further(place)
        self.executed[number] += FORK * (len(further) - 1)
        if self.executed[number] > OPERATIONS_MAX:
            raise UndecidedError(place.asked)
        return way.on(further)

    def _add(
        self, number: int, operation: ir.Operation, touched: Touched | None, signals: Signals
    ) -> None:
        """What the operation does is in U."""
        dropped = isinstance(operation, ir.Arrive) and (operation.drop or operation.token)
        if dropped or touched is None or isinstance(operation, UNCLAIMED):
            raise _Conflict
        if isinstance(operation, ir.Commit):
            self.commits[(number, operation.queue)] += 1
        if isinstance(operation, ir.Fence):
            self.fences.add(operation.kind)
        kept = self._keeps(number, operation, touched)
        self._meet(touched, isinstance(operation, ir.Asynchronous), kept)
        if not self._is_behind(number, queue_of(operation)):
            self._signal(signals)
        self.executed[number] += 1

    def _passes(self, way: Way, operation: ir.Operation, values: dict[str, int]) -> bool:
        """Whether the operation can pass: False only where it cannot by anything in U.

        Of what may change, the answer depends on `Ways.counted` alone.
        """
        match operation:
            case ir.Wait():
                key, parity = self.all.awaited(way.place, operation)
                passed = way.passed[key]
                if (self._barrier(key).phase + passed) & 1 == parity:
                    passed += 1
                    if not self._ends(key, passed):
                        return False
                way.passed[key] = passed
                self.waited.add(key)
            case ir.QueueWait(queue=name, pending=pending):
                most, commits = evaluate(pending, values), way.commits[name]
                return not self._waits_for_step(way.place.number, operation, most, commits)
            case ir.BarrierSync(barrier=reference, threads=threads):
                key = key_of(reference, values)
                if not way.arrived and way.place.number not in self.named[key].waiting:
                    arrival = self.all.signals(way.place, operation)
                    self._signal(way.unmet(arrival, self.made))
                way.arrived = True
                arrived = self.named[key].arrived_threads + self.arrivals[named_key(key)]
                return arrived >= evaluate(threads, values)
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

    def _waits_for_step(self, number: int, wait: ir.QueueWait, pending: int, commits: int) -> bool:
        """Whether a wait cannot pass before the step, which is in its queue.

        Behind at least so many commits.
        """
        name = wait.queue
        if self.flight is None or (name, number) != (self.queue, self.flight.agent):
            return False
        if wait.until is ir.Until.READ and not self.flight.reading:
            return False
        groups = self.queues[(number, name)].closed
        own = [place for place, group in enumerate(groups) if self.flight in group]
        if not self.system.queues[name].ordered or not own:
            return bool(own) and pending < 1
        return len(groups) - own[0] + commits > pending

    # -------------------------------------------------------------------------- the step

    def _own_signals(self) -> list[Signal]:
        if self.flight is not None:
            finished = self.step.actor is Actor.FINISH
            return signals_at_end(self.flight, self.operation) if finished else []
        issued = isinstance(self.operation, ir.Asynchronous | ir.QueueArrive)
        return [] if issued else self.all.signals(self.ways[self.own][0].place, self.operation)

    def _kind_commutes(self, values: dict[str, int]) -> bool:
        operation = self.operation
        if self.flight is not None:
            # Without order a commit counts what is unfinished, and in a group that is open what is
            # ahead of its last marker finishes, and nothing else.
            owned = self.flight.agent, self.queue or ""
            loose = self.queue and not self.system.queues[self.queue].ordered
            return not (loose and (self.commits[owned] or self.flight in self.queues[owned].open))
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
        arrived, operation = self.arrivals[key] + count, self.operation
        if min(count - bool(expects), expects, completes) < 0:
            return False
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
        generic = {cell[0] for cell, _, proxy, _ in touched if proxy is ir.Proxy.GENERIC}
        if self.flight is not None and self.fences and generic & self.system.asynchronous:
            return False  # the end of an operation leaves a mark of the engine
        if ir.FenceKind.ASYNC not in mine:
            return True
        generic = {cell[0] for cell, _, proxy, _ in self.reaching if proxy is ir.Proxy.GENERIC}
        reached = {cell for cell, *_ in self.reaching}
        gone = {self.own, ENGINE}
        meets = any(gone & (h.writers | h.readers) for c, h in self.state.cells if c in reached)
        return not (generic & self.system.asynchronous or meets)

    def _ends_commute(self) -> bool:
        """No CTA ends before or by the step, where that could meet the step or what is in U."""
        program, agents = self.system.program, self.machine.agents
        if program.policies.exit_in_flight == "allow":
            return True
        frames = [{way.place.position.frames for way in ways} for ways in self.ways]
        if self.own >= 0 and not isinstance(self.operation, ir.BarrierSync):
            position = self.state.positions[self.own]
            frames[self.own] = {self.control.after(agents[self.own], position).frames}
        goes_on = {a.number for a in agents if all(frames[a.number])}
        goes_on -= self.unseen | {n for n, agent in self.widened.items() if agent.ended}
        now = {a.role.cta for a in agents if self.state.positions[a.number].frames}
        ended = now - {agents[number].role.cta for number in goes_on}
        storages, names = {c[0] for c in self.cells}, {r.name for r in barriers_of(self.operation)}
        used = {b.cta for b in program.buffers if (b.storage or b.name) in storages}
        used |= {b.cta for b in program.barriers if b.name in names}
        if self.own >= 0 and (self.executed or self.flying):
            used.add(agents[self.own].role.cta)
        return not ended & used
