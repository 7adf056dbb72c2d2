"""Which programs the certificate of a run can be about; the rest is refused with its reason."""

from __future__ import annotations

from titan.sync import program as ir
from titan.sync.parts import effects_of

_KNOWN = (
    ir.Access, ir.Asynchronous, ir.Commit, ir.QueueWait, ir.QueueArrive, ir.Init, ir.Invalidate,
    ir.Arrive, ir.ExpectTransaction, ir.Wait, ir.BarrierSync, ir.BarrierArrive, ir.BarrierWait,
    ir.Fence, ir.PoolTake, ir.PoolGive,
)  # fmt: skip


def unsupported(program: ir.SyncProgram) -> str | None:
    """Why no certificate of a run is about this program; None where one may be."""
    if program.policies.fence_rule != "writer":
        return "fences are judged by the path rule"
    if program.policies.barrier_init == "fence" and not all(
        barrier.initialised for barrier in program.barriers
    ):
        return "the publication of initialisations is asked for"
    if any(parameter.value is None for parameter in program.parameters):
        return "a size is not given"
    ordered = {queue.name for queue in program.queues if queue.ordered}
    for role in program.roles:
        for operation in role.body:
            reason = _operation(operation, ordered)
            if reason is not None:
                return reason
    return None


def _operation(operation: ir.Operation, ordered: set[str]) -> str | None:
    if not isinstance(operation, _KNOWN):
        return f"{type(operation).__name__} is not followed"
    match operation:
        case ir.Arrive(drop=drop, token=token) if drop or token:
            return "an arrival that drops out or takes a token"
        case ir.Asynchronous(chunks=chunks) if chunks != 1:
            return "a transfer in chunks"
        case ir.QueueArrive(queue=queue) if queue not in ordered:
            return "an arrival of a queue without order"
        case ir.Fence(kind=kind) if kind not in (ir.FenceKind.ASYNC, ir.FenceKind.BARRIER_INIT):
            return f"a fence {kind.value}"
    for effect in effects_of(operation):
        if effect.tile is not None:
            return "an access that names its content"
        if effect.proxy not in (ir.Proxy.GENERIC, ir.Proxy.ASYNC):
            return f"an access by the {effect.proxy.value} proxy"
    return None
