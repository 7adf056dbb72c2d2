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
    """Ways through a role's sites, forwards, or `back` from the end. `found`: the numbers of the
    sites that do what `ends` names which a way reaches with something not fenced since the last.
    """

    touches: Callable[[EmissionSite], bool]
    ends: tuple[type[ir.Operation], ...]
    back: bool = False
    found: set[int] = field(default_factory=set)

    def along(self, sites: tuple[EmissionSite, ...], touched: bool) -> bool:
        """Whether something may not be fenced past the sites, `touched` being that before."""
        for site in reversed(sites) if self.back else sites:
            touched = self._past(site, touched)
        return touched

    def _past(self, site: EmissionSite, touched: bool) -> bool:
        if isinstance(site.operation, ir.Loop):
            once = self.along(site.inside, touched)
            if once and not touched:  # further times around
                self.along(site.inside, True)
            return touched or once
        if isinstance(site.operation, ir.Branch):
            then = self.along(site.inside, touched)
            return self.along(site.otherwise, touched) or then
        if isinstance(site.operation, self.ends):
            self.found |= {site.number} if touched else set()
            return False
        return touched or self.touches(site)


def unordered(
    sites: tuple[EmissionSite, ...], touches: Callable[[EmissionSite], bool]
) -> frozenset[int]:
    """The numbers of the waits of a role that need a fence behind them. `touches`: whether a site
    has operations on tensor memory, and no fence of its own before them."""
    ways = _Ways(touches, WAITS, back=True)
    ways.along(sites, False)
    return frozenset(ways.found)


def unfenced(
    sites: tuple[EmissionSite, ...], touches: Callable[[EmissionSite], bool]
) -> frozenset[int]:
    """The numbers of the synchronisations of a role that need a fence before them. `touches`:
    whether a site has operations on tensor memory, and no fence of its own behind them."""
    ways = _Ways(touches, FENCED)
    ways.along(sites, False)
    return frozenset(ways.found)
