"""Whether the target has the instructions about to be emitted, by the threads declared.

What an operation completes by, how that is waited for and what it can arrive at are read from the
target's table (`backends/<target>/completion.yaml`), as legality and lowering read it: an operation
without a row there has no spelling. What an operation says of its executor (`by`) must be what
emission spells: copies, their groups, `expect`, commits to mbarriers by one thread; arrivals by a
lane of each warp, for all its threads; everything else by all threads of the agent.

Assumption: queues without a declared kind are groups of the matrix instructions where they are
pipelined, and of bulk copies where they are not, which is how they are spelled.
"""

from __future__ import annotations

from collections.abc import Iterator

from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.names import label
from titan.language.kernel.model import Kernel
from titan.sync import program as ir
from titan.sync.expression import ZERO
from titan.target.completion import (
    ANY_VERB,
    MBARRIER,
    CompletionTable,
    OperationReach,
    Signature,
    Waits,
)
from titan.target.description import Target, target_of

THREAD, ALL = "thread", "all"
_FORMS = ("", THREAD, "warp", ALL)


def check(kernel: Kernel, program: ir.SyncProgram) -> None:
    """Raises EmissionRefused for an operation that the target does not have, or not so."""
    target = target_of(program.target)
    if target.completion is None:
        raise EmissionRefused(f"nothing is known of what completes by what on {target.name}")
    facts = _Facts(kernel, program, target, target.completion)
    for role in program.roles:
        for operation in ir.walk(role.body):
            for problem in facts.problems(role, operation):
                what = label(operation.label) or type(operation).__name__
                raise EmissionRefused(f"{what}: {problem}")


class _Facts:
    """The table of the target, and what the program declares."""

    def __init__(
        self, kernel: Kernel, program: ir.SyncProgram, target: Target, table: CompletionTable
    ) -> None:
        self.target = target
        self.table = table
        self.verbs = {row.verb for row in table.operations}
        self.spaces = {buffer.name: buffer.space for buffer in program.buffers}
        declared: dict[str, str] = {}
        for item in kernel.placement.kinds:
            if not (isinstance(item, tuple) and [type(word) for word in item] == [str, str]):
                raise EmissionRefused("a queue has no kind")
            declared[item[0]] = item[1]
        self.kinds = {
            queue.name: declared.get(queue.name)
            or (queue.name if queue.name in table.counters else "")
            or (target.matrix_counter if queue.pipelined else "bulk")
            for queue in program.queues
        }

    def problems(self, role: ir.Role, operation: ir.Operation) -> Iterator[str]:
        """What is wrong with one operation."""
        match operation:
            case ir.Asynchronous():
                yield from self._asynchronous(operation)
            case ir.Commit(queue=queue):
                row = self.table.counters.get(self._kind(queue))
                if row is None or not row.commits:
                    yield f"{self._kind(queue)} has no groups"
            case ir.QueueWait():
                yield from self._wait(operation)
            case ir.QueueArrive(queue=queue):
                row = self.table.counters.get(self._kind(queue))
                if row is None or row.arrives is OperationReach.NOWHERE:
                    yield f"{self._kind(queue)} arrives at no mbarrier"
        if operation.by not in _FORMS:
            yield f"`by` says {operation.by!a:.20}"
        elif operation.by not in self.executors(role, operation):
            yield f"it is not executed by {operation.by!a:.20} in what is written"

    def _kind(self, queue: str) -> str:
        if queue not in self.kinds:
            raise EmissionRefused("a queue that is not declared")
        return self.kinds[queue]

    def _space(self, effect: ir.Effect) -> ir.Space:
        if effect.buffer not in self.spaces:
            raise EmissionRefused("a buffer that is not declared")
        return self.spaces[effect.buffer]

    def _wait(self, wait: ir.QueueWait) -> Iterator[str]:
        kind = self._kind(wait.queue)
        row = self.table.counters.get(kind)
        if row is None or row.waits is Waits.NONE:
            yield f"no wait names {kind}"
        elif row.waits is Waits.ALL and wait.pending != ZERO:
            yield f"a wait for {kind} leaves nothing unfinished"
        elif wait.until is ir.Until.READ and not row.reads:
            yield f"no wait for the reads of {kind} alone"

    def _asynchronous(self, operation: ir.Asynchronous) -> Iterator[str]:
        rows = self.table.rows(self._signature(operation))
        asked = [self._kind(operation.queue)] if operation.queue is not None else []
        for what in (*asked, *([MBARRIER] if operation.completes else [])):
            if not any(what in row.by for row in rows):
                yield f"nothing of the kind completes by {what} on {self.target.name}"

    def _signature(self, operation: ir.Asynchronous) -> Signature:
        effects = [item for item in operation.effects if item.proxy is not ir.Proxy.TENSORMAP]
        reads, writes = (
            frozenset(self._space(item).value for item in effects if item.write is write)
            for write in (False, True)
        )
        memory = (ir.Space.SHARED, ir.Space.GLOBAL)
        proxies = (item.proxy.value for item in effects if self._space(item) in memory)
        verb = operation.label if operation.label in self.verbs else ANY_VERB
        return Signature(verb, reads, writes, frozenset(proxies))

    def executors(self, role: ir.Role, operation: ir.Operation) -> tuple[str, ...]:
        """What `by` may say of an operation: that of its spelling, or nothing."""
        if role.threads == 1:
            return _FORMS
        if isinstance(operation, ir.Loop | ir.Branch | ir.Assign | ir.Compute):
            return ("",)
        if self.target.amd:
            return ("", ALL)
        match operation:
            case ir.ExpectTransaction() | ir.QueueArrive():
                return ("", THREAD)
            case ir.Arrive(transaction=transaction):
                return ("", ALL) if transaction == ZERO else ("",)
            case ir.Asynchronous(queue=queue) | ir.Commit(queue=queue) | ir.QueueWait(queue=queue):
                kind = self._kind(queue) if queue is not None else MBARRIER
                alone = kind in (MBARRIER, "bulk") or self.target.matrix_commits_to_barriers
                return ("", THREAD) if alone else ("", ALL)
        return ("", ALL)
