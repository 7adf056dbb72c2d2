"""The native explorer and the reference search give the same verdict on random programs."""

from __future__ import annotations

import pytest

from tests.sampling import sampled
from tests.strategies import program_of_seed
from titan.engines.explore.reference import explore_reference
from titan.engines.explore.search import ExplorationError, Reductions, explore
from titan.engines.result import Budget, EngineResult
from titan.foundation.verdict import Verdict
from titan.sync.interpreter import LocalLoopError

NONE = Reductions(symmetry=False, partial_order=False)
SYMMETRY = Reductions(symmetry=True, partial_order=False)
PARTIAL_ORDER = Reductions(symmetry=False, partial_order=True)
BOTH = Reductions()
STATES_MAX = 3000


def oracle(seed: int) -> EngineResult | None:
    """The reference verdict, or None where the program cannot be executed."""
    try:
        return explore_reference(program_of_seed(seed), budget=Budget(states_max=STATES_MAX))
    except (ZeroDivisionError, LocalLoopError):
        return None


@pytest.mark.parametrize("block", sampled(range(10), every=3))
def test_random_programs(block: int) -> None:
    decided = 0
    for seed in range(40 * block, 40 * block + 40):
        program, expected = program_of_seed(seed), oracle(seed)
        if expected is None:
            with pytest.raises((ExplorationError, LocalLoopError)):
                explore(program, reductions=NONE)
            continue
        if expected.verdict is Verdict.UNDECIDED:
            continue
        decided += 1
        for reductions in (NONE, SYMMETRY, PARTIAL_ORDER, BOTH):
            result = explore(program, reductions=reductions)
            assert result.verdict == expected.verdict, (seed, reductions)
        exact = explore(program, reductions=NONE)
        assert expected.verdict is Verdict.REFUTED or exact.states <= expected.states, seed
        if expected.trace is not None:
            assert exact.trace is not None
            assert len(exact.trace.steps) == len(expected.trace.steps), seed
    assert decided > 20
