"""A certificate exists for no program in which an engine that shares no code finds a fault.

What writes is compared with the explorer's native core on mutants of library kernels for every
number, and with the reference search on random programs; with and without single steps.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice
from random import Random

import pytest

from tests.free_programs import free
from tests.proof.kernels import programs
from tests.proofs.generators import sums, with_reductions
from tests.rings import ring
from tests.structured_programs import copy_pipeline, mma_chain, ping_pong, store_pipeline, two_ctas
from titan.cli import certificates
from titan.cli.certificates import confirmed
from titan.engines.explore.quotient import NotApplicableError
from titan.engines.explore.reference import explore_reference
from titan.engines.explore.search import explore
from titan.engines.result import Budget
from titan.foundation.verdict import Verdict
from titan.proof.check import check
from titan.proof.write import FaultyError, write
from titan.sync.open_numbers import NotCoveredError
from titan.sync.program import SyncProgram
from titan.verify.mutate.mutants import mutants_of

BUDGET = Budget(states_max=100_000)


def certified(program: SyncProgram, given: dict[str, int], states_max: int = 3000) -> str:
    try:
        text = write(program, given, states_max)
    except FaultyError:
        return "faulty"
    except NotCoveredError:
        return "not covered"
    check(text)
    return "certified"


def explored(program: SyncProgram) -> Verdict:
    try:
        return explore(program, budget=BUDGET).verdict
    except NotApplicableError:
        return Verdict.UNDECIDED


def compare_mutants(name: str, every: int) -> Counter[tuple[str, str]]:
    seen: Counter[tuple[str, str]] = Counter()
    for mutant in islice(mutants_of(programs(name)[0]), 0, None, every):
        mine, others = certified(mutant.program, {}), explored(mutant.program)
        seen[(mine, others)] += 1
        assert (mine, others) not in {
            ("certified", Verdict.REFUTED),
            ("faulty", Verdict.VERIFIED),
        }, f"{mutant.what} {mutant.where}"
    return seen


@pytest.mark.parametrize("name", ["mi300_gemm", "bulk_copy"])
def test_mutants_for_every_number(name: str) -> None:
    seen = compare_mutants(name, 3)
    assert seen[("faulty", Verdict.REFUTED)] > 3


@pytest.mark.heavy
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("name", "every"),
    [
        ("hopper_gemm", 1),
        ("mi300_pingpong", 1),
        ("ampere_gemm_multistage", 1),
        ("split_k_cluster", 2),
        ("grouped_gemm", 3),
    ],
)
def test_all_mutants_for_every_number(name: str, every: int) -> None:
    """Two rings that roam, and sizes of their own in each iteration, are among them."""
    seen = compare_mutants(name, every)
    assert seen[("faulty", Verdict.REFUTED)] > 10


GENERATORS = (free, ring, ping_pong, store_pipeline, copy_pipeline, mma_chain, two_ctas)


def compare(
    program: SyncProgram, given: dict[str, int], states_max: int, seed: int
) -> list[tuple[str, str]]:
    """What certificate and search say of a program; nothing where the search does not end."""
    oracle = explore_reference(program, given, Budget(states_max=states_max))
    if oracle.verdict is Verdict.UNDECIDED:
        return []
    mine = certified(program, given)
    if mine != "not covered":
        assert (mine == "faulty") == (oracle.verdict is Verdict.REFUTED), seed
    return [(mine, oracle.verdict)]


def compare_random(first: int, count: int) -> Counter[tuple[str, str]]:
    seen: Counter[tuple[str, str]] = Counter()
    for seed in range(first, first + count):
        generator = GENERATORS[seed % len(GENERATORS)]
        program = generator(Random(seed))
        given = {p.name: 2 + seed % 2 for p in program.parameters if p.value is None}
        if any(p.per for p in program.parameters):
            continue
        seen.update(compare(program, given, 3000, seed))
    return seen


def test_random_programs() -> None:
    seen = compare_random(0, 140)
    assert seen[("certified", Verdict.VERIFIED)] > 10
    assert seen[("faulty", Verdict.REFUTED)] > 10


def compare_reductions(first: int, count: int) -> Counter[tuple[str, str]]:
    """Programs in which some writes add to what is there."""
    seen: Counter[tuple[str, str]] = Counter()
    for seed in range(first, first + count):
        random = Random(seed)
        program = (sums, GENERATORS[seed // 2 % len(GENERATORS)])[seed % 2](random)
        roles = [replace(r, body=with_reductions(r.body, random)) for r in program.roles]
        program = replace(program, roles=tuple(roles))
        given = {p.name: p.minimum + 2 for p in program.parameters if p.value is None}
        if any(p.per for p in program.parameters):
            continue
        seen.update(compare(program, given, 1000, seed))
    return seen


def test_programs_with_reductions() -> None:
    seen = compare_reductions(0, 60)
    assert seen[("certified", Verdict.VERIFIED)] > 3
    assert seen[("faulty", Verdict.REFUTED)] > 10


@pytest.mark.heavy
@pytest.mark.timeout(1800)
def test_many_programs_with_reductions() -> None:
    assert compare_reductions(1000, 2000)[("certified", Verdict.VERIFIED)] > 100


@pytest.mark.heavy
@pytest.mark.timeout(1800)
def test_many_random_programs() -> None:
    seen = compare_random(1000, 4000)
    assert seen[("certified", Verdict.VERIFIED)] > 300
    assert seen[("faulty", Verdict.REFUTED)] > 300


# --------------------------------------------------------------- without partial order


CLOSING = ("ampere_gemm_multistage", "bulk_copy", "grouped_gemm", "mi300_gemm", "mi300_pingpong")


@pytest.mark.parametrize("name", CLOSING)
def test_a_verdict_is_confirmed_without_single_steps(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert confirmed(name, programs(name)[0]) == 0
    assert f"{name}: confirmed by" in capsys.readouterr().err


def test_a_fault_without_single_steps_contradicts_the_certificate(
    capsys: pytest.CaptureFixture[str],
) -> None:
    mutants = (mutant.program for mutant in mutants_of(programs("mi300_gemm")[0]))
    faulty = next(program for program in mutants if explored(program) is Verdict.REFUTED)
    assert confirmed("mutant", faulty) == 4
    assert "a fault is found" in capsys.readouterr().err


def test_a_search_that_does_not_close_confirms_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificates, "FULL_STATES_MAX", 100)
    assert confirmed("bulk_copy", programs("bulk_copy")[0]) == 0
    assert "not confirmed: more than 100 states" in capsys.readouterr().err
