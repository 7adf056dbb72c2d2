"""The proxy-effect graph and the happens-before engine say the same about fences.

Where one run stands for all (`reason` empty), the graph finds an unjustified pair exactly if the
engine, or the search by the reference interpreter, can reach a missing fence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings

from tests.edits import perturb
from tests.proxy_programs import cached, halves
from tests.strategies import program_of_seed, random_program, sync_programs
from titan.engines.explore.reference import explore_reference
from titan.engines.fences.justify import judge
from titan.engines.happens_before.engine import analyse
from titan.engines.result import Budget
from titan.foundation.verdict import Verdict
from titan.sync import program as ir
from titan.sync.fault import FaultKind

FENCE_FAULTS = {
    FaultKind.MISSING_FENCE,
    FaultKind.MISSING_FENCE_WAR,
    FaultKind.UNPUBLISHED_INIT,
    FaultKind.MISSING_TENSORMAP_FENCE,
    FaultKind.MISSING_CACHED_FENCE,
}
READINGS = [
    ir.Policies(rule, war, init)
    for rule in ("writer", "path")
    for war in (True, False)
    for init in ("fence", "assumed")
]


def check(program: ir.SyncProgram) -> str:
    """Compare on one program; which of the cases it was."""
    judged = judge(program)
    result = analyse(program)
    if result.verdict is Verdict.VERIFIED:
        assert not judged.reason, judged.reason
        assert judged.unjustified == [], judged.unjustified
        return "verified"
    if result.verdict is not Verdict.REFUTED or judged.reason:
        return "open"
    # One run stands for all: then nothing but a fence can be missing, or visibility on the way.
    assert result.fault is not None
    if result.fault.kind in FENCE_FAULTS:
        assert result.fault.kind in judged.kinds, (result.fault, judged.unjustified)
        return "refuted"
    assert result.fault.kind is FaultKind.WEAK_SYNCHRONISATION, result.fault
    assert judged.unjustified, result.fault
    return "weak"


def fenceless(program: ir.SyncProgram) -> ir.SyncProgram:
    """The program without its fences."""

    def without(operation: ir.Operation) -> ir.Operation:
        if isinstance(operation, ir.Loop):
            return replace(operation, body=block(operation.body))
        if isinstance(operation, ir.Branch):
            then, otherwise = block(operation.then), block(operation.otherwise)
            return replace(operation, then=then, otherwise=otherwise)
        return operation

    def block(body: ir.Block) -> ir.Block:
        return tuple(without(item) for item in body if not isinstance(item, ir.Fence))

    roles = tuple(replace(role, body=block(role.body)) for role in program.roles)
    return replace(program, roles=roles)


def test_on_random_programs() -> None:
    seen: dict[str, int] = {}
    for seed in range(1200):
        program = program_of_seed(seed)
        if seed % 3 == 0:
            program = fenceless(program)
        program = replace(program, policies=READINGS[seed % len(READINGS)])
        case = check(program)
        seen[case] = seen.get(case, 0) + 1
    assert seen["verified"] > 300 and seen["refuted"] > 20, seen


@pytest.mark.parametrize("family", ["store_pipeline", "descriptors", "lifecycle"])
def test_on_families_that_need_fences(family: str) -> None:
    random = Random(family)
    cases = set()
    for number in range(60):
        program = random_program(random, family, number % 3)
        program = replace(program, policies=READINGS[number % len(READINGS)])
        cases.add(check(fenceless(program) if number % 2 else program))
    assert "refuted" in cases


@pytest.mark.parametrize("family", [cached, halves])
def test_on_cached_proxies_and_one_way_fences(family: Callable[[Random], ir.SyncProgram]) -> None:
    cases: dict[str, int] = {}
    for seed in range(300):
        random = Random(seed)
        program = perturb(family(random), random, random.choice((0, 0, 0, 1)))
        case = check(program)
        cases[case] = cases.get(case, 0) + 1
    assert min(cases["verified"], cases["refuted"]) > 40, cases


def test_against_the_search() -> None:
    """The reference search shares nothing with the graph but the program."""
    found = 0
    for seed in range(250):
        program = program_of_seed(seed)
        program = fenceless(program) if seed % 2 else program
        judged = judge(program)
        if judged.reason or any(True for _ in judged.recording.graph.nodes[60:]):
            continue
        result = explore_reference(program, budget=Budget(states_max=4000))
        if result.verdict is Verdict.UNDECIDED:
            continue
        faulty = result.trace is not None and result.trace.fault.kind in FENCE_FAULTS
        assert faulty == bool(judged.unjustified), (seed, judged.unjustified)
        found += faulty
    assert found > 5


@pytest.mark.heavy
@pytest.mark.long
def test_on_many_random_programs() -> None:
    for seed in range(10_000, 22_000):
        program = program_of_seed(seed)
        program = fenceless(program) if seed % 3 == 0 else program
        check(replace(program, policies=READINGS[seed % len(READINGS)]))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(sync_programs())
def test_on_shrinking_programs(program: ir.SyncProgram) -> None:
    check(program)
