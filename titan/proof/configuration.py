"""Configurations: a state of the reference interpreter with what is known of the open sizes.

`System.canonical` gives one representative of configurations that are bisimilar: numbers of a class
lowered as far as its threshold allows, phases that nobody names reduced to their parity, operations
in flight numbered anew, agents of one role that cannot be told apart in a fixed order, and what
nobody reads again (variables at the end of an agent, marks of memory that no such proxy reaches)
forgotten. Each is a bisimulation by `shift_bisimilar` or `exchange_bisimilar`
(proofs/AnyNumber.v).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from titan.proof.open_sizes import AtLeast, NotCoveredError, UndecidedError
from titan.proof.shifts import CertifiedShiftClass, CheckedClass, ends, expressions_of
from titan.sync import program as ir
from titan.sync.expression import names_of
from titan.sync.fault import Fault, Step
from titan.sync.interpreter import ANY_TILE, UNDEFINED, Machine
from titan.sync.parts import effects_of
from titan.sync.proxy_marks import ProxyMarks
from titan.sync.state import CellState, Flight, Position, QueueState, State


class Size(NamedTuple):
    """An open size: `value` or any number from there on."""

    value: int
    decided: bool


class Configuration(NamedTuple):
    """A state of the machine together with the sizes it runs under."""

    state: State
    sizes: tuple[Size, ...]


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
        if any(parameter.per for parameter in self.open):
            raise NotCoveredError("a size has a number of its own in every iteration of a loop")
        if not ends(program):
            raise NotCoveredError("a loop does not count off its passes")
        sizes = {p.name: AtLeast(p.minimum, p.name) for p in self.open}
        self.machine = Machine(program, {**known, **sizes})
        self.classes = [CheckedClass(program, claim, known) for claim in classes]
        self._place = {p.name: number for number, p in enumerate(self.open)}
        self._phased = {
            op.barrier.name
            for role in program.roles
            for op in ir.walk(role.body)
            if isinstance(op, ir.Wait) and op.phase is not None
        }
        self.asynchronous = _storages(program, ir.Proxy.ASYNC)
        self._tensormaps = _storages(program, ir.Proxy.TENSORMAP)
        self._groups = [
            [agent.number for agent in self.machine.agents if agent.role is role]
            for role in program.roles
            if role.agents > 1 and not _tells_apart(role)
        ]
        self.reducible: bool | None = None  # others.py: whether one step may stand for all
        self._blocked: dict[tuple[str, tuple[tuple[int, int], ...]], tuple[bool, ...]] = {}

    # ------------------------------------------------------------------------------ runs

    def use_sizes(self, sizes: tuple[Size, ...]) -> None:
        """What the interpreter computes with from here on."""
        for parameter, size in zip(self.open, sizes, strict=True):
            name = parameter.name
            self.machine.sizes[name] = (
                size.value if size.decided else AtLeast(size.value, parameter.name)
            )

    def starts(self) -> list[Configuration]:
        """The configurations before the first step, one for each answer about the sizes."""
        waiting = [tuple(Size(p.minimum, False) for p in self.open)]
        found: list[Configuration] = []
        while waiting:
            sizes = waiting.pop()
            self.use_sizes(sizes)
            try:
                found.append(self.canonical(Configuration(self.machine.initial(), sizes)))
            except UndecidedError as question:
                waiting += self._answers(sizes, question.name)
            if len(found) > 1000:
                raise NotCoveredError("too many questions about the sizes before the first step")
        return found

    def _answers(self, sizes: tuple[Size, ...], name: str) -> list[tuple[Size, ...]]:
        place, bound = self._place[name], sizes[self._place[name]].value
        answers = (Size(bound, True), Size(bound + 1, False))
        return [(*sizes[:place], answer, *sizes[place + 1 :]) for answer in answers]

    def split(self, before: Configuration, name: str) -> list[Configuration]:
        """The size is its bound, or more."""
        if name not in self._place or before.sizes[self._place[name]].decided:
            raise NotCoveredError(f"{name} is not an open size")
        return [
            self.canonical(Configuration(before.state, sizes))
            for sizes in self._answers(before.sizes, name)
        ]

    def steps(self, before: Configuration) -> list[Step]:
        """The steps enabled in a configuration, under the configuration's own sizes."""
        self.use_sizes(before.sizes)
        return self.machine.steps(before.state)

    def fault_of(self, before: Configuration) -> Fault | None:
        """A fault or a deadlock of the configuration itself."""
        self.use_sizes(before.sizes)
        return self.machine.state_fault(before.state)

    def apply(self, before: Configuration, step: Step) -> tuple[State | None, Fault | None]:
        """The raw successor. Raises UndecidedError."""
        self.use_sizes(before.sizes)
        return self.machine.apply(before.state, step)

    # -------------------------------------------------------------------- representatives

    def canonical(self, found: Configuration) -> Configuration:
        """The representative of what is bisimilar to it."""
        state = self._forget(found.state)
        sizes = found.sizes
        for number, entry in enumerate(self.classes):
            times = self._times(state, sizes, number, entry)
            if times > 0:
                state, sizes = self._lowered(state, sizes, entry, times)
        return Configuration(self._numbered(self._ordered(state)), sizes)

    def _forget(self, state: State) -> State:
        positions = tuple(
            position if position.frames else Position((), (0,) * len(position.values))
            for position in state.positions
        )
        for position in positions:
            if any(type(value) is not int for value in position.values):
                raise NotCoveredError("an agent keeps a size that is open")
        barriers = tuple(
            (key, barrier if key[0] in self._phased else barrier._replace(phase=barrier.phase & 1))
            for key, barrier in state.barriers
        )
        cells = tuple((cell, self._marked(cell[0], held)) for cell, held in state.cells)
        return state._replace(positions=positions, barriers=barriers, cells=cells)

    def _marked(self, storage: str, held: CellState) -> CellState:
        """Marks are read by accesses through these proxies only: of other memory, none are kept."""
        if storage not in self.asynchronous and (held.writers or held.readers):
            held = held._replace(writers=frozenset(), readers=frozenset())
        if storage not in self._tensormaps and (held.authors or held.released):
            held = held._replace(authors=frozenset(), released=False)
        return held

    def _times(
        self, state: State, sizes: tuple[Size, ...], number: int, entry: CheckedClass
    ) -> int:
        """How often the class can be lowered."""
        values = [
            size.value
            for parameter, size in zip(self.open, sizes, strict=True)
            if parameter.name in entry.claim.sizes
        ]
        for agent, position in zip(self.machine.agents, state.positions, strict=True):
            if not position.frames:
                continue
            if self._is_blocked(agent.role, position)[number]:
                return 0
            names = self.machine.control.variables_of(agent.role.name)
            values += [
                value
                for name, value in zip(names, position.values, strict=True)
                if entry.member(agent.role, name)
            ]
        if not values:
            return 0
        return (min(values) - entry.claim.threshold) // entry.claim.period

    def _is_blocked(self, role: ir.Role, position: Position) -> tuple[bool, ...]:
        """Of each class: whether an operation that forbids its shift may still be executed."""
        key = (role.name, position.frames)
        if key not in self._blocked:
            ahead: set[int] = set()
            for depth, (block, index) in enumerate(position.frames):
                operations = self.machine.control.block(block)
                inner = depth == len(position.frames) - 1
                ahead |= {id(op) for op in ir.walk(operations[index if inner else index + 1 :])}
                here = operations[index] if index < len(operations) else None
                if not inner and isinstance(here, ir.Loop):
                    ahead |= {id(op) for op in ir.walk(here.body)}
            self._blocked[key] = tuple(bool(entry.blocking & ahead) for entry in self.classes)
        return self._blocked[key]

    def _lowered(
        self, state: State, sizes: tuple[Size, ...], entry: CheckedClass, times: int
    ) -> tuple[State, tuple[Size, ...]]:
        fall = times * entry.claim.period
        positions = tuple(
            Position(
                position.frames,
                tuple(
                    value - fall if entry.member(agent.role, name) else value
                    for name, value in zip(
                        self.machine.control.variables_of(agent.role.name),
                        position.values,
                        strict=True,
                    )
                ),
            )
            if position.frames
            else position
            for agent, position in zip(self.machine.agents, state.positions, strict=True)
        )
        tiles = {storage: times * shift for storage, shift in entry.tiles.items()}
        phases = {name: times * shift for name, shift in entry.phases.items()}

        def tile_of(storage: str, tile: int) -> int:
            return tile if tile in (UNDEFINED, ANY_TILE) else tile - tiles.get(storage, 0)

        def flight_of(flight: Flight) -> Flight:
            accesses = tuple(
                (cell, write, tile_of(cell[0], tile), proxy, extent)
                for cell, write, tile, proxy, extent in flight.accesses
            )
            return flight._replace(accesses=accesses)

        lowered = state._replace(
            positions=positions,
            barriers=tuple(
                (key, b._replace(phase=b.phase - phases.get(key[0], 0)))
                for key, b in state.barriers
            ),
            cells=tuple(
                (cell, held._replace(tile=tile_of(cell[0], held.tile)))
                for cell, held in state.cells
            ),
            queues=_queues(state, flight_of),
            free_flights=tuple(map(flight_of, state.free_flights)),
        )
        return lowered, tuple(
            size._replace(value=size.value - fall) if p.name in entry.claim.sizes else size
            for p, size in zip(self.open, sizes, strict=True)
        )

    @staticmethod
    def _numbered(state: State) -> State:
        """Operations in flight numbered from 0, agent by agent, in the order of issue."""
        flying: list[list[int]] = [[] for _ in state.positions]
        queued = [f for _, q in state.queues for group in (*q.closed, q.open) for f in group]
        for flight in (*queued, *state.free_flights):
            flying[flight.agent].append(flight.ordinal)
        places = [{o: n for n, o in enumerate(sorted(ordinals))} for ordinals in flying]

        def renumbered(flight: Flight) -> Flight:
            return flight._replace(ordinal=places[flight.agent][flight.ordinal])

        return state._replace(
            issued=tuple(map(len, flying)),
            queues=_queues(state, renumbered),
            free_flights=tuple(map(renumbered, state.free_flights)),
        )

    # ------------------------------------------------------------------------ equal agents

    def _ordered(self, state: State) -> State:
        new = list(range(len(state.positions)))  # old number -> new number
        for group in self._groups:
            ranked = sorted(group, key=lambda agent: _looks(state, agent))
            for place, agent in zip(group, ranked, strict=True):
                new[agent] = place
        return state if new == sorted(new) else _renamed(state, new)


