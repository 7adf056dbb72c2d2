"""Random small sync programs for tests that compare engines with each other.

`random_program(random)` draws one program: a structured one (a ring, a ping-pong, queue traffic,
waves, pools, barrier lifecycle, two CTAs, aliasing, tensor maps) that is correct as drawn and then
perturbed by 0 to 3 edits, one about cached proxies or halves of fences that lacks a fence at times,
or a free one. All sizes are fixed in the program, so that
`Machine(program)` needs no sizes. `sync_programs()` is the same for hypothesis.

The programs are small enough for the reference search: a few thousand states at most, mostly.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from hypothesis import strategies as st

from tests.edits import perturb
from tests.free_programs import free
from tests.proxy_programs import cached, halves
from tests.rings import ring, token_ring
from tests.structured_programs import (
    aliasing,
    copy_pipeline,
    descriptors,
    lifecycle,
    mma_chain,
    ping_pong,
    registers,
    store_pipeline,
    sync_phases,
    two_ctas,
    waves,
)
from titan.sync import program as ir

FAMILIES: dict[str, Callable[[Random], ir.SyncProgram]] = {
    family.__name__: family
    for family in (ring, token_ring, ping_pong, sync_phases, store_pipeline, copy_pipeline,
                   mma_chain, waves, registers, lifecycle, two_ctas, aliasing, descriptors, cached,
                   halves, free)
}  # fmt: skip
_WEIGHTS = {"ring": 5, "free": 4}


def random_program(
    random: Random, family: str | None = None, edits: int | None = None
) -> ir.SyncProgram:
    """One small program: of `family`, or of any; with `edits` edits, or with 0 to 3."""
    if family is None:
        names = list(FAMILIES)
        family = random.choices(names, [_WEIGHTS.get(name, 1) for name in names])[0]
    if edits is None:
        edits = 0 if family == "free" else random.choice((0, 0, 1, 1, 1, 2, 3))
    return perturb(FAMILIES[family](random), random, edits)


def program_of_seed(seed: int) -> ir.SyncProgram:
    """The program that a disagreement names by its seed."""
    return random_program(Random(seed))


def sync_programs() -> st.SearchStrategy[ir.SyncProgram]:
    """The same programs for hypothesis, which shrinks the choices made."""
    return st.randoms(use_true_random=False).map(random_program)
