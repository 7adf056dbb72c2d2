"""The relations of an execution: one small function per rule of the PTX memory model with proxies.

Every relation that is a least fixpoint (observation, base causality) is used only where more
pairs mean fewer executions. It is therefore enough to assert that a relation is closed: the solver
may pick the least closed one, and any larger choice only loses executions. The search is exact, and
every witness is evaluated again by `explicit` with the fixpoints themselves.

`mutants` lists what may be dropped or weakened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import combinations, permutations

from pysmt.fnode import FNode
from pysmt.shortcuts import BOOL, Symbol

from titan.litmus.language.ast import Fence, MatrixRead, MbarrierWait, Proxy, Scope, Semantics
from titan.litmus.model.dialect import Dialect, in_force
from titan.litmus.model.mutants import MUTANTS
from titan.litmus.model.options import InitRule, ModelOptions
from titan.litmus.smt.events import MBARRIER_USE, MEMORY, EventGraph, EventKind, LitmusEvent
from titan.litmus.smt.proxies import ProxyRules
from titan.litmus.smt.rendezvous import Rendezvous
from titan.litmus.smt.terms import NO, YES, all_of, any_of, both, implied, negation


class AxiomaticModel:
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
        self.reads = graph.of_kind(EventKind.READ)
        self.writes = graph.of_kind(EventKind.WRITE)
        self._observed: dict[tuple[int, int], FNode] | None = None
        self._base: dict[tuple[int, int, frozenset[int]], FNode] = {}
        self._reached: dict[frozenset[int], dict[tuple[int, int], FNode]] = {}
        self._restricted = [e for e in graph.of_kind(EventKind.FENCE) if self._is_restricted(e)]
        self._in_force: frozenset[int] = frozenset()
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
        """Whether a rule is in force: the dialect has it, and no mutant drops it."""
        return in_force(rule, self.graph.test.dialect) and rule not in self.options.mutations

    def weakened(self, name: str) -> bool:
        """Whether a mutant of the model drops or relaxes this rule."""
        return name in self.options.mutations

    @staticmethod
    def _var(name: str, first: LitmusEvent, second: LitmusEvent) -> FNode:
        return Symbol(f"{name}_{first.index}_{second.index}", BOOL)

    def same_memory(self, first: LitmusEvent, second: LitmusEvent) -> bool:
        """Whether two events access the same memory, perhaps by two addresses."""
        return self.graph.memory(first) == self.graph.memory(second)

    def same_address(self, first: LitmusEvent, second: LitmusEvent) -> bool:
        """Whether two events access the same virtual address."""
        return self.graph.address(first) == self.graph.address(second)

    def _sc_fences(self) -> list[LitmusEvent]:
        if not self.on("sync_fence_sc") and self.on("single_order"):
            return []  # they are members of the single order
        return [e for e in self.graph.of_kind(EventKind.FENCE) if e.semantics is Semantics.SC]

    def _coherence_variables(self) -> dict[tuple[int, int], FNode]:
        found = {}
        for first, second in permutations(self.writes, 2):
            if self.same_memory(first, second) and second.thread >= 0:
                initial = first.thread < 0
                found[(first.index, second.index)] = (
                    second.guard if initial else self._var("co", first, second)
                )
        return found

    def fr(self, read: LitmusEvent, write: LitmusEvent) -> FNode:
        """From-read: the read's source is earlier in coherence order than `write`."""
        return any_of(
            both(self.rf[(w.index, read.index)], self.co.get((w.index, write.index), NO))
            for w in self.writes
            if (w.index, read.index) in self.rf and w is not write
        )

    # Morally strong (PTX, Morally strong operations) ------------------------------------------

    def morally_strong(self, first: LitmusEvent, second: LitmusEvent) -> bool:
        """Moral strength (PTX, 8.7.1): program order, or both strong with scopes that include each
        other; of one proxy, and overlapping where both access memory.
        """
        if first is second or first.proxy is not second.proxy:
            return False
        if first.kind in MEMORY and second.kind in MEMORY and not self.same_address(first, second):
            return False
        if self.graph.po(first, second) or self.graph.po(second, first):
            return True
        if first.proxy is Proxy.ASYNC and self.weakened("bulk_reductions_are_weak"):
            return False
        return first.strong and second.strong and self._scopes_include(first, second)

    def inclusive(self, first: LitmusEvent, second: LitmusEvent) -> bool:
        """Whether two operations with scopes are of one thread or include each other."""
        return first.thread == second.thread or self._scopes_include(first, second)

    def _scopes_include(self, first: LitmusEvent, second: LitmusEvent) -> bool:
        if self.weakened("scopes_always_include"):
            return True
        assert first.scope is not None and second.scope is not None
        if self.weakened("wavefront_is_group") and Scope.WAVEFRONT in (first.scope, second.scope):
            return first.placement.shares(Scope.CTA, second.placement)
        forward = first.placement.shares(first.scope, second.placement)
        backward = second.placement.shares(second.scope, first.placement)
        if self.weakened("one_scope_suffices"):
            return forward or backward
        return forward and backward

    # Observation order (PTX, Observation Order) -----------------------------------------------

    @property
    def observed(self) -> dict[tuple[int, int], FNode]:
        """(write, read) in observation order, with the condition under which they are."""
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

    def _generic_strong(self, kind: EventKind) -> list[LitmusEvent]:
        return [e for e in self.graph.of_kind(kind) if e.strong and e.proxy is Proxy.GENERIC]

    def release_patterns(self) -> Iterator[tuple[LitmusEvent, LitmusEvent]]:
        """Pairs (first operation, strong write) of the three release patterns."""
        for write in self._generic_strong(EventKind.WRITE):
            if write.semantics.releases and self.on("release_operation"):
                yield write, write
            for first in self.events:
                if not self.graph.po(first, write):
                    continue
                if first.kind is EventKind.FENCE and first.semantics.releases:
                    if self.on("release_fence_pattern"):
                        yield first, write
                elif (
                    first.kind is EventKind.WRITE
                    and first.strong
                    and first.semantics.releases
                    and self.same_address(first, write)
                    and self.on("release_then_write")
                ):
                    yield first, write

    def acquire_patterns(self) -> Iterator[tuple[LitmusEvent, LitmusEvent]]:
        """Pairs (strong read, last operation); a reduction's read forms none."""
        for read in self._generic_strong(EventKind.READ):
            if read.reduction and not self.weakened("reductions_acquire"):
                continue
            if read.semantics.acquires and self.on("acquire_operation"):
                yield read, read
            for last in self.events:
                if not self.graph.po(read, last):
                    continue
                if last.kind is EventKind.FENCE and last.semantics.acquires:
                    if self.on("acquire_fence_pattern"):
                        yield read, last
                elif (
                    last.kind is EventKind.READ
                    and last.strong
                    and last.semantics.acquires
                    and self.same_address(read, last)
                    and self.on("read_then_acquire")
                ):
                    yield read, last

    # Synchronizes-with ------------------------------------------------------------------------

    def sync_patterns(self) -> Iterator[tuple[LitmusEvent, LitmusEvent, FNode]]:
        """A release pattern synchronizes with an acquire pattern that observes its write."""
        acquires = list(self.acquire_patterns())
        for first, write in self.release_patterns():
            for read, last in acquires:
                seen = self.observed.get((write.index, read.index), NO)
                across = first.thread != last.thread and not seen.is_false()
                if across and self.morally_strong(first, last):
                    yield first, last, all_of((seen, first.guard, last.guard))

    def sync_fence_sc(self) -> Iterator[tuple[LitmusEvent, LitmusEvent, FNode]]:
        """Morally strong `fence.sc` operations synchronize in Fence-SC order."""
        for (a, b), before in self.sc.items():
            first, second = self.events[a], self.events[b]
            yield first, second, all_of((before, first.guard, second.guard))

    def sync_barriers(self) -> Iterator[tuple[LitmusEvent, LitmusEvent, FNode]]:
        """`bar.sync` and `bar.arrive` synchronize with `bar.sync` on the same barrier."""
        for (a, b), meets in self.rendezvous.meets.items():
            if self.events[b].kind is EventKind.BARRIER:
                yield self.events[a], self.events[b], meets

    def sync_fenced_barriers(self) -> Iterator[tuple[LitmusEvent, LitmusEvent, FNode]]:
        """A releasing fence before `s_barrier` synchronizes with an acquiring one behind it."""
        for (a, b), meets in self.rendezvous.meets.items():
            if self.weakened("barriers_synchronise"):
                yield self.events[a], self.events[b], meets
            for first in self._releasers(self.events[a]):
                for last in self._acquirers(self.events[b]):
                    if self._reaches(first, last):
                        yield first, last, all_of((meets, first.guard, last.guard))

    def sync_cluster_barriers(self) -> Iterator[tuple[LitmusEvent, LitmusEvent, FNode]]:
        """A releasing `barrier.cluster.arrive`, or a fence before it, synchronizes with a wait."""
        for (a, b), meets in self.rendezvous.meets.items():
            if self.events[b].kind is EventKind.CLUSTER_WAIT:
                for first in self._releasers(self.events[a]):
                    if self.morally_strong(first, self.events[b]):
                        yield first, self.events[b], both(meets, first.guard)

    def sync_mbarriers(self) -> Iterator[tuple[LitmusEvent, LitmusEvent, FNode]]:
        """Every releasing arrival of a completed phase synchronizes with an acquiring wait."""
        for (a, b), meets in self.rendezvous.meets.items():
            if (
                self.events[b].kind is not EventKind.WAIT
                or self.events[a].kind is not EventKind.ARRIVE
            ):
                continue
            for first in self._releasers(self.events[a]):
                for last in self._acquirers(self.events[b]):
                    if self._reaches(first, last):
                        yield first, last, all_of((meets, first.guard, last.guard))

    def _reaches(self, first: LitmusEvent, last: LitmusEvent) -> bool:
        return first.strong and last.strong and self._scopes_include(first, last)

    def _releasers(self, arrive: LitmusEvent) -> Iterator[LitmusEvent]:
        if arrive.semantics.releases:
            yield arrive
        for fence in self.graph.of_kind(EventKind.FENCE):
            earlier = fence.semantics.releases and self.graph.po(fence, arrive)
            if earlier and self.on("release_fence_before_arrival"):
                yield fence
        if self.weakened("init_fence_covers_data"):
            yield from (f for f in self._init_fences() if self.graph.po(f, arrive))

    def _init_fences(self) -> Iterator[LitmusEvent]:
        """Initialisation fences made to look like releases, for the mutant of that name."""
        for fence in self.graph.of_kind(EventKind.INIT_FENCE):
            yield replace(fence, semantics=Semantics.RELEASE, scope=Scope.CLUSTER)

    def _acquirers(self, wait: LitmusEvent) -> Iterator[LitmusEvent]:
        if wait.semantics.acquires:
            yield wait
        for fence in self.graph.of_kind(EventKind.FENCE):
            later = fence.semantics.acquires and self.graph.po(wait, fence)
            if later and self.on("acquire_fence_after_wait"):
                yield fence

    # Base causality order ---------------------------------------------------------------------

    @staticmethod
    def _is_restricted(event: LitmusEvent) -> bool:
        return isinstance(event.instruction, Fence) and event.instruction.space is not None

    @contextmanager
    def _about(self, memory: str) -> Iterator[None]:
        """Causality between accesses of one memory: restricted fences that cover it are in force.

        A `.sync_restrict` fence orders accesses of some shared memory only, so that an edge from or
        to it counts for that memory and for no other (PTX, fence).
        """
        before = self._in_force
        location = self.graph.test.location(memory)
        self._in_force = frozenset(
            fence.index
            for fence in self._restricted
            if self.weakened("restricted_fences_cover_all")
            or (
                isinstance(fence.instruction, Fence)
                and fence.instruction.covers(fence.placement, location)
            )
        )
        yield
        self._in_force = before

    @property
    def _reach(self) -> dict[tuple[int, int], FNode]:
        """From sources of synchronizes-with edges to targets: the closure over program order."""
        if self._in_force not in self._reached:
            self._reached[self._in_force] = self._closed(self._edges())
        return self._reached[self._in_force]

    def _edges(self) -> dict[tuple[int, int], FNode]:
        """Synchronizes-with, less what restricted fences that are not in force would add."""
        out_of_force = {fence.index for fence in self._restricted} - self._in_force
        edges: dict[tuple[int, int], list[FNode]] = {}
        for rule, function in SYNCHRONISATIONS.items():
            if self.on(rule):
                for first, last, formula in function(self):
                    if {first.index, last.index} & out_of_force:
                        continue
                    edges.setdefault((first.index, last.index), []).append(formula)
        if self.weakened("completion_carries_issuer"):
            for issue, arrive in self.graph.prefix:
                edges.setdefault((issue, arrive), []).append(self.events[arrive].guard)
        return {pair: any_of(parts) for pair, parts in edges.items()}

    def _closed(self, joined: dict[tuple[int, int], FNode]) -> dict[tuple[int, int], FNode]:
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
        name = f"reach{len(self._reached)}"
        found = {(a, b): Symbol(f"{name}_{a}_{b}", BOOL) for a, b in pairs}
        for pair, formula in joined.items():
            self.constraints.append(implied(formula, found[pair]))
        for a, b in pairs:
            for (c, d), formula in joined.items():
                if self._po_or_same(b, c):
                    self.constraints.append(implied(both(found[(a, b)], formula), found[(a, d)]))
        return found

    def _po_or_same(self, first: int, second: int) -> bool:
        return first == second or self.graph.po(self.events[first], self.events[second])

    def base(self, first: LitmusEvent, second: LitmusEvent) -> FNode:
        """Base causality order between events that are no parts of asynchronous operations."""
        key = (first.index, second.index, self._in_force)
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

    def base_or_same(self, first: LitmusEvent, second: LitmusEvent) -> FNode:
        """Base causality order, or the same event."""
        return YES if first is second else self.base(first, second)

    def after(self, event: LitmusEvent, point: LitmusEvent) -> FNode:
        """`event` precedes the plain event `point`; an asynchronous part only by completing."""
        if not event.asynchronous:
            return self.base(event, point)
        return any_of(both(e.guard, self.base_or_same(e, point)) for e in self._completions(event))

    def _completions(self, event: LitmusEvent) -> list[LitmusEvent]:
        """Where an asynchronous access is complete."""
        found = [self.events[number] for number in event.exits]
        if self.weakened("read_wait_covers_writes"):
            found += [
                e for e in self.graph.of_kind(EventKind.GROUP_WAIT) if e.thread == event.thread
            ]
        matrix = isinstance(event.instruction, MatrixRead)
        if self.weakened("wgmma_waits_for_nothing") and matrix and event.entry is not None:
            found.append(self.events[event.entry])
        return found

    def until(self, point: LitmusEvent, event: LitmusEvent) -> FNode:
        """The plain event `point` precedes `event`; an asynchronous part starts at its issue."""
        if event.entry is None:
            return self.base(point, event)
        return self.base_or_same(point, self.events[event.entry])

    def ordered(self, first: LitmusEvent, second: LitmusEvent) -> FNode:
        """Base causality order between any two events."""
        if second.entry is None:
            return self.after(first, second)
        if first.entry == second.entry and first.asynchronous:
            return YES if first.index < second.index and first.kind is EventKind.READ else NO
        issue = self.events[second.entry]
        return self.after(first, issue)

    # Causality order --------------------------------------------------------------------------

    def preserved(self, first: LitmusEvent, second: LitmusEvent) -> FNode:
        """Proxy-preserved base causality order between two accesses of the same memory."""
        with self._about(self.graph.memory(first)):
            return self.proxies.preserved(first, second)

    def cause(self, first: LitmusEvent, second: LitmusEvent) -> FNode:
        """When `first` comes before `second` in causality order (PTX, 8.9.5)."""
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

    def initialised(self, first: LitmusEvent, use: LitmusEvent) -> FNode:
        """An mbarrier use sees the initialisation `first`."""
        with self._about(self.graph.memory(first)):
            return self._initialised(first, use)

    def _initialised(self, first: LitmusEvent, use: LitmusEvent) -> FNode:
        issue = next((i for i, a in self.graph.prefix if a == use.index), None)
        point = use if issue is None else self.events[issue]
        parts = [self.base(first, point)]
        remote = issue is not None or use.placement != first.placement
        if self.options.init is InitRule.FENCE and remote:
            fences = self.graph.of_kind(EventKind.INIT_FENCE, EventKind.PROXY_FENCE)
            parts = [
                self.base(f, point)
                for f in fences
                if self.graph.po(first, f) and f.proxy in (Proxy.GENERIC, Proxy.ASYNC)
            ]
        if self.on("mbarrier_init_fence"):
            parts += list(self._init_fence_paths(first, point))
        return both(first.guard, any_of(parts))

    def _init_fence_paths(self, first: LitmusEvent, point: LitmusEvent) -> Iterator[FNode]:
        """`fence.mbarrier_init` makes even a relaxed cluster arrive publish initialisations."""
        for (a, b), meets in self.rendezvous.meets.items():
            arrive, wait = self.events[a], self.events[b]
            if wait.kind is EventKind.CLUSTER_WAIT and any(
                self.graph.po(first, f) and self.graph.po(f, arrive)
                for f in self.graph.of_kind(EventKind.INIT_FENCE)
            ):
                yield both(meets, self.base_or_same(wait, point))

    def undefined(self, location: str) -> FNode:
        """Some executed use of the mbarrier does not see its initialisation."""
        name = self.graph.test.memory(location)
        if self.graph.test.location(name).count:
            return NO
        inits = [
            e for e in self.graph.of_kind(EventKind.MBARRIER_INIT) if self.graph.memory(e) == name
        ]
        return any_of(
            both(use.guard, negation(any_of(self._seen_from_the_start(i, use) for i in inits)))
            for use in self.graph.of_kind(*MBARRIER_USE)
            if self.graph.memory(use) == name
        )

    def _seen_from_the_start(self, first: LitmusEvent, use: LitmusEvent) -> FNode:
        """As `initialised`; of a loop of waits, its first test sees the initialisation.

        The test that passes is ordered by the arrivals that it sees, those before it by nothing.
        """
        wait = use.instruction
        if not isinstance(wait, MbarrierWait) or wait.destination is not None:
            return self.initialised(first, use)
        if self.graph.po(first, use):
            return both(first.guard, use.guard)
        before = (e for e in self.graph.of_kind(*EventKind) if self.graph.po(e, use))
        return any_of(both(event.guard, self.initialised(first, event)) for event in before)

    @property
    def races_are_undefined(self) -> bool:
        """Whether an execution with a data race says nothing of the outcome."""
        return self.graph.test.dialect is Dialect.AMDGPU and not self.weakened("races_are_defined")

    def undefined_behaviour(self) -> FNode:
        """A data race on some location, where the dialect leaves such an execution undefined."""
        if not self.races_are_undefined:
            return NO
        return any_of(self.race(x.name) for x in self.graph.test.locations)

    def _unordered(self, first: LitmusEvent, second: LitmusEvent) -> FNode:
        """No causality order (PTX), no happens-before (AMDGPU), whichever way."""
        order = self.base if self.graph.test.dialect is Dialect.AMDGPU else self.cause
        return both(negation(order(first, second)), negation(order(second, first)))

    def race(self, location: str) -> FNode:
        """Two conflicting accesses are neither morally strong nor ordered by causality."""
        name = self.graph.test.memory(location)
        mine = [
            e for e in self.graph.of_kind(*MEMORY) if self.graph.memory(e) == name and e.thread >= 0
        ]
        return any_of(
            all_of((first.guard, second.guard, self._unordered(first, second)))
            for first, second in combinations(mine, 2)
            if EventKind.WRITE in (first.kind, second.kind)
            and not self.morally_strong(first, second)
            and (first.entry is None or first.entry != second.entry)
        )


SYNCHRONISATIONS: dict[
    str, Callable[[AxiomaticModel], Iterator[tuple[LitmusEvent, LitmusEvent, FNode]]]
] = {
    "sync_patterns": AxiomaticModel.sync_patterns,
    "sync_fence_sc": AxiomaticModel.sync_fence_sc,
    "sync_barriers": AxiomaticModel.sync_barriers,
    "sync_cluster_barriers": AxiomaticModel.sync_cluster_barriers,
    "sync_mbarriers": AxiomaticModel.sync_mbarriers,
    "sync_fenced_barriers": AxiomaticModel.sync_fenced_barriers,
}
