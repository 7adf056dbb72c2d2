"""A rule: one small function, the code that it reports, and the facts that it rests on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.records import dataclass
from titan.verify.legality.case import Case

Check = Callable[[Case], Iterator[Diagnostic]]


@dataclass(frozen=True, slots=True)
class Rule:
    """`facts` are names of limits, whose sources are the rule's."""

    code: str
    name: str
    facts: tuple[str, ...]
    check: Check


RULES: list[Rule] = []


def rule(code: str, *facts: str) -> Callable[[Check], Check]:
    """Registers a function as a rule; its name is the rule's."""

    def register(check: Check) -> Check:
        RULES.append(Rule(code, check.__name__, facts, check))
        return check

    return register