def _queues(state: State, change: object) -> tuple[tuple[tuple[int, str], QueueState], ...]:
    assert callable(change)
    return tuple(
        (
            key,
            QueueState(tuple(tuple(map(change, g)) for g in q.closed), tuple(map(change, q.open))),
        )
        for key, q in state.queues
    )


def _storages(program: ir.SyncProgram, proxy: ir.Proxy) -> frozenset[str]:
    """Memory that some operation reaches through the proxy."""
    storages = {buffer.name: buffer.storage or buffer.name for buffer in program.buffers}
    return frozenset(
        storages[effect.buffer]
        for role in program.roles
        for operation in ir.walk(role.body)
        for effect in effects_of(operation)
        if effect.proxy is proxy
    )


def _tells_apart(role: ir.Role) -> bool:
    """Whether an expression of the role names the agent."""
    return any(
        role.agent_constant in names_of(expression)
        for operation in ir.walk(role.body)
        for expression in expressions_of(operation)
    )


def _looks(state: State, agent: int) -> str:
    """What can be seen of an agent, whatever its number."""
    queues = [
        [[flight[3:] for flight in group] for group in (*q.closed, q.open)]
        for (owner, _), q in state.queues
        if owner == agent
    ]
    seen = [
        (agent in held.writers, agent in held.readers, agent in held.authors)
        for _, held in state.cells
    ]
    waiting = [(agent in n.arrived, agent in n.waiting, agent in n.armed) for _, n in state.named]
    tokens = [(agent in b.tokens, agent in b.armed, b.owner == agent) for _, b in state.barriers]
    free = [flight[3:] for flight in state.free_flights if flight.agent == agent]
    return repr((state.positions[agent], queues, seen, waiting, tokens, free))


