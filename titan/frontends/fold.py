"""Loops found in recordings of several trip counts: one program for any number of trips.

Each role is taken apart as prefix, a body that is repeated, and suffix. How long the body is and
how often it runs follows from two recordings; which stage and phase each operation of it uses, from
the sequence over its rounds; and those of the suffix, from their values over all trip counts.
Nothing of this is trusted: the program is unfolded again for every trip count that was recorded,
those that were not used for folding included, and compared operation by operation
(`folded_equals`). What does not fit is refused with its reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from titan.engines.happens_before.unfolding import Unfolder
from titan.frontends.rings import NotFoldedError, Rings, affine_in, cycle_of, stage_index
from titan.sync import program as ir
from titan.sync.expression import Constant, Expression, Name, binary

TRIPS = "trips"
ROUND = "round"
OPERATIONS_MAX = 500_000
Shape = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Recorded:
    """The straight-line program of one trip count."""

    trips: int
    program: ir.SyncProgram


@dataclass(frozen=True, slots=True)
class _Split:
    """How a role is taken apart: a body of `length` after `prefix`, run `trips - less` times."""

    prefix: int
    length: int
    less: int


def fold(recordings: Sequence[Recorded]) -> ir.SyncProgram:
    """The program for any number of trips from the least recorded one upwards.

    Raises NotFoldedError.
    """
    recordings = sorted(recordings, key=lambda item: item.trips)
    if len({item.trips for item in recordings}) < 3:
        raise NotFoldedError("fewer than three trip counts were recorded")
    longest = recordings[-1].program
    splits, rings = [], Rings()
    for number, role in enumerate(longest.roles):
        bodies = [(item.trips, item.program.roles[number].body) for item in recordings]
        split = _split(role.name, bodies)
        splits.append(split)
        _find_rings(rings, role.body, split, recordings[-1].trips)
    roles = []
    for number, (role, split) in enumerate(zip(longest.roles, splits, strict=True)):
        bodies = [(item.trips, item.program.roles[number].body) for item in recordings]
        roles.append(replace(role, body=_Role(rings, bodies, split).body()))
    return replace(
        longest,
        roles=tuple(roles),
        parameters=(ir.Parameter(TRIPS, None, recordings[0].trips),),
        barriers=tuple(_barriers(rings, longest)),
        buffers=tuple(_buffers(rings, longest)),
    )


def folded_equals(folded: ir.SyncProgram, recording: Recorded) -> bool:
    """Whether the folded program, unfolded for the recording's trips, is the recording."""
    again = Unfolder(folded, {TRIPS: recording.trips}, OPERATIONS_MAX).agents()
    plain = Unfolder(recording.program, {}, OPERATIONS_MAX).agents()
    names = _names(folded)
    for one, two in zip(again, plain, strict=True):
        if len(one.instances) != len(two.instances):
            return False
        for first, second in zip(one.instances, two.instances, strict=True):
            mine = (
                type(first.operation), names.get(first.key, first.key), first.amount, first.size,
                first.phase, [(names.get(key, key), size) for key, size in first.completes],
                {(names.get(item.cell, item.cell), item.write, item.proxy)
                 for item in first.touches},
            )  # fmt: skip
            theirs = (
                type(second.operation), second.key, second.amount, second.size, second.phase,
                list(second.completes),
                {(item.cell, item.write, item.proxy) for item in second.touches},
            )  # fmt: skip
            if mine != theirs:
                return False
    return True


def _names(program: ir.SyncProgram) -> dict[tuple[str, int], tuple[str, int]]:
    """Elements of the arrays of a folded program, by the names that they have in recordings."""
    found = {}
    declared: list[ir.Barrier | ir.Buffer] = [*program.barriers, *program.buffers]
    for item in declared:
        if isinstance(item.span, tuple):
            for stage, name in enumerate(item.span):
                found[(item.name, stage)] = (name, 0)
    return found


# ------------------------------------------------------------------------------- splitting


