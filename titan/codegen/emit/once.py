"""Whether every operation of a tile program is done as often as it means, in all trial runs.

The runs are those of `trace.py`. An operation of the body is due once an iteration, any other once
a work item, of each sub-tile and of each slice in which it is staged. What is fetched or computed
between tensor memory and tensor memory may be left out where nobody needs it; the check of the
registers decides.
"""

from __future__ import annotations

from dataclasses import dataclass

from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.sites import SiteKind, Tiles
from titan.codegen.emit.trace import SiteEvent, TripCounts
from titan.sync import program as ir

Events = dict[tuple[int, int, int], list[SiteEvent]]  # run, role, agent (or CTA)
Done = tuple[str, SiteKind, int]  # operation, what happens, slice


@dataclass(frozen=True, slots=True)
class OnceEach:
    """`direct`: the iterations of products that take no stage, perhaps in another role than the
    others."""

    tiles: Tiles
    runs: tuple[TripCounts, ...]
    direct: dict[tuple[int, str, int], list[int]]

    def check(self, role: ir.Role, events: Events) -> None:
        """All events of a role, by run. Raises EmissionRefused."""
        groups = self.tiles.tile.groups if self.tiles.tensor else 1
        for (turn, _, _), made in events.items():
            found: dict[tuple[Done, int], list[int]] = {}
            subs: dict[Done, set[int]] = {}
            for event in made:
                if not event.site.name or event.site.kind in (SiteKind.CARRY, SiteKind.DIRECT):
                    continue
                what = (event.site.name, event.site.kind.counted, event.site.slice)
                found.setdefault((what, event.unit), []).append(event.count)
                whole = event.site.sub is not None and role.agents < groups
                subs.setdefault(what, set()).update(range(groups) if whole else {event.sub})
            for item, trips in enumerate(self.runs[turn].trips):
                for what, of in subs.items():
                    for unit in (item * groups + sub for sub in of):
                        done = found.get((what, unit), [])
                        if what[1] is SiteKind.MMA:
                            done = [*done, *self.direct.get((turn, what[0], unit), [])]
                        self._due(role.name, what[0], what[1], done, trips)

    def _due(self, role: str, name: str, kind: SiteKind, done: list[int], trips: int) -> None:
        """`done`: iterations in which the operation was done."""
        body = self.tiles.section[name] == "body"
        loose = self.tiles.tensor and kind in (SiteKind.COMPUTE, SiteKind.FETCH) and body
        loose = (
            loose or kind is SiteKind.FETCH or (kind is SiteKind.PUT and name in self.tiles.rows)
        )
        # A stage that is poisoned is not filled; who reads it all the same is found out there.
        loose = loose or (kind is SiteKind.LOAD and name in self._without_stage())
        due = trips if body else 1
        if kind is SiteKind.PUT and any(self.tiles.rescaled(c) == name for c in self.tiles.carried):
            due = trips - 1  # the first product replaces
        if (len(done) != due and not loose) or len(set(done)) != len(done):
            raise EmissionRefused(f"{role} does {name} {len(done)} times where {due} are due")

    def _without_stage(self) -> set[str]:
        """The loads of the body whose readers can all do without them: products by threads."""
        operations = self.tiles.operations.values()
        return {
            load.name
            for load in self.tiles.tile.body
            if load.kind == "load"
            and {op.name for op in operations if load.name in op.operands} <= self.tiles.direct
        }


def products_without_stage(events: Events) -> dict[tuple[int, str, int], list[int]]:
    """The iterations of each product that takes no stage, by run, name and sub-tile; agents that
    share its rows do it alike."""
    found: dict[tuple[int, str, int], list[int]] = {}
    for (turn, _, _), made in events.items():
        for event in made:
            counts = found.setdefault((turn, event.site.name, event.unit), [])
            if event.site.kind is SiteKind.DIRECT and event.count not in counts:
                counts.append(event.count)
    return found
