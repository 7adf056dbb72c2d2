"""Configurations: a state of the reference interpreter, with open numbers, and the open sizes.

A configuration represents all that come of it when each unknown is any number from 0 on; where a
size is not known it is any from its minimum. Whoever writes a certificate may replace one by
another that represents all of it and more: `is_instance` decides that.
"""

from __future__ import annotations

from typing import NamedTuple, cast

from titan.foundation.errors import TitanError
from titan.sync import program as ir
from titan.sync.arrays import Arrays
from titan.sync.control import counts_off
from titan.sync.fault import Fault, Step
from titan.sync.interpreter import Interpreter
from titan.sync.open_numbers import (
    Linear,
    NotCoveredError,
    Pairs,
    Remainder,
    Size,
    UndecidedError,
    assigned,
    is_known,
    parts_of,
    solved,
    split,
)
from titan.sync.parts import state_parts, storages_reached
from titan.sync.state import BarrierStatus, Flight, QueueState, State, flying
from titan.sync.turns import Origins
from titan.sync.ways import Ways

STARTS_MAX = 1000
PARTS_MAX = 100_000
UNREDUCED = {ir.FenceKind.ASYNC_RELEASE, ir.FenceKind.ASYNC_ACQUIRE}  # one-way fences
NOTHING = State((), (), (), (), (), (), (), ())


class Configuration(NamedTuple):
    """A state of the machine, the open sizes it runs under, and what is listed from an open stage.

    `origins`: arrays of which the state lists the stages from one on that an unknown decides.
    """

    state: State
    sizes: tuple[Size, ...]
    origins: Origins = ()