def _shape(operation: ir.Operation) -> Shape:
    """What of an operation must be the same in every round."""
    rest: list[object] = [type(operation).__name__]
    for name in (
        "queue", "count", "transaction", "bytes", "threads", "order", "scope", "pending", "until",
        "kind", "spaces", "drop", "pool", "amount", "chunks",
    ):  # fmt: skip
        rest.append(getattr(operation, name, None))
    effects = _effects_of(operation)
    rest.append(tuple((item.write, item.proxy) for item in effects))
    rest.append(tuple(item.bytes for item in _completes_of(operation)))
    return tuple(rest)


def _split(role: str, bodies: Sequence[tuple[int, ir.Block]]) -> _Split:
    """The split of one role that fits all its recordings."""
    shapes = [(trips, [_shape(operation) for operation in body]) for trips, body in bodies]
    (less_trips, less), (more_trips, more) = shapes[-2], shapes[-1]
    grown = len(more) - len(less)
    length, rest = divmod(grown, more_trips - less_trips)
    if rest or length < 0:
        raise NotFoldedError(f"{role} does not do the same in every trip")
    if length == 0:
        return _Split(len(more), 0, 0)
    for prefix in range(len(more) - 2 * length + 1):
        rounds = _rounds(more, prefix, length)
        if rounds < 2:
            continue
        split = _Split(prefix, length, more_trips - rounds)
        if all(_fits(split, trips, them, more, more_trips) for trips, them in shapes):
            return split
    raise NotFoldedError(f"{role} has no body that is repeated in every trip")


def _rounds(shapes: Sequence[Shape], prefix: int, length: int) -> int:
    count = 1
    while (
        prefix + (count + 1) * length <= len(shapes)
        and shapes[prefix + count * length : prefix + (count + 1) * length]
        == shapes[prefix : prefix + length]
    ):
        count += 1
    return count


def _fits(
    split: _Split, trips: int, shapes: Sequence[Shape], longest: Sequence[Shape], most: int
) -> bool:
    """Whether the shapes of another trip count are prefix, rounds and suffix of the longest."""
    rounds = trips - split.less
    if rounds < 0:
        return False
    start = split.prefix
    body = longest[start : start + split.length]
    suffix = longest[start + (most - split.less) * split.length :]
    return list(shapes) == [*longest[:start], *(list(body) * rounds), *suffix]


# ---------------------------------------------------------------------------------- rings


def _find_rings(rings: Rings, body: ir.Block, split: _Split, trips: int) -> None:
    """The rings of the loop of one role."""
    rounds = trips - split.less
    for position in range(split.length if rounds else 0):
        operations = [body[split.prefix + n * split.length + position] for n in range(rounds)]
        for names in zip(*(_names_in(operation) for operation in operations), strict=True):
            rings.add(cycle_of(names))


def _names_in(operation: ir.Operation) -> list[str]:
    """The barriers and regions that an operation names, in a fixed order."""
    names = [effect.buffer for effect in _effects_of(operation)]
    reference = getattr(operation, "barrier", None)
    if isinstance(reference, ir.Reference) and not _hardware(operation):
        names.append(reference.name)
    names += [item.barrier.name for item in _completes_of(operation)]
    return names


def _effects_of(operation: ir.Operation) -> tuple[ir.Effect, ...]:
    return operation.effects if isinstance(operation, ir.Access | ir.Asynchronous) else ()


def _completes_of(operation: ir.Operation) -> tuple[ir.Completion, ...]:
    return operation.completes if isinstance(operation, ir.Asynchronous) else ()


def _hardware(operation: ir.Operation) -> bool:
    """Whether its barrier is a named one, which stays as it is."""
    return isinstance(operation, ir.BarrierSync | ir.BarrierArrive | ir.BarrierWait)


def _barriers(rings: Rings, program: ir.SyncProgram) -> list[ir.Barrier]:
    """One declaration for each array; its span keeps the names of its elements."""
    made = {}
    for item in program.barriers:
        array, _ = rings.place(item.name)
        names = rings.arrays.get(array)
        made[array] = replace(item, name=array, stages=rings.stages(array), span=names)
    return list(made.values())


def _buffers(rings: Rings, program: ir.SyncProgram) -> list[ir.Buffer]:
    made = {}
    for item in program.buffers:
        array, _ = rings.place(item.name)
        names = rings.arrays.get(array)
        made[array] = replace(item, name=array, stages=rings.stages(array), span=names)
    return list(made.values())


