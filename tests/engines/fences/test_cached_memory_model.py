"""Cached proxies: the graph and the engines against the memory model on straight-line programs.

Nothing is left out and no difference is excused: what the graph finds unordered or unjustified is
what the memory model allows to race (writer rule as `writer-alone`, docs/explanation/proxies.md).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from tests.engines.fences.cached_scripts import draw, litmus_test, sync_program
from tests.engines.fences.small_programs import options
from tests.sampling import part
from titan.engines.fences.justify import judge
from titan.engines.happens_before.engine import analyse
from titan.foundation.verdict import Verdict
from titan.litmus.decide import decide
from titan.litmus.model.options import FenceRule
from titan.sync import program as ir
from titan.sync.fault import FaultKind

READINGS = [
    ir.Policies(rule, war, exit_in_flight="allow")
    for rule in ("writer", "path")
    for war in (True, False)
]
CACHED = FaultKind.MISSING_CACHED_FENCE


def compare(seed: int) -> str:
    """Ask both about one program; what was at stake."""
    policies = READINGS[seed % len(READINGS)]
    script = draw(Random(seed), policies.fence_rule == "path")
    program = sync_program(script, policies)
    judged, result = judge(program), analyse(program)
    if judged.reason and result.verdict is not Verdict.REFUTED:
        return "open"
    faulty = bool(judged.reason or judged.unjustified)
    assert faulty == (result.verdict is Verdict.REFUTED), (seed, result.remark, judged.reason)
    reading = options(policies)
    if reading.fence_rule is FenceRule.WRITER:
        reading = replace(reading, fence_rule=FenceRule.WRITER_ALONE)
    assert decide(litmus_test(script), reading).allowed == faulty, (seed, judged.unjustified)
    if judged.reason:
        return "unordered"
    if not faulty:
        return "justified" if judged.demands else "no pair"
    return "cached" if CACHED in judged.kinds else "other fence"


def run(seeds: range) -> Counter[str]:
    return Counter(compare(seed) for seed in seeds)


def test_on_random_programs() -> None:
    seen = run(range(part(300)))
    assert not seen["open"] and min(seen["justified"], seen["cached"]) >= part(40), seen


@pytest.mark.heavy
@pytest.mark.long
def test_on_many_random_programs() -> None:
    seen = run(range(10_000, 16_000))
    assert not seen["open"] and min(seen["justified"], seen["cached"]) >= 1000, seen
