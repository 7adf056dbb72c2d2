"""The solver and the enumeration agree on random tests, and every witness is re-checked."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.litmus.perturbed_tests import perturbed_tests
from tests.litmus.random_tests import litmus_tests, options
from tests.sampling import part
from titan.litmus.decide import decide
from titan.litmus.enumerate.candidates import TooManyCandidates, admits, allowed
from titan.litmus.language.printing import format_litmus
from titan.litmus.model.unsupported import UnsupportedTest

EXAMPLES = {"plain": 300, "proxy": 300, "barrier": 250, "async": 200, "perturbed": 300}
BUDGET = 3_000


@pytest.mark.parametrize("family", EXAMPLES)
def test_engines_agree(family: str) -> None:
    @settings(
        max_examples=part(EXAMPLES[family], 8),
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(st.data())
    def agree(data: st.DataObject) -> None:
        tests = perturbed_tests() if family == "perturbed" else litmus_tests(family)
        test, reading = data.draw(tests), data.draw(options())
        try:
            decision = decide(test, reading, recheck=False)
            expected = allowed(test, reading, budget=BUDGET)
        except (UnsupportedTest, TooManyCandidates):
            assume(False)
            return
        assert decision.allowed == expected, f"{reading}\n{format_litmus(test)}"
        if decision.witness is not None:
            assert admits(test, reading, decision.witness, budget=100_000), format_litmus(test)

    agree()
