"""The cluster barriers that Triton adds when it lowers a kernel of several CTAs.

No CTA uses an mbarrier before all of them have initialised theirs, and none ends before all are
done: Triton puts a cluster barrier behind the last `ttng.init_barrier` of the function and one at
its end (pass `membar`, from its PTX). All threads take part, those of partitions as well. Barriers
that the text has itself stand as they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.foundation.source.span import Span
from titan.frontends.ttgir.drafts import MAIN, FunctionDraft
from titan.frontends.ttgir.effects import CLUSTER, Made
from titan.sync import program as ir
from titan.sync.expression import Constant
from titan.sync.parts import barriers_of, effects_of


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


def one_for_all(drafts: Sequence[FunctionDraft]) -> bool:
    """Whether CTAs of a cluster never touch each other and do the same, so that one is enough.

    They still meet at cluster barriers, to which each comes on its own.
    """
    names = {(draft.place.cta, name) for draft in drafts for name in _names(draft)}
    alone = all(name.rpartition("@")[2] == str(cta) for cta, name in names if name != CLUSTER)
    return alone and len({_without_ranks(draft) for draft in drafts}) == 1


def without_cluster_barriers(body: Made) -> Made:
    """The body of a role of the only CTA that is left."""
    made: Made = []
    for one in body:
        match one:
            case ir.BarrierSync() if one.barrier.name == CLUSTER:
                continue
            case ir.Loop(body=inner):
                made.append(replace(one, body=tuple(without_cluster_barriers([*inner]))))
            case ir.Branch(then=then, otherwise=otherwise):
                arms = [tuple(without_cluster_barriers([*arm])) for arm in (then, otherwise)]
                made.append(replace(one, then=arms[0], otherwise=arms[1]))
            case _:
                made.append(one)
    return made


def _names(draft: FunctionDraft) -> set[str]:
    """What the roles of a draft name: barriers and memory."""
    found = set()
    for role in draft.roles:
        for operation in ir.walk(tuple(role.body)):
            found |= {one.name for one in barriers_of(operation)}
            found |= {one.buffer for one in effects_of(operation)}
    return found


def _without_ranks(draft: FunctionDraft) -> str:
    """The roles as text, in which names do not say whose they are."""
    roles = [(role.name, role.threads, role.variables, role.body) for role in draft.roles]
    return re.sub(r"@\d+", "@", repr(roles))


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
