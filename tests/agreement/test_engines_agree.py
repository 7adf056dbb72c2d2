"""The reference search, the explorer with and without reductions, and the happens-before engine.

The same programs go through all of them; the verdicts must be the same, and every trace must lead
the interpreter to a fault. A disagreement prints the seed: `program_of_seed(seed)`.
"""

from collections import Counter
from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, given, settings

from tests.agreement.engines import engines, reference, replayed
from tests.sampling import part, sampled
from tests.strategies import program_of_seed, sync_programs
from titan.foundation.verdict import Verdict
from titan.sync.fault import FaultKind
from titan.sync.program import SyncProgram

SEEDS_OF_A_PART = 300
PARTS = 7


def disagreements(program: SyncProgram) -> tuple[list[str], Counter[str]]:
    """What the engines say against the reference search, and a tally of their verdicts."""
    expected = reference(program)
    tally: Counter[str] = Counter()
    if expected.verdict is Verdict.UNDECIDED:
        tally["too large for the reference search"] += 1
        return [], tally
    found = []
    for name, engine in engines().items():
        try:
            answer = engine(program)
        except Exception as error:
            found.append(f"{name} fails: {type(error).__name__}: {error}")
            continue
        if answer.verdict is None:
            tally[f"{name}: not applicable"] += 1
            continue
        tally[f"{name}: {answer.verdict}"] += 1
        if answer.verdict is not expected.verdict:
            found.append(f"{name} says {answer.verdict}, the reference {expected.verdict}")
        elif answer.verdict is Verdict.REFUTED:
            assert answer.trace is not None, f"{name} refutes without a trace"
            fault = replayed(program, answer.trace)
            if fault is None or fault.kind is not answer.trace.fault.kind:
                found.append(f"the trace of {name} ends with {fault}")
            if "no reductions" in name and answer.steps_to_fault != expected.steps_to_fault:
                found.append(
                    f"{name}: {answer.steps_to_fault} steps, a shortest trace has "
                    f"{expected.steps_to_fault}"
                )
    return found, tally


@pytest.mark.parametrize("place", sampled(range(PARTS), every=PARTS))
def test_engines_agree_on_random_programs(place):
    wrong: list[str] = []
    tally: Counter[str] = Counter()
    for seed in range(place * SEEDS_OF_A_PART, (place + 1) * SEEDS_OF_A_PART):
        found, counts = disagreements(program_of_seed(seed))
        tally += counts
        wrong += [f"seed {seed}: {text}" for text in found]
    assert not wrong, "\n".join(wrong)
    assert tally["too large for the reference search"] < SEEDS_OF_A_PART // 20, tally
    for name in engines():
        decided = tally[f"{name}: {Verdict.VERIFIED}"], tally[f"{name}: {Verdict.REFUTED}"]
        assert min(decided) > SEEDS_OF_A_PART // 5, tally


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(sync_programs())
def test_engines_agree_on_shrinkable_programs(program):
    found, _ = disagreements(program)
    assert not found, "\n".join(found)


@pytest.mark.heavy
@pytest.mark.timeout(3600)
def test_engines_agree_on_many_programs():
    wrong = []
    for seed in range(100_000, 120_000):
        found, _ = disagreements(program_of_seed(seed))
        wrong += [f"seed {seed}: {text}" for text in found]
    assert not wrong, "\n".join(wrong)


def test_engines_are_whole():
    """All engines take part; a module that exists but cannot be imported fails here."""
    names = list(engines())
    if (
        find_spec("titan.engines.explore.search") is None
        or find_spec("titan.engines.happens_before.engine") is None
    ):
        pytest.skip("not all engines are part of this checkout")
    assert len(names) == 5, names


def test_relaxed_synchronisation_is_for_the_order_engine_alone():
    """The interpreter orders by relaxed operations like by any other: no such fault from it."""
    kinds = set()
    for seed in range(part(150)):
        answer = reference(program_of_seed(seed))
        if answer.trace is not None:
            kinds.add(answer.trace.fault.kind)
    assert kinds and FaultKind.WEAK_SYNCHRONISATION not in kinds
