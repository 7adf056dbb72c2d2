"""Random edits of a sync program: what a typing error or a misunderstanding makes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from random import Random

from titan.sync import program as ir
from titan.sync.expression import Binary, Constant, Expression, Name, Not, binary

BlockEdit = Callable[[ir.Block, int], ir.Block]


def perturb(program: ir.SyncProgram, random: Random, edits: int) -> ir.SyncProgram:
    """The program after so many random edits."""
    for _ in range(edits):
        program = random.choice(_EDITS)(program, random)
    return program


def count_operations(program: ir.SyncProgram) -> int:
    return sum(1 for role in program.roles for _ in ir.walk(role.body))


def edit_at(program: ir.SyncProgram, number: int, edit: BlockEdit) -> ir.SyncProgram:
    """Apply `edit(block, index)` to operation `number`, counted in program order."""
    roles = []
    for role in program.roles:
        size = sum(1 for _ in ir.walk(role.body))
        here = 0 <= number < size
        roles.append(replace(role, body=_edit_block(role.body, number, edit)) if here else role)
        number -= size
    return replace(program, roles=tuple(roles))


def _edit_block(block: ir.Block, number: int, edit: BlockEdit) -> ir.Block:
    for index, operation in enumerate(block):
        if number == 0:
            return edit(block, index)
        number -= 1
        inner = [name for name in ("body", "then", "otherwise") if hasattr(operation, name)]
        for name in inner:
            part: ir.Block = getattr(operation, name)
            size = sum(1 for _ in ir.walk(part))
            if number < size:
                edited = replace(operation, **{name: _edit_block(part, number, edit)})
                return (*block[:index], edited, *block[index + 1 :])
            number -= size
    raise IndexError(number)


def _any_operation(program: ir.SyncProgram, random: Random, edit: BlockEdit) -> ir.SyncProgram:
    return edit_at(program, random.randrange(max(1, count_operations(program))), edit)


def _drop(program: ir.SyncProgram, random: Random) -> ir.SyncProgram:
    return _any_operation(program, random, lambda block, i: block[:i] + block[i + 1 :])


def _drop_fence(program: ir.SyncProgram, random: Random) -> ir.SyncProgram:
    """Drop one fence, or anything where there is none."""
    operations = [operation for role in program.roles for operation in ir.walk(role.body)]
    fences = [number for number, found in enumerate(operations) if isinstance(found, ir.Fence)]
    if not fences:
        return _drop(program, random)
    return edit_at(program, random.choice(fences), lambda block, i: block[:i] + block[i + 1 :])


def _repeat(program: ir.SyncProgram, random: Random) -> ir.SyncProgram:
    def edit(block: ir.Block, i: int) -> ir.Block:
        if isinstance(block[i], ir.Loop | ir.Branch):
            return block
        return (*block[:i], block[i], *block[i:])

    return _any_operation(program, random, edit)


def _swap(program: ir.SyncProgram, random: Random) -> ir.SyncProgram:
    def edit(block: ir.Block, i: int) -> ir.Block:
        pair = block[i : i + 2]
        return (*block[:i], *reversed(pair), *block[i + 2 :])

    return _any_operation(program, random, edit)


def _shift_number(program: ir.SyncProgram, random: Random) -> ir.SyncProgram:
    """Add 1 to, or take 1 from, one expression of one operation."""

    def edit(block: ir.Block, i: int) -> ir.Block:
        operation = shift_expression(block[i], random)
        return (*block[:i], operation, *block[i + 1 :])

    return _any_operation(program, random, edit)


def shift_expression(operation: ir.Operation, random: Random) -> ir.Operation:
    """The operation with one of its numbers off by one (as it is, where it has none)."""
    if isinstance(operation, ir.Assign):  # a counter that is off may leave every bound
        return operation
    names = []
    for field in fields(operation):
        value = getattr(operation, field.name)
        listed = field.name in ("effects", "completes") and value
        if listed or isinstance(value, Constant | Name | Binary | Not | ir.Reference):
            names.append(field.name)
    if not names:
        return operation
    name = random.choice(names)
    delta = random.choice((1, -1))
    return replace(operation, **{name: _shifted(getattr(operation, name), delta, random)})


def _shifted(value: object, delta: int, random: Random) -> object:
    if isinstance(value, Constant | Name | Binary | Not):
        return _plus(value, delta)
    if isinstance(value, ir.Reference):
        return replace(value, index=_plus(value.index, delta))
    assert isinstance(value, tuple)
    which = random.randrange(len(value))
    part = value[which]
    if isinstance(part, ir.Completion):
        if random.random() < 0.5:
            part = replace(part, bytes=_plus(part.bytes, delta))
        else:
            part = replace(part, barrier=_shifted(part.barrier, delta, random))
    elif part.tile is not None and random.random() < 0.5:
        part = replace(part, tile=_plus(part.tile, delta))
    else:
        part = replace(part, stage=_plus(part.stage, delta))
    return (*value[:which], part, *value[which + 1 :])


def _plus(value: Expression, delta: int) -> Expression:
    return binary("+" if delta > 0 else "-", value, Constant(abs(delta)))


def _toggle(program: ir.SyncProgram, random: Random) -> ir.SyncProgram:
    """Flip one flag: what is waited for, dropped, remembered, meant, fenced, by which path."""

    def edit(block: ir.Block, i: int) -> ir.Block:
        return (*block[:i], _toggled(block[i], random), *block[i + 1 :])

    return _any_operation(program, random, edit)


def _toggled(operation: ir.Operation, random: Random) -> ir.Operation:
    if isinstance(operation, ir.QueueWait):
        other = ir.Until.READ if operation.until is ir.Until.DONE else ir.Until.DONE
        return replace(operation, until=other)
    if isinstance(operation, ir.Arrive):
        name = random.choice(("drop", "token"))
        return replace(operation, **{name: not getattr(operation, name)})
    if isinstance(operation, ir.Wait):
        return replace(operation, phase=None)
    if isinstance(operation, ir.Fence):
        if random.random() < 0.5:
            return replace(operation, kind=random.choice(tuple(ir.FenceKind)))
        return replace(operation, spaces=(random.choice(tuple(ir.Space)),))
    if isinstance(operation, ir.BarrierSync):
        return ir.BarrierArrive(operation.barrier, operation.threads)
    if isinstance(operation, ir.BarrierArrive):
        return ir.BarrierSync(operation.barrier, operation.threads)
    if isinstance(operation, ir.Asynchronous) and operation.effects:
        effect = operation.effects[0]
        proxy = ir.Proxy.GENERIC if effect.proxy is ir.Proxy.ASYNC else ir.Proxy.ASYNC
        return replace(operation, effects=(replace(effect, proxy=proxy), *operation.effects[1:]))
    return operation


def _declaration(program: ir.SyncProgram, random: Random) -> ir.SyncProgram:
    """A declared number is off by one, or a queue behaves in another way."""
    kind = random.choice(("barriers", "buffers", "queues", "pools", "parameters"))
    declared = list(getattr(program, kind))
    if not declared:
        return program
    which = random.randrange(len(declared))
    chosen = declared[which]
    delta = random.choice((1, -1))
    if isinstance(chosen, ir.Barrier):
        chosen = replace(chosen, count=max(1, chosen.count + delta))
    elif isinstance(chosen, ir.Buffer):
        chosen = replace(chosen, initial=random.choice((None, 0, 1)))
    elif isinstance(chosen, ir.Queue):
        chosen = replace(chosen, ordered=not chosen.ordered)
    elif isinstance(chosen, ir.Pool):
        chosen = replace(chosen, available=max(0, chosen.available + delta))
    else:
        chosen = replace(chosen, value=max(0, (chosen.value or 0) + delta))
    declared[which] = chosen
    return replace(program, **{kind: tuple(declared)})


def _policy(program: ir.SyncProgram, random: Random) -> ir.SyncProgram:
    choices = {
        "fence_rule": ("writer", "path"),
        "war_fence": (True, False),
        "barrier_init": ("fence", "assumed"),
        "exit_in_flight": ("refuse", "allow"),
        "unobserved_phase": ("refuse", "allow"),
        "tensor_pipe": ("listed", "in_order"),
    }
    name = random.choice(tuple(choices))
    policies = replace(program.policies, **{name: random.choice(choices[name])})
    return replace(program, policies=policies)


_EDITS = (_drop, _drop, _drop_fence, _repeat, _swap, _swap, _shift_number, _shift_number,
          _shift_number, _toggle, _toggle, _declaration, _policy)  # fmt: skip
