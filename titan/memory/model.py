"""The axioms: one small function per rule of the PTX memory consistency model with proxies.

Every relation that is a least fixpoint (observation, base causality) is used only where more
pairs mean fewer executions. It is therefore enough to assert that a relation is closed: the solver
may pick the least closed one, and any larger choice only loses executions. The search is exact, and
every witness is evaluated again by `explicit` with the fixpoints themselves.

`mutants` lists what may be dropped or weakened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from itertools import combinations, permutations

from pysmt.fnode import FNode
from pysmt.shortcuts import BOOL, Symbol

from titan.memory.ast import MatrixRead, Proxy, Scope, Semantics, Space
from titan.memory.events import MBARRIER_USE, MEMORY, Event, EventGraph, Kind
from titan.memory.mutants import MUTANTS
from titan.memory.options import FenceRule, InitRule, ModelOptions, WarPolicy
from titan.memory.proxies import ProxyRules
from titan.memory.rendezvous import Rendezvous
from titan.memory.terms import NO, YES, all_of, any_of, both, compare, implied, negation


class Model:
    """One test under one reading: relations as formulas, and the constraints that define them."""

    def __init__(self, graph: EventGraph, options: ModelOptions) -> None:
        unknown = options.mutations - MUTANTS.keys()
        if unknown:
            raise ValueError(f"no mutants {sorted(unknown)}")
        self.graph = graph
        self.options = options
        self.events = graph.events
        self.constraints: list[FNode] = []
        self.rendezvous = Rendezvous(graph, options.mutations)
        self.reads = graph.of_kind(Kind.READ)
        self.writes = graph.of_kind(Kind.WRITE)
        self._observed: dict[tuple[int, int], FNode] | None = None
        self._base: dict[tuple[int, int], FNode] = {}
        self._cause: dict[tuple[int, int], FNode] = {}
        self.rf = {
            (w.index, r.index): self._var("rf", w, r)
            for r in self.reads
            for w in self.writes
            if self.same_memory(w, r)
        }
        self.co = self._coherence_variables()
        self.sc = {
            (a.index, b.index): self._var("sc", a, b)
            for a, b in permutations(self._sc_fences(), 2)
            if self.morally_strong(a, b)
        }
        self.proxies = ProxyRules(self)

    def on(self, rule: str) -> bool:
        """Whether a rule is in force (a mutant drops it)."""
        return rule not in self.options.mutations

    def weakened(self, name: str) -> bool:
        return name in self.options.mutations

    @staticmethod
    def _var(name: str, first: Event, second: Event) -> FNode:
        return Symbol(f"{name}_{first.index}_{second.index}", BOOL)

    def same_memory(self, first: Event, second: Event) -> bool:
        return self.graph.memory(first) == self.graph.memory(second)

    def same_address(self, first: Event, second: Event) -> bool:
        return self.graph.address(first) == self.graph.address(second)

    def _sc_fences(self) -> list[Event]:
        return [e for e in self.graph.of_kind(Kind.FENCE) if e.semantics is Semantics.SC]

    def _coherence_variables(self) -> dict[tuple[int, int], FNode]:
        found = {}
        for first, second in permutations(self.writes, 2):
            if self.same_memory(first, second) and second.thread >= 0:
                initial = first.thread < 0
                found[(first.index, second.index)] = (
                    second.guard if initial else self._var("co", first, second)
                )
        return found

    def fr(self, read: Event, write: Event) -> FNode:
        """From-read: the read's source is earlier in coherence order than `write`."""
        return any_of(
            both(self.rf[(w.index, read.index)], self.co.get((w.index, write.index), NO))
            for w in self.writes
            if (w.index, read.index) in self.rf and w is not write
        )

    # Morally strong (PTX, Morally strong operations) ------------------------------------------

    def morally_strong(self, first: Event, second: Event) -> bool:
        if first is second or first.proxy is not second.proxy:
            return False
        if first.kind in MEMORY and second.kind in MEMORY and not self.same_address(first, second):
            return False
        if self.graph.po(first, second) or self.graph.po(second, first):
            return True
        return first.strong and second.strong and self._scopes_include(first, second)

    def _scopes_include(self, first: Event, second: Event) -> bool:
        if self.weakened("scopes_always_include"):
            return True
        assert first.scope is not None and second.scope is not None
        forward = first.placement.shares(first.scope, second.placement)
        backward = second.placement.shares(second.scope, first.placement)
        if self.weakened("one_scope_suffices"):
            return forward or backward
        return forward and backward

    # Observation order (PTX, Observation Order) -----------------------------------------------

    @property
    def observed(self) -> dict[tuple[int, int], FNode]:
        if self._observed is None:
            self._observed = self._observation()
        return self._observed

    def _observation(self) -> dict[tuple[int, int], FNode]:
        base = {
            (w, r): formula
            for (w, r), formula in self.rf.items()
            if self.morally_strong(self.events[w], self.events[r])
        }
        links = self.graph.rmw if self.on("observation_rmw") else []
        if not any((w, r) in base for r, _ in links for w, _ in base):
            return base
        found = {
            pair: self._var("obs", self.events[pair[0]], self.events[pair[1]])
            for pair in self._observation_pairs(base, links)
        }
        for pair, formula in base.items():
            self.constraints.append(implied(formula, found[pair]))
        for (w, r), (middle, update) in ((p, link) for p in found for link in links):
            if (w, middle) in found and (update, r) in base:
                step = all_of((found[(w, middle)], base[(update, r)], self.events[update].guard))
                self.constraints.append(implied(step, found[(w, r)]))
        return found

    @staticmethod
    def _observation_pairs(
        base: dict[tuple[int, int], FNode], links: list[tuple[int, int]]
    ) -> set[tuple[int, int]]:
        pairs = set(base)
        grown = True
        while grown:
            more = {
                (w, r)
                for w, m in pairs
                for middle, update in links
                if middle == m
                for u, r in base
                if u == update
            }
            grown = not more <= pairs
            pairs |= more
        return pairs

    # Release and acquire patterns -------------------------------------------------------------

    def _generic_strong(self, kind: Kind) -> list[Event]:
        return [e for e in self.graph.of_kind(kind) if e.strong and e.proxy is Proxy.GENERIC]

    def release_patterns(self) -> Iterator[tuple[Event, Event]]:
        """Pairs (first operation, strong write) of the three release patterns."""
        for write in self._generic_strong(Kind.WRITE):
            if write.semantics.releases and self.on("release_operation"):
                yield write, write
            for first in self.events:
                if not self.graph.po(first, write):
                    continue
                if first.kind is Kind.FENCE and first.semantics.releases:
                    if self.on("release_fence_pattern"):
                        yield first, write
                elif (
                    first.kind is Kind.WRITE
                    and first.strong
                    and first.semantics.releases
                    and self.same_address(first, write)
                    and self.on("release_then_write")
                ):
                    yield first, write

    def acquire_patterns(self) -> Iterator[tuple[Event, Event]]:
        """Pairs (strong read, last operation); a reduction's read forms none."""
        for read in self._generic_strong(Kind.READ):
            if read.reduction and not self.weakened("reductions_acquire"):
                continue
            if read.semantics.acquires and self.on("acquire_operation"):
                yield read, read
            for last in self.events:
                if not self.graph.po(read, last):
                    continue
                if last.kind is Kind.FENCE and last.semantics.acquires:
                    if self.on("acquire_fence_pattern"):
                        yield read, last
                elif (
                    last.kind is Kind.READ
                    and last.strong
                    and last.semantics.acquires
                    and self.same_address(read, last)
                    and self.on("read_then_acquire")
                ):
                    yield read, last

    # Synchronizes-with ------------------------------------------------------------------------

    def sync_patterns(self) -> Iterator[tuple[Event, Event, FNode]]:
        """A release pattern synchronizes with an acquire pattern that observes its write."""
        acquires = list(self.acquire_patterns())
        for first, write in self.release_patterns():
            for read, last in acquires:
                seen = self.observed.get((write.index, read.index), NO)
                across = first.thread != last.thread and not seen.is_false()
                if across and self.morally_strong(first, last):
                    yield first, last, all_of((seen, first.guard, last.guard))

    def sync_fence_sc(self) -> Iterator[tuple[Event, Event, FNode]]:
        """Morally strong `fence.sc` operations synchronize in Fence-SC order."""
        for (a, b), before in self.sc.items():
            first, second = self.events[a], self.events[b]
            yield first, second, all_of((before, first.guard, second.guard))

    def sync_barriers(self) -> Iterator[tuple[Event, Event, FNode]]:
        """`bar.sync` and `bar.arrive` synchronize with `bar.sync` on the same barrier."""
        for (a, b), meets in self.rendezvous.meets.items():
            if self.events[b].kind is Kind.BARRIER:
                yield self.events[a], self.events[b], meets

    def sync_cluster_barriers(self) -> Iterator[tuple[Event, Event, FNode]]:
        """A releasing `barrier.cluster.arrive`, or a fence before it, synchronizes with a wait."""
        for (a, b), meets in self.rendezvous.meets.items():
            if self.events[b].kind is Kind.CLUSTER_WAIT:
                for first in self._releasers(self.events[a]):
                    if self.morally_strong(first, self.events[b]):
                        yield first, self.events[b], both(meets, first.guard)

    def sync_mbarriers(self) -> Iterator[tuple[Event, Event, FNode]]:
        """Every releasing arrival of a completed phase synchronizes with an acquiring wait."""
        for (a, b), meets in self.rendezvous.meets.items():
            if self.events[b].kind is not Kind.WAIT or self.events[a].kind is not Kind.ARRIVE:
                continue
            for first in self._releasers(self.events[a]):
                for last in self._acquirers(self.events[b]):
                    if self._reaches(first, last):
                        yield first, last, all_of((meets, first.guard, last.guard))

    def _reaches(self, first: Event, last: Event) -> bool:
        return first.strong and last.strong and self._scopes_include(first, last)

    def _releasers(self, arrive: Event) -> Iterator[Event]:
        if arrive.semantics.releases:
            yield arrive
        for fence in self.graph.of_kind(Kind.FENCE):
            earlier = fence.semantics.releases and self.graph.po(fence, arrive)
            if earlier and self.on("release_fence_before_arrival"):
                yield fence
        if self.weakened("init_fence_covers_data"):
            yield from (f for f in self._init_fences() if self.graph.po(f, arrive))

    def _init_fences(self) -> Iterator[Event]:
        """Initialisation fences made to look like releases, for the mutant of that name."""
        for fence in self.graph.of_kind(Kind.INIT_FENCE):
            yield replace(fence, semantics=Semantics.RELEASE, scope=Scope.CLUSTER)

    def _acquirers(self, wait: Event) -> Iterator[Event]:
        if wait.semantics.acquires:
            yield wait
        for fence in self.graph.of_kind(Kind.FENCE):
            later = fence.semantics.acquires and self.graph.po(wait, fence)
            if later and self.on("acquire_fence_after_wait"):
                yield fence

    # Base causality order ---------------------------------------------------------------------

    @cached_property
    def _reach(self) -> dict[tuple[int, int], FNode]:
        """From sources of synchronizes-with edges to targets: the closure over program order."""
        edges: dict[tuple[int, int], list[FNode]] = {}
        for rule, function in SYNCHRONISATIONS.items():
            if self.on(rule):
                for first, last, formula in function(self):
                    edges.setdefault((first.index, last.index), []).append(formula)
        if self.weakened("completion_carries_issuer"):
            for issue, arrive in self.graph.prefix:
                edges.setdefault((issue, arrive), []).append(self.events[arrive].guard)
        joined = {pair: any_of(parts) for pair, parts in edges.items()}
        pairs = set(joined)
        grown = True
        while grown:
            more = {(a, d) for a, b in pairs for c, d in joined if self._po_or_same(b, c)}
            grown = not more <= pairs
            pairs |= more
        if len(pairs) == len(joined) and not any(
            self._po_or_same(b, c) for _, b in pairs for c, _ in joined
        ):
            return joined
        found = {(a, b): Symbol(f"reach_{a}_{b}", BOOL) for a, b in pairs}
        for pair, formula in joined.items():
            self.constraints.append(implied(formula, found[pair]))
        for a, b in pairs:
            for (c, d), formula in joined.items():
                if self._po_or_same(b, c):
                    self.constraints.append(implied(both(found[(a, b)], formula), found[(a, d)]))
        return found

    def _po_or_same(self, first: int, second: int) -> bool:
        return first == second or self.graph.po(self.events[first], self.events[second])

    def base(self, first: Event, second: Event) -> FNode:
        """Base causality order between events that are no parts of asynchronous operations."""
        key = (first.index, second.index)
        if key not in self._base:
            if self.graph.po(first, second):
                self._base[key] = YES
            else:
                self._base[key] = any_of(
                    formula
                    for (a, b), formula in self._reach.items()
                    if self._po_or_same(first.index, a) and self._po_or_same(b, second.index)
                )
        return self._base[key]

    def base_or_same(self, first: Event, second: Event) -> FNode:
        return YES if first is second else self.base(first, second)

    def after(self, event: Event, point: Event) -> FNode:
        """`event` precedes the plain event `point`; an asynchronous part only by completing."""
        if not event.asynchronous:
            return self.base(event, point)
        return any_of(both(e.guard, self.base_or_same(e, point)) for e in self._completions(event))

    def _completions(self, event: Event) -> list[Event]:
        """Where an asynchronous access is complete."""
        found = [self.events[number] for number in event.exits]
        if self.weakened("read_wait_covers_writes"):
            found += [e for e in self.graph.of_kind(Kind.GROUP_WAIT) if e.thread == event.thread]
        matrix = isinstance(event.instruction, MatrixRead)
        if self.weakened("wgmma_waits_for_nothing") and matrix and event.entry is not None:
            found.append(self.events[event.entry])
        return found

    def until(self, point: Event, event: Event) -> FNode:
        """The plain event `point` precedes `event`; an asynchronous part starts at its issue."""
        if event.entry is None:
            return self.base(point, event)
        return self.base_or_same(point, self.events[event.entry])

    def ordered(self, first: Event, second: Event) -> FNode:
        """Base causality order between any two events."""
        if second.entry is None:
            return self.after(first, second)
        if first.entry == second.entry and first.asynchronous:
            return YES if first.index < second.index and first.kind is Kind.READ else NO
        issue = self.events[second.entry]
        return self.after(first, issue)

    # Causality order --------------------------------------------------------------------------

    def preserved(self, first: Event, second: Event) -> FNode:
        """Proxy-preserved base causality order between two accesses of the same memory."""
        return self.proxies.preserved(first, second)

    def cause(self, first: Event, second: Event) -> FNode:
        key = (first.index, second.index)
        if key not in self._cause:
            parts = [self.preserved(first, second)] if self.same_memory(first, second) else []
            if self.on("causality_through_observation"):
                for (w, r), seen in self.observed.items():
                    read = self.events[r]
                    starts = w == first.index and r != second.index
                    if starts and self.same_memory(read, second):
                        parts.append(both(seen, self.preserved(read, second)))
            self._cause[key] = any_of(parts)
        return self._cause[key]

    # Reports that are no axioms ---------------------------------------------------------------

    def initialised(self, first: Event, use: Event) -> FNode:
        """An mbarrier use sees the initialisation `first`."""
        issue = next((i for i, a in self.graph.prefix if a == use.index), None)
        point = use if issue is None else self.events[issue]
        parts = [self.base(first, point)]
        remote = issue is not None or use.placement != first.placement
        if self.options.init is InitRule.FENCE and remote:
            fences = self.graph.of_kind(Kind.INIT_FENCE, Kind.PROXY_FENCE)
            parts = [
                self.base(f, point)
                for f in fences
                if self.graph.po(first, f) and f.proxy in (Proxy.GENERIC, Proxy.ASYNC)
            ]
        if self.on("mbarrier_init_fence"):
            parts += list(self._init_fence_paths(first, point))
        return both(first.guard, any_of(parts))

    def _init_fence_paths(self, first: Event, point: Event) -> Iterator[FNode]:
        """`fence.mbarrier_init` makes even a relaxed cluster arrive publish initialisations."""
        for (a, b), meets in self.rendezvous.meets.items():
            arrive, wait = self.events[a], self.events[b]
            if wait.kind is Kind.CLUSTER_WAIT and any(
                self.graph.po(first, f) and self.graph.po(f, arrive)
                for f in self.graph.of_kind(Kind.INIT_FENCE)
            ):
                yield both(meets, self.base_or_same(wait, point))

    def undefined(self, location: str) -> FNode:
        """Some executed use of the mbarrier does not see its initialisation."""
        name = self.graph.test.memory(location)
        if self.graph.test.location(name).count:
            return NO
        inits = [e for e in self.graph.of_kind(Kind.MBARRIER_INIT) if self.graph.memory(e) == name]
        return any_of(
            both(use.guard, negation(any_of(self.initialised(i, use) for i in inits)))
            for use in self.graph.of_kind(*MBARRIER_USE)
            if self.graph.memory(use) == name
        )

    def race(self, location: str) -> FNode:
        """Two conflicting accesses are neither morally strong nor ordered by causality."""
        name = self.graph.test.memory(location)
        mine = [
            e for e in self.graph.of_kind(*MEMORY) if self.graph.memory(e) == name and e.thread >= 0
        ]
        return any_of(
            all_of(
                (
                    first.guard,
                    second.guard,
                    negation(self.cause(first, second)),
                    negation(self.cause(second, first)),
                )
            )
            for first, second in combinations(mine, 2)
            if Kind.WRITE in (first.kind, second.kind)
            and not self.morally_strong(first, second)
            and (first.entry is None or first.entry != second.entry)
        )


