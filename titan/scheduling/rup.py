"""Checks that clauses have no solution, from a list of lemmas, by unit propagation alone.

Trusted; plain code. A clause is a lemma of a formula by reverse unit propagation (RUP) when
assuming that all its literals are false and propagating unit clauses ends in a contradiction: then
every solution of the formula satisfies it too. Lemmas are checked in order, each with those before
it, and the empty clause at the end. Solvers write such lists: the additions of a DRAT proof that
uses no extension. Deletions only save time; they are left out, which keeps what follows true.

Literals are positive and negative numbers of variables from 1 on.
"""

from __future__ import annotations

from collections.abc import Sequence

from titan.foundation.errors import Refusal
from titan.foundation.verdict import Reason


class Late(Refusal):
    """The check took more than permitted; nothing is decided."""

    reason = Reason.STEPS


class Propagator:
    """Clauses with two watched literals each, and what follows from the unit ones."""

    def __init__(self, variables: int) -> None:
        self.variables = variables
        self.value = [0] * (2 * variables + 1)  # by literal, negative ones from the end
        self.watching: dict[int, list[list[int]]] = {}
        self.trail: list[int] = []
        self.done = 0
        self.visits = 0  # clauses that were examined
        self.contradiction = False

    def add(self, clause: Sequence[int]) -> None:
        """Add a clause for good. Raises ValueError for a literal that is not a variable's."""
        value = self.value
        literals = sorted(set(clause))
        if literals and (literals[0] < -self.variables or literals[-1] > self.variables):
            raise ValueError("a literal of a variable that the formula lacks")
        if 0 in literals:
            raise ValueError("0 is not a literal")
        open_ones = [x for x in literals if value[x] >= 0]
        if any(value[x] > 0 for x in open_ones):
            return  # holds already, and for good: nothing is retracted below this level
        if not open_ones:
            self.contradiction = True
        elif len(open_ones) == 1:
            self.assume(open_ones[0])
        else:
            for watched in open_ones[:2]:
                self.watching.setdefault(watched, []).append(open_ones)

    def assume(self, literal: int) -> None:
        """Set a literal; what follows is found by `propagate`."""
        self.value[literal] = 1
        self.value[-literal] = -1
        self.trail.append(literal)

    def propagate(self) -> bool:
        """Follow all unit clauses; True when a clause has become false."""
        value, watching, trail = self.value, self.watching, self.trail
        while self.done < len(trail):
            false = -trail[self.done]
            self.done += 1
            watchers = watching.get(false)
            if not watchers:
                continue
            self.visits += len(watchers)
            kept: list[list[int]] = []
            for i, clause in enumerate(watchers):
                other = clause[1] if clause[0] == false else clause[0]
                if value[other] > 0:
                    kept.append(clause)
                    continue
                for k in range(2, len(clause)):
                    if value[clause[k]] >= 0:
                        clause[0], clause[1], clause[k] = other, clause[k], false
                        watching.setdefault(clause[1], []).append(clause)
                        break
                else:
                    kept.append(clause)
                    if value[other] < 0:
                        watching[false] = kept + watchers[i + 1 :]
                        return True
                    self.assume(other)
            watching[false] = kept
        return False

    def settle(self) -> bool:
        """Propagate for good; True when the clauses contradict each other."""
        self.contradiction = self.contradiction or self.propagate()
        return self.contradiction

    def follows(self, lemma: Sequence[int]) -> bool:
        """Does assuming the opposite of `lemma` contradict? Leaves everything as it was."""
        mark = len(self.trail)
        found = False
        for literal in lemma:
            if self.value[literal] > 0:
                found = True
                break
            if self.value[literal] == 0:
                self.assume(-literal)
        found = found or self.propagate()
        for literal in self.trail[mark:]:
            self.value[literal] = self.value[-literal] = 0
        del self.trail[mark:]
        self.done = mark
        return found


def refutes(
    variables: int,
    clauses: Sequence[Sequence[int]],
    lemmas: Sequence[Sequence[int]],
    visits_max: int | None = None,
) -> bool:
    """Do the clauses have no solution, as the lemmas show? Raises Late, and ValueError.

    False says only that these lemmas do not show it.
    """
    state = Propagator(variables)
    for clause in clauses:
        state.add(clause)
    if state.settle():
        return True
    for lemma in lemmas:
        if any(not -variables <= x <= variables for x in lemma):
            raise ValueError("a literal of a variable that the formula lacks")
        if visits_max is not None and state.visits > visits_max:
            raise Late
        if not state.follows(lemma):
            return False
        state.add(lemma)
        if state.settle():
            return True
    return False
