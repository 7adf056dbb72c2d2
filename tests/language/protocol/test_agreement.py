"""Random protocols: typestate against plain tokens, against lowering and the reference search."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from tests.language.protocol.strategies import protocols
from tests.sampling import part
from titan.engines.explore.reference import explore_reference
from titan.engines.result import Budget
from titan.foundation.verdict import Verdict
from titan.language.lower import LoweringRefused, lower
from titan.language.protocol import model as m
from titan.language.protocol.tokens import TokenRun
from titan.language.protocol.typestate import TypestateResult, check

SETTINGS = settings(
    max_examples=part(40, of=10),
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


@SETTINGS
@given(protocols())
def test_verified_means_no_broken_rule_for_small_sizes(item: m.Protocol) -> None:
    report = check(item)
    depth = item.rings[0].depth
    if report.answer is TypestateResult.VERIFIED:
        for tiles in range(2 * depth + 3):
            assert TokenRun(item, {"tiles": tiles}).codes() == set(), tiles
    for found in report.counterexamples:
        assert TokenRun(item, dict(found.sizes)).breaches()


@SETTINGS
@given(protocols())
def test_verified_protocols_verify_after_lowering(item: m.Protocol) -> None:
    report = check(item)
    if report.answer is not TypestateResult.VERIFIED:
        return
    try:
        program = lower(item)
    except LoweringRefused:
        return
    for tiles in range(2 * item.rings[0].depth + 3):
        result = explore_reference(program, {"tiles": tiles}, Budget(3_000))
        if result.verdict is Verdict.UNDECIDED:
            break
        assert result.verdict is Verdict.VERIFIED, (tiles, result.trace)


@SETTINGS
@given(protocols())
def test_hangs_are_found_after_lowering_too(item: m.Protocol) -> None:
    """A wait that nobody answers is a fault of the machine, not only of the discipline."""
    report = check(item)
    found = [one for one in report.counterexamples if one.breach.code == "TTN107"]
    if not found:
        return
    try:
        program = lower(item)
    except LoweringRefused:
        return
    result = explore_reference(program, dict(found[0].sizes), Budget(20_000))
    assert result.verdict is not Verdict.VERIFIED
