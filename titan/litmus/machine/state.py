"""A state of the machine: waves with operations in flight, writes by cache, bounds, LDS."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from titan.litmus.machine.program import MachineProgram, Node

WriteId = tuple[int, int]  # the wave and the place of the instruction; the initial write is (-1, 0)
Written = tuple[WriteId, int]


@dataclass(frozen=True, slots=True)
class CountedOperation:
    """An operation that its counter still counts.

    `bound`: the oldest write that it may see; `limit`: the first that it may not, a later store of
    its CU; `awaited`: stores that a write-back follows.
    """

    token: WriteId
    register: str | None
    done: bool
    value: int
    bound: WriteId = (-1, 0)
    limit: WriteId | None = None
    taken: bool = False
    operands: tuple[int, ...] = ()
    awaited: tuple[WriteId, ...] = ()

    def finished(self, value: int) -> CountedOperation:
        """Done, with what the register gets."""
        return replace(self, done=True, value=value, bound=(-1, 0), limit=None, awaited=())

    def took(self, value: int) -> CountedOperation:
        """With its value, not yet at its destination."""
        return replace(self, taken=True, value=value, bound=(-1, 0), limit=None)

    def returned(self) -> CountedOperation:
        """Still counted, its register written."""
        return replace(self, register=None)


@dataclass(slots=True)
class WaveState:
    """`vector` are counted by vmcnt, `local` by lgkmcnt, oldest first."""

    at: int
    registers: dict[str, int]
    vector: list[CountedOperation] = field(default_factory=list)
    local: list[CountedOperation] = field(default_factory=list)
    waiting: bool = False

    def in_flight(self, name: str) -> bool:
        """Whether a result for the register has not come back for sure."""
        return any(f.register == name for f in (*self.vector, *self.local))

    def retire(self, flight: CountedOperation) -> None:
        """Write the register of an operation that is done."""
        if flight.register is not None:
            self.registers[flight.register] = flight.value

    def copy(self) -> WaveState:
        """A state that shares nothing that changes."""
        return WaveState(
            self.at, dict(self.registers), list(self.vector), list(self.local), self.waiting
        )

    def key(self) -> object:
        """For a set of states."""
        registers = tuple(sorted(self.registers.items()))
        return (self.at, registers, tuple(self.vector), tuple(self.local), self.waiting)


@dataclass(slots=True)
class MachineState:
    """`orders`: writes that a node has and no node above it; `queues`: loads and atomics of a CU
    and location that are not performed; `bounds`: the oldest write that a cache may return."""

    names: tuple[str, ...]
    waves: list[WaveState]
    orders: dict[tuple[Node, str], tuple[Written, ...]]
    bounds: dict[tuple[Node, str], WriteId]
    queues: dict[tuple[Node, str], tuple[WriteId, ...]]
    lds: dict[str, int]
    first: WriteId = (-1, 0)

    @classmethod
    def initial(cls, program: MachineProgram, root: Node) -> MachineState:
        """Memory as the test says, every cache as old as can be, nothing in flight."""
        return cls(
            tuple(name for name, _ in program.memory),
            [WaveState(0, dict(wave.registers)) for wave in program.waves],
            {(root, name): (((-1, 0), value),) for name, value in program.memory},
            {},
            {},
            dict(program.lds),
        )

    def copy(self) -> MachineState:
        """A state that shares nothing that changes."""
        return MachineState(
            self.names, [wave.copy() for wave in self.waves], dict(self.orders),
            dict(self.bounds), dict(self.queues), dict(self.lds),
        )  # fmt: skip

    def key(self) -> object:
        """For a set of states."""
        return (
            tuple(wave.key() for wave in self.waves),
            frozenset((k, v) for k, v in self.orders.items() if v),
            frozenset(self.bounds.items()),
            frozenset((k, v) for k, v in self.queues.items() if v),
            tuple(self.lds.values()),
        )

    def held(self, node: Node, name: str) -> tuple[Written, ...]:
        """What a node holds of a location."""
        return self.orders.get((node, name), ())

    def hold(self, node: Node, name: str, written: Written) -> None:
        """Add a write to what a node holds."""
        self.orders[(node, name)] = (*self.held(node, name), written)

    def order(self, path: tuple[Node, ...], name: str) -> tuple[Written, ...]:
        """All writes that a wave may see, oldest first: from the end of its path to its CU."""
        return tuple(item for node in reversed(path) for item in self.held(node, name))

    def limit(self, name: str, queue: tuple[WriteId, ...], write: WriteId) -> None:
        """Loads of the CU that wait for a value come before a store of the CU behind them."""
        for token in queue:
            flights = self.waves[token[0]].vector
            flights[:] = [
                replace(f, limit=write) if f.token == token and f.limit is None else f
                for f in flights
            ]

    def follow(self, node: Node, name: str, write: WriteId, position: dict[WriteId, int]) -> None:
        """Loads behind the one that saw `write` see nothing older."""
        for token in self.queues.get((node, name), ()):
            flights = self.waves[token[0]].vector
            flights[:] = [
                replace(f, bound=write)
                if f.token == token and position[f.bound] < position[write]
                else f
                for f in flights
            ]

    def pop_queue(self, node: Node, name: str) -> None:
        """The oldest load or atomic of a CU and location is performed."""
        self.queues[(node, name)] = self.queues[(node, name)][1:]