class FaultyError(TitanError):
    """A configuration, or a step from it, is a fault: there is no certificate."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(f"a fault: {fault.message}")
        self.fault = fault


class System:
    """The program with some sizes given and all others open."""

    def __init__(self, program: ir.SyncProgram, given: dict[str, int]) -> None:
        known = {p.name: p.value for p in program.parameters if p.value is not None} | given
        self.program, self.given = program, known
        self.open = tuple(p for p in program.parameters if p.name not in known)
        if any(parameter.name.startswith("~") for parameter in self.open):
            raise NotCoveredError("a size has the name of an unknown")
        if not counts_off(program):
            raise NotCoveredError("a loop does not count off its passes")
        if state_parts(program) > PARTS_MAX:
            raise NotCoveredError(f"the program has more than {PARTS_MAX:,} parts")
        self.machine = Interpreter(program, {**known, **{p.name: p.minimum for p in self.open}})
        self.per = tuple(parameter.per is not None for parameter in self.open)
        self.ways = Ways(self.machine.control, self.per)
        self.arrays = Arrays(program)
        self.asynchronous = storages_reached(program, ir.Proxy.ASYNC)
        self.tensormaps = storages_reached(program, ir.Proxy.TENSORMAP)
        self.buffers = {buffer.name: buffer for buffer in program.buffers}
        self.queues = {queue.name: queue for queue in program.queues}
        fences = (op for role in program.roles for op in ir.walk(role.body))
        one_way = any(isinstance(op, ir.Fence) and op.kind in UNREDUCED for op in fences)
        cached = storages_reached(program, *ir.CACHED)
        self._reduces = program.policies.fence_rule == "writer" and not cached and not one_way

    def reduces(self, state: State) -> bool:
        """Whether single steps may represent all: not where fences or barriers have a life."""
        usable = (barrier.status is BarrierStatus.USABLE for _, barrier in state.barriers)
        return self._reduces and all(usable)

    def use(self, before: Configuration) -> None:
        """What the interpreter computes with from here on."""
        self.machine.control.use_sizes(before.sizes, self.per)
        self.machine.control.use_origins(before.origins)

    def starts(self) -> list[Configuration]:
        """The configurations before the first step, one for each answer about the sizes."""
        fresh = [Size(p.name, p.minimum, 0, ()) for p in self.open]
        whole = [s if p.per else s.extended(0) for s, p in zip(fresh, self.open, strict=True)]
        waiting, found = [tuple(whole)], []
        while waiting:
            sizes = waiting.pop()
            self.use(Configuration(NOTHING, sizes))
            try:
                found.append(self._normal(Configuration(self.machine.initial(), sizes)))
            except UndecidedError as question:
                split = self.split(Configuration(NOTHING, sizes), question.name)
                waiting += [configuration.sizes for configuration in split]
            if len(found) + len(waiting) > STARTS_MAX:
                raise NotCoveredError("too many questions about the sizes before the first step")
        return found

    def split(self, before: Configuration, name: str) -> list[Configuration]:
        """The unknown is 0, or more."""
        known = before.state, before.origins
        parts = split(known, before.sizes, name)
        return [Configuration(state, sizes, origins) for (state, origins), sizes in parts]

    def steps(self, before: Configuration) -> list[Step]:
        """The steps enabled in a configuration that is not a fault; FaultyError where it is one."""
        self.use(before)
        fault = self.machine.state_fault(before.state)
        if fault is not None:
            raise FaultyError(fault)
        return self.machine.steps(before.state)

    def after(self, before: Configuration, step: Step) -> Configuration:
        """The successor. Raises FaultyError and UndecidedError."""
        self.use(before)
        state, fault = self.machine.apply(before.state, step)
        if fault is not None or state is None:
            raise FaultyError(fault) if fault else NotCoveredError("a step without a result")
        return self._normal(before._replace(state=state))

    def _normal(self, found: Configuration) -> Configuration:
        """Flights numbered from 0, agent by agent; marks forgotten that no proxy can meet."""
        state, nobody, cells = found.state, frozenset[int](), []
        for cell, held in state.cells:
            marked = held
            if cell[0] not in self.asynchronous and (held.writers or held.readers):
                marked = marked._replace(writers=nobody, readers=nobody)
            if cell[0] not in self.tensormaps and (held.authors or held.released):
                marked = marked._replace(authors=nobody, released=False)
            cells.append((cell, marked))
        marks = sorted((flight.agent, flight.ordinal) for flight, _ in flying(state))
        count = [sum(agent == mark[0] for mark in marks) for agent in range(len(state.positions))]
        new = {mark: place - sum(count[: mark[0]]) for place, mark in enumerate(marks)}

        def numbered(flights: tuple[Flight, ...]) -> tuple[Flight, ...]:
            numbers = [new[(flight.agent, flight.ordinal)] for flight in flights]
            changed = zip(flights, numbers, strict=True)
            return tuple(f if f.ordinal == n else f._replace(ordinal=n) for f, n in changed)

        queues = tuple(
            (key, QueueState(tuple(map(numbered, queue.closed)), numbered(queue.open)))
            for key, queue in state.queues
        )
        state = state._replace(cells=tuple(cells), queues=queues, issued=tuple(count))
        return found._replace(state=state._replace(free_flights=numbered(state.free_flights)))


# ---------------------------------------------------------------------------- open numbers


def is_instance(
    narrow: Configuration, wide: Configuration, arrays: Arrays, proposed: dict[str, int]
) -> bool:
    """Whether all that the one represents is among what the other represents.

    `proposed` are values of unknowns; others are found. Origins have to follow from the former.
    """
    pairs: Pairs = {}
    values = dict(proposed)
    for value, terms in map(parts_of, proposed.values()):
        if min(value, *(factor for _, factor in terms), 0) < 0:
            return False
    turned = arrays.aligned(wide.state, wide.origins, narrow.origins, values)
    if turned is None or not _matched(turned, narrow.state, pairs) or not solved(pairs, values):
        return False
    for size, given in zip(wide.sizes, narrow.sizes, strict=True):
        first, unknown = assigned(size.first, values)
        gap, pairs = first - given.first, {}
        if size.known and (unknown or type(gap) is not int):
            return False
        met = tuple(given(given.first + gap + place) for place in range(len(size.known)))
        if not _matched(size.known, met, pairs) or not solved(pairs, values):
            return False
    own = {f"{size.name}.{n}" for size in wide.sizes for n in range(len(size.known))}
    return all(name[0] == "~" or name in own for name in values)


def _matched(wide: object, narrow: object, pairs: Pairs) -> bool:
    """Whether two values are equal but for their numbers that are open; those go to `pairs`."""
    if isinstance(wide, Linear) or isinstance(narrow, Linear):
        two = cast("int", wide), cast("int", narrow)
        pairs[tuple(map(parts_of, two))] = two
        return True
    if not isinstance(wide, tuple) or not isinstance(narrow, tuple):
        known = type(wide) is not Remainder  # of other unknowns
        return known and type(wide) is type(narrow) and wide == narrow
    if len(wide) != len(narrow):
        return False
    for first, second in zip(wide, narrow, strict=True):
        if not ((first is second and is_known(first)) or _matched(first, second, pairs)):
            return False
    return True
