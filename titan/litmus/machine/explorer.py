"""Every outcome of a machine program: a search over states in which caches are bounds on age.

All writes of a location form one list for each wave: what has reached the system, then what its
agent, its XCD and its CU hold back. A cache is a bound: what it may return is no older than its
bound, so that lines are filled, kept and dropped at any time without states of their own. The
machine, and where it is a reading of documents rather than a fact:

- Vector memory operations of a CU enter its L1 in the order of issue; a store is seen by the CU
  from then on (LLVM, gfx942: one L1 a CU). It reaches L2 later; stores of different locations
  overtake each other, those of one location do not (reading: channels are chosen by address).
- Loads take their value at any time between issue and completion, those of one location and CU in
  order. vmcnt goes down in the order of issue (CDNA3 ISA, 4.4).
- L2 of an XCD keeps written lines back until they are written back, for any reason or by
  buffer_wbl2; accesses with scope bits go to the level that the scope names.
- buffer_wbl2 waits for the stores that its CU has issued before it (reading).
- LDS operations of a wave are performed in order, some time after issue; lgkmcnt counts them, and
  scalar loads out of order. LDS DMA writes LDS at any time before its vmcnt.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise

from titan.foundation.errors import InternalError, Refusal
from titan.foundation.verdict import Reason
from titan.litmus.language.ast import Operand, Scope
from titan.litmus.language.machine_steps import LDS, VECTOR, CdnaStep, StepForm
from titan.litmus.machine.program import MachineProgram, Node
from titan.litmus.machine.state import CountedOperation, MachineState, WaveState, WriteId

STATES_MAX = 200_000
Outcome = tuple[tuple[tuple[str, str, int], ...], tuple[tuple[str, int], ...]]


class TooManyStates(Refusal):
    """The search gave up; nothing is known of the program."""

    reason = Reason.STATES


class MachineExplorer:
    """The search over one program."""

    def __init__(self, program: MachineProgram, states_max: int = STATES_MAX) -> None:
        self.program = program
        self.states_max = states_max
        self.states = 0
        self.paths = [program.path(number) for number in range(len(program.waves))]
        self.codes = [wave.steps for wave in program.waves]
        self.labels = [
            {step.target: n for n, step in enumerate(code) if step.form is StepForm.LABEL}
            for code in self.codes
        ]
        root = self.paths[0][-1]
        self.parents = {
            node: path[n + 1] for path in self.paths for n, node in enumerate(path) if node != root
        }

    # Outcomes -----------------------------------------------------------------------------

    def outcomes(self) -> set[Outcome]:
        """(registers, memory) of every end; one at which a wave waits forever is none.

        Raises TooManyStates.
        """
        root = self.paths[0][-1]
        start = MachineState.initial(self.program, root)
        seen = {start.key()}
        work = [start]
        found: set[Outcome] = set()
        while work:
            state = work.pop()
            moved = False
            for following in self.following(state):
                moved = True
                key = following.key()
                if key not in seen:
                    seen.add(key)
                    work.append(following)
            if not moved and all(self._step(state, n) is None for n in range(len(self.codes))):
                found.add(self._outcome(state, root))
            if len(seen) > self.states_max:
                raise TooManyStates(f"more than {self.states_max} states")
        self.states = len(seen)
        return found

    def _outcome(self, state: MachineState, root: Node) -> Outcome:
        """Registers as they are when all has come back, and memory."""
        if not all(f.done for wave in state.waves for f in (*wave.vector, *wave.local)):
            raise InternalError("an operation in flight has nothing left to do")
        registers = []
        for wave, spec in zip(state.waves, self.program.waves, strict=True):
            final = dict(wave.registers)
            for flight in (*wave.vector, *wave.local):
                if flight.register is not None:
                    final[flight.register] = flight.value
            registers += [(spec.name, name, value) for name, value in final.items()]
        memory = [(name, state.orders[(root, name)][-1][1]) for name, _ in self.program.memory]
        memory += list(state.lds.items())
        return tuple(sorted(registers)), tuple(sorted(memory))

    # Transitions --------------------------------------------------------------------------

    def following(self, state: MachineState) -> Iterator[MachineState]:
        """States one transition further; a transition that nobody else sees goes first alone."""
        for number in range(len(state.waves)):
            eager = self._eager(state, number)
            if eager is not None:
                yield eager
                return
        for number in range(len(state.waves)):
            yield from self._issue(state, number)
            yield from self._complete(state, number)
        yield from self._barriers(state)
        yield from self._propagate(state)

    def _step(self, state: MachineState, number: int) -> CdnaStep | None:
        at = state.waves[number].at
        return self.codes[number][at] if at < len(self.codes[number]) else None

    def _eager(self, state: MachineState, number: int) -> MachineState | None:
        """Labels, arithmetic on values that are there, and waits with one way to be met."""
        step = self._step(state, number)
        wave = state.waves[number]
        if step is None:
            return None
        if step.form in (StepForm.LABEL, StepForm.ASSIGN, StepForm.BRANCH):
            if any(wave.in_flight(name) for name in _registers(step)):
                return None
            return next(self._issue(state, number))
        if step.form is StepForm.WAIT:
            if any(self._form(flight.token) is StepForm.SCALAR for flight in wave.local):
                return None  # it may be met in another way later
            return next(self._issue(state, number), None)
        return None

    def _issue(self, state: MachineState, number: int) -> Iterator[MachineState]:
        """The next instruction of a wave; several ways where it reads registers in flight."""
        step = self._step(state, number)
        if step is None or state.waves[number].waiting:
            return
        if step.form is StepForm.WAIT:
            yield from self._wait(state, number, step)
            return
        for ready in _resolved(state, number, _registers(step)):
            after = self._issued(ready, number, step)
            if after is not None:
                yield after

    def _issued(self, state: MachineState, number: int, step: CdnaStep) -> MachineState | None:
        after = state.copy()
        wave = after.waves[number]
        token = (number, wave.at)
        wave.at += 1
        match step.form:
            case StepForm.ASSIGN:
                assert step.destination is not None
                wave.registers[step.destination] = _value(wave, step.operands[0])
            case StepForm.BRANCH:
                left, right = (_value(wave, operand) for operand in step.operands)
                if _holds(left, step.relation, right):
                    wave.at = self.labels[number][step.target]
            case StepForm.BARRIER:
                wave.waiting = True
            case StepForm.INVALIDATE:
                self._invalidate(after, number, step)
            case StepForm.WRITE_BACK:
                cu = self.paths[number][0]
                names = after.names if cu in self.parents else ()
                awaited = tuple(w for name in names for w, _ in after.held(cu, name))
                wave.vector.append(CountedOperation(token, None, False, 0, awaited=awaited))
            case StepForm.SCALAR:
                wave.local.append(CountedOperation(token, step.destination, False, 0))
            case _ if step.form in LDS:
                operands = tuple(_value(wave, operand) for operand in step.operands)
                wave.local.append(
                    CountedOperation(token, step.destination, False, 0, operands=operands)
                )
            case _ if step.form in VECTOR:
                return self._vector(after, number, step, token)
        return after

    # Vector memory ------------------------------------------------------------------------

    def _vector(
        self, after: MachineState, number: int, step: CdnaStep, token: WriteId
    ) -> MachineState | None:
        wave, cu = after.waves[number], self.paths[number][0]
        name = step.source or step.location
        assert name is not None
        operands = tuple(_value(wave, operand) for operand in step.operands)
        queue = after.queues.get((cu, name), ())
        if step.form is StepForm.STORE:
            if any(self._form(other) is StepForm.ATOMIC for other in queue):
                return None  # behind the atomic, which has not been performed
            after.hold(cu, name, (token, operands[0]))
            after.bounds[(cu, name)] = token
            after.limit(name, queue, token)
            done = cu not in self.parents
            wave.vector.append(CountedOperation(token, None, done, 0))
            return after
        after.queues[(cu, name)] = (*queue, token)
        bound = after.bounds.get((cu, name), after.first)
        destination = None if step.form is StepForm.COPY else step.destination
        wave.vector.append(CountedOperation(token, destination, False, 0, bound, operands=operands))
        return after

    def _form(self, token: WriteId) -> StepForm:
        return self.codes[token[0]][token[1]].form

    def _complete(self, state: MachineState, number: int) -> Iterator[MachineState]:
        """What operations in flight do: take a value, be performed, write LDS."""
        wave = state.waves[number]
        for place, flight in enumerate(wave.vector):
            step = self.codes[number][flight.token[1]]
            if flight.done:
                continue
            if step.form is StepForm.WRITE_BACK:
                yield from self._write_back(state, number, place, step)
            elif step.form is StepForm.COPY and flight.taken:
                after = state.copy()
                assert step.location is not None
                after.lds[step.location] = flight.value
                after.waves[number].vector[place] = flight.finished(flight.value)
                yield after
            elif step.form is not StepForm.STORE:
                yield from self._take(state, number, place, step)
        for place, flight in enumerate(wave.local):
            if not flight.done:
                step = self.codes[number][flight.token[1]]
                if step.form is StepForm.SCALAR:
                    yield from self._scalar(state, number, place, step)
                else:
                    yield self._local(state, number, place, step)
                    break  # LDS operations of a wave are performed in order

    def _take(
        self, state: MachineState, number: int, place: int, step: CdnaStep
    ) -> Iterator[MachineState]:
        """A load takes its value, an atomic is performed, at the level of its reach."""
        path = self.paths[number]
        name = step.source or step.location
        assert name is not None
        flight = state.waves[number].vector[place]
        if state.queues[(path[0], name)][0] != flight.token:
            return
        depth = self.program.depth(self.program.reach(step))
        if step.form is StepForm.ATOMIC:
            yield self._perform(state, number, place, step, depth)
            return
        order = state.order(path, name)
        position = {write: n for n, (write, _) in enumerate(order)}
        low = max(position[flight.bound], self._least(state, path, name, depth, position))
        high = position[flight.limit] if flight.limit is not None else len(order)
        # a later store of its own CU may have come in between: the load was ahead of it
        for n in range(min(low, high - 1), high):
            write, value = order[n]
            after = state.copy()
            after.pop_queue(path[0], name)
            after.follow(path[0], name, write, position)
            self._raise(after, path, name, write, position)
            record = after.waves[number].vector
            if step.form is StepForm.COPY:
                record[place] = flight.took(value)
            else:
                record[place] = flight.finished(value)
            yield after

    def _least(
        self, state: MachineState, path: tuple[Node, ...], name: str, depth: int,
        position: dict[WriteId, int],
    ) -> int:  # fmt: skip
        """The oldest write that a coherent access at this level may see; 0 at the CU."""
        if depth == 0:
            return 0
        found = 0
        for node in path[: depth + 1]:
            held = state.orders.get((node, name), ())
            if held:
                found = max(found, position[held[-1][0]])
        if path[depth] in self.parents:
            found = max(found, position[state.bounds.get((path[depth], name), state.first)])
        return found

    def _raise(
        self, state: MachineState, path: tuple[Node, ...], name: str, write: WriteId,
        position: dict[WriteId, int],
    ) -> None:  # fmt: skip
        """Caches on the way have the write, if they can have it, or a later one."""
        held_below: set[WriteId] = set()
        for node in path[:-1]:
            if write not in held_below:
                bound = state.bounds.get((node, name), state.first)
                if position[bound] < position[write]:
                    state.bounds[(node, name)] = write
            held_below |= {w for w, _ in state.orders.get((node, name), ())}

    def _perform(
        self, state: MachineState, number: int, place: int, step: CdnaStep, depth: int
    ) -> MachineState:
        """An atomic, behind what its own caches hold of the location."""
        path = self.paths[number]
        assert step.location is not None
        after = state.copy()
        depth = max(depth, min(1, len(path) - 1))
        self._push(after, path, step.location, depth)
        flight = after.waves[number].vector[place]
        old = after.order(path, step.location)[-1][1]
        new = _updated(step.operation, old, flight.operands)
        if new is not None:
            after.hold(path[depth], step.location, (flight.token, new))
            for node in path[: depth + 1]:
                if node == path[0] or node in self.parents:
                    after.bounds[(node, step.location)] = flight.token
        after.pop_queue(path[0], step.location)
        last = after.order(path, step.location)
        position = {write: n for n, (write, _) in enumerate(last)}
        after.follow(path[0], step.location, last[-1][0], position)
        after.waves[number].vector[place] = flight.finished(old)
        return after

    def _push(self, state: MachineState, path: tuple[Node, ...], name: str, depth: int) -> None:
        """Move what the caches below a level hold of a location up to it."""
        for lower, upper in pairwise(path[: depth + 1]):
            held = state.orders.pop((lower, name), ())
            for write, value in held:
                state.hold(upper, name, (write, value))
                self._arrived(state, write, upper)

    def _arrived(self, state: MachineState, write: WriteId, node: Node) -> None:
        """A store is done when it is at the level of its reach, in L2 at least."""
        if write[0] < 0:
            return
        wave = state.waves[write[0]]
        step = self.codes[write[0]][write[1]]
        depth = max(self.program.depth(self.program.reach(step)), 1)
        if self.paths[write[0]].index(node) >= depth:
            wave.vector[:] = [
                f.finished(0) if f.token == write and not f.done else f for f in wave.vector
            ]

    def _propagate(self, state: MachineState) -> Iterator[MachineState]:
        """The oldest store of a CU goes to L2 or further; a held line goes up one level."""
        for (node, name), held in state.orders.items():
            if node not in self.parents or not held:
                continue
            after = state.copy()
            (write, value), path = held[0], self.paths[held[0][0][0]]
            at = path.index(node)
            if at == 0:
                step = self.codes[write[0]][write[1]]
                depth = max(self.program.depth(self.program.reach(step)), 1)
                after.orders[(node, name)] = held[1:]
                for lower, upper in pairwise(path[1 : depth + 1]):
                    for item in after.orders.pop((lower, name), ()):
                        after.hold(upper, name, item)
                        self._arrived(after, item[0], upper)
                after.hold(path[depth], name, (write, value))
                for lower in path[1 : depth + 1]:
                    if lower in self.parents:
                        after.bounds[(lower, name)] = write
                self._arrived(after, write, path[depth])
            else:
                self._push_line(after, path, name, at)
            yield after

    def _push_line(self, state: MachineState, path: tuple[Node, ...], name: str, at: int) -> None:
        upper = path[at + 1]
        for write, value in state.orders.pop((path[at], name), ()):
            state.hold(upper, name, (write, value))
            if upper in self.parents:
                state.bounds[(upper, name)] = write
            self._arrived(state, write, upper)

    def _write_back(
        self, state: MachineState, number: int, place: int, step: CdnaStep
    ) -> Iterator[MachineState]:
        path = self.paths[number]
        flight = state.waves[number].vector[place]
        waiting = {w for name in state.names for w, _ in state.held(path[0], name)}
        if waiting & set(flight.awaited):
            return
        after = state.copy()
        for at in range(1, self.program.depth(step.reach)):
            for name in state.names:
                if (path[at], name) in after.orders:
                    self._push_line(after, path, name, at)
        record = after.waves[number].vector
        record[place] = record[place].finished(0)
        yield after

    def _invalidate(self, state: MachineState, number: int, step: CdnaStep) -> None:
        """Lines of these caches are fetched again from the level above; what they hold stays."""
        path, levels = self.paths[number], self.program.levels()
        for name in state.names:
            position = {w: n for n, (w, _) in enumerate(state.order(path, name))}
            for at in reversed(range(len(path) - 1)):
                if levels[at] not in step.levels:
                    continue
                upper = path[at + 1]
                least = state.bounds.get((upper, name), state.first)
                if upper not in self.parents:
                    least = state.orders[(upper, name)][-1][0]
                candidates = [least, state.bounds.get((path[at], name), state.first)]
                for node in path[at : at + 2]:
                    held = state.orders.get((node, name), ())
                    if held:
                        candidates.append(held[-1][0])
                state.bounds[(path[at], name)] = max(candidates, key=lambda w: position[w])

    # LDS, scalar loads, waits and barriers ------------------------------------------------

    def _local(self, state: MachineState, number: int, place: int, step: CdnaStep) -> MachineState:
        after = state.copy()
        assert step.location is not None
        flight = after.waves[number].local[place]
        old = after.lds[step.location]
        if step.form is StepForm.LDS_WRITE:
            after.lds[step.location] = flight.operands[0]
        elif step.form is StepForm.LDS_ATOMIC:
            new = _updated(step.operation, old, flight.operands)
            after.lds[step.location] = old if new is None else new
        after.waves[number].local[place] = flight.finished(old)
        return after

    def _scalar(
        self, state: MachineState, number: int, place: int, step: CdnaStep
    ) -> Iterator[MachineState]:
        """A scalar load sees any write that its caches do not know to be overwritten."""
        path = self.paths[number]
        assert step.location is not None
        order = state.order(path, step.location)
        for value in dict.fromkeys(value for _, value in order):
            after = state.copy()
            record = after.waves[number].local
            record[place] = record[place].finished(value)
            yield after

    def _wait(self, state: MachineState, number: int, step: CdnaStep) -> Iterator[MachineState]:
        wave = state.waves[number]
        vector = 0 if step.vmcnt is None else max(0, len(wave.vector) - step.vmcnt)
        if not all(flight.done for flight in wave.vector[:vector]):
            return
        need = 0 if step.lgkmcnt is None else max(0, len(wave.local) - step.lgkmcnt)
        for chosen in _retirements(self.codes[number], wave.local, need):
            after = state.copy()
            mine = after.waves[number]
            for flight in [*mine.vector[:vector], *(mine.local[n] for n in chosen)]:
                mine.retire(flight)
            mine.vector = mine.vector[vector:]
            mine.local = [f for n, f in enumerate(mine.local) if n not in chosen]
            mine.at += 1
            yield after

    def _barriers(self, state: MachineState) -> Iterator[MachineState]:
        """All waves of a work-group that have not ended wait: they go on."""
        for group in {wave.place.group for wave in self.program.waves}:
            members = [n for n, w in enumerate(self.program.waves) if w.place.group == group]
            live = [n for n in members if state.waves[n].at < len(self.codes[n])]
            waiting = [n for n in members if state.waves[n].waiting]
            if waiting and all(state.waves[n].waiting or n not in live for n in members):
                after = state.copy()
                for n in waiting:
                    after.waves[n].waiting = False
                yield after


def _retirements(
    code: tuple[CdnaStep, ...], local: list[CountedOperation], need: int
) -> Iterator[frozenset[int]]:
    """Which operations may be the ones that lgkmcnt has counted down: LDS ones in order."""
    done = [n for n, flight in enumerate(local) if flight.done]
    for chosen in combinations(done, need):
        ordered = [n for n, f in enumerate(local) if code[f.token[1]].form is not StepForm.SCALAR]
        taken = [n for n in ordered if n in chosen]
        if taken == ordered[: len(taken)]:
            yield frozenset(chosen)


def _resolved(state: MachineState, number: int, names: tuple[str, ...]) -> Iterator[MachineState]:
    """The state, and those in which results in flight of these registers have come back."""
    yield state
    wave = state.waves[number]
    for queue in ("vector", "local"):
        flights: list[CountedOperation] = getattr(wave, queue)
        for n, flight in enumerate(flights):
            if flight.register in names and all(f.done for f in flights[: n + 1]):
                after = state.copy()
                mine = after.waves[number]
                for earlier in flights[: n + 1]:
                    mine.retire(earlier)
                setattr(mine, queue, [f.returned() for f in flights[: n + 1]] + flights[n + 1 :])
                yield after


def _registers(step: CdnaStep) -> tuple[str, ...]:
    return tuple(operand.name for operand in step.operands if not isinstance(operand, int))


def _value(wave: WaveState, operand: Operand) -> int:
    return operand if isinstance(operand, int) else wave.registers.get(operand.name, 0)


def _holds(left: int, relation: str | None, right: int) -> bool:
    """Whether the branch is taken; without a relation it always is."""
    order = (left > right) - (left < right)
    taken = {"==": (0,), "!=": (-1, 1), "<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (0, 1)}
    return relation is None or order in taken[relation]


def _updated(operation: str, old: int, operands: tuple[int, ...]) -> int | None:
    """What an atomic leaves; None for a compare that fails."""
    if operation == "cas":
        return operands[1] if old == operands[0] else None
    value = operands[0]
    return {
        "add": old + value, "sub": old - value, "exch": value, "min": min(old, value),
        "max": max(old, value), "and": old & value, "or": old | value, "xor": old ^ value,
    }[operation]  # fmt: skip


__all__ = ["MachineExplorer", "Outcome", "Scope", "TooManyStates"]
