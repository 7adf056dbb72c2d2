"""Configurations: a state of the reference interpreter with what is known of the open sizes.

`System.canonical` gives one representative of configurations that are bisimilar: numbers of a class
lowered as far as its threshold allows, phases that nobody names reduced to their parity, operations
in flight numbered again, and what nobody reads again (variables of loops that are over, sizes of
iterations that are, marks of memory that no such proxy reaches) forgotten. Each is a bisimulation
by `shift_bisimilar` (proofs/AnyNumber.v).

A size with a separate number in every iteration of an outer loop (`per`) is a list of numbers.
Its class, loop variables that count up to it, is lowered iteration by iteration: nobody may be in
an earlier iteration or before the loop in this one, and who is in a later one does not read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from titan.foundation.errors import TitanError
from titan.proof.open_sizes import AtLeast, NotCoveredError, Numbers, UndecidedError
from titan.proof.shifts import CertifiedShiftClass, CheckedClass, ends, expressions_of
from titan.sync import program as ir
from titan.sync.expression import names_of
from titan.sync.fault import Fault, Step
from titan.sync.interpreter import ANY_TILE, UNDEFINED, Agent, Interpreter
from titan.sync.parts import effects_of
from titan.sync.state import Flight, Position, QueueState, State

STARTS_MAX = 1000
AHEAD_MAX = 100  # iterations between those whose sizes are asked for
ENDLESS = 2**40
Frames = tuple[tuple[int, int], ...]


class Size(NamedTuple):
    """An open size: `value`, or any number from there on."""

    value: int
    decided: bool


Sizes = tuple[tuple[Size, ...], ...]


class Configuration(NamedTuple):
    """A state of the machine together with the sizes it runs under.

    `sizes`: of each open parameter its number, or those of the iterations asked about.
    """

    state: State
    sizes: Sizes


class FaultyError(TitanError):
    """A configuration, or a step from it, is a fault: there is no certificate."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(f"a fault: {fault.message}")
        self.fault = fault


