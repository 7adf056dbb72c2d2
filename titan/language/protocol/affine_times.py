"""Whether affine times grow along every dependence: judged by rational arithmetic, no solver.

What `ranking.py` finds is a time for each statement, and for each dependence nonnegative
multipliers of its conditions (Farkas' lemma): time of the target less time of the source less 1
must be, number by number, the sum of the conditions taken so often, and a nonnegative rest. Where
that holds, the times grow by at least 1 wherever the conditions hold: no circle of waits exists.

Shares with the search what defines the problem: the dependences, and conditions as inequalities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction

from titan.foundation.errors import TitanError
from titan.foundation.records import dataclass
from titan.language.protocol.dependences import Linear, Polyhedron, WaitEdge, WaitNode
from titan.sync.expression import Expression, to_text

Coefficients = Mapping[str, Fraction]


class TimesDoNotGrow(TitanError):
    """The solver's answer is wrong: an internal error."""


@dataclass(frozen=True, slots=True)
class AffineTimes:
    """Of each node the coefficients of its time by variable, those of the constant under "".

    Of each dependence the multipliers of its conditions in order, and the rest.
    """

    times: tuple[Coefficients, ...]
    multipliers: tuple[tuple[Fraction, ...], ...]


_archive: ContextVar[list[str] | None] = ContextVar("times", default=None)


@contextmanager
def archived_times() -> Iterator[list[str]]:
    """Collects the times that are found inside, as text."""
    archived: list[str] = []
    token = _archive.set(archived)
    try:
        yield archived
    finally:
        _archive.reset(token)


def refuse_unless_growing(
    nodes: Sequence[WaitNode],
    edges: Sequence[WaitEdge],
    sizes: Sequence[Expression],
    found: AffineTimes,
) -> None:
    """Raises TimesDoNotGrow for the first dependence along which the times need not grow."""
    if len(found.multipliers) != len(edges) or len(found.times) != len(nodes):
        raise TimesDoNotGrow("there are other dependences")
    for number, edge in enumerate(edges):
        rows = Polyhedron((*edge.conditions, *sizes)).rows
        if not _grows(nodes, edge, rows, found, found.multipliers[number]):
            raise TimesDoNotGrow(f"the times need not grow along dependence {number}")
    kept = _archive.get()
    if kept is not None:
        kept.append(as_text(nodes, edges, found))


def _grows(
    nodes: Sequence[WaitNode],
    edge: WaitEdge,
    rows: Sequence[Linear],
    found: AffineTimes,
    multipliers: Sequence[Fraction],
) -> bool:
    if len(multipliers) != len(rows) + 1 or min(multipliers) < 0:
        return False
    total: dict[str, Fraction] = {"": -1 - multipliers[-1]}

    def add(name: str, amount: Fraction) -> None:
        total[name] = total.get(name, Fraction(0)) + amount

    own = {loop.name for loop in nodes[edge.target].execution.family.loops}
    for name, value in found.times[edge.target].items():
        add(f"{name}'" if name in own else name, value)
    for name, value in found.times[edge.source].items():
        add(name, -value)
    for multiplier, (factors, constant) in zip(multipliers, rows, strict=False):
        add("", -multiplier * constant)
        for name, factor in factors.items():
            add(name, -multiplier * factor)
    return not any(total.values())


def as_text(nodes: Sequence[WaitNode], edges: Sequence[WaitEdge], found: AffineTimes) -> str:
    """A line a statement, its time; then a line a dependence, its multipliers."""
    lines = []
    for number, (node, time) in enumerate(zip(nodes, found.times, strict=True)):
        kind = type(node.execution.family.statement).__name__.lower()
        terms = [f"{value}*{name}" if name else f"{value}" for name, value in time.items() if value]
        where = f"{kind} {node.ring}[{to_text(node.index)}]"
        lines.append(f"time {number} {where}: {' + '.join(terms) or '0'}")
    for edge, multipliers in zip(edges, found.multipliers, strict=True):
        numbers = " ".join(map(str, multipliers))
        lines.append(f"grows {edge.source} {edge.target}: {numbers}")
    return "\n".join([*lines, ""])
