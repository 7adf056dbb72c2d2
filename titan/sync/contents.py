"""Buffers in one storage: a tile of one is no tile of another.

Tiles are numbers, and each buffer counts its own. Where several buffers have the same memory (the
probabilities over the scores, the output over the stages of an operand), engines that compare
numbers alone would take tile 3 of one for tile 3 of the other. So the numbers of such buffers are
distinguished before engines see them: of the buffers with numbers 0 to m - 1 in their storage,
tile t of number j becomes tile t * m + j. Tiles of one buffer are equal as before, so that this
only adds faults where a read means what was written under another name.

A read without a tile still sees what any of them has written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from titan.sync import program as ir
from titan.sync.destinations import apart
from titan.sync.expression import Constant, Expression, binary
from titan.sync.parts import effects_of

Counted = Mapping[str, ir.Buffer]


def as_engines_see(program: ir.SyncProgram) -> ir.SyncProgram:
    """The program with copies to several places, and contents of one storage, apart."""
    return distinguished(apart(program))


def distinguished(program: ir.SyncProgram) -> ir.SyncProgram:
    """The program with tiles numbered by buffer wherever one name may read what another wrote."""
    shared = _shared(program)
    if not shared:
        return program
    buffers = tuple(shared.get(buffer.name, buffer) for buffer in program.buffers)
    roles = tuple(replace(role, body=_block(role.body, shared)) for role in program.roles)
    return replace(program, buffers=buffers, roles=roles)


def numbered(buffer: ir.Buffer, tile: int) -> int:
    """The number that a tile of a buffer has among all of its storage."""
    if not buffer.contents:
        return tile
    return tile * len(buffer.contents) + buffer.contents.index(buffer.name)


def contents_of(program: ir.SyncProgram) -> dict[str, tuple[str, ...]]:
    """By storage: the buffers that its tiles are numbered by."""
    return {item.storage or item.name: item.contents for item in program.buffers if item.contents}


def _shared(program: ir.SyncProgram) -> dict[str, ir.Buffer]:
    """The buffers whose tiles are to be numbered; those that are numbered already are left."""
    reads: set[str] = set()
    writes: set[str] = set()
    for role in program.roles:
        for operation in ir.walk(role.body):
            for effect in effects_of(operation):
                if effect.tile is not None:
                    (writes if effect.write else reads).add(effect.buffer)
    writes |= {buffer.name for buffer in program.buffers if buffer.initial is not None}
    by_storage: dict[str, list[ir.Buffer]] = {}
    for buffer in program.buffers:
        by_storage.setdefault(buffer.storage or buffer.name, []).append(buffer)
    found: dict[str, ir.Buffer] = {}
    for group in by_storage.values():
        mixed = any(
            first.name in reads and second.name in writes and first is not second
            for first in group
            for second in group
        )
        if not mixed or any(buffer.contents for buffer in group):
            continue
        names = tuple(buffer.name for buffer in group)
        for buffer in group:
            named = replace(buffer, contents=names)
            if buffer.initial is not None:
                named = replace(named, initial=numbered(named, buffer.initial))
            found[buffer.name] = named
    return found


def _block(block: ir.Block, shared: Counted) -> ir.Block:
    return tuple(_operation(operation, shared) for operation in block)


def _operation(operation: ir.Operation, shared: Counted) -> ir.Operation:
    match operation:
        case ir.Loop(body=body):
            return replace(operation, body=_block(body, shared))
        case ir.Branch(then=then, otherwise=otherwise):
            arms = _block(then, shared), _block(otherwise, shared)
            return replace(operation, then=arms[0], otherwise=arms[1])
        case ir.Access() | ir.Asynchronous():
            return replace(operation, effects=tuple(_effect(e, shared) for e in operation.effects))
        case _:
            return operation


def _effect(effect: ir.Effect, shared: Counted) -> ir.Effect:
    buffer = shared.get(effect.buffer)
    if buffer is None or effect.tile is None:
        return effect
    return replace(effect, tile=_tile(buffer, effect.tile))


def _tile(buffer: ir.Buffer, tile: Expression) -> Expression:
    scaled = binary("*", tile, Constant(len(buffer.contents)))
    return binary("+", scaled, Constant(buffer.contents.index(buffer.name)))