class System:
    """The program with some sizes given and all others open.

    Raises NotCoveredError for what certificates do not cover, and for classes that do not hold.
    """

    def __init__(
        self, program: ir.SyncProgram, given: dict[str, int], classes: Sequence[CertifiedShiftClass]
    ) -> None:
        known = {p.name: p.value for p in program.parameters if p.value is not None} | given
        self.program, self.given = program, known
        self.open = tuple(p for p in program.parameters if p.name not in known)
        if not ends(program):
            raise NotCoveredError("a loop does not count off its passes")
        self.machine = Interpreter(program, {**known, **{p.name: p.minimum for p in self.open}})
        self.scoped = {role.name: frozenset(_scoped(role, program)) for role in program.roles}
        self.classes = [CheckedClass(program, claim, known) for claim in classes]
        self._outer = [self._outer_of(entry) for entry in self.classes]
        self._ahead: dict[tuple[Frames, str], tuple[frozenset[int], bool]] = {}
        self._phased = {
            op.barrier.name
            for role in program.roles
            for op in ir.walk(role.body)
            if isinstance(op, ir.Wait) and op.phase is not None
        }
        self.asynchronous = _storages(program, ir.Proxy.ASYNC)
        self.tensormaps = _storages(program, ir.Proxy.TENSORMAP)
        self.cached = _storages(program, *ir.CACHED)

    def _outer_of(self, entry: CheckedClass) -> str:
        """The outer variable of a class that counts up to a size with a number for each of it."""
        claim = entry.claim
        found = [p for p in self.open if p.per and p.name in claim.sizes]
        if not found:
            return ""
        size, outer = found[0].name, found[0].per or ""
        scoped = all(name in self.scoped.get(role, ()) for role, name in claim.members)
        for role in self.program.roles:
            if size in _names_in(ir.walk(role.body)) and outer not in self.scoped[role.name]:
                raise NotCoveredError(f"{outer} is not the variable of a loop around {size}")
        if len(claim.sizes) > 1 or not scoped or claim.tiles or claim.phases:
            raise NotCoveredError(f"{size} bounds more than its own loops")
        return outer

    # ------------------------------------------------------------------------------ runs

    def use_sizes(self, sizes: Sizes) -> None:
        """What the interpreter computes with from here on."""
        for parameter, known in zip(self.open, sizes, strict=True):
            numbers = tuple(
                size.value if size.decided else AtLeast(size.value, f"{parameter.name}.{place}")
                for place, size in enumerate(known)
            )
            self.machine.sizes[parameter.name] = (
                Numbers.of(parameter.name, parameter.minimum, numbers)
                if parameter.per
                else numbers[0]
            )

    def starts(self) -> list[Configuration]:
        """The configurations before the first step, one for each answer about the sizes."""
        waiting: list[Sizes] = [
            tuple(() if p.per else (Size(p.minimum, False),) for p in self.open)
        ]
        found: list[Configuration] = []
        while waiting:
            sizes = waiting.pop()
            self.use_sizes(sizes)
            try:
                found.append(self.canonical(Configuration(self.machine.initial(), sizes)))
            except UndecidedError as question:
                waiting += self._answers(sizes, question.name)
            if len(found) > STARTS_MAX:
                raise NotCoveredError("too many questions about the sizes before the first step")
        return found

    def _answers(self, sizes: Sizes, name: str) -> list[Sizes]:
        """The size asked for, `name.place`, is its lower bound, or more."""
        asked, _, iteration = name.rpartition(".")
        place = [parameter.name for parameter in self.open].index(asked)
        known, number = sizes[place], int(iteration)
        if not 0 <= number <= (len(known) + AHEAD_MAX if self.open[place].per else 0):
            raise NotCoveredError(f"{name} is not a size")
        fresh = Size(self.open[place].minimum, False)
        known += (fresh,) * (number + 1 - len(known))
        bound, decided = known[number]
        if decided:
            raise NotCoveredError(f"{name} is not an open size")
        return [
            (*sizes[:place], (*known[:number], answer, *known[number + 1 :]), *sizes[place + 1 :])
            for answer in (Size(bound, True), Size(bound + 1, False))
        ]

    def split(self, before: Configuration, name: str) -> list[Configuration]:
        """The size is its bound, or more."""
        return [
            self.canonical(Configuration(before.state, sizes))
            for sizes in self._answers(before.sizes, name)
        ]

    def steps(self, before: Configuration) -> list[Step]:
        """The steps enabled in a configuration that is not a fault; FaultyError where it is one."""
        self.use_sizes(before.sizes)
        fault = self.machine.state_fault(before.state)
        if fault is not None:
            raise FaultyError(fault)
        return self.machine.steps(before.state)

    def after(self, before: Configuration, step: Step) -> Configuration:
        """The representative of the successor. Raises FaultyError and UndecidedError."""
        self.use_sizes(before.sizes)
        state, fault = self.machine.apply(before.state, step)
        if fault is not None or state is None:
            raise FaultyError(fault) if fault else NotCoveredError("a step without a result")
        return self.canonical(Configuration(state, before.sizes))

    # -------------------------------------------------------------------- representatives

    def canonical(self, found: Configuration) -> Configuration:
        """The representative of what is bisimilar to it."""
        state, sizes = self._forget(found.state), found.sizes
        for entry, outer in zip(self.classes, self._outer, strict=True):
            in_loop = {self._iteration(*item, outer) for item in self.live(state)} if outer else {0}
            for place in sorted(found for found in in_loop if found is not None and found >= 0):
                state, sizes = self._lowered(state, sizes, entry, (outer, place))
        return Configuration(_numbered(state), self._remembered(state, sizes))

    def live(self, state: State) -> Iterator[tuple[Agent, Position, frozenset[str]]]:
        """The agents that are not at their end, with the loop variables around where they are."""
        for agent, position in zip(self.machine.agents, state.positions, strict=True):
            if position.frames:
                around = (self.machine.control.block(block)[i] for block, i in position.frames[:-1])
                inside = frozenset(op.variable for op in around if isinstance(op, ir.Loop))
                yield agent, position, inside

    def falls(self, agent: Agent, inside: frozenset[str], entry: CheckedClass) -> list[bool]:
        """Which of the agent's values fall with the class; not those of loops that are over."""
        dead = self.scoped[agent.role.name] - inside
        names = self.machine.control.variables_of(agent.role.name)
        return [entry.member(agent.role, name) and name not in dead for name in names]

    def _forget(self, state: State) -> State:
        positions = [Position((), (0,) * len(p.values)) for p in state.positions]
        for agent, position, inside in self.live(state):
            dead = self.scoped[agent.role.name] - inside
            names = self.machine.control.variables_of(agent.role.name)
            values = zip(names, position.values, strict=True)
            kept = tuple(0 if name in dead else value for name, value in values)
            positions[agent.number] = Position(position.frames, kept)
            if any(type(value) is not int for value in kept):
                raise NotCoveredError("an agent keeps a size that is open")
        barriers = tuple(
            (key, barrier if key[0] in self._phased else barrier._replace(phase=barrier.phase & 1))
            for key, barrier in state.barriers
        )
        nobody, cells = frozenset[int](), []
        for cell, held in state.cells:
            marked = held
            if cell[0] not in self.asynchronous:
                marked = marked._replace(writers=nobody, readers=nobody)
            if cell[0] not in self.tensormaps:
                marked = marked._replace(authors=nobody, released=False)
            cells.append((cell, marked))
        return state._replace(positions=tuple(positions), barriers=barriers, cells=tuple(cells))

    def _iteration(
        self, agent: Agent, position: Position, inside: frozenset[str], outer: str
    ) -> int | None:
        """The iteration of the outer loop that the agent is in; -1: none yet, None: no more."""
        if outer in inside and outer in self.scoped[agent.role.name]:
            return position.values[self.machine.control.variables_of(agent.role.name).index(outer)]
        return -1 if self._lies_ahead(position.frames, outer)[1] else None

    def _lies_ahead(self, frames: Frames, outer: str) -> tuple[frozenset[int], bool]:
        """What may still be executed, by identity, and whether a loop of `outer` is in it."""
        if (frames, outer) not in self._ahead:
            found = list(self.lies_ahead(frames, outer))
            starts = any(isinstance(op, ir.Loop) and op.variable == outer for op in found)
            self._ahead[(frames, outer)] = frozenset(map(id, found)), starts
        return self._ahead[(frames, outer)]

    def lies_ahead(self, frames: Frames, outer: str = "") -> Iterator[ir.Operation]:
        """The operations that may still be executed; inside a loop of `outer`: in this pass."""
        for depth in reversed(range(len(frames))):
            block, index = self.machine.control.block(frames[depth][0]), frames[depth][1]
            inner = depth == len(frames) - 1
            yield from ir.walk(block[index if inner else index + 1 :])
            around = block[index]
            if not inner and isinstance(around, ir.Loop):
                if around.variable == outer:
                    return
                yield from ir.walk(around.body)

    def _lowered(
        self,
        state: State,
        sizes: Sizes,
        entry: CheckedClass,
        iteration: tuple[str, int],
    ) -> tuple[State, Sizes]:
        """The class lowered as often as can be; of a size with `per`, in one iteration."""
        outer, place = iteration
        mine = [p.name in entry.claim.sizes for p in self.open]
        counted = [known for known, own in zip(sizes, mine, strict=True) if own]
        if any(place >= len(known) for known in counted):
            return state, sizes
        values = [known[place].value for known in counted]
        falling: dict[int, list[bool]] = {}
        for agent, position, inside in self.live(state):
            where = self._iteration(agent, position, inside, outer) if outer else place
            if where is None or where > place:
                continue
            if where < place or entry.blocking & self._lies_ahead(position.frames, outer)[0]:
                return state, sizes
            falls = self.falls(agent, inside, entry)
            falling[agent.number] = falls
            values += [value for value, own in zip(position.values, falls, strict=True) if own]
        times = (min(values) - entry.claim.threshold) // entry.claim.period if values else 0
        if times <= 0:
            return state, sizes
        fall = times * entry.claim.period
        lowered = tuple(
            known
            if not own
            else tuple(
                size._replace(value=size.value - fall) if number == place else size
                for number, size in enumerate(known)
            )
            for known, own in zip(sizes, mine, strict=True)
        )
        # The sizes of iterations move with the outer variable that counts them.
        lowered = tuple(
            known[fall:] if p.per and self._counts(entry, p.per) else known
            for p, known in zip(self.open, lowered, strict=True)
        )
        return _fallen(state, entry, falling, times), lowered

    def _counts(self, entry: CheckedClass, outer: str) -> bool:
        """Whether the outer variable is of the class, in all roles that have it or in none."""
        found = {
            entry.member(role, outer)
            for role in self.program.roles
            if outer in self.machine.control.variables_of(role.name)
        }
        if len(found) > 1:
            raise NotCoveredError(f"roles count {outer} in ways that do not grow together")
        return found == {True}

    def _remembered(self, state: State, sizes: Sizes) -> Sizes:
        """Sizes without those of iterations that are over, and of those that nobody asked about."""
        found = []
        for parameter, known in zip(self.open, sizes, strict=True):
            kept = list(known)
            if parameter.per:
                fresh = Size(parameter.minimum, False)
                least = min(self._least_read(state, parameter), len(known))
                kept[:least] = [fresh] * least
                while kept and kept[-1] == fresh:
                    kept.pop()
            found.append(tuple(kept))
        return tuple(found)

    def _least_read(self, state: State, parameter: ir.Parameter) -> int:
        """The least iteration whose number an agent may still read."""
        least = ENDLESS
        for agent, position, inside in self.live(state):
            if parameter.name in _names_in(ir.walk(agent.role.body)):
                place: int | None = 0
                if parameter.per in self.scoped[agent.role.name]:
                    place = self._iteration(agent, position, inside, parameter.per)
                least = least if place is None else min(least, max(place, 0))
        return least


