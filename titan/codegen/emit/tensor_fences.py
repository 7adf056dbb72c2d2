"""Which synchronisations of a role that touches tensor memory need tcgen05 fences around them.

`tcgen05.fence::before_thread_sync` orders all operations on tensor memory before it with all
synchronisation behind it, `tcgen05.fence::after_thread_sync` all synchronisation before it with all
operations behind it, not with the next one alone. So a synchronisation needs a fence before it only
if the role can have touched tensor memory since the last one, and a wait one behind it only if the
role can touch tensor memory before it waits again, on any way: around a loop, or past one that does
nothing. A correction, which a warp may leave out, has both fences itself. What other threads have
done is ordered by the fences of their own. Source: PTX ISA, tcgen05: memory consistency model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from titan.codegen.emit.sites import EmissionSite
from titan.sync import program as ir

FENCED = (ir.Arrive, ir.BarrierSync, ir.BarrierArrive)
WAITS = (ir.Wait, ir.BarrierSync)


@dataclass(slots=True)
class _Ways:
    """`found`: the numbers of the sites that a way reaches with something that is not fenced."""

    touches: Callable[[EmissionSite], bool]
    found: set[int] = field(default_factory=set)

    def after(self, sites: tuple[EmissionSite, ...], touched: bool) -> bool:
        """Whether something may not be fenced behind the sites, `touched` being that before."""
        for site in sites:
            touched = self._after(site, touched)
        return touched

    def _after(self, site: EmissionSite, touched: bool) -> bool:
        if isinstance(site.operation, ir.Loop):
            once = self.after(site.inside, touched)
            if once and not touched:  # further times around
                self.after(site.inside, True)
            return touched or once
        if isinstance(site.operation, ir.Branch):
            then = self.after(site.inside, touched)
            return self.after(site.otherwise, touched) or then
        if isinstance(site.operation, FENCED):
            self.found |= {site.number} if touched else set()
            return False
        return touched or self.touches(site)


@dataclass(slots=True)
class _WaysBack:
    """`found`: the numbers of the waits from which a way leads to tensor memory, with no other wait
    on it."""

    touches: Callable[[EmissionSite], bool]
    found: set[int] = field(default_factory=set)

    def before(self, sites: tuple[EmissionSite, ...], ahead: bool) -> bool:
        """Whether tensor memory may be touched from the sites on, `ahead` being that from behind
        them on."""
        for site in reversed(sites):
            ahead = self._before(site, ahead)
        return ahead

    def _before(self, site: EmissionSite, ahead: bool) -> bool:
        if isinstance(site.operation, ir.Loop):
            once = self.before(site.inside, ahead)
            if once and not ahead:  # times around before the last
                self.before(site.inside, True)
            return ahead or once
        if isinstance(site.operation, ir.Branch):
            then = self.before(site.inside, ahead)
            return self.before(site.otherwise, ahead) or then
        if isinstance(site.operation, WAITS):
            self.found |= {site.number} if ahead else set()
            return False
        return ahead or self.touches(site)


def unordered(
    sites: tuple[EmissionSite, ...], touches: Callable[[EmissionSite], bool]
) -> frozenset[int]:
    """The numbers of the waits of a role that need a fence behind them. `touches`: whether a site
    has operations on tensor memory, and no fence of its own before them."""
    ways = _WaysBack(touches)
    ways.before(sites, False)
    return frozenset(ways.found)


def unfenced(
    sites: tuple[EmissionSite, ...], touches: Callable[[EmissionSite], bool]
) -> frozenset[int]:
    """The numbers of the synchronisations of a role that need a fence before them. `touches`:
    whether a site has operations on tensor memory, and no fence of its own behind them."""
    ways = _Ways(touches)
    ways.after(sites, False)
    return frozenset(ways.found)
