"""Operations without an instruction on the target: queues, copies and barriers of another one.

A warning, since a model may borrow a word whose behaviour fits: a queue of kind `wgmma` for matrix
instructions that a compiler chooses later, an mbarrier for a flag in memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.diagnostics.wording import quoted
from titan.language.kernel.table import QUEUE_KINDS
from titan.sync.program import (
    Arrive,
    Asynchronous,
    BarrierArrive,
    BarrierSync,
    BarrierWait,
    Commit,
    ExpectTransaction,
    Operation,
    QueueArrive,
    QueueWait,
    Scope,
    TokenWait,
    Wait,
)
from titan.verify.legality.case import Case, plain
from titan.verify.legality.rule import rule

_COPIES = {
    "bulk_load": ("bulk", "bulk copies"),
    "bulk_store": ("bulk", "bulk copies"),
    "cp_async": ("cp_async", "`cp.async`"),
    "lds_dma": ("lds_dma", "direct-to-LDS loads through M0"),
}


@rule("TTN427", "operations")
def operation_is_of_the_target(case: Case) -> Iterator[Diagnostic]:
    """An operation is one that the target has an instruction for."""
    known = case.limits.table("operations")
    reported = set()
    for _, operation in case.operations if known else ():
        for word, what in _asks(case, operation):
            if word not in known and what not in reported:
                reported.add(what)
                headline = f"{case.kernel.target} has no {what}"
                yield case.fault("TTN427", headline, operation.span, source="operations")


def _asks(case: Case, operation: Operation) -> Iterator[tuple[str, str]]:
    """What an operation needs of its target: the word of the table, and its wording."""
    if isinstance(operation, Asynchronous | Commit | QueueArrive | QueueWait):
        kind = case.queue_kind(operation.queue)
        if kind in QUEUE_KINDS:
            yield kind, f"{kind}, the kind of queue {quoted(plain(operation.queue or ''))}"
    if isinstance(operation, Asynchronous) and operation.label in _COPIES:
        yield _COPIES[operation.label]
    if isinstance(
        operation, Arrive | ExpectTransaction | Wait | TokenWait | QueueArrive
    ) and case.is_mbarrier(operation.barrier.name):
        yield "mbarrier", "mbarriers"
    if isinstance(operation, BarrierArrive | BarrierSync | BarrierWait):
        scopes = {item.name: item.scope for item in case.program.named_barriers}
        if scopes.get(operation.barrier.name) is not Scope.CTA:
            return
        if isinstance(operation, BarrierArrive):
            yield "barrier_arrive", "arrivals at a barrier of the CTA apart from waits"
        elif isinstance(operation, BarrierWait):
            yield "barrier_wait", "waits at a barrier of the CTA apart from arrivals"
