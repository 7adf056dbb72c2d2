"""Pools order execution, not memory: what a program is without the order that they make.

`setmaxnreg` and `tcgen05.alloc` wait for each other, but neither releases nor acquires memory (PTX
gives them no such semantics). The explorer and the reference search take every order of execution
as order of memory. So a program that they verify is verified once more without its `take` and
`give`: there are more interleavings then, and none of them rests on a pool.

Columns of tensor memory are owned between allocation and deallocation. Where a CTA has one of each,
and so all its tensor memory is in them, that program accesses all of it in their place: what uses
the columns before they are allocated, or after another CTA may have them, is a race with these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from titan.foundation.diagnostics.model import Annotation, Diagnostic, diagnostic
from titan.language.kernel.model import Kernel
from titan.sync import program as ir
from titan.sync.expression import Constant
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


def without_pools(program: ir.SyncProgram, columns: frozenset[str] = frozenset()) -> ir.SyncProgram:
    """The program with every `take` and `give` left out; `columns`: pools of tensor memory."""
    owned = {cta: _owned(program, cta, columns) for cta in {role.cta for role in program.roles}}
    roles = tuple(
        replace(role, body=_block(role.body, owned[role.cta], columns)) for role in program.roles
    )
    return replace(program, roles=roles, pools=())


def _owned(program: ir.SyncProgram, cta: int, columns: frozenset[str]) -> tuple[ir.Buffer, ...]:
    """The tensor memory of a CTA, if one agent allocates there and one frees, at one place each."""
    free = {pool.name for pool in program.pools if pool.available}  # else a `give` comes first
    sites = [
        (type(item), role.agents)
        for role in program.roles
        if role.cta == cta
        for item in ir.walk(role.body)
        if isinstance(item, ir.PoolTake | ir.PoolGive)
        if _pool(item) in columns and item.pool in free
    ]
    if sorted(kind.__name__ for kind, _ in sites) != ["PoolGive", "PoolTake"]:
        return ()
    if any(agents > 1 for _, agents in sites):
        return ()
    return tuple(
        item for item in program.buffers if item.space is ir.Space.TENSOR and item.cta == cta
    )


def _pool(item: ir.PoolTake | ir.PoolGive) -> str:
    return item.pool.partition("@")[0]


def _in_place_of(
    item: ir.PoolTake | ir.PoolGive, owned: tuple[ir.Buffer, ...]
) -> Iterator[ir.Operation]:
    """An access to all of the columns; an allocation leaves what a file says is there."""
    freed = isinstance(item, ir.PoolGive)
    effects = tuple(
        ir.Effect(buffer.name, Constant(stage), write=freed or buffer.initial is None)
        for buffer in owned
        for stage in range(buffer.stages)
    )
    if effects:
        yield ir.Access(effects, span=item.span, label="give" if freed else "take")


def _block(block: ir.Block, owned: tuple[ir.Buffer, ...], columns: frozenset[str]) -> ir.Block:
    found: list[ir.Operation] = []
    for operation in block:
        match operation:
            case ir.PoolTake() | ir.PoolGive():
                found += _in_place_of(operation, owned if _pool(operation) in columns else ())
            case ir.Loop():
                body = _block(operation.body, owned, columns)
                found.append(replace(operation, body=body))
            case ir.Branch():
                then = _block(operation.then, owned, columns)
                otherwise = _block(operation.otherwise, owned, columns)
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
    if any(item.label in ("take", "give") for item in fault.operations):
        return diagnostic(
            "TTN305",
            "nothing orders a use of tensor memory with the allocation or deallocation of columns",
            places[0] if places else kernel.span,
            "this operation",
            others=tuple(Annotation(span, "and this") for span in places[1:]),
            notes=("before and after, the columns may be those of another CTA of the device",),
            helps=("let who uses the columns wait until they are allocated, and who frees them "
                   "until all others have arrived behind their last use",),
        )  # fmt: skip
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
