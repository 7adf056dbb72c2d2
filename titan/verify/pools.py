"""Pools order execution, not memory: what a program is without the order that they make.

`setmaxnreg` and `tcgen05.alloc` wait for each other, but neither releases nor acquires memory (PTX
gives them no such semantics). The explorer and the reference search take every order of execution
as order of memory. So a program that they verify is verified once more without its `take` and
`give`: there are more interleavings then, and none of them rests on a pool.

Columns of tensor memory are owned between allocation and deallocation. Where one agent of a CTA
allocates and one frees, that program accesses all of its tensor memory in place of the first
allocation and of the last deallocation: what uses columns before any are allocated, or when another
CTA may have them all, is a race with these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    bounds: dict[int, tuple[ir.Buffer, ...]] = {}
    for cta in {role.cta for role in program.roles}:
        memory = _tensor_memory(program, cta)
        bounds |= {id(item): memory for item in _bounds(program, cta, columns)}
    roles = tuple(replace(role, body=_block(role.body, bounds)) for role in program.roles)
    return replace(program, roles=roles, pools=())


def _tensor_memory(program: ir.SyncProgram, cta: int) -> tuple[ir.Buffer, ...]:
    return tuple(
        item for item in program.buffers if item.space is ir.Space.TENSOR and item.cta == cta
    )


def _bounds(
    program: ir.SyncProgram, cta: int, columns: frozenset[str]
) -> Sequence[ir.PoolTake | ir.PoolGive]:
    """The first allocation and the last deallocation of a CTA, where one agent does each.

    Of several, none is in a loop or under a condition: then the text has them in their order.
    """
    free = {pool.name for pool in program.pools if pool.available}  # else a `give` comes first
    found: dict[type, list[ir.PoolTake | ir.PoolGive]] = {ir.PoolTake: [], ir.PoolGive: []}
    who: set[tuple[type, str]] = set()
    plain: set[int] = set()
    for role in program.roles if columns else ():
        plain |= {id(item) for item in role.body}
        for item in ir.walk(role.body) if role.cta == cta else ():
            if isinstance(item, ir.PoolTake | ir.PoolGive) and _pool(item) in columns:
                if item.pool not in free or role.agents > 1:
                    return ()
                found[type(item)].append(item)
                who.add((type(item), role.name))
    takes, gives = found[ir.PoolTake], found[ir.PoolGive]
    if not takes or not gives or len(who) > 2:
        return ()
    if (len(takes), len(gives)) != (1, 1) and not plain >= {id(item) for item in takes + gives}:
        return ()
    return takes[0], gives[-1]


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


def _block(block: ir.Block, bounds: Mapping[int, tuple[ir.Buffer, ...]]) -> ir.Block:
    found: list[ir.Operation] = []
    for operation in block:
        match operation:
            case ir.PoolTake() | ir.PoolGive():
                found += _in_place_of(operation, bounds.get(id(operation), ()))
            case ir.Loop():
                found.append(replace(operation, body=_block(operation.body, bounds)))
            case ir.Branch():
                then, otherwise = (
                    _block(arm, bounds) for arm in (operation.then, operation.otherwise)
                )
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
