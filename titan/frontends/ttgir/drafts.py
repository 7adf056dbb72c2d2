"""A function of TTGIR as roles that are still being written, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, field

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.source.span import Span
from titan.frontends.ttgir.effects import Made
from titan.frontends.ttgir.places import DraftPlace
from titan.frontends.ttgir.values import Root
from titan.sync.expression import ONE, Constant, Expression

MAIN = "default"  # the role of the function itself


@dataclass(slots=True)
class Names:
    """Names of the program for values of the text, each given once."""

    given: dict[str, int] = field(default_factory=dict)

    def fresh(self, name: str) -> str:
        """A name that no other value of the program has."""
        plain = "".join(c if c.isalnum() else "_" for c in name.strip("%").partition("#")[0])
        plain = plain if plain[:1].isalpha() else f"v{plain}"
        self.given[plain] = count = self.given.get(plain, 0) + 1
        return plain if count == 1 else f"{plain}_{count}"


@dataclass(slots=True)
class RoleDraft:
    """A role as it is written: its operations, and first values of its counters; `begun` are
    those that begin with 1 in every round of what is around their loop."""

    name: str
    threads: int
    variables: dict[str, int] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)
    body: Made = field(default_factory=list)

    def begin(self, name: str, first: Expression) -> None:
        """One more counter."""
        self.variables[name] = first.value if isinstance(first, Constant) else 0
        if first == ONE:
            self.begun.add(name)


@dataclass(slots=True)
class FunctionDraft:
    """A function for some threads: roles, allocations, named barriers.

    `arguments` are names of sizes; those of equal places in two drafts are equal. `sums`: products
    that add to what is there, each time or (False) at least at first. `decided`: the sizes among
    `arguments` that are in the place of a condition, with the branch on it; `loaded`: those that
    memory holds, with the load.
    """

    place: DraftPlace
    roles: list[RoleDraft] = field(default_factory=list)
    roots: list[Root] = field(default_factory=list)
    meetings: list[str] = field(default_factory=list)
    arguments: set[str] = field(default_factory=set)
    sums: dict[Span, bool] = field(default_factory=dict)
    decided: dict[str, Span] = field(default_factory=dict)
    loaded: dict[str, Span] = field(default_factory=dict)
    faults: list[Diagnostic] = field(default_factory=list)