# ------------------------------------------------------------------------------- one role


class _Role:
    """Writes the body of one role with expressions in place of numbers."""

    def __init__(self, rings: Rings, bodies: Sequence[tuple[int, ir.Block]], split: _Split) -> None:
        self.rings = rings
        self.bodies = bodies
        self.split = split
        self.divisors = sorted({len(array) for array in rings.arrays.values()} | {1})

    def body(self) -> ir.Block:
        """Prefix, loop, suffix."""
        split, (most, longest) = self.split, self.bodies[-1]
        operations = [self._over_trips(place, False) for place in range(split.prefix)]
        if split.length:
            stop = binary("-", Name(TRIPS), Constant(split.less))
            body = tuple(self._over_rounds(position) for position in range(split.length))
            operations.append(ir.Loop(ROUND, Constant(0), stop, body))
            start = split.prefix + (most - split.less) * split.length
            count = len(longest) - start
            operations += [self._over_trips(count - place, True) for place in range(count)]
        return tuple(operations)

    def _over_rounds(self, position: int) -> ir.Operation:
        split, (most, longest) = self.split, self.bodies[-1]
        points = [
            (n, longest[split.prefix + n * split.length + position])
            for n in range(most - split.less)
        ]
        return self._joined(points, ROUND)

    def _over_trips(self, place: int, from_end: bool) -> ir.Operation:
        points = [
            (trips, body[len(body) - place] if from_end else body[place])
            for trips, body in self.bodies
        ]
        return self._joined(points, TRIPS)

    def _joined(self, points: Sequence[tuple[int, ir.Operation]], variable: str) -> ir.Operation:
        """One operation for all points of the variable."""
        first = points[0][1]
        changes: dict[str, object] = {}
        if isinstance(first, ir.Access | ir.Asynchronous):
            changes["effects"] = tuple(
                self._effect([(at, _effects_of(item)[n]) for at, item in points], variable)
                for n in range(len(first.effects))
            )
        if isinstance(first, ir.Asynchronous) and first.completes:
            changes["completes"] = tuple(
                ir.Completion(
                    self._reference(
                        [(at, _completes_of(item)[n].barrier) for at, item in points],
                        variable,
                    ),
                    first.completes[n].bytes,
                )
                for n in range(len(first.completes))
            )
        if hasattr(first, "barrier") and not _hardware(first):
            references = [(at, item.barrier) for at, item in points]  # type: ignore[attr-defined]
            changes["barrier"] = self._reference(references, variable)
        if isinstance(first, ir.Wait):
            phases = [(at, item.phase.value) for at, item in points]  # type: ignore[attr-defined]
            phase = affine_in(phases, self.divisors, variable)
            changes["phase"], changes["parity"] = phase, _parity(phase)
        return replace(first, **changes) if changes else first  # type: ignore[arg-type]

    def _effect(self, points: Sequence[tuple[int, ir.Effect]], variable: str) -> ir.Effect:
        array, index = self._index([(at, effect.buffer) for at, effect in points], variable)
        return replace(points[0][1], buffer=array, stage=index)

    def _reference(self, points: Sequence[tuple[int, ir.Reference]], variable: str) -> ir.Reference:
        array, index = self._index([(at, item.name) for at, item in points], variable)
        return ir.Reference(array, index)

    def _index(self, points: Sequence[tuple[int, str]], variable: str) -> tuple[str, Expression]:
        """The array of all these names, and the stage as an expression of the variable."""
        places = [(at, *self.rings.place(name)) for at, name in points]
        array, stages = places[0][1], self.rings.stages(places[0][1])
        if any(other != array for _, other, _ in places):
            raise NotFoldedError(f"{points[0][1]} and {points[-1][1]} are of no common ring")
        if all(stage == places[0][2] for _, _, stage in places):
            return array, Constant(places[0][2])
        offset = (places[0][2] - places[0][0]) % stages
        if any((at + offset) % stages != stage for at, _, stage in places):
            raise NotFoldedError(f"the stages of {array} do not follow {variable}")
        return array, stage_index(offset, stages, variable)


def _parity(phase: Expression) -> Expression:
    return binary("%", phase, Constant(2))
