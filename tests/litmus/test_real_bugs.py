"""Real bugs as litmus files: by both rules the buggy form shows the fault, the fixed one not."""

from __future__ import annotations

import pytest

from titan.foundation.resources import root
from titan.litmus.decide import decide
from titan.litmus.language.suite import read_test
from titan.litmus.model.options import FenceRule, InitRule, ModelOptions

# reference of the bug -> (buggy, fixed)
BUGS = {
    "NVIDIA/Fuser#1967, no fence before a TMA store": (
        "async/gw-bulkstore+under-fenced",
        "async/gw-bulkstore+minimal",
    ),
    "NVIDIA/Fuser#1967, only one of two writers fences": (
        "async/gw-bulkstore+two-writers+one-fences",
        "async/gw-bulkstore+two-writers+both-fence",
    ),
    "triton-lang/triton#7262, generic read, then TMA overwrite": (
        "async/gr-bulkload+under-fenced",
        "async/gr-bulkload+minimal",
    ),
    "facebookexperimental/triton#1723, response slot written again while it is decoded": (
        "async/response-slot+under-fenced",
        "async/response-slot+minimal",
    ),
    "facebookexperimental/triton#680, descriptor rebuilt in flight": (
        "tensormap/map-edit+in-flight",
        "tensormap/map-edit+waited",
    ),
    "tile-ai/TileOPs#1550, staging tile refilled while the store reads it": (
        "async/bulkstore-gw+under-fenced",
        "async/bulkstore-gw+minimal",
    ),
    "HazyResearch/ThunderKittens#194, .read before telling a peer": (
        "async/bulkstore-gr+under-fenced",
        "async/bulkstore-gr+minimal",
    ),
    "facebookexperimental/triton#2292, remote store before the peer started": (
        "cluster/dsmem-entry",
        "cluster/dsmem-entry+barrier",
    ),
    "Dao-AILab/quack#63, relay with a CTA-scope arrive": (
        "cluster/bulkload+remote-reader-narrow",
        "cluster/bulkload+remote-reader",
    ),
}


@pytest.mark.parametrize("rule", list(FenceRule))
@pytest.mark.parametrize("bug", BUGS)
def test_bug_and_fix(bug: str, rule: FenceRule) -> None:
    verdicts = [
        decide(read_test(root("litmus") / f"{name}.litmus"), ModelOptions(rule)).verdict
        for name in BUGS[bug]
    ]
    assert verdicts == ["Allowed", "Forbidden"]


def test_unpublished_mbarrier_under_the_strict_reading() -> None:
    """NVIDIA/cutlass#2030: no fence.mbarrier_init; a hazard only if publication needs a fence."""
    verdicts = {
        (name, init): decide(
            read_test(root("litmus") / "async" / f"init-cta+{name}.litmus"), ModelOptions(init=init)
        ).verdict
        for name in ("minimal", "fenced")
        for init in InitRule
    }
    assert verdicts == {
        ("minimal", InitRule.SYNC): "Forbidden",
        ("minimal", InitRule.FENCE): "Allowed",
        ("fenced", InitRule.SYNC): "Forbidden",
        ("fenced", InitRule.FENCE): "Forbidden",
    }