def _renamed(state: State, new: list[int]) -> State:
    def name(agent: int) -> int:
        return new[agent] if agent >= 0 else agent

    def names(agents: frozenset[int]) -> frozenset[int]:
        return frozenset(map(name, agents))

    def flight_of(flight: Flight) -> Flight:
        return flight._replace(agent=new[flight.agent])

    def marks_of(marks: ProxyMarks) -> ProxyMarks:
        inside = frozenset((proxy, new[agent], write) for proxy, agent, write in marks.inside)
        released = frozenset((name(who), new[to], write) for who, to, write in marks.released)
        return marks._replace(inside=inside, released=released)

    old = sorted(range(len(new)), key=new.__getitem__)  # new number -> old number
    queues = {(new[owner], key): q for (owner, key), q in _queues(state, flight_of)}
    return state._replace(
        positions=tuple(state.positions[agent] for agent in old),
        issued=tuple(state.issued[agent] for agent in old),
        barriers=tuple(
            (key, b._replace(owner=name(b.owner), tokens=names(b.tokens), armed=names(b.armed)))
            for key, b in state.barriers
        ),
        named=tuple(
            (
                key,
                n._replace(
                    arrived=names(n.arrived), waiting=names(n.waiting), armed=names(n.armed)
                ),
            )
            for key, n in state.named
        ),
        cells=tuple((cell, _cell_of(held, names, marks_of)) for cell, held in state.cells),
        queues=tuple((key, queues[key]) for key, _ in state.queues),
        free_flights=tuple(
            sorted(map(flight_of, state.free_flights), key=lambda flight: flight[:2])
        ),
    )


def _cell_of(held: CellState, names: object, marks_of: object) -> CellState:
    assert callable(names) and callable(marks_of)
    return CellState(
        held.tile,
        names(held.writers),
        names(held.readers),
        names(held.authors),
        held.released,
        marks_of(held.marks),
    )
