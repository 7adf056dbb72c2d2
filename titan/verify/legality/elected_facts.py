"""What some threads of an agent have done and the others have not taken part in.

The facts that `elected.py` carries along the text of a role, and what holds at one place of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from titan.foundation.records import dataclass
from titan.sync.expression import Expression

Conditions = frozenset[tuple[Expression, bool]]


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that some threads of an agent have done and the others have not taken part in.

    `what`: "store" or "load" of a buffer by the others; of the elected thread "copy" or "fill" of a
    buffer in flight in a queue, "read" or "filled" once it alone has waited for that, and "init" of
    a barrier, "own store" or "own load" of a buffer, "columns" allocated. "unfenced store" or
    "unfenced load" of the others becomes "left store" or "left load" where a fence of one thread
    has left it out, and "late store" or "late load" behind a fence of all, until they have met. The
    same of a tensor map and its release: "unreleased store" and "left map". `lanes`: those of one
    warp have done it (`by: warp`), who are others to one thread, and not to the warp.
    """

    what: str
    name: str
    operation: int
    queue: str = ""
    under: Conditions = frozenset()
    lanes: bool = False


@dataclass(frozen=True, slots=True)
class DataflowState:
    """What holds at one place of the text: facts, and by arrival (its `id`) what it covered."""

    facts: frozenset[Fact] = frozenset()
    arrived: tuple[tuple[int, frozenset[Fact]], ...] = ()

    def without(self, gone: Iterable[Fact]) -> DataflowState:
        """The state after the facts have ended."""
        return replace(self, facts=self.facts - frozenset(gone))

    def join(self, other: DataflowState) -> DataflowState:
        """What holds on both of two paths that join."""
        theirs = dict(other.arrived)
        both = {name: reported & theirs[name] for name, reported in self.arrived if name in theirs}
        return DataflowState(
            self.facts | other.facts, tuple(sorted(both.items(), key=lambda x: x[0]))
        )
