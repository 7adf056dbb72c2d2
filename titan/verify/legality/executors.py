"""Executors: `by:` says of an operation what its instruction can be.

What works for the thread that executes it happens once a thread; an instruction that works for a
warpgroup or a wave needs all of it. Who meets whom around an operation by one thread is judged in
`elected.py`. Unless a file says `by`, the instruction's own way is assumed, and nothing is judged.

Sources: PTX ISA, cp.async.bulk and its groups, mbarrier.expect_tx, mbarrier.init, tcgen05.mma,
tcgen05.commit (of the executing thread), wgmma, tcgen05.ld (of a warpgroup or warp), cp.async (each
thread its own groups); instruction set architectures of AMD, s_waitcnt and s_barrier (of a wave).
"""

from __future__ import annotations

from collections.abc import Iterator

from titan.foundation.diagnostics.model import Diagnostic
from titan.sync.expression import ZERO
from titan.sync.program import (
    Access,
    Arrive,
    Asynchronous,
    BarrierArrive,
    BarrierSync,
    BarrierWait,
    Commit,
    ExpectTransaction,
    Init,
    Invalidate,
    Operation,
    PoolGive,
    PoolTake,
    QueueArrive,
    QueueWait,
    Role,
    Space,
)
from titan.verify.legality.case import Case
from titan.verify.legality.rule import rule

ONE = ("thread",)
EACH = ("all",)
ANY = ("thread", "warp", "all")
WARPS = ("warp", "all")
_KINDS = {"bulk": ONE, "tcgen05": ONE}  # of other queues: by all
_COPIES = ("bulk_load", "bulk_store")
_SOURCE = "PTX, cp.async.bulk, tcgen05.mma: of the executing thread; wgmma: of all of the warpgroup"
_SOURCE_AMD = "CDNA and RDNA instruction set architectures: counters and barriers are of a wave"


def executors(case: Case, role: Role, operation: Operation) -> tuple[str, ...]:
    """What `by` may say of an operation of the role."""
    if role.threads == 1:
        return ANY
    if not case.nvidia:
        return EACH if role.threads > case.target.threads_per_warp else ANY
    match operation:
        case ExpectTransaction() | Init() | Invalidate():
            return ONE
        case Arrive(transaction=transaction):
            return ANY if transaction == ZERO else ONE
        case BarrierSync() | BarrierArrive() | BarrierWait():
            return EACH
        case PoolTake(pool=pool) | PoolGive(pool=pool) if not case.is_tensor_pool(pool):
            return EACH
        case Access(effects=effects) if any(case.space_of(e) is Space.TENSOR for e in effects):
            return WARPS
        case Asynchronous(queue=None, label=label):
            return ONE if label in _COPIES else ANY
        case Asynchronous() | Commit() | QueueWait() | QueueArrive():
            if operation.label in _COPIES:
                return ONE
            kind = case.queue_kind(operation.queue)
            return _KINDS.get(kind, EACH) if kind else ANY
    return ANY


@rule("TTN433", "threads_per_warp")
def executed_as_the_instruction_is(case: Case) -> Iterator[Diagnostic]:
    """An operation is by one thread or by all as its instruction is."""
    for role, operation in case.operations:
        fitting = executors(case, role, operation) if operation.by else ANY
        if operation.by in (*fitting, ""):
            continue
        words = " or ".join(f"`by: {word}`" for word in fitting)
        headline = f"`by: {operation.by}` of {role.threads} threads does not fit the operation"
        source = _SOURCE if case.nvidia else _SOURCE_AMD
        helps = (f"leave `by` out, or write {words}",)
        yield case.fault("TTN433", headline, operation.span, source=source, helps=helps)
