"""Proxy-preserved base causality order: which proxy and alias fences an ordering path must carry.

A path from one access to another goes through up to three stages: the first access leaves its
proxy (a fence of that proxy in its CTA, or the implicit fence of a completed bulk copy or wgmma),
an alias fence is passed when the virtual addresses differ, and the second access's proxy is entered
(a fence of that proxy in its CTA). Two shortcuts need no fence: both accesses through the
generic proxy, or both through the same proxy in the same CTA. The rules for constant, texture and
surface proxies and for aliases are those of the mixed-proxy model (ISCA 2022); those for the async
and the tensormap proxy are our reading of the PTX text, see docs/explanation/memory_model.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pysmt.fnode import FNode

from titan.litmus.language.ast import Direction, Proxy, ProxyFence, Space
from titan.litmus.model.options import FenceRule, ModelOptions, TensorRule, WarPolicy
from titan.litmus.smt.event import EventGraph, EventKind, LitmusEvent
from titan.litmus.smt.rendezvous import Rendezvous
from titan.litmus.smt.terms import NO, all_of, any_of, both


class Causal(Protocol):
    """What these rules ask of a model: its events, its reading, and base causality order."""

    graph: EventGraph
    options: ModelOptions
    events: list[LitmusEvent]
    rendezvous: Rendezvous

    @property
    def observed(self) -> Mapping[tuple[int, int], FNode]:
        """(write, read) in observation order, with the condition under which they are."""

    def on(self, rule: str) -> bool:
        """Whether a rule of the model is in force."""

    def weakened(self, name: str) -> bool:
        """Whether a mutant drops or relaxes the rule."""

    def same_address(self, first: LitmusEvent, second: LitmusEvent) -> bool:
        """Whether two events access the same virtual address."""

    def base(self, first: LitmusEvent, second: LitmusEvent) -> FNode:
        """The condition of base causality order."""

    def base_or_same(self, first: LitmusEvent, second: LitmusEvent) -> FNode:
        """Base causality order, or the same event."""

    def after(self, event: LitmusEvent, point: LitmusEvent) -> FNode:
        """The event precedes the point; an asynchronous part by completing."""

    def until(self, point: LitmusEvent, event: LitmusEvent) -> FNode:
        """The point precedes the event; an asynchronous part by being issued."""

    def ordered(self, first: LitmusEvent, second: LitmusEvent) -> FNode:
        """Base causality order of two accesses, from completion to issue."""


class ProxyRules:
    """Proxy-preserved base causality order of one model."""

    def __init__(self, model: Causal) -> None:
        self.model = model
        self.graph = model.graph
        self.fences = self.graph.of_kind(EventKind.PROXY_FENCE)
        self.alias_fences = self.graph.of_kind(EventKind.ALIAS_FENCE)
        self._known: dict[tuple[int, int], FNode] = {}

    def preserved(self, first: LitmusEvent, second: LitmusEvent) -> FNode:
        """The condition under which base causality orders two accesses as their proxies ask."""
        key = (first.index, second.index)
        if key not in self._known:
            self._known[key] = any_of(self._rules(first, second))
        return self._known[key]

    def _rules(self, first: LitmusEvent, second: LitmusEvent) -> list[FNode]:
        model = self.model
        if first.thread < 0 or second.thread < 0:
            return []
        found = []
        same_address = model.same_address(first, second) or model.weakened("aliases_are_one")
        if same_address and self._generic(first, second) and model.on("preserved_generic"):
            found.append(model.ordered(first, second))
        if same_address and self._same_proxy(first, second) and model.on("preserved_same_proxy"):
            found.append(model.ordered(first, second))
        if same_address and self._dependency_suffices(first, second):
            found.append(model.ordered(first, second))
        if not (same_address and self._generic(first, second)):
            found.append(self._staged(first, second, same_address))
        return found

    def _generic(self, first: LitmusEvent, second: LitmusEvent) -> bool:
        if self.model.weakened("proxies_are_generic"):
            return True
        return first.proxy is second.proxy is Proxy.GENERIC

    def _same_proxy(self, first: LitmusEvent, second: LitmusEvent) -> bool:
        """Same proxy in the same CTA; a shared location is accessed in the CTA that owns it."""
        same_cta = first.placement == second.placement or self.model.weakened("proxy_spans_ctas")
        return first.proxy is second.proxy and same_cta

    def _dependency_suffices(self, first: LitmusEvent, second: LitmusEvent) -> bool:
        """The war policy: generic read, then asynchronous write."""
        return (
            self.model.options.war is WarPolicy.SYNC
            and (first.proxy, second.proxy) == (Proxy.GENERIC, Proxy.ASYNC)
            and (first.kind, second.kind) == (EventKind.READ, EventKind.WRITE)
        )

    # The three stages -----------------------------------------------------------------------

    def _staged(self, first: LitmusEvent, second: LitmusEvent, same_address: bool) -> FNode:
        model = self.model
        if second.proxy is Proxy.GENERIC:
            issue = second if second.entry is None else model.events[second.entry]
            return self._aliased(first, issue, same_address)
        if second.proxy is Proxy.ASYNC:
            return any_of(
                (
                    self._enter_async(first, second, same_address),
                    self._enter_halves(first, second, same_address),
                )
            )
        if second.proxy is Proxy.TENSORMAP:
            return self._enter_halves(first, second, same_address)
        if not model.on("enter_proxy"):
            return NO
        return any_of(
            both(self._aliased(first, fence, same_address), model.until(fence, second))
            for fence in self._fences(second.proxy, second)
        )

    def _fences(self, proxy: Proxy, access: LitmusEvent) -> list[LitmusEvent]:
        """Bi-directional fences of a proxy that act on an access: same CTA, covered space."""
        anywhere = self.model.weakened("fence_in_any_cta")
        return [
            fence
            for fence in self.fences
            if self._form(fence).direction is Direction.BOTH
            and (fence.proxy is proxy or self.model.weakened("any_proxy_fence"))
            and (fence.placement == access.placement or anywhere)
            and self._covers(fence, access)
        ]

    @staticmethod
    def _form(fence: LitmusEvent) -> ProxyFence:
        assert isinstance(fence.instruction, ProxyFence)
        return fence.instruction

    def _covers(self, fence: LitmusEvent, access: LitmusEvent) -> bool:
        """The fence's state space contains the location of the access."""
        assert access.location is not None
        limit = self._form(fence).space
        if limit is None or self.model.weakened("fence_covers_every_space"):
            return True
        location = self.graph.test.location(access.location)
        if limit is Space.OWN_SHARED:
            return location.home == fence.placement
        return location.space is limit

    def _left(self, first: LitmusEvent, point: LitmusEvent) -> FNode:
        """`first` has left its proxy and precedes `point`."""
        model = self.model
        if first.proxy is Proxy.GENERIC:
            return model.after(first, point)
        ordered = first.tensor and model.options.tensor is TensorRule.ORDER
        if (first.implicit_fence or ordered) and model.on("implicit_fence_on_completion"):
            return model.after(first, point)
        if not model.on("leave_proxy"):
            return NO
        return any_of(
            all_of((model.after(first, fence), fence.guard, model.base_or_same(fence, point)))
            for fence in self._fences(first.proxy, first)
        )

    def _aliased(self, first: LitmusEvent, point: LitmusEvent, same_address: bool) -> FNode:
        """`first` has left its proxy, passed an alias fence if it needs one, before `point`."""
        model = self.model
        if same_address:
            return self._left(first, point)
        if not model.on("alias_fence"):
            return NO
        found = [
            all_of((self._left(first, fence), fence.guard, model.base_or_same(fence, point)))
            for fence in self.alias_fences
        ]
        if model.weakened("alias_fence_in_any_order") and self.alias_fences:
            found.append(self._left(first, point))
        return any_of(found)

    # Async and tensormap --------------------------------------------------------------------

    def _enter_async(self, first: LitmusEvent, second: LitmusEvent, same_address: bool) -> FNode:
        model = self.model
        if not model.on("enter_async"):
            return NO
        found = []
        for fence in self._async_fences(first, second):
            reaches = model.until(fence, second)
            if self._fenced_by_writer(first):
                if fence.thread != first.thread:
                    continue
                reaches = self._reaches_cta(fence, second)
            elif not self._in_cta(fence, second):
                continue
            found.append(all_of((self._aliased(first, fence, same_address), fence.guard, reaches)))
        return any_of(found)

    def _async_fences(self, first: LitmusEvent, second: LitmusEvent) -> list[LitmusEvent]:
        return [
            fence
            for fence in self.fences
            if fence.proxy is Proxy.ASYNC
            and self._form(fence).direction is Direction.BOTH
            and self._covers(fence, second)
        ]

    def _in_cta(self, fence: LitmusEvent, access: LitmusEvent) -> bool:
        """In the CTA of the access or of the thread that issued it."""
        assert access.entry is not None
        issuer = self.model.events[access.entry].placement
        return fence.placement in (access.placement, issuer) or self.model.weakened(
            "fence_in_any_cta"
        )

    def _fenced_by_writer(self, first: LitmusEvent) -> bool:
        writer = self.model.options.fence_rule is not FenceRule.PATH
        return writer and first.proxy is Proxy.GENERIC

    def _reaches_cta(self, fence: LitmusEvent, second: LitmusEvent) -> FNode:
        """A writer's fence in another CTA needs a second one where the access happens."""
        model = self.model
        alone = model.options.fence_rule is FenceRule.WRITER_ALONE
        if alone or self._in_cta(fence, second):
            return model.until(fence, second)
        return any_of(
            all_of((model.base(fence, other), other.guard, model.until(other, second)))
            for other in self._async_fences(fence, second)
            if self._in_cta(other, second)
        )

    def _enter_halves(self, first: LitmusEvent, second: LitmusEvent, same_address: bool) -> FNode:
        """A release half by the accessing thread and an acquire half where the access happens."""
        model = self.model
        rule = "enter_async_halves" if second.proxy is Proxy.ASYNC else "enter_tensormap"
        if not model.on(rule):
            return NO
        found = []
        for release in self._halves(second.proxy, Direction.RELEASE):
            for acquire in self._halves(second.proxy, Direction.ACQUIRE):
                if self._paired(first, release, acquire, second):
                    found.append(
                        all_of(
                            (
                                self._aliased(first, release, same_address),
                                release.guard,
                                any_of(
                                    (model.base(release, acquire), self._joined(release, acquire))
                                ),
                                acquire.guard,
                                model.until(acquire, second),
                            )
                        )
                    )
        return any_of(found)

    def _halves(self, proxy: Proxy, direction: Direction) -> list[LitmusEvent]:
        return [f for f in self.fences if f.proxy is proxy and self._form(f).direction is direction]

    def _paired(
        self, first: LitmusEvent, release: LitmusEvent, acquire: LitmusEvent, second: LitmusEvent
    ) -> bool:
        """Scopes include each other, spaces are covered, threads and CTAs are the right ones."""
        model = self.model
        assert second.entry is not None
        if model.options.fence_rule is not FenceRule.PATH and release.thread != first.thread:
            return False
        if not self._scopes(release, acquire) or not self._halved(first, release):
            return False
        if second.proxy is Proxy.ASYNC:
            covered = self._covers(release, second) and self._covers(acquire, second)
            return covered and acquire.thread == second.thread
        named = self._form(acquire).location
        assert named is not None and second.location is not None
        same_map = self.graph.test.memory(named) == self.graph.memory(second)
        in_cta = acquire.placement == model.events[second.entry].placement
        return same_map and (in_cta or model.weakened("fence_in_any_cta"))

    def _halved(self, first: LitmusEvent, release: LitmusEvent) -> bool:
        """The `::read` form covers reads of its own thread before it, and nothing else."""
        if not self._form(release).reads_only:
            return True
        model = self.model
        read = first.kind is EventKind.READ or model.weakened("read_half_covers_writes")
        own = self.graph.po(first, release) or model.weakened("read_half_is_cumulative")
        return read and own

    def _scopes(self, release: LitmusEvent, acquire: LitmusEvent) -> bool:
        if self.model.weakened("scopes_always_include"):
            return True
        assert release.scope is not None and acquire.scope is not None
        return release.placement.shares(
            release.scope, acquire.placement
        ) and acquire.placement.shares(acquire.scope, release.placement)

    def _joined(self, release: LitmusEvent, acquire: LitmusEvent) -> FNode:
        """The halves also form patterns around a strong write, even a relaxed one."""
        model = self.model
        if not model.on("halves_form_patterns"):
            return NO
        found = []
        for (w, r), seen in model.observed.items():
            write, read = model.events[w], model.events[r]
            if self.graph.po(release, write) and self.graph.po(read, acquire):
                found.append(both(seen, write.guard))
        for (a, b), meets in model.rendezvous.meets.items():
            arrive, wait = model.events[a], model.events[b]
            waits = wait.kind in (EventKind.WAIT, EventKind.CLUSTER_WAIT)
            if waits and self.graph.po(release, arrive) and self.graph.po(wait, acquire):
                found.append(meets)
        return any_of(found)
