"""Marks of accesses that another proxy may not see yet: cached proxies, and released halves.

The *cached* proxies (constant, texture, surface) reach memory through a cache of each CTA, so that
a proxy in a CTA is a *domain* of its own. An access leaves its domain by a fence of that proxy in
that CTA; a generic access is outside from the start, an asynchronous one from its completion on
(the implicit fence). What is outside enters a domain by a fence of that proxy in that CTA. Two
accesses of one domain need nothing. Source: the PTX memory model, "Proxy-preserved base causality
order", and the mixed-proxy model (ISCA 2022).

A one-way release (`fence.proxy.async::generic.release`) hands on the marks of its agent's generic
accesses to whoever acquires: each agent that issues asynchronous accesses executes an acquire of
its own (PTX fence, `.sync_restrict`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from titan.sync import program as ir
from titan.sync.parts import effects_of

Domain = tuple[ir.Proxy, int]  # a cached proxy, or the asynchronous one, and a CTA


class ProxyMarks(NamedTuple):
    """Of one cell; the last entry of each mark is whether it is of a write.

    `inside`: (proxy, agent) of accesses that have not left their domain. `outside`: (proxy, CTA) of
    the domains that some access outside has yet to enter. `released`: (agent of a generic access
    released one way, agent that has yet to acquire it).
    """

    inside: frozenset[tuple[ir.Proxy, int, bool]] = frozenset()
    outside: frozenset[tuple[ir.Proxy, int, bool]] = frozenset()
    released: frozenset[tuple[int, int, bool]] = frozenset()


NO_MARKS = ProxyMarks()


def went_inside(marks: ProxyMarks, proxy: ir.Proxy, agent: int, write: bool) -> ProxyMarks:
    """An access through a cached proxy."""
    return marks._replace(inside=marks.inside | {(proxy, agent, write)})


def is_outside(marks: ProxyMarks, domains: Iterable[Domain], write: bool) -> ProxyMarks:
    """An access that no cache keeps: it has yet to enter each of the domains."""
    return marks._replace(outside=marks.outside | {(*domain, write) for domain in domains})


def fenced(
    marks: ProxyMarks, domain: Domain, ctas: tuple[int, ...], domains: tuple[Domain, ...]
) -> tuple[ProxyMarks, frozenset[int]]:
    """A fence of a domain: what is outside enters, what is inside leaves; and the agents of that
    which were writes. `ctas`: of each agent."""
    proxy, cta = domain
    leaving = {mark for mark in marks.inside if mark[0] is proxy and ctas[mark[1]] == cta}
    entered = frozenset(mark for mark in marks.outside if mark[:2] != domain)
    marks = marks._replace(inside=marks.inside - leaving, outside=entered)
    others = [other for other in domains if other != domain]
    for _, _, write in leaving:
        marks = is_outside(marks, others, write)
    return marks, frozenset(agent for _, agent, write in leaving if write)


def missing_fence(
    marks: ProxyMarks, proxy: ir.Proxy, cta: int, ctas: tuple[int, ...], write: bool
) -> str:
    """What an access from a CTA meets that it does not see: how it was made; empty: nothing."""
    for other, agent, wrote in sorted(marks.inside):
        same = other is proxy and ctas[agent] == cta
        if (write or wrote) and not same:
            return f"{'written' if wrote else 'read'} through the {other} proxy"
    for wrote in (True, False):
        if (write or wrote) and (proxy, cta, wrote) in marks.outside:
            return f"{'written' if wrote else 'read'} through another proxy"
    return ""


class CacheDomains(NamedTuple):
    """Of each storage that a cached proxy reaches: the domains of those, and of the async proxy."""

    cached: dict[str, tuple[Domain, ...]]
    asynchronous: dict[str, tuple[Domain, ...]]

    def reaching(self, storage: str) -> tuple[Domain, ...]:
        """All domains by which the storage is reached."""
        return (*self.cached.get(storage, ()), *self.asynchronous.get(storage, ()))


def cache_domains_of(program: ir.SyncProgram) -> CacheDomains:
    """The domains that the accesses of a program belong to."""
    buffers = {buffer.name: buffer for buffer in program.buffers}
    cached: dict[str, set[Domain]] = {}
    others: dict[str, set[Domain]] = {}
    for role in program.roles:
        for operation in ir.walk(role.body):
            for effect in effects_of(operation):
                buffer = buffers[effect.buffer]
                storage = buffer.storage or buffer.name
                if effect.proxy in ir.CACHED:
                    cached.setdefault(storage, set()).add((effect.proxy, role.cta))
                elif effect.proxy is ir.Proxy.ASYNC:
                    places = {role.cta}
                    if buffer.space is not ir.Space.GLOBAL:
                        places.add(buffer.cta)
                    found = others.setdefault(storage, set())
                    found |= {(ir.Proxy.ASYNC, place) for place in places}
    return CacheDomains(
        {storage: tuple(sorted(found)) for storage, found in cached.items()},
        {storage: tuple(sorted(found)) for storage, found in others.items() if storage in cached},
    )
