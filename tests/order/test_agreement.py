"""The happens-before engine against the exhaustive search, which shares no code with it."""

from collections import Counter

import pytest

from tests.order.models import Model, models
from tests.order.replaying import assert_shown, replayed
from tests.strategies import program_of_seed
from titan.explore.reference import Outcome as Searched
from titan.explore.reference import explore_reference
from titan.order.engine import Outcome, analyse
from titan.sync.fault import FaultKind

SEEDS = 1500
MODELS = list(models())


@pytest.mark.parametrize("model", MODELS, ids=[model.name for model in MODELS])
def test_models_of_real_bugs(model: Model):
    result = analyse(model.program)
    assert result.outcome is (Outcome.REFUTED if model.refuted else Outcome.VERIFIED), result
    searched = explore_reference(model.program, states_max=20_000)
    assert searched.outcome is (Searched.REFUTED if model.refuted else Searched.VERIFIED)
    if model.refuted:
        assert_shown(model.program, result)


def test_random_programs():
    """Same verdict wherever both decide; every trace replays; hardly any program is left open."""
    verdicts: Counter[tuple[Searched, Outcome]] = Counter()
    for seed in range(SEEDS):
        program = program_of_seed(seed)
        searched = explore_reference(program, states_max=2_000)
        result = analyse(program)
        verdicts[(searched.outcome, result.outcome)] += 1
        if result.outcome is Outcome.REFUTED:
            if result.shown:
                assert_shown(program, result)
            else:
                assert result.fault is not None
                assert result.fault.kind is FaultKind.WEAK_SYNCHRONISATION, seed
                assert result.trace is None or replayed(program, result) is None
                continue
        if Searched.UNDECIDED is not searched.outcome and result.outcome in (
            Outcome.VERIFIED,
            Outcome.REFUTED,
        ):
            assert searched.outcome.value == result.outcome.value, (seed, program.name, result)
    left_open = sum(count for pair, count in verdicts.items() if pair[1] is Outcome.NOT_APPLICABLE)
    assert left_open < 0.04 * SEEDS, verdicts
    assert verdicts[(Searched.VERIFIED, Outcome.VERIFIED)] > 0.3 * SEEDS
    assert verdicts[(Searched.REFUTED, Outcome.REFUTED)] > 0.3 * SEEDS
