"""One agent of a recording: gathers its operations, merging what nothing comes between.

Accesses of one warp that follow each other with no operation between them are one `Access` of the
sync program; asynchronous operations of one queue that follow each other are one `Asynchronous`,
as long as none of them conflicts with another: they complete in any order.
Nothing else of the agent lies between them, so every other event is before or after all of them,
or unordered with all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from titan.foundation.source.span import Span
from titan.frontends.ptx.memory import united
from titan.isa.simt.events import Event
from titan.sync import program as ir

Member = tuple[Event, tuple[ir.Effect, ...]]
Locate = Callable[[int], Span | None]  # an instruction to its place in the text


@dataclass(slots=True, eq=False)
class RecordedAgent:
    """A warp of the recording. `members`: what each operation was made of, by identity.

    `loads` are its operations of tcgen05.ld, in their order. `counted` is the number of operations,
    but for plain accesses.
    """

    number: int
    name: str
    cta: int
    rank: int
    warp: int
    locate: Locate
    operations: list[ir.Operation] = field(default_factory=list)
    members: dict[int, list[Member]] = field(default_factory=dict)
    queues: dict[str, int] = field(default_factory=dict)  # lanes that issued into each
    loads: list[int] = field(default_factory=list)
    counted: int = 0
    _accesses: list[Member] = field(default_factory=list)
    _issues: list[Member] = field(default_factory=list)
    _issue_queue: str = ""
    _touched: dict[str, ir.Effect] = field(default_factory=dict)  # by what has been issued

    def access(self, event: Event, effects: tuple[ir.Effect, ...]) -> None:
        """A synchronous access; without effects it concerns no other agent."""
        if not effects:
            return
        if self._issues:
            self.flush()
        self._accesses.append((event, effects))

    def issue(self, event: Event, effects: tuple[ir.Effect, ...], queue: str) -> None:
        """An asynchronous operation that a queue waits for."""
        if self._accesses or (self._issues and self._issue_queue != queue):
            self.flush()
        if any(_conflicting(effect, self._touched.get(effect.buffer)) for effect in effects):
            self.flush()
        for effect in effects:
            if effect.write or effect.buffer not in self._touched:
                self._touched[effect.buffer] = effect
        self._issue_queue = queue
        self._issues.append((event, effects))
        self.queues[queue] = self.queues.get(queue, 0) | event.lanes

    def add(self, operation: ir.Operation, event: Event, effects: tuple[ir.Effect, ...]) -> None:
        """Any other operation; ends what was being gathered."""
        self.flush()
        self._append(operation, [(event, effects)])

    def flush(self) -> None:
        """Emit what has been gathered."""
        accesses, self._accesses = self._accesses, []
        if accesses:
            effects = united(effect for _, them in accesses for effect in them)
            span = self.locate(accesses[0][0].instruction)
            self._append(ir.Access(effects, span=span), accesses)
        issues, self._issues = self._issues, []
        if issues:
            self._touched = {}
            effects = united(effect for _, them in issues for effect in them)
            span = self.locate(issues[0][0].instruction)
            operation = ir.Asynchronous(effects, self._issue_queue, span=span)
            self._append(operation, issues)

    def _append(self, operation: ir.Operation, members: list[Member]) -> None:
        self.operations.append(operation)
        self.counted += not isinstance(operation, ir.Access)
        self.members[id(operation)] = members


def _conflicting(new: ir.Effect, old: ir.Effect | None) -> bool:
    """Whether two operations in flight may not touch the same bytes in these ways."""
    if old is None or not (new.write or old.write):
        return False
    return not (new.accumulates and old.accumulates) and not (new.reduction and old.reduction)
