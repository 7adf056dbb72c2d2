"""The cluster barriers that Triton adds when it lowers a kernel of several CTAs.

No CTA uses an mbarrier before all of them have initialised theirs, and none ends before all are
done: Triton puts a cluster barrier behind the last `ttng.init_barrier` of the function and one at
its end (pass `membar`, from its PTX). All threads take part, those of partitions as well. Barriers
that the text has itself stand as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.foundation.source.span import Span
from titan.frontends.ttgir.drafts import MAIN, FunctionDraft
from titan.frontends.ttgir.effects import CLUSTER, Made
from titan.sync import program as ir
from titan.sync.expression import Constant


def place_cluster_barriers(drafts: Sequence[FunctionDraft]) -> list[Diagnostic]:
    """Puts both barriers into all roles, or says why they cannot be."""
    roles = [role for draft in drafts for role in draft.roles]
    faults: list[Diagnostic] = []
    everybody = sum(role.threads for role in roles)
    for draft in drafts:
        for role in draft.roles:
            faults += _misplaced(role.body, role.name == MAIN, len(draft.roles) > 1)
            meet = ir.BarrierSync(ir.Reference(CLUSTER), Constant(everybody))
            first = 1 + max((n for n, one in enumerate(role.body) if _initialises(one)), default=-1)
            role.body = [*role.body[:first], meet, *role.body[first:], meet]
    return list(dict.fromkeys(faults))


def _initialises(operation: ir.Operation) -> bool:
    return any(isinstance(one, ir.Init) for one in ir.walk((operation,)))


def _misplaced(body: Made, main: bool, partitions: bool) -> list[Diagnostic]:
    """Initialisations and cluster barriers where not all threads come to them."""
    found = []
    for operation in body:
        for one in ir.walk((operation,)):
            span = one.span if isinstance(one.span, Span) else None
            if isinstance(one, ir.Init) and (one is not operation or not main):
                text = "in a cluster, an mbarrier is initialised in a loop, a branch or a partition"
                found.append(diagnostic("TTN010", text, span))
            if isinstance(one, ir.BarrierSync) and one.barrier.name == CLUSTER and partitions:
                text = "a cluster barrier in a function with partitions is not supported"
                found.append(diagnostic("TTN010", text, span))
    return found
