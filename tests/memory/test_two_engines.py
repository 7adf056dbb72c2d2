"""The solver and the enumeration agree on random tests, and every witness is re-checked."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.memory.random_tests import litmus_tests, options
from titan.memory.decide import decide
from titan.memory.explicit import TooManyCandidates, admits, allowed
from titan.memory.printing import format_litmus
from titan.memory.terms import UnsupportedTest


@pytest.mark.parametrize("family", ["plain", "proxy", "barrier", "async"])
def test_engines_agree(family: str) -> None:
    @settings(
        max_examples=120,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(st.data())
    def agree(data: st.DataObject) -> None:
        test, reading = data.draw(litmus_tests(family)), data.draw(options())
        try:
            decision = decide(test, reading)
            expected = allowed(test, reading, budget=20_000)
        except (UnsupportedTest, TooManyCandidates):
            assume(False)
            return
        assert decision.allowed == expected, f"{reading}\n{format_litmus(test)}"
        if decision.witness is not None:
            assert admits(test, reading, decision.witness), format_litmus(test)

    agree()
