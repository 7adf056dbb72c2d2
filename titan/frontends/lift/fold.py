"""Loops found in recordings of several trip counts: one program for any number of trips.

Each role is taken apart into single operations and bodies that are repeated (`segments`), what they
use in turn becomes arrays (`rings`), and stages and phases become expressions of the round and of
the trips. Warps that do the same become one role of several agents.

Nothing of this is trusted: the program is unfolded again for trip counts that were recorded, those
that were not used for folding included, and compared operation by operation (`unfolded`). What does
not fit is refused with its reason and place.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from titan.frontends.lift.grouping import RoleGroup, grouped
from titan.frontends.lift.rings import (
    Rings,
    add_rings,
    entries_of,
    modular_choice,
    modular_index,
    quotient_number,
)
from titan.frontends.lift.segments import (
    NotFoldedError,
    Segment,
    mbarriers_of,
    segments_of,
)
from titan.frontends.lift.sketch import OperationSketch, RoleSketch
from titan.frontends.ptx.alike import EffectClass, class_of
from titan.sync import program as ir
from titan.sync.expression import Constant, Expression
from titan.sync.parts import effects_of

TRIPS, ROUND, AGENT = "trips", "r", "self"
NAMES = (TRIPS, ROUND)
RECORDINGS_MIN = 3
# Rounds of a loop that a trip may add, None: any number; whether they are the same instructions.
ATTEMPTS = ((None, False), (1, False), (None, True), (1, True))


@dataclass(frozen=True, slots=True)
class Recorded:
    """The straight-line program of one trip count."""

    trips: int
    program: ir.SyncProgram


@dataclass(frozen=True, slots=True)
class Folded:
    """The program; `memory` and `barriers` are its arrays over the names of the recordings.

    `spans` are not part of it: operations keep those of the longest recording.
    """

    program: ir.SyncProgram
    memory: Rings
    barriers: Rings


def fold(recordings: Sequence[Recorded]) -> Folded:
    """The program for any number of trips. Raises NotFoldedError.

    The shortest bodies are tried first. Where one trip does alike things to two rings in turn, the
    shortest body mixes them; then, and where a trip adds several rounds, which engines do not
    decide for any number, bodies are whole trips. Where the code in front of a loop does
    the same as a part of its body, with other memory, rounds are those of the same instructions.
    """
    recordings = sorted(recordings, key=lambda item: item.trips)
    if len({item.trips for item in recordings}) < RECORDINGS_MIN:
        raise NotFoldedError(f"fewer than {RECORDINGS_MIN} trip counts were recorded")
    first: NotFoldedError | None = None
    mixed: Folded | None = None
    for slope_max, in_place in ATTEMPTS:
        try:
            folder = _Folder(recordings, slope_max, in_place)
            folded = folder.folded()
        except NotFoldedError as error:
            first = first or error
            continue
        if folder.slope <= 1:
            return folded
        mixed = mixed or folded
    if mixed is not None:
        return mixed
    assert first is not None
    raise first


def unfolded(program: ir.SyncProgram) -> Folded:
    """The program of one launch as it is, each region and barrier an array of its own."""
    memory, barriers = Rings(), Rings()
    for buffer in program.buffers:
        memory.add([[buffer.name]])
    for barrier in program.barriers:
        barriers.add([[barrier.name]])
    return Folded(program, memory, barriers)


class _Folder:
    def __init__(
        self, recordings: Sequence[Recorded], slope_max: int | None, in_place: bool
    ) -> None:
        self.recordings = recordings
        self.slope_max = slope_max
        self.in_place = in_place
        self.longest = recordings[-1].trips
        self.program = recordings[-1].program
        self.bodies = [
            {item.trips: item.program.roles[number].body for item in recordings}
            for number in range(len(self.program.roles))
        ]
        self.memory, self.barriers = Rings(), Rings()
        self.slope = 0  # rounds of a loop that a trip adds

    def folded(self) -> Folded:
        segments = [
            segments_of(role.name, bodies, self.slope_max, self.in_place)
            for role, bodies in zip(self.program.roles, self.bodies, strict=True)
        ]
        self._find_rings(segments)
        sketches = [
            RoleSketch(role, [self._segment(number, item) for item in segments[number]])
            for number, role in enumerate(self.program.roles)
        ]
        self.slope = max((item.slope for found in segments for item in found), default=0)
        groups = grouped(sketches, self.memory)
        for item in self._declared_buffers():
            if item not in self.memory.place:
                self.memory.add([[item]])
        for barrier in self._declared_barriers():
            if barrier not in self.barriers.place:
                self.barriers.add([[barrier]])
        return Folded(self._program(groups), self.memory, self.barriers)

    # ------------------------------------------------------------------------------ rings

    def _find_rings(self, segments: Sequence[Sequence[Segment]]) -> None:
        """The rings of all loops of all roles, from the longest recording."""
        memory, barriers = [], []
        for number, role in enumerate(self.program.roles):
            for segment in segments[number]:
                for position in range(segment.length if segment.looped else 0):
                    places = segment.places(self.longest, position)
                    operations = [role.body[place] for place in places]
                    key = (number, places[0])
                    where = f"{role.name}, {place_text(operations[0])}"
                    for kind, rounds in _by_class(operations).items():
                        memory += entries_of((key, kind), rounds, where)[1]
                    names = [mbarriers_of(operation) for operation in operations]
                    for slot in range(len(names[0])):
                        chosen = [frozenset((found[slot],)) for found in names]
                        barriers += entries_of((key, slot), chosen, where)[1]
        add_rings(self.memory, memory, apart=self._used_apart(segments))
        add_rings(self.barriers, barriers)

    def _used_apart(self, segments: Sequence[Sequence[Segment]]) -> dict[str, set[Hashable]]:
        """By region, the operations outside of loops that use it after some numbers of trips only.

        An epilogue may use a part of the stage that is due: that part is an array of its own.
        """
        found: dict[str, set[Hashable]] = {}
        for number, bodies in enumerate(self.bodies):
            for segment in segments[number]:
                if segment.looped:
                    continue
                operations = [body[segment.starts[trips]] for trips, body in bodies.items()]
                for kind, names in _by_class(operations).items():
                    for name in frozenset.union(*names) - frozenset.intersection(*names):
                        found.setdefault(name, set()).add(
                            (number, segment.starts[self.longest], kind)
                        )
        return found

    def _declared_buffers(self) -> list[str]:
        return [item.name for item in self.program.buffers]

    def _declared_barriers(self) -> list[str]:
        found = {item.name: None for one in self.recordings for item in one.program.barriers}
        return list(found)

    # --------------------------------------------------------------------------- segments

    def _segment(self, role: int, segment: Segment) -> tuple[Segment, list[OperationSketch]]:
        made = [self._operation(role, segment, position) for position in range(segment.length)]
        return segment, made

    def _operation(self, role: int, segment: Segment, position: int) -> OperationSketch:
        """One operation for all rounds of all recordings."""
        points = [
            (trips, number if segment.looped else 0, body[place])
            for trips, body in self.bodies[role].items()
            for number, place in enumerate(segment.places(trips, position))
        ]
        example = self.bodies[role][self.longest][segment.places(self.longest, position)[0]]
        where = f"{self.program.roles[role].name}, {place_text(example)}"
        references = [
            self._reference([(t, r, mbarriers_of(item)[slot]) for t, r, item in points], where)
            for slot in range(len(mbarriers_of(example)))
        ]
        phase = None
        if isinstance(example, ir.Wait):
            array = references[0].name
            values = [(t, r, _phase(item)) for t, r, item in points]
            stages = self.barriers.arrays[array].stages if array in self.barriers.arrays else 1
            phase = quotient_number(values, sorted({1, stages}), NAMES)
            if phase is None:
                raise NotFoldedError(f"the phases do not follow the rounds ({where})")
        effects = {class_of(one): one for _, _, item in points for one in effects_of(item)}
        sketch = OperationSketch(example, references, phase, effects=effects)
        for kind in effects:
            sets = [(t, r, _of_class(item, kind)) for t, r, item in points]
            self._effects(sketch, kind, sets, where)
        return sketch

    def _reference(self, points: Sequence[tuple[int, int, str]], where: str) -> ir.Reference:
        """A barrier as element of its array."""
        if all(name == points[0][2] for _, _, name in points):
            array, stage, _ = self.barriers.place.get(points[0][2], (points[0][2], 0, 0))
            return ir.Reference(array, Constant(stage))
        places = [(t, r, *self.barriers.place.get(name, (name, 0, 0))[:2]) for t, r, name in points]
        array = places[0][2]
        index = None
        if all(other == array for _, _, other, _ in places):
            values = [(t, r, stage) for t, r, _, stage in places]
            index = modular_index(values, self.barriers.arrays[array].stages, NAMES)
        if index is None:
            raise NotFoldedError(f"its barriers do not follow the rounds ({where})")
        return ir.Reference(array, index)

    def _effects(
        self,
        sketch: OperationSketch,
        kind: EffectClass,
        sets: Sequence[tuple[int, int, frozenset[str]]],
        where: str,
    ) -> None:
        """What is used always, by name, and what is used in turn, as whole stages of arrays."""
        constant = frozenset.intersection(*(names for _, _, names in sets))
        sketch.always[kind] = constant
        touched: dict[str, list[tuple[int, int, frozenset[str]]]] = {}
        for trips, at, names in sets:
            by_array: dict[str, set[str]] = {}
            for name in names - constant:
                by_array.setdefault(self.memory.place.get(name, (name, 0, 0))[0], set()).add(name)
            for array, some in by_array.items():
                touched.setdefault(array, []).append((trips, at, frozenset(some)))
        for array, points in sorted(touched.items()):
            index = self._whole_stages(array, points, sets)
            if index is None:
                raise NotFoldedError(f"its memory does not follow the rounds ({where})")
            sketch.in_turn.append((kind, array, index))

    def _whole_stages(
        self,
        array: str,
        points: Sequence[tuple[int, int, frozenset[str]]],
        sets: Sequence[tuple[int, int, frozenset[str]]],
    ) -> Expression | None:
        """The stage of an array that is used, if it is a whole one each time.

        Where the array is not used, a stage that represents no memory may be due.
        """
        if array not in self.memory.arrays:
            return None
        found = self.memory.arrays[array]
        stages: dict[tuple[int, int], int] = {}
        for trips, at, names in points:
            stage = self.memory.place[next(iter(names))][1]
            if names != {item for item in found.regions[stage] if item is not None}:
                return None
            stages[(trips, at)] = stage
        if len(points) == len(sets):
            values = [(trips, at, stage) for (trips, at), stage in stages.items()]
            return modular_index(values, found.stages, NAMES)
        empty = {n for n, items in enumerate(found.regions) if not any(items)}
        due = [
            (trips, at, {stages[(trips, at)]} if (trips, at) in stages else empty)
            for trips, at, _ in sets
        ]
        return modular_choice(due, found.stages, NAMES)

    # ---------------------------------------------------------------------------- program

    def _program(self, groups: Sequence[RoleGroup]) -> ir.SyncProgram:
        barriers = {item.name: item for one in self.recordings for item in one.program.barriers}
        buffers = {item.name: item for item in self.program.buffers}
        return replace(
            self.program,
            roles=tuple(group.role(self.memory) for group in groups),
            parameters=(ir.Parameter(TRIPS, None, self.recordings[0].trips),),
            barriers=tuple(
                replace(barriers[name], stages=array.stages)
                for name, array in self.barriers.arrays.items()
            ),
            buffers=tuple(
                replace(buffers[name], stages=array.stages, parts=array.parts)
                for name, array in self.memory.arrays.items()
            ),
        )


def place_text(operation: ir.Operation) -> str:
    """The line of an operation."""
    span = operation.span
    return f"line {span.start_line}" if span is not None else type(operation).__name__


def _phase(operation: ir.Operation) -> int:
    phase = operation.phase if isinstance(operation, ir.Wait) else None
    if not isinstance(phase, Constant):
        raise NotFoldedError("a wait of a recording has no phase")
    return phase.value


def _of_class(operation: ir.Operation, kind: EffectClass) -> frozenset[str]:
    return frozenset(item.buffer for item in effects_of(operation) if class_of(item) == kind)


def _by_class(operations: Sequence[ir.Operation]) -> dict[EffectClass, list[frozenset[str]]]:
    kinds = {class_of(effect): None for item in operations for effect in effects_of(item)}
    return {kind: [_of_class(item, kind) for item in operations] for kind in kinds}