def _fallen(state: State, entry: CheckedClass, falling: dict[int, list[bool]], times: int) -> State:
    """The state with the class lowered by `times` periods."""
    fall = times * entry.claim.period
    positions = list(state.positions)
    for agent, falls in falling.items():
        values = zip(positions[agent].values, falls, strict=True)
        lower = tuple(value - fall if own else value for value, own in values)
        positions[agent] = positions[agent]._replace(values=lower)

    def tile_of(storage: str, tile: int) -> int:
        shift = 0 if tile in (UNDEFINED, ANY_TILE) else entry.tiles.get(storage, 0)
        return tile - times * shift

    def flight_of(flight: Flight) -> Flight:
        accesses = tuple((a[0], a[1], tile_of(a[0][0], a[2]), *a[3:]) for a in flight.accesses)
        return flight._replace(accesses=accesses)

    return _flights(state, flight_of)._replace(
        positions=tuple(positions),
        barriers=tuple(
            (key, b._replace(phase=b.phase - times * entry.phases.get(key[0], 0)))
            for key, b in state.barriers
        ),
        cells=tuple(
            (cell, held._replace(tile=tile_of(cell[0], held.tile))) for cell, held in state.cells
        ),
    )


def flying(state: State) -> Iterator[tuple[Flight, str | None]]:
    """The operations in flight, each with its queue."""
    for flight in state.free_flights:
        yield flight, None
    for (_, name), queue in state.queues:
        for group in (*queue.closed, queue.open):
            for flight in group:
                yield flight, name


