"""Second engine, part three: the axioms evaluated on one concrete candidate with bit matrices.

A relation over n events is a list of n integers, bit j of row i meaning i -> j. Least fixpoints are
computed (Warshall), proxy fences are found by a walk over (event, stage) states. None of this is
shared with `model` or `proxies`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product

from titan.litmus.enumerate.run import Key, RunEvent, StepKind
from titan.litmus.enumerate.schedule import RendezvousSchedule
from titan.litmus.language.ast import (
    Direction,
    Fence,
    LitmusTest,
    MbarrierWait,
    Proxy,
    ProxyFence,
    Space,
)
from titan.litmus.model.dialect import Dialect
from titan.litmus.model.options import FenceRule, InitRule, ModelOptions, TensorRule, WarPolicy

Rows = list[int]


def closure(rows: Rows) -> Rows:
    """Transitive closure of a relation."""
    rows = list(rows)
    for k, row in enumerate(rows):
        for i in range(len(rows)):
            if rows[i] >> k & 1:
                rows[i] |= row if i != k else 0
    return rows


def cyclic(rows: Rows) -> bool:
    """Whether some event comes before itself."""
    return any(row >> i & 1 for i, row in enumerate(closure(rows)))


class Candidate:
    """One combination of runs with a reads-from choice, a schedule and a Fence-SC orientation."""

    def __init__(
        self,
        test: LitmusTest,
        options: ModelOptions,
        acts: list[RunEvent],
        pairs: list[tuple[Key, Key]],
        schedule: RendezvousSchedule,
    ) -> None:
        self.test = test
        self.amd = test.dialect is Dialect.AMDGPU
        self.options = options
        self.acts = acts
        self.size = len(acts)
        self.index = {act.key: n for n, act in enumerate(acts)}
        self.pairs = [(self.index[r], self.index[w]) for r, w in pairs]
        self.schedule = schedule
        self.memory = [test.memory(a.spot) if a.spot is not None else "" for a in acts]
        self.address = [test.address(a.spot) if a.spot is not None else "" for a in acts]
        self.po = [
            self._row(
                lambda a, b: (
                    a.thread == b.thread
                    and a.step is not None
                    and b.step is not None
                    and a.step < b.step
                ),
                i,
            )
            for i in range(self.size)
        ]
        self.strong = [
            [self._morally_strong(i, j) for j in range(self.size)] for i in range(self.size)
        ]
        self.issue = [
            self.index[a.issue] if a.issue is not None and a.accesses else None for a in acts
        ]
        self.issued_arrival = {
            self.index[a.key]: self.index[a.issue]
            for a in acts
            if a.issue is not None and a.kind is StepKind.ARRIVE
        }
        self.exits = [[self.index[k] for k in a.exits] for a in acts]
        self.phases = dict(schedule.phases)
        self.restricted = not all(self._speaks(act, None) for act in acts)

    def _row(self, holds: Callable[[RunEvent, RunEvent], bool], i: int) -> int:
        return sum(1 << j for j, b in enumerate(self.acts) if holds(self.acts[i], b))

    def in_po(self, i: int, j: int) -> bool:
        """Whether event i comes before event j in program order."""
        return bool(self.po[i] >> j & 1)

    @staticmethod
    def _sem_strong(act: RunEvent) -> bool:
        return act.sem != "weak" and act.scope is not None

    def _scopes(self, a: RunEvent, b: RunEvent) -> bool:
        assert a.scope is not None and b.scope is not None
        return a.place.shares(a.scope, b.place) and b.place.shares(b.scope, a.place)

    def _morally_strong(self, i: int, j: int) -> bool:
        a, b = self.acts[i], self.acts[j]
        if i == j or a.proxy is not b.proxy:
            return False
        if a.accesses and b.accesses and self.address[i] != self.address[j]:
            return False
        if self.in_po(i, j) or self.in_po(j, i):
            return True
        return self._sem_strong(a) and self._sem_strong(b) and self._scopes(a, b)

    # Synchronisation --------------------------------------------------------------------------

    def observation(self, source: dict[int, int]) -> set[tuple[int, int]]:
        """(write, read) pairs in observation order, through atomic operations."""
        direct = {(w, r) for r, w in source.items() if self.strong[w][r]}
        seen = set(direct)
        work = deque(direct)
        follows = dict(self.pairs)
        while work:
            w, r = work.popleft()
            if r in follows:
                for u, later in direct:
                    if u == follows[r] and (w, later) not in seen:
                        seen.add((w, later))
                        work.append((w, later))
        return seen

    def _firsts(self, write: int) -> list[int]:
        """First operations of the release patterns that end in a strong write."""
        act = self.acts[write]
        if (
            act.kind is not StepKind.WRITE
            or not self._sem_strong(act)
            or act.proxy is not Proxy.GENERIC
        ):
            return []
        found = [write] if act.sem in ("release", "sc") else []
        for i, other in enumerate(self.acts):
            if self.in_po(i, write):
                fence = other.kind is StepKind.FENCE and other.sem in ("release", "acq_rel", "sc")
                same = not self.amd and other.kind is StepKind.WRITE and other.sem == "release"
                if fence or (same and self.address[i] == self.address[write]):
                    found.append(i)
        return found

    def _lasts(self, read: int) -> list[int]:
        act = self.acts[read]
        if act.kind is not StepKind.READ or not self._sem_strong(act) or act.reduction:
            return []
        if act.proxy is not Proxy.GENERIC:
            return []
        found = [read] if act.sem in ("acquire", "sc") else []
        for j, other in enumerate(self.acts):
            if self.in_po(read, j):
                fence = other.kind is StepKind.FENCE and other.sem in ("acquire", "acq_rel", "sc")
                same = not self.amd and other.kind is StepKind.READ and other.sem == "acquire"
                if fence or (same and self.address[j] == self.address[read]):
                    found.append(j)
        return found

    def _meeting_edges(self) -> Iterator[tuple[int, int]]:
        for a, b in self.schedule.meets:
            i, j = self.index[a], self.index[b]
            arrive, wait = self.acts[i], self.acts[j]
            if wait.kind is StepKind.BARRIER and not self.amd:
                yield i, j
                continue
            if arrive.kind is StepKind.EXPECT:
                continue
            firsts = [i] if arrive.sem == "release" else []
            firsts += [
                k
                for k, f in enumerate(self.acts)
                if f.kind is StepKind.FENCE
                and self.in_po(k, i)
                and f.sem in ("release", "acq_rel", "sc")
            ]
            lasts = [j] if wait.sem == "acquire" else []
            if wait.kind is not StepKind.CLUSTER_WAIT:
                lasts += [
                    k
                    for k, f in enumerate(self.acts)
                    if f.kind is StepKind.FENCE
                    and self.in_po(j, k)
                    and f.sem in ("acquire", "acq_rel", "sc")
                ]
            for first, last in product(firsts, lasts):
                if self._scopes(self.acts[first], self.acts[last]):
                    yield first, last

    def base_causality(
        self, observed: set[tuple[int, int]], sc: set[tuple[int, int]], memory: str | None = None
    ) -> Rows:
        """Closure of program order and synchronizes-with over events that are in program order.

        Fences with `.sync_restrict` synchronise for `memory` only, where they cover it.
        """
        silent = {n for n, act in enumerate(self.acts) if not self._speaks(act, memory)}
        rows = list(self.po)
        for w, r in observed:
            for first, last in product(self._firsts(w), self._lasts(r)):
                other_thread = self.acts[first].thread != self.acts[last].thread
                if {first, last} & silent:
                    continue
                if other_thread and self.strong[first][last]:
                    rows[first] |= 1 << last
        for a, b in sc:
            rows[a] |= 1 << b
        for a, b in self._meeting_edges():
            if not {a, b} & silent:
                rows[a] |= 1 << b
        return closure(rows)

    def _speaks(self, act: RunEvent, memory: str | None) -> bool:
        if not isinstance(act.code, Fence) or act.code.space is None:
            return True
        return memory is not None and act.code.covers(act.place, self.test.location(memory))


class Causality:
    """Causality order of one candidate, proxies included."""

    def __init__(
        self,
        candidate: Candidate,
        base: Rows,
        observed: set[tuple[int, int]],
        sc: set[tuple[int, int]],
    ) -> None:
        self.c = candidate
        self.base = base
        self.observed = observed
        self.sc = sc
        self._by_memory: dict[str, Rows] = {}
        self._known: dict[tuple[int, int], bool] = {}

    def reaches(self, i: int, j: int) -> bool:
        """Whether base causality leads from event i to event j."""
        return bool(self.base[i] >> j & 1)

    @contextmanager
    def _about(self, memory: str) -> Iterator[None]:
        """Base causality as it is for accesses of one memory."""
        before = self.base
        if self.c.restricted:
            if memory not in self._by_memory:
                rows = self.c.base_causality(self.observed, self.sc, memory)
                self._by_memory[memory] = rows
            self.base = self._by_memory[memory]
        yield
        self.base = before

    def _starts(self, i: int) -> list[int]:
        return self.c.exits[i] if self.c.issue[i] is not None else [i]

    def ordered(self, i: int, j: int) -> bool:
        """Base causality order; an asynchronous access spans from its issue to its completion."""
        c = self.c
        if c.issue[i] is not None and c.issue[i] == c.issue[j]:
            return i < j and c.acts[i].kind is StepKind.READ
        goal = j if c.issue[j] is None else c.issue[j]
        assert goal is not None
        for start in self._starts(i):
            arrived = start == goal and c.issue[i] is not None
            if arrived or self.reaches(start, goal):
                return True
        return False

    def cause(self, i: int, j: int) -> bool:
        """Whether event i comes before event j in causality order."""
        if self.c.memory[i] == self.c.memory[j] and self.preserved(i, j):
            return True
        return any(
            w == i and r != j and self.c.memory[r] == self.c.memory[j] and self.preserved(r, j)
            for w, r in self.observed
        )

    def preserved(self, i: int, j: int) -> bool:
        """Whether base causality orders two accesses as their proxies ask."""
        if (i, j) not in self._known:
            with self._about(self.c.memory[i]):
                self._known[(i, j)] = self._preserved(i, j)
        return self._known[(i, j)]

    def _preserved(self, i: int, j: int) -> bool:
        c = self.c
        a, b = c.acts[i], c.acts[j]
        if a.thread < 0 or b.thread < 0:
            return False
        if c.address[i] == c.address[j]:
            generic = a.proxy is b.proxy is Proxy.GENERIC
            local = a.proxy is b.proxy and a.place == b.place
            war = (
                c.options.war is WarPolicy.SYNC
                and a.kind is StepKind.READ
                and b.kind is StepKind.WRITE
                and a.proxy is Proxy.GENERIC
                and b.proxy is Proxy.ASYNC
            )
            if (generic or local or war) and self.ordered(i, j):
                return True
        return self._walk(i, j)

    # The walk ---------------------------------------------------------------------------------

    def _walk(self, i: int, j: int) -> bool:
        """Search from the first access to the second through the fences that the proxies need.

        A state is (event, stage): 0 still in the first proxy, 1 left it, 2 aliased too,
        3 the writer's fence of another CTA passed, 4 entered the second proxy, and (5, release)
        between two fence halves.
        """
        c = self.c
        a, b = c.acts[i], c.acts[j]
        goal = j if c.issue[j] is None else c.issue[j]
        ordered = a.tensor and c.options.tensor is TensorRule.ORDER
        left = a.proxy is Proxy.GENERIC or a.implicit or ordered
        need_alias = c.address[i] != c.address[j]
        stage: object = (2 if not need_alias else 1) if left else 0
        work: deque[tuple[int, object]] = deque()
        seen: set[tuple[int, object]] = set()

        def push(node: int, at: object) -> None:
            if (node, at) not in seen:
                seen.add((node, at))
                work.append((node, at))

        for start in self._starts(i):
            push(start, stage)
        while work:
            node, at = work.popleft()
            done = at == 4 or (at == 2 and b.proxy is Proxy.GENERIC)
            # an exit may itself be the goal; the access itself is not a step of its path
            if done and node == goal and (node != i or c.issue[i] is not None):
                return True
            for after in self._effects(node, at, i, j, need_alias):
                push(node, after)
            if isinstance(at, tuple):
                for acquire in self._joined(at[1]):
                    push(acquire, at)
            for following in range(c.size):
                if self.reaches(node, following) and c.issue[following] is None:
                    push(following, at)
        return False

    def _effects(self, node: int, at: object, i: int, j: int, need_alias: bool) -> Iterator[object]:
        c = self.c
        fence, a, b = c.acts[node], c.acts[i], c.acts[j]
        if fence.kind is StepKind.ALIAS_FENCE and at == 1 and need_alias:
            yield 2
        if fence.kind is not StepKind.PROXY_FENCE:
            return
        form = fence.code
        assert isinstance(form, ProxyFence)
        both_ways = form.direction is Direction.BOTH
        if at == 0 and both_ways and fence.proxy is a.proxy and fence.place == a.place:
            if self._covers(fence, a):
                yield 1 if need_alias else 2
            return
        if b.proxy is Proxy.GENERIC or fence.proxy is not b.proxy:
            return
        if both_ways and at in (2, 3) and self._covers(fence, b):
            yield from self._bidirectional(fence, at, a, j)
        elif form.direction is Direction.RELEASE and at == 2:
            own = c.in_po(i, node) and a.kind is StepKind.READ
            if form.reads_only and not own:
                return
            if c.options.fence_rule is FenceRule.PATH or fence.thread == a.thread:
                yield (5, node)
        elif form.direction is Direction.ACQUIRE and isinstance(at, tuple):
            yield from [4] if self._pairs(at[1], node, j) else []

    def _bidirectional(self, fence: RunEvent, at: object, a: RunEvent, j: int) -> Iterator[object]:
        c = self.c
        b = c.acts[j]
        if b.proxy is not Proxy.ASYNC:
            if fence.place == b.place and at == 2:
                yield 4
            return
        issue = c.issue[j]
        assert issue is not None
        local = fence.place in (b.place, c.acts[issue].place)
        if c.options.fence_rule is FenceRule.PATH or a.proxy is not Proxy.GENERIC or at == 3:
            if local:
                yield 4
        elif fence.thread == a.thread:
            alone = c.options.fence_rule is FenceRule.WRITER_ALONE
            yield 4 if local or alone else 3

    def _covers(self, fence: RunEvent, act: RunEvent) -> bool:
        assert act.spot is not None and isinstance(fence.code, ProxyFence)
        spot = self.c.test.location(act.spot)
        space = fence.code.space
        if space is Space.OWN_SHARED:
            return spot.home == fence.place
        return space is None or spot.space is space

    def _pairs(self, release: int, acquire: int, j: int) -> bool:
        c = self.c
        first, last, b = c.acts[release], c.acts[acquire], c.acts[j]
        issue = c.issue[j]
        if not c._scopes(first, last) or issue is None or b.spot is None:
            return False
        if b.proxy is Proxy.ASYNC:
            covered = self._covers(first, b) and self._covers(last, b)
            return covered and last.thread == b.thread
        return c.memory[acquire] == c.memory[j] and last.place == c.acts[issue].place

    def _joined(self, release: int) -> list[int]:
        """Acquire halves that a release half synchronises with around a relaxed write."""
        c = self.c
        links = set(self.observed)
        links |= {
            (c.index[a], c.index[b])
            for a, b in c.schedule.meets
            if c.acts[c.index[b]].kind in (StepKind.WAIT, StepKind.CLUSTER_WAIT)
        }
        proxy = c.acts[release].proxy
        return [
            node
            for node, act in enumerate(c.acts)
            if act.kind is StepKind.PROXY_FENCE
            and act.proxy is proxy
            and isinstance(act.code, ProxyFence)
            and act.code.direction is Direction.ACQUIRE
            and any(c.in_po(release, w) and c.in_po(r, node) for w, r in links)
        ]

    # Mbarrier initialisation --------------------------------------------------------------------

    def undefined(self, memory: str) -> bool:
        """Whether some use of an mbarrier is not ordered after its initialisation."""
        c = self.c
        if c.test.location(memory).count:
            return False
        inits = [
            n for n, a in enumerate(c.acts) if a.kind is StepKind.INIT and c.memory[n] == memory
        ]
        uses = [
            n
            for n, a in enumerate(c.acts)
            if a.kind in (StepKind.ARRIVE, StepKind.EXPECT, StepKind.WAIT) and c.memory[n] == memory
        ]
        with self._about(memory):
            return any(not any(self._initialised(i, use) for i in inits) for use in uses)

    def _initialised(self, init: int, use: int) -> bool:
        """Whether the use comes after the initialisation; a loop of waits from its first test on.

        The test that passes is ordered by the arrivals that it sees, those before it by nothing.
        """
        c = self.c
        code = c.acts[use].code
        if not isinstance(code, MbarrierWait) or code.destination is not None:
            return self._published(init, use)
        before = (node for node in range(len(c.acts)) if c.in_po(node, use))
        return c.in_po(init, use) or any(self._published(init, node) for node in before)

    def _published(self, init: int, use: int) -> bool:
        c = self.c
        point = c.issued_arrival.get(use, use)
        remote = use in c.issued_arrival or c.acts[use].place != c.acts[init].place
        if c.options.init is InitRule.FENCE and remote:
            direct = any(
                c.in_po(init, f) and self.reaches(f, point)
                for f, act in enumerate(c.acts)
                if act.kind is StepKind.INIT_FENCE
                or (act.kind is StepKind.PROXY_FENCE and act.proxy is Proxy.ASYNC)
            )
        else:
            direct = self.reaches(init, point)
        if direct:
            return True
        for a, b in c.schedule.meets:
            arrive, wait = c.index[a], c.index[b]
            fenced = any(
                act.kind is StepKind.INIT_FENCE and c.in_po(init, f) and c.in_po(f, arrive)
                for f, act in enumerate(c.acts)
            )
            orders = wait == point or self.reaches(wait, point)
            if fenced and orders and c.acts[wait].kind is StepKind.CLUSTER_WAIT:
                return True
        return False