SYNCHRONISATIONS: dict[str, Callable[[Model], Iterator[tuple[Event, Event, FNode]]]] = {
    "sync_patterns": Model.sync_patterns,
    "sync_fence_sc": Model.sync_fence_sc,
    "sync_barriers": Model.sync_barriers,
    "sync_cluster_barriers": Model.sync_cluster_barriers,
    "sync_mbarriers": Model.sync_mbarriers,
}


# Axioms -------------------------------------------------------------------------------------


def coherence(model: Model) -> Iterator[FNode]:
    """Writes in causality order are in coherence order."""
    for (a, b), before in model.co.items():
        first, second = model.events[a], model.events[b]
        if first.thread >= 0:
            cause = model.cause(first, second)
            yield implied(all_of((cause, first.guard, second.guard)), before)


def coherence_total(model: Model) -> Iterator[FNode]:
    """Morally strong writes are in coherence order one way or the other."""
    for first, second in combinations(model.writes, 2):
        if model.morally_strong(first, second) and (first.index, second.index) in model.co:
            forward = model.co[(first.index, second.index)]
            backward = model.co[(second.index, first.index)]
            yield implied(both(first.guard, second.guard), any_of((forward, backward)))


def fence_sc(model: Model) -> Iterator[FNode]:
    """Fence-SC order is acyclic and does not contradict base causality order."""
    for (a, b), before in model.sc.items():
        yield negation(both(before, model.base(model.events[b], model.events[a])))


