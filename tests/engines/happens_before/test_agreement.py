"""The happens-before engine against the exhaustive search, which shares no code with it."""

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from tests.engines.happens_before.models import Model, models
from tests.engines.happens_before.replaying import assert_shown, replayed
from tests.engines.happens_before.soup import soup
from tests.sampling import part
from tests.strategies import program_of_seed
from titan.engines.explore.reference import explore_reference
from titan.engines.happens_before.engine import analyse
from titan.engines.result import Budget
from titan.foundation.verdict import Verdict
from titan.sync.fault import FaultKind
from titan.sync.program import SyncProgram

MODELS = list(models())
Pairs = Counter[tuple[Verdict, Verdict]]


@pytest.mark.parametrize("model", MODELS, ids=[model.name for model in MODELS])
def test_models_of_real_bugs(model: Model):
    result = analyse(model.program)
    assert result.verdict is (Verdict.REFUTED if model.refuted else Verdict.VERIFIED), result
    searched = explore_reference(model.program, budget=Budget(states_max=20_000))
    assert searched.verdict is (Verdict.REFUTED if model.refuted else Verdict.VERIFIED)
    if model.refuted:
        assert_shown(model.program, result)


def compare(program_of: Callable[[int], SyncProgram], seeds: int) -> Pairs:
    """Same verdict wherever both decide, and every trace replays; how often each pair occurs."""
    verdicts: Pairs = Counter()
    for seed in range(seeds):
        program = program_of(seed)
        searched = explore_reference(program, budget=Budget(states_max=2_000)).verdict
        result = analyse(program)
        alone = analyse(program, show=False).verdict  # verifies the same, and never refutes
        verified = result.verdict is Verdict.VERIFIED
        assert alone is (Verdict.VERIFIED if verified else Verdict.UNDECIDED), (seed, program.name)
        verdicts[(searched, result.verdict)] += 1
        if result.verdict is Verdict.REFUTED:
            assert result.fault is not None
            if result.fault.kind is FaultKind.WEAK_SYNCHRONISATION:
                # Of the order alone: the search cannot show it, and must show nothing else.
                assert searched is not Verdict.REFUTED, (seed, program.name)
                assert result.trace is None or replayed(program, result) is None
                continue
            assert_shown(program, result)
        decided = result.verdict in (Verdict.VERIFIED, Verdict.REFUTED)
        if decided and searched is not Verdict.UNDECIDED:
            assert searched.value == result.verdict.value, (seed, program.name, result)
    return verdicts


def left_open(verdicts: Pairs) -> int:
    return sum(count for pair, count in verdicts.items() if pair[1] is Verdict.UNDECIDED)


def test_perturbed_families():
    seeds = part(800)
    verdicts = compare(program_of_seed, seeds)
    assert left_open(verdicts) < 0.04 * seeds, verdicts
    assert verdicts[(Verdict.VERIFIED, Verdict.VERIFIED)] > 0.3 * seeds
    assert verdicts[(Verdict.REFUTED, Verdict.REFUTED)] > 0.3 * seeds


def test_operations_thrown_together():
    seeds = part(1200)
    verdicts = compare(lambda seed: soup(Random(seed)), seeds)
    assert left_open(verdicts) < 0.03 * seeds, verdicts
    assert verdicts[(Verdict.VERIFIED, Verdict.VERIFIED)] > 0.06 * seeds, verdicts
