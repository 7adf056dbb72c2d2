"""Finds refutations that plain code can check: the clauses of `refutation.py`, a solver's lemmas.

Untrusted. Needs python-sat, whose solvers write down what they learn. Limits of registers, memories
and waiting pairs are added where a solution breaks them, as in the joint search; what was added is
part of the refutation.
"""

from __future__ import annotations

from collections.abc import Callable

from titan.scheduling.cnf import counted
from titan.scheduling.joint import broken_pairs
from titan.scheduling.loop.model import Loop
from titan.scheduling.model import Schedule
from titan.scheduling.refutation import (
    REGISTERS,
    Contradiction,
    Cover,
    Formula,
    Literal,
    Refutation,
    Unbounded,
    check_refutation,
)
from titan.scheduling.rup import Late
from titan.scheduling.storage import Excess, excesses
from titan.scheduling.work import CLAUSE, VISITS, SearchWork

ENGINE = "glucose4"
LEMMAS_MAX = 50_000
LITERALS_MAX = 120_000
ROUNDS_MAX = 2_000


def prove(loop: Loop, ii: int, work: SearchWork | None = None) -> Refutation | None:
    """A refutation of `ii` that has been checked, or None: the work did not do."""
    work = work or SearchWork(60.0)
    try:
        found = _search(loop, ii, work)
        if found is None or check_refutation(loop, found, work.left * VISITS) is not None:
            return None
    except (Unbounded, Late):
        return None
    return found


def prove_below(loop: Loop, lower: int, ii: int, seconds: float) -> tuple[Refutation, ...] | None:
    """Refutations of every interval from `lower` to `ii` - 1, or None where one is missing."""
    work = SearchWork(seconds)
    found = []
    for smaller in range(lower, ii):
        refutation = prove(loop, smaller, work)
        if refutation is None:
            return None
        found.append(refutation)
    return tuple(found)


def _search(loop: Loop, ii: int, work: SearchWork) -> Refutation | None:
    try:
        from pysat.solvers import Solver
    except ImportError:
        return None
    covers: dict[Cover, None] = {}
    pairs: dict[tuple[int, int], None] = {}
    try:
        formula = Formula(loop, ii)
        with Solver(name=ENGINE) as solver:
            given = 0
            for _ in range(ROUNDS_MAX):
                for clause in formula.clauses[given:]:
                    solver.add_clause(clause)
                work.spend(CLAUSE * (len(formula.clauses) - given))
                given = len(formula.clauses)
                answer = counted(solver, work, ())
                if answer is None:
                    return None
                if not answer:
                    break
                starts, teams = decode(formula, set(solver.get_model() or ()).__contains__)
                if not _add(loop, ii, formula, starts, teams, covers, pairs):
                    return None  # a schedule
            else:
                return None
    except Contradiction:
        return Refutation(ii, tuple(covers), tuple(pairs))
    lemmas = _lemmas(_ordered(loop, ii, covers, pairs), work)
    return None if lemmas is None else Refutation(ii, tuple(covers), tuple(pairs), lemmas)


def _ordered(
    loop: Loop, ii: int, covers: dict[Cover, None], pairs: dict[tuple[int, int], None]
) -> Formula:
    """The formula as the checker makes it: numbers of variables depend on the order of parts."""
    formula = Formula(loop, ii)
    for v, o in pairs:
        formula.apart(v, o)
    for cover in covers:
        formula.cover(cover)
    return formula


def _lemmas(formula: Formula, work: SearchWork) -> tuple[tuple[int, ...], ...] | None:
    """What a fresh solver learns on the way to the contradiction, without what it deletes."""
    from pysat.solvers import Solver

    with Solver(name=ENGINE, with_proof=True) as solver:
        for clause in formula.clauses:
            solver.add_clause(clause)
        work.spend(CLAUSE * len(formula.clauses))
        answer = counted(solver, work, ())
        if answer is not False:
            return None
        lines = solver.get_proof() or []
    kept = [line.split() for line in lines if not line.startswith("d")]
    if len(kept) > LEMMAS_MAX or sum(len(words) for words in kept) > LITERALS_MAX:
        return None
    return tuple(tuple(int(x) for x in words if x != "0") for words in kept)


def _add(
    loop: Loop,
    ii: int,
    formula: Formula,
    starts: tuple[int, ...],
    teams: tuple[int, ...],
    covers: dict[Cover, None],
    pairs: dict[tuple[int, int], None],
) -> bool:
    """Add what the solution breaks; was there anything?"""
    new = False
    for excess in excesses(loop, ii, starts, teams):
        cover = as_cover(excess)
        if cover not in covers:
            covers[cover] = None
            formula.cover(cover)
            new = True
    for pair in broken_pairs(loop, Schedule(ii, starts, teams)):
        if pair not in pairs:
            pairs[pair] = None
            formula.apart(*pair)
            new = True
    return new


def as_cover(excess: Excess) -> Cover:
    """The excess of a solution as a cover of a refutation."""
    what = REGISTERS if excess.team is not None else excess.what
    return Cover(what, tuple(sorted(excess.cover)))


def decode(
    formula: Formula, value: Callable[[int], bool]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Issue cycles and groups of a solution."""

    def holds(literal: Literal) -> bool:
        return literal if isinstance(literal, bool) else value(literal)

    starts = tuple(
        next(t for t in range(low, high + 1) if holds(formula.by(v, t)))
        for v, (low, high) in enumerate(zip(formula.low, formula.high, strict=True))
    )
    teams = tuple(next(g for g, x in enumerate(row) if holds(x)) for row in formula.on)
    return starts, teams
