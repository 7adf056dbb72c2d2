"""Forms: an operation with its options is an instruction of the target, and reaches what it names.

Judged are mbarrier operations (bytes, order, scope, another CTA), meetings at barriers, copies and
split barriers that a target lacks, accesses by threads to memory of another CTA, and registers,
which each agent has alone. The facts are the tables `barrier_forms` (0: no such form),
`memory_reach` (0: the agent alone, 1: its CTA, 2: the cluster) and `commit_arrivals` of
`backends/<target>/legality.yaml`; what a table leaves out is not judged. Counters and queues are
judged in `completion.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.diagnostics.wording import quoted
from titan.sync.expression import ZERO
from titan.sync.program import (
    Access,
    Arrive,
    Asynchronous,
    BarrierArrive,
    BarrierSync,
    BarrierWait,
    ExpectTransaction,
    Fence,
    FenceKind,
    Operation,
    Order,
    QueueArrive,
    Scope,
    Space,
    TokenWait,
    Wait,
)
from titan.verify.legality.case import Case, plain
from titan.verify.legality.rule import rule

_ON_MBARRIERS = Arrive | ExpectTransaction | Wait | TokenWait
_MEETINGS = BarrierSync | BarrierArrive | BarrierWait
_FENCED = (Space.SHARED, Space.GLOBAL)  # tensor memory and registers have one path


@rule("TTN435", "barrier_forms")
def barrier_operation_has_its_form(case: Case) -> Iterator[Diagnostic]:
    """Bytes, relaxed order and cluster scope of mbarriers need a target that has these forms."""
    known = case.limits.table("barrier_forms")
    for _, item in case.operations if known else ():
        if not isinstance(item, _ON_MBARRIERS) or not case.is_mbarrier(item.barrier.name):
            continue
        for word, what in _forms_of(item):
            if not known.get(word, 1):
                headline = f"{case.kernel.target} has no {what}"
                yield case.fault("TTN435", headline, item.span, source="barrier_forms")


def _forms_of(item: Operation) -> Iterator[tuple[str, str]]:
    """The words of the table that an operation on an mbarrier needs, and their wording."""
    expects = isinstance(item, Arrive) and item.transaction != ZERO
    if expects or isinstance(item, ExpectTransaction):
        yield "bytes", "mbarriers that count bytes"
    if isinstance(item, Arrive | Wait | TokenWait):
        if item.order is Order.RELAXED:
            yield "relaxed", "relaxed operations on mbarriers"
        if item.scope is Scope.CLUSTER:
            yield "cluster", "operations on mbarriers of cluster scope"


@rule("TTN425", "barrier_forms")
def barrier_within_reach(case: Case) -> Iterator[Diagnostic]:
    """An operation names an mbarrier of another CTA only where the target can."""
    known = case.limits.table("barrier_forms")
    homes = {item.name: item.cta for item in case.program.barriers}
    for role, item in case.operations if known and not known.get("remote", 1) else ():
        if not isinstance(item, _ON_MBARRIERS) or not case.is_mbarrier(item.barrier.name):
            continue
        home = homes.get(item.barrier.name, role.cta)
        if home != role.cta and home in case.ctas:
            headline = f"CTA {role.cta} names {quoted(plain(item.barrier.name))} of CTA {home}; "
            headline += f"a barrier in LDS of {case.kernel.target} is of its own work-group"
            yield case.fault("TTN425", headline, item.span, source="barrier_forms")


@rule("TTN435", "named_barriers")
def meeting_has_its_form(case: Case) -> Iterator[Diagnostic]:
    """A barrier of the CTA or of a warp has no relaxed form in PTX; that of a cluster has."""
    scopes = {item.name: item.scope for item in case.program.named_barriers}
    for _, item in case.operations if case.nvidia else ():
        if isinstance(item, _MEETINGS) and item.order is Order.RELAXED:
            if scopes.get(item.barrier.name) is Scope.CLUSTER:
                continue
            headline = f"{quoted(plain(item.barrier.name))} has no relaxed form"
            source = "PTX, barrier and bar.warp.sync: they order accesses; .relaxed is a form of "
            yield case.fault("TTN435", headline, item.span, source=source + "barrier.cluster")


@rule("TTN419", "cluster_max")
def cluster_barrier_needs_clusters(case: Case) -> Iterator[Diagnostic]:
    """A barrier of a cluster exists where the target has clusters."""
    if case.limits.number("cluster_max") != 1:
        return
    scopes = {item.name: item.scope for item in case.program.named_barriers}
    for _, item in case.operations:
        if isinstance(item, _MEETINGS) and scopes.get(item.barrier.name) is Scope.CLUSTER:
            headline = f"{quoted(plain(item.barrier.name))} is a cluster barrier; "
            headline += f"{case.kernel.target} has no clusters"
            yield case.fault("TTN419", headline, item.span, source="cluster_max")


@rule("TTN435", "operations")
def instruction_exists(case: Case) -> Iterator[Diagnostic]:
    """Bulk copies, and a barrier of the CTA in two halves, need a target that has them.

    Nothing else on the target behaves so, unlike what `TTN427` lets a model borrow.
    """
    known = case.limits.table("operations")
    scopes = {item.name: item.scope for item in case.program.named_barriers}
    for _, item in case.operations if known else ():
        word, what = "", ""
        if isinstance(item, Asynchronous) and item.label in ("bulk_load", "bulk_store"):
            word, what = "bulk", "bulk copies"
        elif isinstance(item, _MEETINGS) and scopes.get(item.barrier.name) is Scope.CTA:
            if isinstance(item, BarrierArrive):
                word, what = "barrier_arrive", "arrivals at a barrier of the CTA apart from waits"
            elif isinstance(item, BarrierWait):
                word, what = "barrier_wait", "waits at a barrier of the CTA apart from arrivals"
        if word and word not in known:
            headline = f"{case.kernel.target} has no {what}"
            yield case.fault("TTN435", headline, item.span, source="operations")


@rule("TTN425", "memory_reach")
def access_within_reach(case: Case) -> Iterator[Diagnostic]:
    """Threads load from and store to memory of their CTA, or of the cluster where they can."""
    known = case.limits.table("memory_reach")
    for role, item in case.operations if case.kernel.ctas > 1 else ():
        for effect in item.effects if isinstance(item, Access) else ():
            space = case.space_of(effect)
            home = case.homes[effect.buffer]
            if space is Space.GLOBAL or known.get(space.value, 2) > 1 or home == role.cta:
                continue
            does = "writes" if effect.write else "reads"
            headline = f"an access {does} {quoted(plain(effect.buffer))} of CTA {home}; threads "
            headline += f"reach {space.value} memory of their own CTA only"
            if space is Space.REGISTER:
                headline = f"an access {does} {quoted(plain(effect.buffer))} of CTA {home}; "
                headline += "registers are those of the executing threads"
            yield case.fault("TTN425", headline, item.span, source="memory_reach")
            break


@rule("TTN435", "memory_reach")
def registers_hold_their_own(case: Case) -> Iterator[Diagnostic]:
    """What a role reads in registers it has written there itself, or holds from the start."""
    if "register" not in case.limits.table("memory_reach"):
        return
    filled = {
        (role.name, case.storage_of(effect))
        for role, item in case.operations
        for effect in (item.effects if isinstance(item, Access | Asynchronous) else ())
        if effect.write
    }
    written = {storage for _, storage in filled}
    initial = {
        plain(buffer.storage or buffer.name)
        for buffer in case.program.buffers
        if buffer.initial is not None
    }
    reported = set()
    for role, item in case.operations:
        for effect in item.effects if isinstance(item, Access | Asynchronous) else ():
            storage = case.storage_of(effect)
            if effect.write or case.space_of(effect) is not Space.REGISTER or storage in initial:
                continue
            if (role.name, storage) in filled or storage not in written:
                continue
            if (role.name, storage) not in reported:
                reported.add((role.name, storage))
                headline = f"{quoted(plain(role.name))} reads {quoted(plain(effect.buffer))}, "
                headline += "which other roles write; each has registers of its own"
                yield case.fault("TTN435", headline, item.span, source="memory_reach")


@rule("TTN428", "commit_arrivals")
def commit_arrives_so_often(case: Case) -> Iterator[Diagnostic]:
    """A commit takes off as many arrivals as its instruction has."""
    known = case.limits.table("commit_arrivals")
    for _, item in case.operations:
        if not isinstance(item, QueueArrive):
            continue
        most = known.get(case.queue_kind(item.queue))
        other = next((n for n in case.values_of(item, item.count) if n != most), None)
        if most is not None and other is not None:
            headline = f"a commit of {plain(item.queue)} arrives {most} time, not {other}"
            yield case.fault("TTN428", headline, item.span, source="commit_arrivals")


@rule("TTN426", "proxy_fences")
def fence_names_memory(case: Case) -> Iterator[Diagnostic]:
    """A proxy fence names shared or global memory; other memory is reached by one path."""
    for _, item in case.operations:
        if not isinstance(item, Fence) or item.kind is not FenceKind.ASYNC:
            continue
        for space in item.spaces:
            if space not in _FENCED:
                headline = f"no proxy fence is for {space.value} memory, which has one path"
                yield case.fault("TTN426", headline, item.span, source="proxy_fences")
