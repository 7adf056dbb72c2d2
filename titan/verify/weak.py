"""Whether some synchronisation of a program may order execution without carrying visibility.

Where none does, an engine that knows execution order only decides everything. Where some may, rule
TTN305 is open, and happens-before alone decides it. What an arrival of CTA scope makes visible
comes to waiters of its own CTA only, and a wait of CTA scope takes it from its own CTA only. What
an engine completes counts as made in the CTA of the barrier (PTX, mbarrier scopes).
"""

from __future__ import annotations

from collections import defaultdict

from titan.sync import program as ir

_ARRIVING = (ir.Arrive, ir.BarrierArrive, ir.BarrierSync)
_WAITING = (ir.Wait, ir.TokenWait, ir.BarrierSync, ir.BarrierWait)


def may_be_weak(program: ir.SyncProgram) -> bool:
    """Whether an operation is relaxed, or of too narrow a scope for who meets at its barrier."""
    wide = {item.name for item in program.named_barriers if item.scope is ir.Scope.CLUSTER}
    arriving: dict[str, set[tuple[int, bool]]] = defaultdict(set)  # CTA, whether its scope is wide
    waiting: dict[str, set[tuple[int, bool]]] = defaultdict(set)
    for barrier in program.barriers:
        arriving[barrier.name].add((barrier.cta, True))  # engines
    for role in program.roles:
        for operation in ir.walk(role.body):
            if not isinstance(operation, _ARRIVING + _WAITING):
                continue
            if operation.order is ir.Order.RELAXED:
                return True
            name = operation.barrier.name
            scope = getattr(operation, "scope", ir.Scope.CTA)
            mark = role.cta, name in wide or scope is ir.Scope.CLUSTER
            if isinstance(operation, _ARRIVING):
                arriving[name].add(mark)
            if isinstance(operation, _WAITING):
                waiting[name].add(mark)
    return any(
        cta != other and not (far and other_far)
        for name, marks in waiting.items()
        for cta, far in marks
        for other, other_far in arriving[name]
    )
