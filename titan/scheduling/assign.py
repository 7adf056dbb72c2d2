"""Warp assignments for schedulers that do not choose one themselves.

Operations of variable latency go to their group, operations of one warp that only wait and start
units to a narrow group where there is one. The others are split into chains that share values; a
chain stays together, and chains are dealt out over the groups that are wide enough, the heaviest
first, to where the fewest cycles are taken. Deterministic.
"""

from __future__ import annotations

from titan.scheduling.encode import allowed_teams
from titan.scheduling.loop.model import DATA, Loop

STYLES = ("specialised", "joined")


def assign(loop: Loop, style: str = "specialised") -> tuple[int, ...] | None:
    """A group for every operation; None when some operation has none.

    `specialised` spreads chains over all groups; `joined` puts whatever can be on one group there
    (no specialisation beyond what variable latency forces).
    """
    if not loop.has_teams:
        return (0,) * len(loop.operations)
    allowed = [allowed_teams(loop, v) for v in range(len(loop.operations))]
    if not all(allowed):
        return None
    if style == "joined":
        return _joined(allowed)
    wide = max((op.warps for op in loop.operations), default=1)
    chosen: list[int | None] = [teams[0] if len(teams) == 1 else None for teams in allowed]
    for v, teams in enumerate(allowed):
        if chosen[v] is None and loop.operations[v].warps < wide:
            narrow = [k for k in teams if loop.teams[k].warps == loop.operations[v].warps]
            if narrow:
                chosen[v] = narrow[0]
    free = [v for v, team in enumerate(chosen) if team is None]
    load = [0] * len(loop.teams)
    for chain in chains(loop, free):
        options = set(allowed[chain[0]]).intersection(*(allowed[v] for v in chain[1:]))
        for v in chain:
            if not options:
                chosen[v] = allowed[v][0]
        if options:
            best = min(sorted(options), key=lambda k: (load[k], k))
            for v in chain:
                chosen[v] = best
                load[best] += weight(loop, v)
    return tuple(team if team is not None else allowed[v][0] for v, team in enumerate(chosen))


def weight(loop: Loop, v: int) -> int:
    """How much an operation counts where groups are balanced: cycles, or registers by 64."""
    return max(loop.operations[v].cycles, loop.operations[v].registers // 64)


def _joined(allowed: list[list[int]]) -> tuple[int, ...]:
    free = [set(teams) for teams in allowed if len(teams) > 1]
    common = set.intersection(*free) if free else set()
    best = min(common) if common else None
    return tuple(best if best in teams else teams[0] for teams in allowed)


def chains(loop: Loop, members: list[int]) -> list[list[int]]:
    """Operations joined along the values that cost most to hand over; heaviest chain first.

    A chain does not grow past its share of the groups that are wide enough, so that sub-tiles which
    exchange only small values stay apart.
    """
    inside = set(members)
    leader = {v: v for v in members}
    mass = {v: weight(loop, v) for v in members}
    wide = max((loop.operations[v].warps for v in members), default=1)
    share = sum(1 for group in loop.teams if group.warps >= wide and not group.variable_latency)
    limit = sum(mass.values()) * 5 // (4 * max(1, share)) + 1

    def find(v: int) -> int:
        while leader[v] != v:
            leader[v] = leader[leader[v]]
            v = leader[v]
        return v

    edges = [
        (-loop.operations[e.source].spill_cycles - (0 if e.blocking else 1), i, e)
        for i, e in enumerate(loop.dependences)
        if e.kind == DATA and e.source in inside and e.sink in inside
    ]
    for _, _, e in sorted(edges, key=lambda item: item[:2]):
        a, b = sorted((find(e.source), find(e.sink)))
        if a != b and mass[a] + mass[b] <= limit:
            leader[b] = a
            mass[a] += mass[b]
    found: dict[int, list[int]] = {}
    for v in members:
        found.setdefault(find(v), []).append(v)
    return sorted(found.values(), key=lambda c: (-sum(weight(loop, v) for v in c), c[0]))
