"""Pipelines of tile programs without verification, and faults planted in their sync programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.codegen.pipeline import written as cdna
from tests.codegen.pipeline.written import form_of
from titan.codegen.pipeline.build import group_starts
from titan.codegen.pipeline.model import Shape
from titan.codegen.tile.loops import loop_of
from titan.codegen.tile.model import TileProgram
from titan.language.kernel.decode import decode_text
from titan.scheduling.loop.model import Loop
from titan.scheduling.rau import RauOptions, solve
from titan.sync import program as ir
from titan.sync.expression import Binary, Constant
from titan.target.load import machine
from titan.verify.lowering import sync_program


def lowered(text: str) -> ir.SyncProgram:
    """The sync program of a pipeline text, computations included."""
    family, errors = decode_text(text, "pipeline.yaml", computations=True)
    assert family is not None, errors
    return sync_program(family.kernels[0]).program


def constructed(tile: TileProgram, shape: Shape) -> ir.SyncProgram:
    """The pipeline that `titan build` would try for this shape."""
    loop = loop_of(tile, machine(tile.target), shape.depth)
    starts, ii = _schedule(loop)
    text = form_of(tile.target)(tile, shape, group_starts(tile, loop, starts), ii)
    return lowered(text)


def counted(tile: TileProgram, shape: Shape, staged: bool | None = None) -> ir.SyncProgram:
    """The pipeline on AMD, where waves count their own loads."""
    return lowered(cdna.construct(tile, shape, staged=staged))


def _schedule(loop: Loop) -> tuple[tuple[int, ...], int]:
    schedule = solve(loop, RauOptions(seconds=5.0)).schedule
    assert schedule is not None
    return schedule.starts, schedule.ii


Change = Callable[[ir.Operation], ir.Block | None]


def changed(program: ir.SyncProgram, role: str, change: Change) -> ir.SyncProgram:
    """The program with operations of one role replaced; `change` gives None for "as it is".

    Fails when nothing is changed.
    """
    count = 0

    def block(operations: ir.Block) -> ir.Block:
        nonlocal count
        made: list[ir.Operation] = []
        for operation in operations:
            found = change(operation)
            if found is not None:
                count += 1
                made += found
            elif isinstance(operation, ir.Loop):
                made.append(replace(operation, body=block(operation.body)))
            elif isinstance(operation, ir.Branch):
                then, otherwise = block(operation.then), block(operation.otherwise)
                made.append(replace(operation, then=then, otherwise=otherwise))
            else:
                made.append(operation)
        return tuple(made)

    roles = tuple(
        replace(item, body=block(item.body)) if item.name == role else item
        for item in program.roles
    )
    assert count, "the fault is planted"
    return replace(program, roles=roles)


def without(kind: type[ir.Operation], word: str) -> Change:
    """Drop operations of a kind whose label or declared names hold a word."""

    def change(operation: ir.Operation) -> ir.Block | None:
        if not isinstance(operation, kind):
            return None
        return () if word in f"{operation.label} {operation!r}" else None

    return change


def other_parity(word: str) -> Change:
    """Waits for the other parity."""

    def change(operation: ir.Operation) -> ir.Block | None:
        if not isinstance(operation, ir.Wait) or word not in operation.label:
            return None
        flipped = Binary("-", Constant(1), operation.parity)
        return (replace(operation, parity=flipped),)

    return change


def other_stage(buffer: str, depth: int) -> Change:
    """Asynchronous reads of a buffer go to the stage after the right one."""

    def change(operation: ir.Operation) -> ir.Block | None:
        if not isinstance(operation, ir.Asynchronous):
            return None
        if not any(e.buffer == buffer and not e.write for e in operation.effects):
            return None
        effects = tuple(
            replace(
                e,
                stage=Binary("%", Binary("+", e.stage, Constant(1)), Constant(depth)),
            )
            if e.buffer == buffer
            else e
            for e in operation.effects
        )
        return (replace(operation, effects=effects),)

    return change


def wider_drain(queue: str) -> Change:
    """Drains leave one group more unfinished."""

    def change(operation: ir.Operation) -> ir.Block | None:
        if not isinstance(operation, ir.QueueWait) or operation.queue != queue:
            return None
        return (replace(operation, pending=Binary("+", operation.pending, Constant(1))),)

    return change


def earlier_release(program: ir.SyncProgram, role: str, barrier: str) -> ir.SyncProgram:
    """Every arrival at a barrier comes before the operation that stands in front of it."""

    def block(operations: ir.Block) -> ir.Block:
        made: list[ir.Operation] = []
        for operation in operations:
            if isinstance(operation, ir.Loop):
                made.append(replace(operation, body=block(operation.body)))
            elif _arrives(operation, barrier) and made:
                made.insert(len(made) - 1, operation)
            else:
                made.append(operation)
        return tuple(made)

    roles = tuple(
        replace(item, body=block(item.body)) if item.name == role else item
        for item in program.roles
    )
    result = replace(program, roles=roles)
    assert result != program, "the fault is planted"
    return result


def _arrives(operation: ir.Operation, barrier: str) -> bool:
    if isinstance(operation, ir.Branch):
        return bool(operation.then) and all(_arrives(one, barrier) for one in operation.then)
    return isinstance(operation, ir.Arrive) and operation.barrier.name == barrier
