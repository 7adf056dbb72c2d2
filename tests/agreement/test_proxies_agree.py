"""Cached proxies and one-way fences: the engines against the reference search.

Random programs (tests/proxy_programs.py), of which a part lacks a fence or has it in a wrong place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from tests.agreement.test_engines_agree import disagreements
from tests.edits import perturb
from tests.proxy_programs import cached, halves
from titan.engines.explore.reference import explore_reference
from titan.engines.result import Budget
from titan.foundation.verdict import Verdict
from titan.sync import program as ir
from titan.sync.fault import FaultKind

Family = Callable[[Random], ir.SyncProgram]
FAMILIES: dict[str, Family] = {"cached": cached, "halves": halves}
WANTED = {
    "cached": {FaultKind.MISSING_CACHED_FENCE},
    "halves": {FaultKind.MISSING_FENCE, FaultKind.MISSING_FENCE_WAR},
}


def drawn(family: str, seed: int) -> ir.SyncProgram:
    random = Random(seed)
    return perturb(FAMILIES[family](random), random, random.choice((0, 0, 0, 1)))


def compare(family: str, seeds: range) -> Counter[str]:
    tally: Counter[str] = Counter()
    wrong: list[str] = []
    for seed in seeds:
        program = drawn(family, seed)
        found, _ = disagreements(program)
        wrong += [f"seed {seed}: {text}" for text in found]
        trace = explore_reference(program, budget=Budget(states_max=6000)).trace
        tally[trace.fault.kind.value if trace else "verified"] += 1
    assert not wrong, "\n".join(wrong)
    return tally


@pytest.mark.parametrize("family", FAMILIES)
def test_engines_agree(family: str) -> None:
    tally = compare(family, range(250))
    assert min(tally[kind.value] for kind in WANTED[family]) >= 30, tally
    assert tally["verified"] >= 80, tally


@pytest.mark.heavy
@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_engines_agree_on_many(family: str) -> None:
    tally = compare(family, range(10_000, 16_000))
    assert min(tally[kind.value] for kind in WANTED[family]) >= 600, tally


def test_an_asynchronous_operation_takes_no_cached_proxy() -> None:
    effect = ir.Effect("g", proxy=ir.Proxy.TEXTURE)
    with pytest.raises(ValueError, match="cached"):
        ir.Asynchronous((effect,))


def test_a_program_without_them_has_no_marks() -> None:
    """What others do not use costs them nothing in the explorer."""
    from titan.engines.explore.flatten import flatten

    random = Random(3)
    plain = ir.SyncProgram("plain", "sm_90a", (ir.Role("a", ()),), buffers=(ir.Buffer("x"),))
    assert flatten(plain).mark_fields == 0
    assert flatten(cached(random)).mark_fields > 0
    assert explore_reference(plain).verdict is Verdict.VERIFIED
