"""The single order of seq_cst operations under inclusive scopes (AMDGPU).

C++20 (atomics.order) asks for one strict order S of all seq_cst operations that follows program
order, happens-before between operations of their threads, and coherence: an operation that comes
before another in the coherence of a location, or a fence before it, comes before it in S. Scoped
models (Lustig et al., ASPLOS 2019, RC11 with scopes) ask this of pairs whose scopes include each
other. An atomic is one member of S, whichever of its two events is meant.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product

from pysmt.fnode import FNode
from pysmt.shortcuts import BOOL, Symbol

from titan.litmus.language.ast import Semantics
from titan.litmus.smt.event import MEMORY, EventKind, LitmusEvent
from titan.litmus.smt.model import AxiomaticModel
from titan.litmus.smt.terms import NO, YES, all_of, any_of, both, implied, negation


def single_order(model: AxiomaticModel) -> Iterator[FNode]:
    """Seq_cst operations have one order that happens-before and coherence agree to."""
    members = [event for event in model.events if event.semantics is Semantics.SC]
    if not members:
        return
    order = _Order(model, members)
    yield from order.strict()
    for first, second in permutations(members, 2):
        yield order.follows(first, second, _before(model, first, second))
    accesses = [e for e in model.graph.of_kind(*MEMORY) if e.strong]
    for a, b in permutations(accesses, 2):
        if model.same_memory(a, b):
            coherent = _coherent(model, a, b)
            for first, second in product(members, members):
                path = all_of((coherent, _at(model, first, a), _at(model, b, second)))
                yield order.follows(first, second, path)


class _Order:
    """S as variables between members; the two events of an atomic are one member."""

    def __init__(self, model: AxiomaticModel, members: list[LitmusEvent]) -> None:
        self.model = model
        self.name = {e.index: e.index for e in members} | dict(model.graph.rmw)
        self.names = sorted({self.name[e.index] for e in members})
        self.less = {
            (a, b): Symbol(f"single_{a}_{b}", BOOL) for a, b in permutations(self.names, 2)
        }

    def strict(self) -> Iterator[FNode]:
        """S is transitive and never goes both ways."""
        for a, b in permutations(self.names, 2):
            if a < b:
                yield negation(both(self.less[(a, b)], self.less[(b, a)]))
            for c in self.names:
                if c not in (a, b):
                    step = both(self.less[(a, b)], self.less[(b, c)])
                    yield implied(step, self.less[(a, c)])

    def follows(self, first: LitmusEvent, second: LitmusEvent, reason: FNode) -> FNode:
        """Where `reason` holds of two executed members that include each other, S has them so."""
        if reason.is_false() or not self.model.inclusive(first, second):
            return YES
        a, b = self.name[first.index], self.name[second.index]
        if a == b and first is not second:
            return YES  # the two halves of one atomic
        known = self.less[(a, b)] if a != b else NO
        return implied(all_of((reason, first.guard, second.guard)), known)


def _before(model: AxiomaticModel, first: LitmusEvent, second: LitmusEvent) -> FNode:
    """Program order; or happens-before from behind the first to before the second."""
    if model.graph.po(first, second):
        return YES
    return any_of(
        all_of((model.base_or_same(d, e), d.guard, e.guard))
        for d in model.events
        for e in model.events
        if model.graph.po(first, d) and model.graph.po(e, second)
    )


def _at(model: AxiomaticModel, first: LitmusEvent, second: LitmusEvent) -> FNode:
    """The same event; or happens-before, where one of them is a fence."""
    if first is second:
        return YES
    if EventKind.FENCE not in (first.kind, second.kind):
        return NO
    return model.base(first, second)


def _coherent(model: AxiomaticModel, a: LitmusEvent, b: LitmusEvent) -> FNode:
    """`a` before `b` in the coherence of their location: rf, co, fr, and rf behind the latter."""
    writes_a, writes_b = a.kind is EventKind.WRITE, b.kind is EventKind.WRITE

    def later(write: LitmusEvent) -> FNode:
        """`write` comes after `a`."""
        return model.co.get((a.index, write.index), NO) if writes_a else model.fr(a, write)

    if writes_b:
        return later(b)
    direct = model.rf.get((a.index, b.index), NO) if writes_a else NO
    through = (
        both(later(w), model.rf[(w.index, b.index)])
        for w in model.writes
        if w is not a and (w.index, b.index) in model.rf
    )
    return any_of((direct, *through))
