"""Warps that follow each other and do the same become one role of several agents.

They may differ in memory that each of them has for itself: what operations of agent `i` use there
becomes stage `i` of an array, as rounds of a loop become stages of a ring.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from titan.frontends.lift.rings import Entry, Rings, add_rings, address_key
from titan.frontends.lift.segments import NotFoldedError, shape_of
from titan.frontends.lift.sketch import OperationSketch, RoleSketch
from titan.frontends.ptx.alike import EffectClass
from titan.sync import program as ir
from titan.sync.expression import ZERO, Constant, Expression, Name, binary

AGENT = "self"
TRIPS, ROUND = "trips", "r"


@dataclass(frozen=True, slots=True)
class RoleGroup:
    """Roles of recordings that become one."""

    members: tuple[RoleSketch, ...]

    def role(self, memory: Rings) -> ir.Role:
        """The role, with its memory in terms of arrays."""
        first = self.members[0]
        body: list[ir.Operation] = []
        number = 0
        for segment, operations in first.segments:
            made = []
            for _ in operations:
                sketches = [member.operations()[number] for member in self.members]
                made.append(_operation(sketches, memory))
                number += 1
            if not segment.looped:
                body += made
                continue
            stop = _count(segment.slope, segment.offset)
            body.append(ir.Loop(ROUND, ZERO, stop, tuple(made), span=made[0].span))
        return replace(first.role, body=tuple(body), agents=len(self.members), name=self._name())

    def _name(self) -> str:
        first, last = self.members[0].role.name, self.members[-1].role.name
        return first if first == last else f"{first} to {last}"


def grouped(sketches: Sequence[RoleSketch], memory: Rings) -> list[RoleGroup]:
    """The roles in order, those that do the same together; adds the arrays of agents to `memory`.

    Where what groups have for themselves does not fit together, no roles are joined.
    """
    groups: list[list[RoleSketch]] = []
    for sketch in sketches:
        if groups and _alike([*groups[-1], sketch], memory):
            groups[-1].append(sketch)
        else:
            groups.append([sketch])
    entries = [entry for number, group in enumerate(groups) for entry in _entries(number, group)]
    try:
        found = Rings()
        add_rings(found, entries, turned=False)
    except NotFoldedError:
        return [RoleGroup((sketch,)) for sketch in sketches]
    offsets = [item for entry in entries for item in entry.offsets.items()]
    if any(found.place[name][1] != offset for name, offset in offsets):
        return [RoleGroup((sketch,)) for sketch in sketches]
    memory.arrays |= found.arrays
    memory.place |= found.place
    return [RoleGroup(tuple(group)) for group in groups]


def _alike(group: Sequence[RoleSketch], memory: Rings) -> bool:
    """Whether roles do the same but for memory of no ring that each has for itself."""
    first, last = group[0], group[-1]
    if first.role.cta != last.role.cta or _skeleton(first) != _skeleton(last):
        return False
    for operations in zip(*(item.operations() for item in group), strict=True):
        for kind in operations[0].always:
            own = _own(operations, kind)
            names = [name for names in own for name in names]
            if any(name in memory.place for name in names) or len(set(names)) != len(names):
                return False
            if len({len(item) for item in own}) > 1:
                return False
    return True


def _skeleton(sketch: RoleSketch) -> list[object]:
    return [
        (segment.length, segment.slope, segment.offset, [_comparable(item) for item in operations])
        for segment, operations in sketch.segments
    ]


def _comparable(item: OperationSketch) -> object:
    shape = shape_of(item.example)
    return shape, item.references, item.phase, item.in_turn, list(item.always)


def _own(operations: Sequence[OperationSketch], kind: EffectClass) -> list[frozenset[str]]:
    """What of each agent's memory not all of them use."""
    common = frozenset.intersection(*(item.always[kind] for item in operations))
    return [item.always[kind] - common for item in operations]


def _entries(number: int, group: Sequence[RoleSketch]) -> Iterable[Entry]:
    if len(group) < 2:
        return
    for place, operations in enumerate(zip(*(item.operations() for item in group), strict=True)):
        for kind in operations[0].always:
            own = _own(operations, kind)
            if any(own):
                offsets = {name: agent for agent, names in enumerate(own) for name in names}
                key: Hashable = (number, place, kind)
                yield Entry(key, len(group), offsets)


def _operation(sketches: Sequence[OperationSketch], memory: Rings) -> ir.Operation:
    """The operation of all members of a group."""
    first = sketches[0]
    example = first.example
    changes: dict[str, object] = {}
    references = list(first.references)
    if isinstance(example, ir.Access | ir.Asynchronous):
        changes["effects"] = tuple(_effects(sketches, memory))
    if isinstance(example, ir.Asynchronous) and example.completes:
        changes["completes"] = tuple(
            ir.Completion(reference, item.bytes)
            for reference, item in zip(references, example.completes, strict=True)
        )
    elif references:
        changes["barrier"] = references[0]
    if first.phase is not None:
        changes["phase"] = first.phase
        changes["parity"] = binary("%", first.phase, Constant(2))
    return replace(example, **changes) if changes else example  # type: ignore[arg-type]


def _effects(sketches: Sequence[OperationSketch], memory: Rings) -> Iterable[ir.Effect]:
    first = sketches[0]
    examples = first.effects
    for kind, array, index in first.in_turn:
        yield replace(examples[kind], buffer=array, stage=index, part=None)
    for kind, names in first.always.items():
        own = _own(sketches, kind) if len(sketches) > 1 else [frozenset[str]()]
        for array in dict.fromkeys(memory.place[name][0] for name in sorted(own[0])):
            yield from _own_stage(examples[kind], array, own, memory)
        yield from _by_name(examples[kind], names - own[0], memory)


def _own_stage(
    example: ir.Effect, array: str, own: Sequence[frozenset[str]], memory: Rings
) -> Iterable[ir.Effect]:
    """The stage of the agent, whole or in parts."""
    used = {memory.place[name][2] for name in own[0] if memory.place[name][0] == array}
    parts: list[Expression | None] = [Constant(part) for part in sorted(used)]
    if len(used) == memory.arrays[array].parts:
        parts = [None]
    for part in parts:
        yield replace(example, buffer=array, stage=Name(AGENT), part=part)


def _by_name(example: ir.Effect, names: Iterable[str], memory: Rings) -> Iterable[ir.Effect]:
    """Regions by name: stages of arrays, whole where all of their parts are named."""
    stages: dict[tuple[str, int], set[int]] = {}
    for name in sorted(names, key=address_key):
        array, stage, part = memory.place.get(name, (name, 0, 0))
        stages.setdefault((array, stage), set()).add(part)
    for (array, stage), parts in stages.items():
        found = memory.arrays.get(array)
        real = {n for n, item in enumerate(found.regions[stage]) if item} if found else {0}
        chosen: list[Expression | None] = [Constant(part) for part in sorted(parts)]
        for one in [None] if parts == real else chosen:
            yield replace(example, buffer=array, stage=Constant(stage), part=one)


def _count(slope: int, offset: int) -> Expression:
    """`slope * trips + offset`."""
    trips: Expression = binary("*", Constant(slope), Name(TRIPS))
    operator = "-" if offset < 0 else "+"
    return binary(operator, trips, Constant(abs(offset)))
