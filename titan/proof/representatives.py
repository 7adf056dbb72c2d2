"""Which configuration represents a configuration: proposed here, decided by `is_instance`.

Untrusted. Writer and checker ask for the same proposals, so that a certificate need not contain
them: numbers of a class that are all beyond its threshold are open (one unknown for all, by as much
as each grows in a period) and as low as they can be; variables that nobody reads again are any
number; phases that nobody names keep their parity alone; sizes of iterations that are over are
forgotten.

A size with a separate number in every iteration of an outer loop (`per`) has classes of its own:
loop variables that count up to it, opened iteration by iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from titan.proof.configuration import Configuration, System
from titan.proof.open_parts import OpenParts, Rises, unknowns_of
from titan.proof.shifts import CertifiedShiftClass, CheckedClass, expressions_of
from titan.sync import program as ir
from titan.sync.expression import names_of
from titan.sync.interpreter import Agent
from titan.sync.open_numbers import NotCoveredError, Size, linear, parts_of
from titan.sync.state import Position, State

ENDLESS = 2**40
Frames = tuple[tuple[int, int], ...]
Falling = dict[int, list[bool]]  # of each agent, which of its values
Group = tuple[int, int]  # a class, and the iteration of its outer loop


class SizeBound(NamedTuple):
    """An open size: `value`, or any number from there on."""

    value: int
    decided: bool


Bounds = tuple[tuple[SizeBound, ...], ...]  # of each open parameter, those of its iterations


class Plain(NamedTuple):
    """A configuration with every unknown at 0, and the groups of numbers that are open together."""

    state: State
    sizes: Bounds
    open: frozenset[Group]


class Representatives:
    """The configurations met so far, numbered in the order in which they are met.

    Raises NotCoveredError for classes that do not hold.
    """

    def __init__(self, system: System, classes: Sequence[CertifiedShiftClass]) -> None:
        self.system, self.open, self.machine = system, system.open, system.machine
        program = self.program = system.program
        self.scoped = {role.name: frozenset(_scoped(role, program)) for role in program.roles}
        self.classes = [CheckedClass(program, claim, system.given) for claim in classes]
        self._outer = [self._outer_of(entry) for entry in self.classes]
        self._ahead: dict[tuple[Frames, str], tuple[frozenset[int], bool]] = {}
        self._inside: dict[Frames, frozenset[str]] = {}
        self._falls: dict[tuple[int, frozenset[str], int], list[bool]] = {}
        self._read = {role.name: _names_in(ir.walk(role.body)) for role in program.roles}
        self._numbers: dict[Plain, int] = {}
        self._phased = {
            op.barrier.name
            for role in program.roles
            for op in ir.walk(role.body)
            if isinstance(op, ir.Wait) and op.phase is not None
        }
        self._parts, self._stages = OpenParts(self._phased), system.arrays.stages
        self._rises: dict[frozenset[Group], tuple[int, Rises]] = {}

    def of(self, found: Configuration) -> tuple[int, Configuration | None, dict[str, int]]:
        """The number of the representative, itself where it is met for the first time, and by what
        unknowns it represents this one."""
        opened: set[str] = set()
        state = self._parts.stripped(found.state, opened)
        by = {name: parts_of(origin)[0] % self._stages[name] for name, origin in found.origins}
        if any(by.values()):
            state = self.system.arrays.turned(state, by)
        opened.update(name for _, origin in found.origins for name in unknowns_of(origin))
        lowered: dict[Group, int] = {}
        plain = self._canonical(state, _bounds(found), opened, lowered)
        values = {
            name: linear(lowered.get(group, 0), {name: int(name in opened)})
            for group in plain.open
            if self.classes[group[0]].turns
            for name in (_unknown(group),)
        }
        if plain in self._numbers:
            return self._numbers[plain], None, values
        self._numbers[plain] = len(self._numbers)
        return self._numbers[plain], self._lifted(plain), values

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

    def live(self, state: State) -> Iterator[tuple[Agent, Position, frozenset[str]]]:
        """The agents that are not at their end, with the loop variables around where they are."""
        for agent, position in zip(self.machine.agents, state.positions, strict=True):
            if position.frames:
                frames = position.frames
                if frames not in self._inside:
                    around = (self.machine.control.block(block)[i] for block, i in frames[:-1])
                    loops = (op.variable for op in around if isinstance(op, ir.Loop))
                    self._inside[frames] = frozenset(loops)
                yield agent, position, self._inside[frames]

    def falls(self, agent: Agent, inside: frozenset[str], entry: CheckedClass) -> list[bool]:
        """Which of the agent's values fall with the class; not those of loops that are over."""
        key = agent.number, inside, id(entry)
        if key not in self._falls:
            dead = self.scoped[agent.role.name] - inside
            names = self.machine.control.variables_of(agent.role.name)
            found = [entry.member(agent.role, name) and name not in dead for name in names]
            self._falls[key] = found
        return self._falls[key]

    def _forget(self, state: State) -> State:
        positions = [Position((), (0,) * len(p.values)) for p in state.positions]
        for agent, position, inside in self.live(state):
            dead = self.scoped[agent.role.name] - inside
            names = self.machine.control.variables_of(agent.role.name)
            values = zip(names, position.values, strict=True)
            kept = tuple(0 if name in dead else value for name, value in values)
            positions[agent.number] = Position(position.frames, kept)
        barriers = tuple(
            (key, barrier if key[0] in self._phased else barrier._replace(phase=barrier.phase & 1))
            for key, barrier in state.barriers
        )
        return state._replace(positions=tuple(positions), barriers=barriers)

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
            found = list(self.machine.control.lies_ahead(frames, outer))
            starts = any(isinstance(op, ir.Loop) and op.variable == outer for op in found)
            self._ahead[(frames, outer)] = frozenset(map(id, found)), starts
        return self._ahead[(frames, outer)]

    def _canonical(
        self, state: State, sizes: Bounds, opened: set[str], lowered: dict[Group, int]
    ) -> Plain:
        """The configuration as low as it can be; `lowered`: by how many periods of a group."""
        state = self._forget(state)
        for number, outer in enumerate(self._outer):
            for place in self._places(state, outer, number):
                times = self._periods(state, sizes, (number, place))
                if times > 0:
                    lowered[(number, place)] = times
                    state, sizes = self._lowered(state, sizes, (number, place), times)
        sizes = self._remembered(state, sizes)
        groups = (
            (number, place)
            for number, outer in enumerate(self._outer)
            for place in self._places(state, outer, number)
        )
        beyond = {group for group in groups if self._beyond(state, sizes, group, opened)}
        return Plain(state, sizes, frozenset(beyond))

    def _places(self, state: State, outer: str, number: int) -> list[int]:
        """The iterations that agents are in and whose size may yet be read; 0 without a loop."""
        if not outer:
            return [0]
        (size,) = self.classes[number].claim.sizes
        least, found = ENDLESS, set()
        for agent, position, inside in self.live(state):
            place = self._iteration(agent, position, inside, outer)
            if place is not None:
                found.add(place)
                if size in self._read[agent.role.name]:  # in a loop of `outer`, as `_outer_of` saw
                    least = min(least, max(place, 0))
        return sorted(place for place in found if place >= least)

    def _members(self, state: State, sizes: Bounds, group: Group) -> tuple[Falling, list[int]]:
        """Which values of which agents are of the group, and its numbers; none where it is shut."""
        entry, outer, place = self.classes[group[0]], self._outer[group[0]], group[1]
        counted = [k for k, p in zip(sizes, self.open, strict=True) if p.name in entry.claim.sizes]
        if any(place >= len(known) for known in counted):
            return {}, []
        numbers = [known[place].value for known in counted]
        falling: Falling = {}
        for agent, position, inside in self.live(state):
            where = self._iteration(agent, position, inside, outer) if outer else place
            if where is None or where > place:
                continue
            if outer and not self._read[agent.role.name] & set(entry.claim.sizes):
                continue  # who does not count up to the size is in none of its iterations
            if where < place or entry.blocking & self._lies_ahead(position.frames, outer)[0]:
                return {}, []
            falls = self.falls(agent, inside, entry)
            falling[agent.number] = falls
            numbers += [value for value, own in zip(position.values, falls, strict=True) if own]
        return falling, numbers

    def _beyond(self, state: State, sizes: Bounds, group: Group, opened: set[str]) -> bool:
        """Whether the group is open: its numbers are high, or only tiles and phases are left."""
        numbers = self._members(state, sizes, group)[1]
        if not numbers:
            return not self._outer[group[0]] and _unknown(group) in opened
        return min(numbers) >= self.classes[group[0]].claim.threshold

    def _periods(self, state: State, sizes: Bounds, group: Group) -> int:
        """By how many periods the group can be lowered."""
        entry, numbers = self.classes[group[0]], self._members(state, sizes, group)[1]
        return (min(numbers, default=0) - entry.claim.threshold) // entry.claim.period

    def _lowered(
        self, state: State, sizes: Bounds, group: Group, times: int
    ) -> tuple[State, Bounds]:
        """The group lowered by so many periods."""
        entry, falling = self.classes[group[0]], self._members(state, sizes, group)[0]
        fall, lowered = times * entry.claim.period, []
        for parameter, known in zip(self.open, sizes, strict=True):
            kept = list(known)
            if parameter.name in entry.claim.sizes:
                bound = kept[group[1]]
                kept[group[1]] = bound._replace(value=bound.value - fall)
            # The sizes of iterations move with the outer variable that counts them.
            moved = parameter.per and self._counts(entry, parameter.per)
            lowered.append(tuple(kept[fall:] if moved else kept))
        rises = self._risen([(entry, -times)])
        return _higher(rises.state(state), falling, -fall), tuple(lowered)

    def _lifted(self, plain: Plain) -> Configuration:
        """The configuration with an unknown for every group, size and number that nobody reads."""
        state = plain.state
        numbers = [[bound.value for bound in known] for known in plain.sizes]
        firsts = [0] * len(numbers)
        for group in sorted(plain.open):
            entry, unknown = self.classes[group[0]], linear(0, {_unknown(group): 1})
            falling = self._members(plain.state, plain.sizes, group)[0]
            state = _higher(state, falling, entry.claim.period * unknown)
            for place, parameter in enumerate(self.open):
                if parameter.name in entry.claim.sizes:
                    numbers[place][group[1]] += entry.claim.period * unknown
                if parameter.per and self._counts(entry, parameter.per):
                    firsts[place] += entry.claim.period * unknown
        sizes = []
        for parameter, own, known, first in zip(
            self.open, numbers, plain.sizes, firsts, strict=True
        ):
            unknowns = [f"{parameter.name}.{place}" for place in range(len(known))]
            opened = tuple(
                number if bound.decided else number + linear(0, {name: 1})
                for number, bound, name in zip(own, known, unknowns, strict=True)
            )
            sizes.append(Size(parameter.name, parameter.minimum, first, opened))
        if plain.open not in self._rises:
            higher = ((self.classes[g[0]], linear(0, {_unknown(g): 1})) for g in plain.open)
            self._rises[plain.open] = len(self._rises), self._risen(higher)
        number, rises = self._rises[plain.open]
        state = self._parts.lifted(self._unread(state), number, rises)
        return Configuration(state, tuple(sizes), tuple(sorted(rises.turns.items())))

    def _risen(self, periods: Iterable[tuple[CheckedClass, int]]) -> Rises:
        """What rises with the classes by so many periods each."""
        tiles: dict[str, int] = {}
        phases: dict[str, int] = {}
        turns: dict[str, int] = {}
        for entry, times in periods:
            own = (entry.tiles, entry.phases, entry.turns)
            for rises, shifts in zip((tiles, phases, turns), own, strict=True):
                for name, shift in shifts.items():
                    if shift:
                        rises[name] = rises.get(name, 0) + shift * times
        return Rises(tiles, phases, turns, self.system.arrays)

    def _unread(self, state: State) -> State:
        """The state with any number where nobody reads a variable."""
        reads = {agent.number: inside for agent, _, inside in self.live(state)}
        positions = []
        for agent, position in zip(self.machine.agents, state.positions, strict=True):
            names = self.machine.control.variables_of(agent.role.name)
            alive = reads.get(agent.number)
            dead = self.scoped[agent.role.name] - (alive or frozenset())
            values = tuple(
                linear(0, {f"~v{agent.number}_{place}": 1})
                if alive is None or name in dead
                else position.values[place]
                for place, name in enumerate(names)
            )
            positions.append(position._replace(values=values))
        return state._replace(positions=tuple(positions))

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

    def _remembered(self, state: State, sizes: Bounds) -> Bounds:
        """Sizes without those of iterations that are over, and of those that nobody asked about."""
        found = []
        for parameter, known in zip(self.open, sizes, strict=True):
            kept = list(known)
            if parameter.per:
                fresh = SizeBound(parameter.minimum, False)
                lowest = [
                    e.claim.threshold for e in self.classes if parameter.name in e.claim.sizes
                ]
                over = SizeBound(min(parameter.minimum, *lowest), False)  # as low as it was lowered
                least = min(self._least_read(state, parameter), len(known))
                kept[:least] = [over] * least
                used = self._counted(state, parameter)
                while len(kept) > used and kept[-1] in (fresh, over):
                    kept.pop()
                kept += [fresh] * (used - len(kept))
            found.append(tuple(kept))
        return tuple(found)

    def _counted(self, state: State, parameter: ir.Parameter) -> int:
        """How many iterations have a number, or need one for loops that count up to it now."""
        outer, used = parameter.per or "", 0
        for entry in self.classes:
            if parameter.name in entry.claim.sizes:
                for agent, position, inside in self.live(state):
                    if any(self.falls(agent, inside, entry)):
                        used = max(used, 1 + (self._iteration(agent, position, inside, outer) or 0))
        return used

    def _least_read(self, state: State, parameter: ir.Parameter) -> int:
        """The least iteration whose number an agent may still read."""
        least = ENDLESS
        for agent, position, inside in self.live(state):
            if parameter.name in self._read[agent.role.name]:
                place: int | None = 0
                if parameter.per in self.scoped[agent.role.name]:
                    place = self._iteration(agent, position, inside, parameter.per)
                least = least if place is None else min(least, max(place, 0))
        return least


def _higher(state: State, falling: Falling, rise: int) -> State:
    """The state with the variables of a group higher."""
    positions = list(state.positions)
    for agent, falls in falling.items():
        if any(falls):
            values = zip(positions[agent].values, falls, strict=True)
            higher = tuple(value + rise if own else value for value, own in values)
            positions[agent] = Position(positions[agent].frames, higher)
    return state._replace(positions=tuple(positions))


def _unknown(group: Group) -> str:
    return f"~{group[0]}_{group[1]}"


def _bounds(found: Configuration) -> Bounds:
    """Of each size its least value, and whether only groups can make it more."""
    return tuple(
        tuple(
            SizeBound(value, all(name[0] == "~" for name, _ in terms))
            for value, terms in map(parts_of, size.known)
        )
        for size in found.sizes
    )


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
