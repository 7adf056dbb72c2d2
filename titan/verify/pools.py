"""Pools order execution, not memory: what a program is without the order that they make.

`setmaxnreg` and `tcgen05.alloc` wait for each other, but neither releases nor acquires memory (PTX
gives them no such semantics). The explorer and the reference search take every order of execution
as order of memory. So a program that they verify is verified once more without its `take` and
`give`: there are more interleavings then, and none of them rests on a pool.
"""

from __future__ import annotations

from dataclasses import replace

from titan.foundation.diagnostics.model import Annotation, Diagnostic, diagnostic
from titan.language.kernel.model import Kernel
from titan.sync import program as ir
from titan.sync.fault import Fault, FaultKind

MEMORY_FAULTS = frozenset(
    {
        FaultKind.DATA_RACE,
        FaultKind.OVERWRITE_IN_FLIGHT,
        FaultKind.READ_BEFORE_ARRIVAL,
        FaultKind.STALE_READ,
        FaultKind.MISSING_FENCE,
        FaultKind.MISSING_FENCE_WAR,
        FaultKind.MISSING_CACHED_FENCE,
        FaultKind.MISSING_TENSORMAP_FENCE,
    }
)


def pools_order(program: ir.SyncProgram) -> bool:
    """Whether some agent may wait for what another gives to a pool."""
    return any(_operations(program, ir.PoolTake)) and any(_operations(program, ir.PoolGive))


def _operations(program: ir.SyncProgram, kind: type[ir.Operation]) -> list[ir.Operation]:
    return [
        operation
        for role in program.roles
        for operation in ir.walk(role.body)
        if isinstance(operation, kind)
    ]


def without_pools(program: ir.SyncProgram) -> ir.SyncProgram:
    """The program with every `take` and `give` left out."""
    roles = tuple(replace(role, body=_block(role.body)) for role in program.roles)
    return replace(program, roles=roles, pools=())


def _block(block: ir.Block) -> ir.Block:
    found: list[ir.Operation] = []
    for operation in block:
        match operation:
            case ir.PoolTake() | ir.PoolGive():
                continue
            case ir.Loop():
                found.append(replace(operation, body=_block(operation.body)))
            case ir.Branch():
                then, otherwise = _block(operation.then), _block(operation.otherwise)
                found.append(replace(operation, then=then, otherwise=otherwise))
            case _:
                found.append(operation)
    return tuple(found)


def pool_diagnostic(kernel: Kernel, program: ir.SyncProgram, fault: Fault) -> Diagnostic:
    """Weak synchronisation: accesses that nothing but a pool orders. `fault` is without pools."""
    names = sorted({item.pool for item in _operations(program, ir.PoolTake)
                    if isinstance(item, ir.PoolTake)})  # fmt: skip
    places = [operation.span for operation in fault.operations if operation.span]
    pool = " and ".join(names)
    return diagnostic(
        "TTN305",
        f"only the pool {pool} orders these accesses, and pools do not order memory",
        places[0] if places else kernel.span,
        "this access",
        others=tuple(Annotation(span, "and this") for span in places[1:]),
        notes=(f"without `take` and `give`: {fault.message}",),
        helps=("order the accesses by a barrier as well: arrive after the first, wait before the "
               "second",),
    )  # fmt: skip
