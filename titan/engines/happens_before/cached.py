"""Accesses through the cached proxies (constant, texture, surface) in the order of one run.

A cached proxy in a CTA is a domain. Of two conflicting accesses of different domains, one of them
cached, the first has to leave its domain (a fence of its proxy in its CTA; nothing if it is generic
or an asynchronous one that is over), and the second's domain to be entered after that (a fence of
its proxy in its CTA; nothing if it is generic). The fences may be of any agent of the CTA; each is
before the next in every run exactly if it is in the order of this one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import field

from titan.engines.happens_before.clocks import Clocks, Timestamp
from titan.engines.happens_before.fences import Fences, Stage
from titan.engines.happens_before.tables import IssuedOperation, RunLayout
from titan.engines.happens_before.unfolding import Cell, Touch
from titan.foundation.records import dataclass
from titan.sync import program as ir
from titan.sync.fault import FaultKind

KINDS = {proxy: kind for kind, proxy in ir.CACHED_FENCES.items()}


@dataclass(slots=True, eq=False)
class PastAccess:
    """An access of the past: an agent's at its timestamp, or an engine's."""

    timestamp: Timestamp
    write: bool
    proxy: ir.Proxy
    flight: IssuedOperation | None = None


@dataclass(slots=True, eq=False)
class _History:
    """Of one cell: the last access of each agent, proxy and direction, and those of engines."""

    agents: dict[tuple[int, ir.Proxy, bool], PastAccess] = field(default_factory=dict)
    engines: list[PastAccess] = field(default_factory=list)


class CachedRules:
    """Remembers the accesses of cells that a cached proxy reaches, and finds what is not fenced."""

    def __init__(self, clocks: Clocks, layout: RunLayout, fences: Fences) -> None:
        self._clocks = clocks
        self._layout = layout
        self._fences = fences
        self._path_rule = layout.program.policies.fence_rule == "path"
        self._cells = {cell: _History() for cell in layout.cached}

    def note(self, at: Timestamp, touch: Touch, flight: IssuedOperation | None) -> None:
        """An access that has been judged."""
        history = self._cells.get(touch.cell)
        if history is None:
            return
        access = PastAccess(at, touch.write, touch.proxy, flight)
        if flight is None:
            proxy = touch.proxy if touch.proxy in ir.CACHED else ir.Proxy.GENERIC
            access.proxy = proxy
            history.agents[(at.agent, proxy, touch.write)] = access
        else:
            history.engines.append(access)

    def unseen(
        self, at: Timestamp, touch: Touch, flight: IssuedOperation | None
    ) -> Iterator[tuple[FaultKind, PastAccess, bool]]:
        """What the access does not see: the rule, the other access, and whether order is lacking.

        The last is False where fences stand in the order, but it carries no visibility.
        """
        history = self._cells.get(touch.cell)
        if history is None:
            return
        proxy = touch.proxy
        if flight is None and proxy not in ir.CACHED:
            proxy = ir.Proxy.GENERIC
        for old in [*history.agents.values(), *history.engines]:
            if not (old.write or touch.write) or not {old.proxy, proxy} & set(ir.CACHED):
                continue
            for kind, ways in self._asked(old, proxy, at, touch):
                if not ways:
                    continue
                if not self._fenced(old, ways, touch.cell, at, False):
                    yield kind, old, True
                    break
                if self._clocks.weak and not self._fenced(old, ways, touch.cell, at, True):
                    yield kind, old, False
                    break

    def _asked(
        self, old: PastAccess, proxy: ir.Proxy, at: Timestamp, touch: Touch
    ) -> Iterator[tuple[FaultKind, list[list[Stage]]]]:
        """Which ways through fences would do, rule by rule; no way: nothing is asked."""
        ctas = self._layout.ctas
        if proxy is old.proxy and ctas[old.timestamp.agent] == ctas[at.agent]:
            return
        leave: list[Stage] = []
        if old.proxy in ir.CACHED:
            leave = [(KINDS[old.proxy], self._near(ctas[old.timestamp.agent]))]
        if proxy is ir.Proxy.TENSORMAP:
            yield FaultKind.MISSING_CACHED_FENCE, [leave]
            who = None if self._path_rule else (old.timestamp.agent,)
            release: Stage = (ir.FenceKind.TENSORMAP_RELEASE, who)
            acquire: Stage = (ir.FenceKind.TENSORMAP_ACQUIRE, None)
            if old.write:
                yield FaultKind.MISSING_TENSORMAP_FENCE, [[*leave, release, acquire]]
        elif proxy is ir.Proxy.ASYNC:
            places = {ctas[at.agent], self._layout.homes.get(touch.cell[0], ctas[at.agent])}
            enter = [(ir.FenceKind.ASYNC, self._near(place)) for place in sorted(places)]
            yield FaultKind.MISSING_CACHED_FENCE, [[*leave, stage] for stage in enter]
        elif proxy is ir.Proxy.GENERIC:
            yield FaultKind.MISSING_CACHED_FENCE, [leave] if leave else []
        else:
            stage = (KINDS[proxy], self._near(ctas[at.agent]))
            yield FaultKind.MISSING_CACHED_FENCE, [[*leave, stage]]

    def _near(self, cta: int) -> Collection[int]:
        return [agent for agent, other in enumerate(self._layout.ctas) if other == cta]

    def _fenced(
        self, old: PastAccess, ways: list[list[Stage]], cell: Cell, at: Timestamp, seen: bool
    ) -> bool:
        def after(timestamp: Timestamp) -> bool:
            if old.flight is None:
                return self._clocks.before(
                    old.timestamp.agent, old.timestamp.index, timestamp, seen
                )
            # Who waits for an engine's end sees what it did.
            if old.write or old.proxy is ir.Proxy.GENERIC:
                return self._clocks.over(old.flight, timestamp)
            return self._clocks.read(old.flight, timestamp)

        return any(self._fences.lead(way, cell, at, after, seen) for way in ways)
