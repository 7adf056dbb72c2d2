"""Random tile programs are refused with a reason, or built and right under hostile interleavings."""

from __future__ import annotations

import shutil
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.package.random_programs import program, sizes
from tests.package.trials import Made, as_built, as_shaped, disagreement, faults

pytest.importorskip("numpy")
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much]
MISCOMPUTED = "{}\n{}\n{}"


def checked(made: Made, text: str, random: Random) -> None:
    numbers, seed = sizes(random), random.randrange(1000)
    found = faults(made, numbers, seed) or disagreement(made, numbers, seed)
    assert not found, MISCOMPUTED.format(found, text, made.pipeline)


def in_any_order(seed: int, target: str) -> bool:
    """Whether the program of a number was built, in a shape and an order drawn at random."""
    random = Random(seed)
    text = program(random, target)
    made = as_shaped(text, random)
    if isinstance(made, str):
        return False
    checked(made, text, random)
    return True


@pytest.mark.parametrize("target", ["sm_90a", "gfx942", "sm_100a"])
def test_any_order_computes_what_is_meant_or_is_refused(target):
    built = sum(in_any_order(seed, target) for seed in range(12))
    assert built >= 1


@pytest.mark.heavy
@pytest.mark.parametrize("target", ["sm_90a", "gfx942", "sm_100a"])
@settings(max_examples=150, deadline=None, suppress_health_check=SLOW)
@given(seed=st.integers(0, 10**6))
def test_any_order_of_many_programs(target, seed):
    in_any_order(seed, target)


@pytest.mark.heavy
@settings(max_examples=40, deadline=None, suppress_health_check=SLOW)
@given(random=st.randoms(use_true_random=False))
def test_what_is_built_computes_what_is_meant(random):
    text = program(random)
    made = as_built(text)
    if not isinstance(made, str):
        checked(made, text, random)


NOTHING_SHARED = """\
titan: 1
tile: nothing_shared
target: sm_90a
sizes: {M: any}
tensors:
  X: {shape: [M], dtype: f32}
  Y: {shape: [M], dtype: f32, output: true}
work: {m: (M + 63) // 64}
loop: {t: 3}
carried:
  sum: {shape: [64], initial: 0, next: sum_next}
body:
  - part: {vector: "X[m * 64]", tile: [64, 1]}
  - sum_next: {add: [sum, part]}
after:
  - y: {store: sum, to: "Y[m * 64]"}
"""


def test_a_kernel_without_shared_memory_asks_nothing_of_its_address():
    made = as_built(NOTHING_SHARED)
    assert isinstance(made, Made)
    assert made.emitted.manifest["launch"]["dynamic_shared_bytes"] == 0
    checked(made, NOTHING_SHARED, Random(0))
