"""Copies to several places, as one operation for each completion: what a wait for one says.

A multicast copy writes into every CTA and completes there on that CTA's mbarrier, each by itself
(PTX, cp.async.bulk.tensor: "the mbarrier signal is also multicast"); so do several copies that one
statement of a kernel file starts, each on a barrier of its own. A phase that is complete in one CTA
says nothing of the data in another. An operation of a sync program is over everywhere at once, so
engines are given one for each place. What completes on a single barrier is left whole: no phase
is complete there before all of it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from titan.sync import program as ir

Homes = Mapping[str, int]


def apart(program: ir.SyncProgram) -> ir.SyncProgram:
    """The program with a separate operation for every place where a copy completes by itself."""
    homes = {barrier.name: barrier.cta for barrier in program.barriers}
    homes |= {buffer.name: buffer.cta for buffer in program.buffers}
    roles = tuple(replace(role, body=_block(role.body, homes)) for role in program.roles)
    return program if roles == program.roles else replace(program, roles=roles)


def _block(block: ir.Block, homes: Homes) -> ir.Block:
    found: list[ir.Operation] = []
    for operation in block:
        match operation:
            case ir.Loop(body=body):
                found.append(replace(operation, body=_block(body, homes)))
            case ir.Branch(then=then, otherwise=otherwise):
                first, second = _block(then, homes), _block(otherwise, homes)
                found.append(replace(operation, then=first, otherwise=second))
            case ir.Asynchronous():
                found += _places(operation, homes)
            case _:
                found.append(operation)
    return tuple(found)


def _places(operation: ir.Asynchronous, homes: Homes) -> Iterator[ir.Operation]:
    """The operation, or one for each completion with what is written by then."""
    parts = pairs_of(operation, homes)
    if len(parts) < 2:
        yield operation
        return
    reads = tuple(effect for effect in operation.effects if not effect.write)
    for written, completion in parts:
        yield replace(operation, effects=(*written, *reads), completes=(completion,))


def pairs_of(
    operation: ir.Asynchronous, homes: Homes
) -> list[tuple[tuple[ir.Effect, ...], ir.Completion]]:
    """By completion: what is written when it takes place. Empty where that is not known.

    Writes and completions belong together by their CTA; of several in one CTA, by their order.
    """
    found: list[tuple[tuple[ir.Effect, ...], ir.Completion]] = []
    written = [effect for effect in operation.effects if effect.write]
    ctas = {homes[item.barrier.name] for item in operation.completes}
    if operation.queue is not None or {homes[effect.buffer] for effect in written} != ctas:
        return []
    for cta in sorted(ctas):
        here = [effect for effect in written if homes[effect.buffer] == cta]
        completions = [item for item in operation.completes if homes[item.barrier.name] == cta]
        if len(completions) == 1:
            found.append((tuple(here), completions[0]))
        elif len(completions) == len(here):
            found += [((effect,), item) for effect, item in zip(here, completions, strict=True)]
        else:
            return []
    return found
