"""An execution as plain data: executed events and the relations between them, no solver terms.

Events are named by their key (thread, instruction, loop copy, part), which both engines share, so
that what one finds the other can evaluate again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Key = tuple[str, int, int, str]


@dataclass(frozen=True, slots=True)
class ExecutionEvent:
    """One executed event; `label` is what a reader sees, such as `W x=1 release.gpu`."""

    key: Key
    name: str
    thread: str
    order: int
    kind: str
    label: str
    location: str | None = None
    memory: str | None = None
    value: int | None = None
    passed: bool = True
    phase: int | None = None


@dataclass(frozen=True, slots=True)
class CandidateExecution:
    """Executed events and the chosen relations between them, by event key."""

    nodes: tuple[ExecutionEvent, ...]
    rf: tuple[tuple[Key, Key], ...]
    co: tuple[tuple[Key, Key], ...]
    sc: tuple[tuple[Key, Key], ...] = ()
    meets: tuple[tuple[Key, Key], ...] = ()
    sync: tuple[tuple[Key, Key], ...] = ()
    cause: tuple[tuple[Key, Key], ...] = ()
    registers: tuple[tuple[str, str, int], ...] = field(default=())

    def node(self, key: Key) -> ExecutionEvent:
        """The event of a key. Raises StopIteration where it was not executed."""
        return next(node for node in self.nodes if node.key == key)

    @property
    def fr(self) -> tuple[tuple[Key, Key], ...]:
        """From-reads: the read's source comes before the write in coherence order."""
        after = {w: [b for a, b in self.co if a == w] for w in {w for w, _ in self.rf}}
        return tuple(
            (read, later)
            for write, read in self.rf
            for later in after[write]
            if later[:3] != read[:3] or later[3] == read[3]
        )
