"""Random tile programs are refused with a reason, or built and right in hostile interleavings."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.codegen.pipeline.written import hopper as construct
from tests.package.random_programs import program as drawn
from tests.package.random_programs import sizes
from tests.package.trials import LIMITS, Made, as_built, as_shaped, disagreement, faults
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.write import emit
from titan.codegen.pipeline.build import NotVerified, decoded, judged
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.tile.load import parse_tile

pytest.importorskip("numpy")
SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much]
MISCOMPUTED = "{}\n{}\n{}"


def checked(made: Made, text: str, random: Random) -> None:
    numbers, seed = sizes(random), random.randrange(1000)
    found = faults(made, numbers, seed) or disagreement(made, numbers, seed)
    assert not found, MISCOMPUTED.format(found, text, made.pipeline)


def in_any_order(seed: int, target: str) -> bool:
    """Whether the program of a number was built, in a shape and an order drawn at random."""
    random = Random(seed)
    text = drawn(random, target)
    made = as_shaped(text, random)
    if isinstance(made, str):
        return False
    checked(made, text, random)
    return True


@pytest.mark.parametrize("target", ["sm_90a", "gfx942", "sm_100a"])
def test_any_order_computes_what_is_meant_or_is_refused(target):
    built = sum(in_any_order(seed, target) for seed in range(12))
    assert built >= 1


def test_a_sum_is_read_behind_the_product_that_continues_it():
    """It keeps its registers then, in what is emitted and in the check by numbers."""
    assert in_any_order(4154, "gfx942")


@pytest.mark.heavy
@pytest.mark.long
@pytest.mark.parametrize("target", ["sm_90a", "gfx942", "sm_100a"])
@settings(max_examples=150, deadline=None, suppress_health_check=SLOW)
@given(seed=st.integers(0, 10**6))
def test_any_order_of_many_programs(target, seed):
    in_any_order(seed, target)


@pytest.mark.heavy
@pytest.mark.long
@settings(max_examples=40, deadline=None, suppress_health_check=SLOW)
@given(random=st.randoms(use_true_random=False))
def test_what_is_built_computes_what_is_meant(random):
    text = drawn(random)
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


READ_IN_A_PAIR = """\
titan: 1
tile: read_in_a_pair
target: sm_90a
sizes: {M: any, N: any, K: any}
tensors:
  A: {shape: [M, K], dtype: bf16}
  B: {shape: [N, K], dtype: bf16}
  C: {shape: [M, N], dtype: f32, output: true}
