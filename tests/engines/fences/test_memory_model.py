"""One truth: the proxy-effect graph and the memory model on programs that both can express."""

from __future__ import annotations

from random import Random

import pytest

from tests.engines.fences.small_programs import draw, litmus_test, options, sync_program
from tests.sampling import part
from titan.engines.fences.demands import Demands
from titan.engines.fences.justify import FenceJudgement, itself, judge, satisfied
from titan.engines.happens_before.engine import analyse
from titan.foundation.verdict import Verdict
from titan.litmus.decide import decide
from titan.sync import program as ir
from titan.sync.fault import FaultKind

ACCESS_FAULTS = {
    FaultKind.DATA_RACE,
    FaultKind.OVERWRITE_IN_FLIGHT,
    FaultKind.READ_BEFORE_ARRIVAL,
    FaultKind.MISSING_FENCE,
    FaultKind.MISSING_FENCE_WAR,
    FaultKind.MISSING_TENSORMAP_FENCE,
}
READINGS = [
    ir.Policies(rule, war, exit_in_flight="allow")
    for rule in ("writer", "path")
    for war in (True, False)
]


def compare(seed: int) -> str:
    """Ask both about one program; which of the cases it was."""
    policies = READINGS[seed % len(READINGS)]
    script = draw(Random(seed))
    program = sync_program(script, policies)
    judged = judge(program)
    if judged.reason:
        result = analyse(program)
        if result.verdict is not Verdict.REFUTED or result.fault is None:
            return "open"
        if result.fault.kind not in ACCESS_FAULTS:
            return "open"
    faulty = bool(judged.reason or judged.unjustified)
    decision = decide(litmus_test(script), options(policies))
    if not decision.allowed and not judged.reason and _observed(judged, policies):
        return "observed"
    assert decision.allowed == faulty, (seed, judged.reason, judged.unjustified)
    if not faulty:
        return "justified" if judged.demands else "no pair"
    return "unordered" if judged.reason else "unjustified"


def _observed(judged: FenceJudgement, policies: ir.Policies) -> bool:
    """The one deliberate difference on these programs (docs/explanation/proxies.md).

    Without the fence for write-after-read, a generic read may be followed by an asynchronous write.
    A generic write that the read has observed then precedes the asynchronous write in causality
    order; the graph still asks the writer for a fence.
    """
    graph = judged.recording.graph
    reads = [
        effect for effect in graph.effects if effect.proxy is ir.Proxy.GENERIC and not effect.write
    ]
    unjustified = [
        demand for demand in Demands(judged.recording, itself).all() if not satisfied(demand)
    ]
    return (
        not policies.war_fence
        and bool(unjustified)
        and all(
            any(
                read.cell == demand.place
                and graph.before(demand.first, read.node)
                and graph.before(read.node, demand.second)
                for read in reads
            )
            for demand in unjustified
        )
    )


def run(seeds: range) -> dict[str, int]:
    seen = dict.fromkeys(
        ("justified", "unjustified", "unordered", "no pair", "open", "observed"), 0
    )
    for seed in seeds:
        seen[compare(seed)] += 1
    return seen


def test_on_random_programs() -> None:
    seen = run(range(part(150)))
    assert seen["open"] <= part(5) and min(seen["justified"], seen["unjustified"]) >= part(15), seen


@pytest.mark.heavy
@pytest.mark.long
def test_on_many_random_programs() -> None:
    """At least a thousand in which a fence is at stake."""
    seen = run(range(1000, 5000))
    assert seen["justified"] + seen["unjustified"] >= 1000, seen
