"""The explorer's verdict for every number of tiles against its verdicts for single numbers.

Random rings with an open number of tiles, some of them perturbed. A refutation for any number comes
with a trace that the interpreter has confirmed, for the number in the trace; a VERIFIED for any
number must hold for each number that is tried, up to three turns of the ring and two.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from random import Random

import pytest

from tests.agreement.engines import REFERENCE_STATES_MAX
from tests.edits import perturb
from tests.rings import persistent_ring
from tests.sampling import part
from tests.strategies import random_program
from titan.engines.explore.reference import explore_reference
from titan.foundation.verdict import Verdict
from titan.sync.program import Parameter, SyncProgram

pytest.importorskip("titan.engines.explore.quotient")

from titan.engines.explore.quotient import NotApplicableError
from titan.engines.explore.search import explore
from titan.engines.result import Budget

BUDGET = Budget(60_000, 10.0)


def open_ring(seed: int) -> SyncProgram:
    """A ring, perturbed or not, whose number of tiles is open."""
    random = Random(seed)
    ring = random_program(random, "ring", random.choice((0, 0, 1, 1, 2)))
    return replace(ring, parameters=(Parameter("tiles"),))


def depth_of(program: SyncProgram) -> int:
    return max(barrier.stages for barrier in program.barriers)


def bounded(program: SyncProgram) -> tuple[Verdict, int]:
    """The first number that refutes the program, or VERIFIED and the last number tried."""
    last = 3 * depth_of(program) + 2
    for tiles in range(last + 1):
        result = explore(program, {"tiles": tiles}, BUDGET)
        if result.verdict is not Verdict.VERIFIED:
            return result.verdict, tiles
    return Verdict.VERIFIED, last


def compare(seeds: range) -> tuple[list[str], Counter[str]]:
    wrong, tally = [], Counter[str]()
    for seed in seeds:
        program = open_ring(seed)
        try:
            every = explore(program, None, BUDGET)
        except NotApplicableError:
            tally["not applicable"] += 1
            continue
        tally[every.verdict] += 1
        if every.verdict is Verdict.UNDECIDED:
            continue
        outcome, tiles = bounded(program)
        if outcome is Verdict.REFUTED and every.verdict is Verdict.VERIFIED:
            wrong.append(f"seed {seed}: verified for every number, refuted for {tiles}")
        if every.verdict is Verdict.REFUTED:
            assert every.trace is not None
            number = dict(every.trace.parameters)["tiles"]
            assert isinstance(number, int)
            if outcome is Verdict.VERIFIED and number <= tiles:
                wrong.append(f"seed {seed}: refuted at {number}, but that number alone verifies")
            plain = explore_reference(program, {"tiles": number}, Budget(REFERENCE_STATES_MAX))
            if plain.verdict is Verdict.VERIFIED:
                wrong.append(f"seed {seed}: the reference search verifies {number}")
    return wrong, tally


def test_every_number_agrees_with_single_numbers():
    wrong, tally = compare(range(part(160, 2)))
    assert not wrong, "\n".join(wrong)
    assert tally[Verdict.VERIFIED] > part(40, 2) and tally[Verdict.REFUTED] > part(25, 2), tally
    assert tally["not applicable"] + tally[Verdict.UNDECIDED] < part(40, 2), tally


def nested_sizes(program: SyncProgram) -> Iterator[dict[str, int | tuple[int, ...]]]:
    """Up to three output tiles of one or two k-tiles each, and more tiles of one number."""
    per = any(parameter.per for parameter in program.parameters)
    for work in range(4):
        if per and work:
            for k_tiles in product((1, 2), repeat=work):
                yield {"work": work, "k_tiles": k_tiles}
        else:
            yield from ({"work": work, "k_tiles": k_tiles} for k_tiles in range(1, 5))
    yield from ({"work": work, "k_tiles": 1} for work in range(4, 8))


def compare_nested(seeds: range) -> tuple[list[str], Counter[str]]:
    wrong, tally = [], Counter[str]()
    for seed in seeds:
        random = Random(seed)
        program = perturb(persistent_ring(random), random, random.choice((0, 1, 1, 2)))
        if any(parameter.value is not None for parameter in program.parameters):
            continue
        try:
            every = explore(program, None, BUDGET)
        except NotApplicableError:
            tally["not applicable"] += 1
            continue
        tally[every.verdict] += 1
        if every.verdict is not Verdict.VERIFIED:  # a trace has been confirmed already
            continue
        for sizes in nested_sizes(program):
            if explore(program, sizes, BUDGET).verdict is Verdict.REFUTED:
                wrong.append(f"seed {seed}: verified for all numbers, refuted for {sizes}")
                break
    return wrong, tally


def test_two_open_numbers_agree_with_single_ones():
    wrong, tally = compare_nested(range(part(100, 2)))
    assert not wrong, "\n".join(wrong)
    assert min(tally[Verdict.VERIFIED], tally[Verdict.REFUTED]) > part(15, 2), tally


@pytest.mark.heavy
@pytest.mark.timeout(3600)
def test_two_open_numbers_agree_on_many_rings():
    wrong, _ = compare_nested(range(1_000, 2_500))
    assert not wrong, "\n".join(wrong)


@pytest.mark.heavy
@pytest.mark.timeout(3600)
def test_every_number_agrees_on_many_rings():
    wrong, _ = compare(range(1_000, 4_000))
    assert not wrong, "\n".join(wrong)
