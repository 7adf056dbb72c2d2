"""Elected threads: what one thread of a warpgroup does is not done by the other 127.

A bulk copy is issued, committed and waited for by one thread. Engines take a warpgroup as one
agent, which stores, copies and waits as one; here the others of its threads are looked at: between
their stores and the copy, and between the copy's wait and their next stores, a barrier of the CTA
must stand. A warp counts as one (its threads are together at elect.sync). Along a branch without an
alternative the text is read as if it were taken.

Sources: PTX ISA, cp.async.bulk (groups are of the executing thread), elect.sync, bar.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.diagnostics.wording import quoted
from titan.sync.program import (
    Access,
    Arrive,
    Asynchronous,
    BarrierSync,
    Block,
    Branch,
    Loop,
    Operation,
    Proxy,
    QueueWait,
    Space,
    TokenWait,
    Wait,
)
from titan.verify.legality.case import Case, plain
from titan.verify.legality.rule import rule

_SOURCE = "PTX, cp.async.bulk: issued, committed and waited for by one thread; bar.sync"
_HELPS = (
    "let the threads meet (`sync`) before one of them copies, and again after it has waited",
    "`{warpgroups: 1, agents: 4}` makes an agent of each warp, and `when: self == 0` names one",
)


@dataclass
class _Walk:
    """What the other threads of an agent may not yet have done, along its text."""

    case: Case
    stored: dict[str, Operation] = field(default_factory=dict)  # by all, not met since
    copied: dict[str, set[str]] = field(default_factory=dict)  # queue -> buffers, by one
    waited: dict[str, Operation] = field(default_factory=dict)  # by one, not met since
    arrived: set[str] = field(default_factory=set)
    found: list[tuple[str, str, Operation, Operation]] = field(default_factory=list)

    def block(self, body: Block) -> None:
        for operation in body:
            self.operation(operation)

    def operation(self, operation: Operation) -> None:
        match operation:
            case Loop():
                self.block(operation.body)
                self.block(operation.body)  # once more: what is left over meets the first
            case Branch():
                self.block(operation.then)
                self.block(operation.otherwise)
            case BarrierSync():
                self.meet()
            case Arrive():
                self.arrived.add(operation.barrier.name)
            case Wait() | TokenWait():
                if operation.barrier.name in self.arrived:
                    self.meet()
            case QueueWait():
                for name in self.copied.pop(operation.queue, set()):
                    self.waited[name] = operation
            case Access():
                for name in self._shared(operation, write=True):
                    if name in self.waited:
                        self.found.append(("store", name, operation, self.waited[name]))
                    self.stored[name] = operation
            case Asynchronous():
                if self.case.queue_kind(operation.queue) == "bulk":
                    self.copy(operation)

    def copy(self, operation: Asynchronous) -> None:
        for name in self._shared(operation, write=False):
            if name in self.stored:
                self.found.append(("copy", name, operation, self.stored[name]))
            self.copied.setdefault(operation.queue or "", set()).add(name)

    def meet(self) -> None:
        """All threads of the agent have come here."""
        self.stored.clear()
        self.waited.clear()

    def _shared(self, operation: Access | Asynchronous, write: bool) -> Iterator[str]:
        for effect in operation.effects:
            memory = self.case.memories[plain(effect.buffer)]
            in_shared = memory.buffer.space is Space.SHARED and effect.proxy is not Proxy.TENSORMAP
            if effect.write is write and in_shared:
                yield memory.name


@rule("TTN432", "bulk_alignment")
def threads_meet_around_a_copy(case: Case) -> Iterator[Diagnostic]:
    """Threads of a warpgroup meet before one of them copies what all wrote, and after it waited."""
    told = set()
    for role in case.program.roles if case.nvidia else ():
        if role.threads <= case.target.threads_per_warp:
            continue
        walk = _Walk(case)
        walk.block(role.body)
        for what, name, operation, _ in walk.found:
            if (what, name, operation.span) in told:
                continue
            told.add((what, name, operation.span))
            if what == "copy":
                headline = f"one thread copies {quoted(name)}, which {role.threads} threads write, "
                headline += "and they do not meet in between"
            else:
                headline = f"{role.threads} threads overwrite {quoted(name)} after one of them has "
                headline += "waited for its copy, and they do not meet in between"
            yield case.fault("TTN432", headline, operation.span, source=_SOURCE, helps=_HELPS)
