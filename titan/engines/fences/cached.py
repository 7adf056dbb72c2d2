"""Pairs of accesses of which one goes through a cached proxy, and the fences that they ask for.

A cached proxy (constant, texture, surface) reads memory through a cache of its CTA. Between two
conflicting accesses stand, in this order: a fence of the first's proxy in its CTA, unless it is
generic or an asynchronous one that has completed (implicit fence); and a fence of the second's
proxy in its CTA, unless it is generic; for the tensormap proxy a release and an acquire. Two
accesses of one proxy in one CTA need none. Source: PTX memory model, proxy-preserved base causality
order; the mixed-proxy model.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from titan.engines.fences.graph import MemoryEffect, NodeKind
from titan.engines.fences.recording import Recording
from titan.engines.happens_before.tables import RunLayout
from titan.engines.happens_before.unfolding import Cell
from titan.sync import program as ir
from titan.sync.fault import FaultKind

# A stage of a way: a fence of this kind, by one of these agents (None: any).
Stage = tuple[ir.FenceKind, Collection[int] | None]
_FENCE_OF = {proxy: kind for kind, proxy in ir.CACHED_FENCES.items()}


@dataclass(frozen=True, slots=True)
class Asked:
    """From node `first` to the access one of the ways has to be there."""

    kind: FaultKind
    first: int
    ways: tuple[tuple[Stage, ...], ...]


@dataclass(slots=True)
class _History:
    """Of one cell: the last access of each agent, proxy and direction, and those of engines."""

    agents: dict[tuple[int, ir.Proxy, bool], MemoryEffect] = field(default_factory=dict)
    engines: list[MemoryEffect] = field(default_factory=list)


class CachedHistory:
    """The accesses so far to the cells that a cached proxy reaches."""

    def __init__(self, recording: Recording) -> None:
        assert recording.layout is not None
        self._graph = recording.graph
        self._layout: RunLayout = recording.layout
        cells = {effect.cell for effect in self._graph.effects if effect.proxy in ir.CACHED}
        self._cells: dict[Cell, _History] = {cell: _History() for cell in cells}
        self._reads_end = {
            flight: number
            for number, flight in recording.flights.items()
            if self._graph.nodes[number].kind is NodeKind.READS_END
        }
        self._flights = recording.flights

    def note(self, effect: MemoryEffect) -> None:
        """Remembers an access to a followed cell: all by engines, an agent's last of each sort."""
        history = self._cells.get(effect.cell)
        if history is None:
            return
        if isinstance(effect.instance.operation, ir.Asynchronous):
            history.engines.append(effect)
        else:
            history.agents[(effect.agent, _proxy(effect), effect.write)] = effect

    def asked(self, new: MemoryEffect, path_rule: bool) -> Iterator[Asked]:
        """What the earlier accesses ask for in front of a new one."""
        history = self._cells.get(new.cell)
        if history is None:
            return
        for old in [*history.agents.values(), *history.engines]:
            if not (old.write or new.write) or not {_proxy(old), _proxy(new)} & set(ir.CACHED):
                continue
            first = self._over(old)
            if first is not None:
                yield from self._pair(first, old, new, path_rule)

    def _over(self, effect: MemoryEffect) -> int | None:
        """The node after which the access is over; None for what is never committed."""
        if not isinstance(effect.instance.operation, ir.Asynchronous):
            return effect.node
        if effect.end is None:
            return None
        if effect.write or effect.proxy is ir.Proxy.GENERIC:
            return effect.end
        return self._reads_end.get(self._flights[effect.end], effect.end)

    def _pair(
        self, first: int, old: MemoryEffect, new: MemoryEffect, path_rule: bool
    ) -> Iterator[Asked]:
        ctas = self._graph.ctas
        one, other = _proxy(old), _proxy(new)
        if one is other and ctas[old.agent] == ctas[new.agent]:
            return
        kind = FaultKind.MISSING_CACHED_FENCE
        leave: tuple[Stage, ...] = ()
        if one in ir.CACHED:
            leave = ((_FENCE_OF[one], self._near(ctas[old.agent])),)
        match other:
            case ir.Proxy.GENERIC if leave:
                yield Asked(kind, first, (leave,))
            case ir.Proxy.ASYNC:
                own = ctas[new.agent]
                places = sorted({own, self._layout.homes.get(new.cell[0], own)})
                fences = [(ir.FenceKind.ASYNC, self._near(place)) for place in places]
                yield Asked(kind, first, tuple((*leave, fence) for fence in fences))
            case ir.Proxy.TENSORMAP:
                yield Asked(kind, first, (leave,))
                if old.write:
                    who = None if path_rule else (old.agent,)
                    release: Stage = (ir.FenceKind.TENSORMAP_RELEASE, who)
                    acquire: Stage = (ir.FenceKind.TENSORMAP_ACQUIRE, None)
                    missing = FaultKind.MISSING_TENSORMAP_FENCE
                    yield Asked(missing, first, ((*leave, release, acquire),))
            case ir.Proxy.CONSTANT | ir.Proxy.TEXTURE | ir.Proxy.SURFACE:
                enter: Stage = (_FENCE_OF[other], self._near(ctas[new.agent]))
                yield Asked(kind, first, ((*leave, enter),))

    def _near(self, cta: int) -> list[int]:
        return [agent for agent, other in enumerate(self._graph.ctas) if other == cta]


def _proxy(effect: MemoryEffect) -> ir.Proxy:
    """Synchronous accesses that name no cached proxy are generic."""
    asynchronous = isinstance(effect.instance.operation, ir.Asynchronous)
    return effect.proxy if asynchronous or effect.proxy in ir.CACHED else ir.Proxy.GENERIC