work: {m: (M + 63) // 64, n: (N + 31) // 32}
loop: {t: K}
carried:
  sum: {shape: [64, 32], initial: 0, next: sum_next}
  seen: {shape: [64, 32], initial: 0, next: seen_next}
body:
  - a: {load: "A[m * 64, t * 32]", tile: [64, 32]}
  - b: {load: "B[n * 32, t * 32]", tile: [32, 32]}
  - sum_next: {mma: [a, b.T], add: sum}
  - r: {read: a}
  - seen_next: {add: [seen, r]}
after:
  - both: {add: [sum, seen]}
  - c: {store: both, to: "C[m * 64, n * 32]"}
cluster: 2
"""


def test_a_pair_that_reads_a_tile_is_refused_by_its_form():
    shape = Shape("", 2, overlapped=False)
    with pytest.raises(FormRefused, match="no form for tiles that are read to registers"):
        construct(parse_tile(READ_IN_A_PAIR), shape, {}, 1)


READS_OF_TWO_RINGS = """\
titan: 1
tile: reads_of_two_rings
target: sm_90a
sizes: {M: any, K: any}
tensors:
  A: {shape: [M, 32], dtype: bf16}
  B: {shape: [M, K], dtype: f16}
  Y: {shape: [M, K], dtype: f32, output: true}
  Z: {shape: [M], dtype: f32, output: true}
work: {m: (M + 63) // 64}
loop: {t: (K + 31) // 32}
before:
  - a: {load: "A[m * 64, 0]", tile: [64, 32]}
  - first: {read: a}
body:
  - b: {load: "B[m * 64, t * 32]", tile: [64, 32]}
  - second: {read: b}
  - both: {add: [first, second]}
  - y: {store: both, to: "Y[m * 64, t * 32]"}
after:
  - sums: {row_sum: first}
  - z: {store: sums, to: "Z[m * 64]"}
"""


def test_each_read_takes_the_access_in_front_of_it_not_an_older_one():
    """With the first turn peeled, the tile kept and the first one of the loop are read together."""
    tile = parse_tile(READS_OF_TWO_RINGS)
    starts = {"second": 0, "both": 1, "y": 15}
    pipeline = construct(tile, Shape("", 2), starts, 10)
    kernel, program = decoded(pipeline)
    made = Made(tile, pipeline, program, emit(tile, kernel, program))
    assert faults(made, {"M": 70, "K": 72}, seed=3) == ""


STORE_OF_A_PAIR = """\
titan: 1
tile: store_of_a_pair
target: sm_90a
sizes: {M: any, N: any, K: any}
tensors:
  A: {shape: [M, K], dtype: bf16}
  B: {shape: [N, K], dtype: bf16}
  Y: {shape: [N, M, 32], dtype: f32, output: true}
work: {m: (M + 63) // 64, n: (N + 31) // 32}
loop: {t: K}
carried:
  sum: {shape: [64, 32], initial: 0, next: sum_next}
body:
  - a: {load: "A[m * 64, t * 32]", tile: [64, 32]}
  - b: {load: "B[n * 32, t * 32]", tile: [32, 32]}
  - sum_next: {mma: [a, b.T], add: sum}
after:
  - y: {store: sum, to: "Y[n, m * 64, 0]"}
cluster: 2
"""


def test_the_second_cta_of_a_pair_does_not_write_beyond_the_last_item():
    """With an odd number of items along n the last CTA has none; Y has more than n blocks."""
    tile = parse_tile(STORE_OF_A_PAIR)
    kernel, program = decoded(construct(tile, Shape("", 2, overlapped=False), {}, 1))
    with pytest.raises(EmissionRefused, match="beyond the last n would lie in its tensor"):
        emit(tile, kernel, program)


PRODUCT_AND_SUM = """\
titan: 1
tile: product_and_sum
target: sm_90a
sizes: {M: any, K: any}
tensors:
  A: {shape: [M, K], dtype: bf16}
  B: {shape: [64, K], dtype: bf16}
  Y: {shape: [M, 64], dtype: f32, output: true}
work: {m: (M + 63) // 64}
loop: {t: (K + 63) // 64}
carried:
  acc: {shape: [64, 64], initial: 0, next: acc_next}
body:
  - a: {load: "A[m * 64, t * 64]", tile: [64, 64]}
  - b: {load: "B[0, t * 64]", tile: [64, 64]}
  - p: {mma: [a, b.T]}
  - acc_next: {add: [acc, p]}
after:
  - y: {store: acc, to: "Y[m * 64, 0]"}
"""
TURN = """\
        - drain: p
        - release: ring_a[t]
        - compute: acc_next
          tile: t
        - compute: acc
          tile: t + 1
"""
EARLY = """\
        - compute: acc_next
          tile: t
        - drain: p
        - release: ring_a[t]
        - compute: acc
          tile: t + 1
"""


def indented(text: str) -> str:
    return "".join(f"    {line}" for line in text.splitlines(keepends=True))


def branched(condition: str) -> str:
    return (
        f"        - if: {condition}\n          then:\n{indented(TURN)}          else:\n"
        + indented(EARLY)
    )


LOOPED = "        - for: z in t // 20..1\n          do:\n            - drain: p\n"


@pytest.mark.parametrize(
    "turn, words",
    [
        (EARLY, "while a tensor-core operation computes it"),
        (branched("t < 3"), "while a tensor-core operation computes it"),
        (branched("t < 20"), "under a condition that none of the runs meets"),
        (branched("t % 13 != 12"), "under a condition that none of the runs meets"),
        (branched("tiles < 40"), "under a condition that none of the runs meets"),
        (TURN.replace("        - drain: p\n", LOOPED), "while a tensor-core operation computes it"),
    ],
)
def test_no_pipeline_computes_on_a_product_in_flight(turn, words):
    """Registers are not seen by the engines: these pipelines verify, and are wrong. Where a number
    of the text bounds a loop, the runs around it may find a fault before."""
    tile = parse_tile(PRODUCT_AND_SUM)
    text = construct(tile, Shape("", 2, overlapped=False), {}, 1)
    changed = text.replace(TURN, turn)
    assert changed != text
    kernel, program = decoded(changed)
    try:
        judged(kernel, LIMITS)
    except NotVerified:
        assert "1..20" in turn or "20..1" in turn
    with pytest.raises(EmissionRefused, match=words):
        emit(tile, kernel, program)
