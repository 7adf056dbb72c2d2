"""Regions that all recordings use alike, taken as one; what cannot be in a conflict, left out.

Two regions are alike if the same operations of all recordings access them in the same way. Whatever
holds for one of them, at any time, holds for the other, so one of them represents both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from titan.sync import program as ir
from titan.sync.parts import effects_of

CLASSES_MAX = 8 * len(ir.Proxy)  # of effects: write, proxy, accumulates, reduces
EffectClass = tuple[bool, str, bool, str]


def class_of(effect: ir.Effect) -> EffectClass:
    """What an effect does, wherever it does it: write, proxy, accumulates, reduces."""
    return effect.write, effect.proxy.value, effect.accumulates, effect.reduction


def merged_alike(programs: Sequence[ir.SyncProgram]) -> tuple[list[ir.SyncProgram], dict[str, int]]:
    """The programs over fewer regions, and how many regions each of those that stay represents."""
    declared = {item.name: item for program in programs for item in program.buffers}
    uses: dict[str, list[int]] = defaultdict(list)  # the operations, each by number and class
    written: set[str] = set()
    classes: dict[object, int] = {}
    number = 0
    for program in programs:
        for role in program.roles:
            for operation in role.body:
                number += CLASSES_MAX
                for effect in effects_of(operation):
                    kind = effect.write, effect.proxy, effect.accumulates, effect.reduction
                    uses[effect.buffer].append(number + classes.setdefault(kind, len(classes)))
                    if effect.write:
                        written.add(effect.buffer)
    first: dict[object, str] = {}
    stands: dict[str, int] = {}
    kept: dict[str, str] = {}
    for name, item in declared.items():
        if name not in written:
            continue
        chosen = first.setdefault((item.space, item.cta, tuple(uses[name])), name)
        kept[name] = chosen
        stands[chosen] = stands.get(chosen, 0) + 1
    buffers = tuple(item for name, item in declared.items() if name in stands)
    return [_with(program, kept, buffers) for program in programs], stands


def outputs_in_order(program: ir.SyncProgram) -> ir.SyncProgram:
    """Global memory of one recording by the order in which it is first used, not by its address.

    Where a tile of the output lies may depend on the trips (its rows are further apart). Names are
    changed one for one within the recording, regions that it uses alike are one.
    """
    spaces = {item.name: item for item in program.buffers if item.space is ir.Space.GLOBAL}
    uses: dict[str, list[object]] = defaultdict(list)
    for number, role in enumerate(program.roles):
        for place, operation in enumerate(role.body):
            for effect in effects_of(operation):
                if effect.buffer in spaces:
                    uses[effect.buffer].append((number, place, class_of(effect)))
    names: dict[object, str] = {}
    kept = {name: names.setdefault(tuple(at), f"global+{len(names)}") for name, at in uses.items()}
    made = {new: replace(spaces[old], name=new) for old, new in reversed(kept.items())}
    others = (item for item in program.buffers if item.name not in spaces)
    roles = tuple(
        replace(role, body=tuple(_renamed(item, kept) for item in role.body))
        for role in program.roles
    )
    return replace(program, roles=roles, buffers=(*others, *made.values()))


def without_single_uses(program: ir.SyncProgram) -> tuple[ir.SyncProgram, int]:
    """The recording without global memory that one operation alone touches; how many regions.

    No other operation of the recording touches these bytes, so no conflict is lost: a persistent
    kernel stores another tile of its output in each round. This holds for this recording only.
    """
    spaces = {item.name for item in program.buffers if item.space is ir.Space.GLOBAL}
    users: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for number, role in enumerate(program.roles):
        for place, operation in enumerate(role.body):
            for effect in effects_of(operation):
                if effect.buffer in spaces:
                    users[effect.buffer].add((number, place))
    single = {name for name, places in users.items() if len(places) == 1}
    kept = {item.name: item.name for item in program.buffers if item.name not in single}
    buffers = tuple(item for item in program.buffers if item.name in kept)
    return _with(program, kept, buffers), len(single)


def _renamed(operation: ir.Operation, names: dict[str, str]) -> ir.Operation:
    if not isinstance(operation, ir.Access | ir.Asynchronous):
        return operation
    if not any(item.buffer in names for item in operation.effects):
        return operation
    effects = (
        replace(item, buffer=names[item.buffer]) if item.buffer in names else item
        for item in operation.effects
    )
    return replace(operation, effects=tuple(dict.fromkeys(effects)))


def _with(
    program: ir.SyncProgram, kept: dict[str, str], buffers: tuple[ir.Buffer, ...]
) -> ir.SyncProgram:
    roles = tuple(
        replace(role, body=tuple(_kept_operations(role.body, kept))) for role in program.roles
    )
    return replace(program, roles=roles, buffers=buffers)


def _kept_operations(body: ir.Block, kept: dict[str, str]) -> Iterable[ir.Operation]:
    """The operations with fewer effects; an access without any is left out."""
    for operation in body:
        if not isinstance(operation, ir.Access | ir.Asynchronous):
            yield operation
            continue
        effects = tuple(
            effect for effect in operation.effects if kept.get(effect.buffer) == effect.buffer
        )
        if len(effects) == len(operation.effects):
            yield operation
        elif effects or isinstance(operation, ir.Asynchronous):
            yield replace(operation, effects=effects)
