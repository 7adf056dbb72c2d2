"""The same program with every arrival and wait of CTA scope at cluster scope.

What orders accesses in it and not in the program itself rests on releases and acquires whose scope
is too narrow for a barrier that agents of several CTAs use, and on nothing weaker.
"""

from __future__ import annotations

from dataclasses import replace

from titan.sync import program as ir


def at_cluster_scope(program: ir.SyncProgram) -> ir.SyncProgram:
    """The program with the widest scope everywhere; relaxed operations stay relaxed."""
    roles = tuple(replace(role, body=_widened(role.body)) for role in program.roles)
    return replace(program, roles=roles)


def _widened(block: ir.Block) -> ir.Block:
    return tuple(_wide(operation) for operation in block)


def _wide(operation: ir.Operation) -> ir.Operation:
    match operation:
        case ir.Arrive(scope=ir.Scope.CTA) | ir.Wait(scope=ir.Scope.CTA):
            return replace(operation, scope=ir.Scope.CLUSTER)
        case ir.TokenWait(scope=ir.Scope.CTA):
            return replace(operation, scope=ir.Scope.CLUSTER)
        case ir.Asynchronous(completes=completes) if any(done.publishes for done in completes):
            return replace(operation, completes=tuple(map(_wide_completion, completes)))
        case ir.Loop():
            return replace(operation, body=_widened(operation.body))
        case ir.Branch():
            then, otherwise = _widened(operation.then), _widened(operation.otherwise)
            return replace(operation, then=then, otherwise=otherwise)
    return operation


def _wide_completion(done: ir.Completion) -> ir.Completion:
    return replace(done, publishes=ir.Scope.CLUSTER) if done.publishes else done
