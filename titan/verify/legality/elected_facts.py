"""What some threads of an agent have done and the others have not taken part in.

The facts that `elected.py` carries along the text of a role, and what holds at one place of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from titan.foundation.records import dataclass
from titan.sync.expression import Expression, evaluate, names_of
from titan.sync.program import Branch, Loop, Role, walk

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

    def forgetting(self, changed: frozenset[str]) -> DataflowState:
        """The names have new values: conditions on them say nothing of what was done before."""

        def forgotten(facts: frozenset[Fact]) -> frozenset[Fact]:
            return frozenset(replace(fact, under=kept(fact.under, changed)) for fact in facts)

        arrived = tuple((name, forgotten(reported)) for name, reported in self.arrived)
        return DataflowState(forgotten(self.facts), arrived)

    def join(self, other: DataflowState) -> DataflowState:
        """What holds on both of two paths that join."""
        theirs = dict(other.arrived)
        both = {name: reported & theirs[name] for name, reported in self.arrived if name in theirs}
        return DataflowState(
            self.facts | other.facts, tuple(sorted(both.items(), key=lambda x: x[0]))
        )


def kept(under: Conditions, changed: frozenset[str]) -> Conditions:
    """The conditions on nothing that has changed."""
    return frozenset(item for item in under if not changed & names_of(item[0]))


def either(
    condition: Expression, then: DataflowState, otherwise: DataflowState, changed: frozenset[str]
) -> DataflowState:
    """Behind a branch: what only one arm leaves was left under its condition.

    `changed`: the names to which an arm gives another value.
    """

    def only(one: DataflowState, other: DataflowState, truth: bool) -> set[Fact]:
        taken = kept(frozenset({(condition, truth)}), changed)
        return {
            fact if fact in other.facts else replace(fact, under=fact.under | taken)
            for fact in one.facts
        }

    facts = only(then, otherwise, True) | only(otherwise, then, False)
    return replace(then.join(otherwise), facts=frozenset(facts))


def value_for(role: Role, number: int, expression: Expression) -> int | None:
    """What the expression is for an agent of the role, where its number alone decides that."""
    if not names_of(expression) <= {role.agent_constant}:
        return None
    try:
        return evaluate(expression, {role.agent_constant: number})
    except ZeroDivisionError:
        return None


def ways_of(role: Role) -> list[int]:
    """One agent of the role for each way through its text that their numbers decide."""
    asked: list[Expression] = []
    for item in walk(role.body):
        match item:
            case Branch(condition=condition):
                asked.append(condition)
            case Loop(start=start, stop=stop):
                asked += [start, stop]
    ways: dict[tuple[int | None, ...], int] = {}
    for number in range(role.agents):
        ways.setdefault(tuple(value_for(role, number, one) for one in asked), number)
    return list(ways.values())