def _flights(state: State, change: Callable[[Flight], Flight]) -> State:
    def groups(queue: QueueState) -> QueueState:
        closed = tuple(tuple(map(change, group)) for group in queue.closed)
        return QueueState(closed, tuple(map(change, queue.open)))

    return state._replace(
        queues=tuple((key, groups(queue)) for key, queue in state.queues),
        free_flights=tuple(map(change, state.free_flights)),
    )


def _numbered(state: State) -> State:
    """Operations in flight numbered from 0, agent by agent, in the order of issue."""
    marks = sorted((flight.agent, flight.ordinal) for flight, _ in flying(state))
    count = [sum(agent == mark[0] for mark in marks) for agent in range(len(state.positions))]
    first = [sum(count[:agent]) for agent in range(len(count))]
    new = {mark: place - first[mark[0]] for place, mark in enumerate(marks)}
    numbered = _flights(state, lambda f: f._replace(ordinal=new[(f.agent, f.ordinal)]))
    return numbered._replace(issued=tuple(count))


def _storages(program: ir.SyncProgram, *proxies: ir.Proxy) -> frozenset[str]:
    """Memory that some operation reaches through one of the proxies."""
    storages = {buffer.name: buffer.storage or buffer.name for buffer in program.buffers}
    operations = (operation for role in program.roles for operation in ir.walk(role.body))
    effects = (effect for operation in operations for effect in effects_of(operation))
    return frozenset(storages[effect.buffer] for effect in effects if effect.proxy in proxies)


def _names_in(operations: Iterable[ir.Operation]) -> set[str]:
    return {n for op in operations for e in expressions_of(op) for n in names_of(e)}


def _scoped(role: ir.Role, program: ir.SyncProgram) -> Iterator[str]:
    """Variables of loops that are not read outside these loops, nor set in them."""
    outer = {parameter.name: parameter.per for parameter in program.parameters}
    loops = [op for op in ir.walk(role.body) if isinstance(op, ir.Loop)]
    for name in {loop.variable for loop in loops}:
        inside = {id(op) for loop in loops if loop.variable == name for op in ir.walk(loop.body)}
        read = _names_in(op for op in ir.walk(role.body) if id(op) not in inside)
        if name not in read | {outer.get(size) for size in read}:
            yield name
