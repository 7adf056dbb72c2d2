"""Spin on the Promela export against the reference interpreter.

For programs in one batch Spin prints every fault that can be reached, so that not only the verdict
is compared but the set of rules that can be broken. The interpreter's set is found by a search of
all states that does not stop at a fault.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

import pytest

from tests.agreement.test_proxies_agree import FAMILIES
from tests.agreement.test_proxies_agree import drawn as drawn_of
from tests.sampling import part
from tests.strategies import program_of_seed
from titan.engines.explore.reference import explore_reference
from titan.engines.spin import (
    run_spin,
    run_spin_batch,
    spin_available,
    to_promela,
    to_promela_batch,
)
from titan.sync.interpreter import Interpreter, State
from titan.sync.program import SyncProgram

STATES_MAX = 4_000
pytestmark = pytest.mark.skipif(not spin_available(), reason="spin or gcc is not installed")


def reachable_faults(program: SyncProgram) -> frozenset[str] | None:
    """Every rule that can be broken first; None when there are too many states."""
    machine = Interpreter(program)
    first = machine.initial()
    seen: set[State] = {first}
    waiting, found = deque([first]), set()
    while waiting:
        state = waiting.popleft()
        fault = machine.state_fault(state)
        if fault is not None:
            found.add(fault.kind.value)
            continue
        for step in machine.steps(state):
            successor, fault = machine.apply(state, step)
            if fault is not None:
                found.add(fault.kind.value)
            elif successor is not None and successor not in seen:
                seen.add(successor)
                waiting.append(successor)
        if len(seen) > STATES_MAX:
            return None
    return frozenset(found)


def compare(
    seeds: range, batch: int, drawn: Callable[[int], SyncProgram] = program_of_seed
) -> tuple[list[str], int]:
    """What differs, and how many programs were compared."""
    expected = {seed: reachable_faults(drawn(seed)) for seed in seeds}
    seeds_left = [seed for seed, faults in expected.items() if faults is not None]
    wrong, capacity = [], 8
    while seeds_left and capacity <= 32:
        too_small: list[int] = []
        for start in range(0, len(seeds_left), batch):
            part = seeds_left[start : start + batch]
            programs = [(drawn(seed), None) for seed in part]
            found = run_spin_batch(to_promela_batch(programs, capacity), len(part))
            assert found is not None, f"Spin did not finish on seeds {part}"
            for seed, rules in zip(part, found, strict=True):
                if "capacity" in rules:
                    too_small.append(seed)
                elif rules != expected[seed]:
                    wrong.append(f"seed {seed}: {sorted(rules)} instead of {expected[seed]}")
        seeds_left, capacity = too_small, capacity * 2
    assert not seeds_left, f"seeds {seeds_left} have too much in flight"
    return wrong, sum(faults is not None for faults in expected.values())


def test_spin_finds_the_same_faults():
    wrong, compared = compare(range(5_000, 5_000 + part(60, 6)), batch=20)
    assert not wrong, "\n".join(wrong)
    assert compared >= part(51, 6)


@pytest.mark.parametrize("family", FAMILIES)
def test_spin_finds_the_same_faults_of_proxies(family):
    wrong, compared = compare(range(part(40)), 20, partial(drawn_of, family))
    assert not wrong, "\n".join(wrong)
    assert compared >= part(36)


@pytest.mark.heavy
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("family", FAMILIES)
def test_spin_finds_the_same_faults_of_proxies_in_many_programs(family):
    wrong, _ = compare(range(20_000, 20_500), 25, partial(drawn_of, family))
    assert not wrong, "\n".join(wrong)


@pytest.mark.heavy
@pytest.mark.timeout(3600)
def test_spin_finds_the_same_faults_in_many_programs():
    wrong, compared = compare(range(20_000, 21_000), batch=25)
    assert not wrong, "\n".join(wrong)
    assert compared > 900


@pytest.mark.parametrize("seed", [3, 9, 31])
def test_spin_decides_a_model_of_one_program(seed):
    program = program_of_seed(seed)
    expected = explore_reference(program)
    result = run_spin(to_promela(program, capacity=10), optimise="-O0")
    assert result.verdict == expected.verdict
    assert result.states > 0
    if result.rule is not None:
        assert result.rule in (reachable_faults(program) or ())
