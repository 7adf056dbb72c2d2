"""Which synchronisations of a role that touches tensor memory need a tcgen05 fence before them.

`tcgen05.fence::before_thread_sync` orders all operations on tensor memory before it with all
synchronisation behind it, not with the next one alone. So a synchronisation needs one only if the
role can have touched tensor memory since the last fence, on any way there: around a loop, or past
one that does nothing. What other threads have done is ordered by the fences of their own. Source:
PTX ISA, tcgen05: memory consistency model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from titan.codegen.emit.sites import EmissionSite
from titan.sync import program as ir

FENCED = (ir.Arrive, ir.BarrierSync, ir.BarrierArrive)


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


def unfenced(
    sites: tuple[EmissionSite, ...], touches: Callable[[EmissionSite], bool]
) -> frozenset[int]:
    """The numbers of the synchronisations of a role that need a fence before them. `touches`:
    whether a site has operations on tensor memory."""
    ways = _Ways(touches)
    ways.after(sites, False)
    return frozenset(ways.found)
