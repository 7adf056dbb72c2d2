"""Fences around synchronisation: where one is left out, no run has anything left to order."""

from __future__ import annotations

import random
from collections.abc import Iterator

from titan.codegen.emit.sites import EmissionSite, SiteKind
from titan.codegen.emit.tensor_fences import unfenced, unordered
from titan.sync import program as ir
from titan.sync.expression import ONE, ZERO

ROUNDS = 2  # that a loop goes around at most: the state has two values
ARRIVE = ir.Arrive(ir.Reference("b", ZERO))
TOUCH = ir.Compute("touch")
WAIT = ir.Wait(ir.Reference("b", ZERO), ONE)
LEAVES = (ARRIVE, TOUCH, TOUCH)


class Numbered:
    """Makes random sites, each with a number of its own."""

    def __init__(self, seed: int, leaves: tuple[ir.Operation, ...] = LEAVES) -> None:
        self.random, self.following, self.leaves = random.Random(seed), 0, leaves

    def block(self, depth: int) -> tuple[EmissionSite, ...]:
        return tuple(self.site(depth) for _ in range(self.random.randrange(1, 4)))

    def site(self, depth: int) -> EmissionSite:
        self.following += 1
        number, kind = self.following, self.random.randrange(6 if depth else 3)
        if kind == 3:
            loop = ir.Loop("i", ZERO, ONE, ())
            return EmissionSite(number, loop, SiteKind.PLAIN, inside=self.block(depth - 1))
        if kind > 3:
            then, otherwise = self.block(depth - 1), self.block(depth - 1)
            branch = ir.Branch(ONE, (), ())
            return EmissionSite(number, branch, SiteKind.PLAIN, "", then, otherwise[kind - 4 :])
        return EmissionSite(number, self.leaves[kind], SiteKind.PLAIN)


def runs(sites: tuple[EmissionSite, ...]) -> Iterator[tuple[EmissionSite, ...]]:
    """All runs of the sites, one site after the other."""
    if not sites:
        yield ()
        return
    for first in _runs_of(sites[0]):
        for rest in runs(sites[1:]):
            yield first + rest


def _runs_of(site: EmissionSite) -> Iterator[tuple[EmissionSite, ...]]:
    if isinstance(site.operation, ir.Loop):
        for rounds in range(ROUNDS + 1):
            yield from runs(site.inside * rounds)
    elif isinstance(site.operation, ir.Branch):
        yield from runs(site.inside)
        yield from runs(site.otherwise)
    else:
        yield (site,)


def needed(sites: tuple[EmissionSite, ...]) -> set[int]:
    """Arrivals that some run reaches with something touched since the arrival before."""
    found = set()
    for run in runs(sites):
        touched = False
        for site in run:
            if site.operation is TOUCH:
                touched = True
            else:
                found |= {site.number} if touched else set()
                touched = False
    return found


def test_exactly_what_a_run_reaches_unfenced_is_found():
    some = 0
    for seed in range(400):
        sites = Numbered(seed).block(2)
        wanted = needed(sites)
        found = unfenced(sites, lambda site: site.operation is TOUCH)
        assert found == wanted, seed
        some += bool(wanted)
    assert some > 100


def behind(sites: tuple[EmissionSite, ...]) -> set[int]:
    """Waits from which some run comes to something that is touched before the next wait."""
    found = set()
    for run in runs(sites):
        waited = 0
        for site in run:
            if site.operation is WAIT:
                waited = site.number
            elif site.operation is TOUCH and waited:
                found.add(waited)
    return found


def test_exactly_the_waits_that_tensor_memory_is_touched_behind_are_found():
    some = several = 0
    for seed in range(400):
        sites = Numbered(seed, (WAIT, TOUCH, ARRIVE)).block(2)
        wanted = behind(sites)
        found = unordered(sites, lambda site: site.operation is TOUCH)
        assert found == wanted, seed
        some += bool(wanted)
        waits = {site.number for run in runs(sites) for site in run if site.operation is WAIT}
        several += wanted < waits
    assert some > 100 and several > 100
