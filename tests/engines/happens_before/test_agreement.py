"""The happens-before engine against the exhaustive search, which shares no code with it."""

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from tests.engines.happens_before.models import Model, models
from tests.engines.happens_before.replaying import assert_shown, replayed
from tests.engines.happens_before.soup import soup
from tests.strategies import program_of_seed
from titan.engines.explore.reference import Outcome as Searched
from titan.engines.explore.reference import explore_reference
from titan.engines.happens_before.engine import Outcome, analyse
from titan.sync.fault import FaultKind
from titan.sync.program import SyncProgram

MODELS = list(models())
Pairs = Counter[tuple[Searched, Outcome]]


@pytest.mark.parametrize("model", MODELS, ids=[model.name for model in MODELS])
def test_models_of_real_bugs(model: Model):
    result = analyse(model.program)
    assert result.outcome is (Outcome.REFUTED if model.refuted else Outcome.VERIFIED), result
    searched = explore_reference(model.program, states_max=20_000)
    assert searched.outcome is (Searched.REFUTED if model.refuted else Searched.VERIFIED)
    if model.refuted:
        assert_shown(model.program, result)


def compare(program_of: Callable[[int], SyncProgram], seeds: int) -> Pairs:
    """Same verdict wherever both decide, and every trace replays; how often each pair occurs."""
    verdicts: Pairs = Counter()
    for seed in range(seeds):
        program = program_of(seed)
        searched = explore_reference(program, states_max=2_000).outcome
        result = analyse(program)
        verdicts[(searched, result.outcome)] += 1
        if result.outcome is Outcome.REFUTED:
            assert result.fault is not None
            if result.fault.kind is FaultKind.WEAK_SYNCHRONISATION:
                # Of the order alone: the search cannot show it, and must show nothing else.
                assert searched is not Searched.REFUTED, (seed, program.name)
                assert result.trace is None or replayed(program, result) is None
                continue
            assert_shown(program, result)
        decided = result.outcome in (Outcome.VERIFIED, Outcome.REFUTED)
        if decided and searched is not Searched.UNDECIDED:
            assert searched.value == result.outcome.value, (seed, program.name, result)
    return verdicts


def left_open(verdicts: Pairs) -> int:
    return sum(count for pair, count in verdicts.items() if pair[1] is Outcome.NOT_APPLICABLE)


def test_perturbed_families():
    seeds = 800
    verdicts = compare(program_of_seed, seeds)
    assert left_open(verdicts) < 0.04 * seeds, verdicts
    assert verdicts[(Searched.VERIFIED, Outcome.VERIFIED)] > 0.3 * seeds
    assert verdicts[(Searched.REFUTED, Outcome.REFUTED)] > 0.3 * seeds


def test_operations_thrown_together():
    seeds = 1200
    verdicts = compare(lambda seed: soup(Random(seed)), seeds)
    assert left_open(verdicts) < 0.03 * seeds, verdicts
    assert verdicts[(Searched.VERIFIED, Outcome.VERIFIED)] > 0.06 * seeds, verdicts