def atomicity(model: Model) -> Iterator[FNode]:
    """No morally strong write comes between the read and the write of an atomic operation."""
    for r, w in model.graph.rmw:
        read, update = model.events[r], model.events[w]
        for other in model.writes:
            between = model.co.get((other.index, w), NO)
            strong = model.morally_strong(read, other) and model.morally_strong(other, update)
            if other is not update and strong:
                yield negation(all_of((update.guard, model.fr(read, other), between)))


def no_thin_air(model: Model) -> Iterator[FNode]:
    """Values and dependencies do not go in circles."""
    time = model.rendezvous
    for (w, r), reads in model.rf.items():
        if model.events[w].thread >= 0:
            yield implied(reads, time.before(model.events[w], model.events[r]))
    for event in model.events:
        for source in event.depends:
            yield time.before(model.events[source], event)


def causality(model: Model) -> Iterator[FNode]:
    """Communication does not contradict causality order (reads-from and from-read)."""
    for (w, r), reads in model.rf.items():
        write, read = model.events[w], model.events[r]
        if write.thread >= 0:
            yield negation(both(reads, model.cause(read, write)))
            cause = model.cause(write, read)
            if not cause.is_false():
                yield negation(all_of((model.fr(read, write), cause, write.guard)))


def mbarriers_follow_causality(model: Model) -> Iterator[FNode]:
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


AXIOMS: dict[str, Callable[[Model], Iterator[FNode]]] = {
    "coherence": coherence,
    "coherence_total": coherence_total,
    "fence_sc": fence_sc,
    "atomicity": atomicity,
    "no_thin_air": no_thin_air,
    "causality": causality,
    "mbarriers_follow_causality": mbarriers_follow_causality,
}


def well_formed(model: Model) -> Iterator[FNode]:
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


def consistent(model: Model) -> list[FNode]:
    """All constraints of a consistent execution under the model's reading."""
    found = [*well_formed(model)]
    for name, axiom in AXIOMS.items():
        if model.on(name):
            found += axiom(model)
    found += model.rendezvous.constraints + model.constraints
    found += [negation(guard) for guard in (*model.graph.polling, *model.graph.cut)]
    return [part for part in found if not part.is_true()]


__all__ = ["AXIOMS", "SYNCHRONISATIONS", "FenceRule", "Model", "Space", "WarPolicy", "consistent"]
