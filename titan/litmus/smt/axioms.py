"""The axioms of a consistent execution, and what makes a candidate one.

One small function for each axiom of the PTX memory consistency model and of the AMDGPU source
model; `dialect` says which model lacks which, `mutants` what may be dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations, permutations

from pysmt.fnode import FNode

from titan.litmus.smt.model import AxiomaticModel
from titan.litmus.smt.single_order import single_order
from titan.litmus.smt.terms import NO, all_of, any_of, both, compare, implied, negation


def coherence(model: AxiomaticModel) -> Iterator[FNode]:
    """Writes in causality order are in coherence order."""
    for (a, b), before in model.co.items():
        first, second = model.events[a], model.events[b]
        if first.thread >= 0:
            cause = model.cause(first, second)
            yield implied(all_of((cause, first.guard, second.guard)), before)


def coherence_total(model: AxiomaticModel) -> Iterator[FNode]:
    """Morally strong writes are in coherence order one way or the other."""
    for first, second in combinations(model.writes, 2):
        if model.morally_strong(first, second) and (first.index, second.index) in model.co:
            forward = model.co[(first.index, second.index)]
            backward = model.co[(second.index, first.index)]
            yield implied(both(first.guard, second.guard), any_of((forward, backward)))


def fence_sc(model: AxiomaticModel) -> Iterator[FNode]:
    """Fence-SC order is acyclic and does not contradict base causality order."""
    for (a, b), before in model.sc.items():
        yield negation(both(before, model.base(model.events[b], model.events[a])))


def atomicity(model: AxiomaticModel) -> Iterator[FNode]:
    """No morally strong write comes between the read and the write of an atomic operation."""
    for r, w in model.graph.rmw:
        read, update = model.events[r], model.events[w]
        for other in model.writes:
            between = model.co.get((other.index, w), NO)
            strong = model.morally_strong(read, other) and model.morally_strong(other, update)
            if other is not update and strong:
                yield negation(all_of((update.guard, model.fr(read, other), between)))


def no_thin_air(model: AxiomaticModel) -> Iterator[FNode]:
    """Values and dependencies do not go in circles."""
    time = model.rendezvous
    for (w, r), reads in model.rf.items():
        if model.events[w].thread >= 0:
            yield implied(reads, time.before(model.events[w], model.events[r]))
    for event in model.events:
        for source in event.depends:
            yield time.before(model.events[source], event)


def causality(model: AxiomaticModel) -> Iterator[FNode]:
    """Communication does not contradict causality order (reads-from and from-read)."""
    for (w, r), reads in model.rf.items():
        write, read = model.events[w], model.events[r]
        if write.thread >= 0:
            yield negation(both(reads, model.cause(read, write)))
            cause = model.cause(write, read)
            if not cause.is_false():
                yield negation(all_of((model.fr(read, write), cause, write.guard)))


def mbarriers_follow_causality(model: AxiomaticModel) -> Iterator[FNode]:
    """Operations on one mbarrier take effect in base causality order, completions included."""
    phase, time = model.rendezvous.phase, model.rendezvous
    for a, b in permutations(phase, 2):
        first, second = model.events[a], model.events[b]
        if model.graph.memory(first) == model.graph.memory(second):
            issue = next((i for i, arrive in model.graph.prefix if arrive == b), None)
            point = second if issue is None else model.events[issue]
            before = any_of((model.base(first, second), model.base_or_same(first, point)))
            executed = both(first.guard, second.guard)
            yield implied(both(executed, before), time.before(first, second))


AXIOMS: dict[str, Callable[[AxiomaticModel], Iterator[FNode]]] = {
    "coherence": coherence,
    "coherence_total": coherence_total,
    "fence_sc": fence_sc,
    "atomicity": atomicity,
    "no_thin_air": no_thin_air,
    "causality": causality,
    "mbarriers_follow_causality": mbarriers_follow_causality,
    "single_order": single_order,
}


def well_formed(model: AxiomaticModel) -> Iterator[FNode]:
    """What makes a candidate execution: sources, values, strict orders."""
    for read in model.reads:
        choices = [(model.events[w], f) for (w, r), f in model.rf.items() if r == read.index]
        yield implied(read.guard, any_of(f for _, f in choices))
        for (_, left), (_, right) in combinations(choices, 2):
            yield negation(both(left, right))
        for write, reads in choices:
            assert write.value is not None and read.value is not None
            same = compare(read.value, "==", write.value)
            yield implied(reads, all_of((write.guard, read.guard, same)))
    for (a, b), before in model.co.items():
        if model.events[a].thread < 0:
            continue
        yield implied(before, both(model.events[a].guard, model.events[b].guard))
        if a < b:
            yield negation(both(before, model.co[(b, a)]))
        for c in (c for x, c in model.co if x == b and c != a):
            yield implied(both(before, model.co[(b, c)]), model.co[(a, c)])
    for (a, b), before in model.sc.items():
        if a < b:
            first, second = model.events[a], model.events[b]
            yield negation(both(before, model.sc[(b, a)]))
            executed = both(first.guard, second.guard)
            yield implied(executed, any_of((before, model.sc[(b, a)])))


def consistent(model: AxiomaticModel) -> list[FNode]:
    """All constraints of a consistent execution under the model's reading."""
    found = [*well_formed(model)]
    for name, axiom in AXIOMS.items():
        if model.on(name):
            found += axiom(model)
    found += model.rendezvous.constraints + model.constraints
    found += [negation(guard) for guard in (*model.graph.polling, *model.graph.cut)]
    return [part for part in found if not part.is_true()]
