"""Pipelines compute what their tile programs mean, and planted faults show in the numbers."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tests.codegen.pipeline import written as forms
from tests.codegen.tile import planting
from tests.sampling import sampled
from titan.codegen.pipeline.model import Shape
from titan.codegen.tile.functional import Interleaving, check, deviation, interleavings, simulate
from titan.codegen.tile.load import load_tile, parse_tile
from titan.codegen.tile.model import TileProgram
from titan.foundation.resources import root
from titan.sync import program as ir
from titan.sync.expression import evaluate

FOLDER = root("protocols") / "tiles"
SMALL = {"columns: 128, k_tile: 64": "columns: 32, k_tile: 16"}

PIPELINE = """\
titan: 1
kernel: gemm
target: sm_90a
sizes: {tiles: {any: true, minimum: 1}, depth: DEPTH}
buffers:
  a: {stages: depth, tile: [128, 16], dtype: bf16, swizzle: 32B}
  b: {stages: depth, tile: [32, 16], dtype: bf16, swizzle: 32B}
  c: {parts: 2, tile: [128, 32], dtype: bf16, swizzle: 64B}
rings:
  ring_a: {buffers: [a, b], depth: depth}
named_barriers:
  together: {stages: 2, threads: 128}
queues:
  output: bulk
roles:
  producer: {warps: 1}
  consumer: {warpgroups: 2}
program:
  producer:
    - for: t in 0..tiles
      do:
        - acquire: ring_a[t]
        - produce: ring_a[t]
    - finalize
  consumer:
    - compute: acc
    - for: t in 0..tiles
      do:
        - wait: ring_a[t]
        - issue: {mma: [a[t], b[t]], as: acc_next}
        - drain: {acc_next, leaving: 1}
        - release: ring_a[t - 1]
          when: t >= 1
    - drain: acc_next
    - release: ring_a[tiles - 1]
    - compute: narrow
    - store: c[0, self] = 0
    - fence: async
    - sync: together[self]
    - bulk_store: c[0, self] = 0
      queue: output
    - commit: output
    - drain: output
    - finalize
"""


@cache
def small(name: str) -> TileProgram:
    text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    for old, new in SMALL.items():
        assert old in text
        text = text.replace(old, new)
    return parse_tile(text)


def random(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def gemm_launch(m: int, n: int, k: int) -> tuple[dict, dict]:
    inputs = {"A": random(1, m, k), "B": random(2, n, k), "bias": random(3, n)}
    return inputs, {"M": m, "N": n, "K": k}


@cache
def gemm_pipeline(depth: int) -> ir.SyncProgram:
    return planting.lowered(PIPELINE.replace("DEPTH", str(depth)))


# (M, N, K): fewer, as many, and more iterations than stages; ragged in every direction
SHAPES = [(128, 32, 16), (128, 32, 33), (1, 1, 1), (129, 70, 50), (60, 33, 150)]


@pytest.mark.parametrize("depth", [2, 4])
@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_a_gemm_is_right_in_every_interleaving(sizes: tuple[int, int, int], depth: int) -> None:
    inputs, parameters = gemm_launch(*sizes)
    runs = interleavings(8, seed=depth)
    assert check(small("gemm"), gemm_pipeline(depth), inputs, parameters, runs) == []


@pytest.mark.parametrize("sizes", [(129, 70, 50), (300, 33, 150)], ids=str)
def test_a_persistent_gemm_is_right(sizes: tuple[int, int, int]) -> None:
    tile = small("gemm_bias_gelu")
    shape = Shape("", 3, persistent=True)
    program = planting.constructed(tile, shape)
    inputs, parameters = gemm_launch(*sizes)
    for ctas in (1, 2):
        assert check(tile, program, inputs, parameters, interleavings(8), ctas) == []


ATTENTION = {"rows: 128, columns: 128, head: 128": "rows: 128, columns: 32, head: 16"}


@cache
def small_attention() -> TileProgram:
    text = (FOLDER / "attention_forward.yaml").read_text(encoding="utf-8")
    for old, new in ATTENTION.items():
        assert old in text
        text = text.replace(old, new)
    return parse_tile(text)


@pytest.mark.parametrize(
    "shape",
    [
        Shape("", 2, overlapped=False),
        Shape("", 2),
        Shape("", 3, ping_pong=True),
        Shape("", 2, specialised=False, overlapped=False),
    ],
    ids=["plain", "overlapped", "ping-pong", "no loading warp"],
)
@pytest.mark.parametrize(
    "sizes", sampled([((2, 130, 170),), ((1, 5, 20),), ((1, 128, 64),)], every=3), ids=str
)
def test_attention_is_right(shape: Shape, sizes: tuple[int, int, int]) -> None:
    tile = small_attention()
    program = planting.constructed(tile, shape)
    heads, queries, keys = sizes
    inputs = {
        "Q": random(1, heads, queries, 16),
        "K": random(2, heads, keys, 16),
        "V": random(3, heads, keys, 16),
    }
    parameters = {"heads": heads, "queries": queries, "keys": keys}
    assert check(tile, program, inputs, parameters, interleavings(8)) == []


@cache
def blackwell_attention(name: str, groups: int) -> tuple[TileProgram, str]:
    """A tile program with small heads and few keys a tile, and the text of its pipeline."""
    text = (FOLDER / f"{name}_sm_100a.yaml").read_text(encoding="utf-8")
    old = "rows: 256, columns: 128, head: 64"
    assert old in text
    text = text.replace(old, f"rows: {128 * groups}, columns: 32, head: 16")
    tile = parse_tile(text.replace("groups: 2", f"groups: {groups}"))
    return tile, forms.blackwell(tile, Shape("", 2, overlapped=False), {}, 1)


def attention_launch(heads: int, queries: int, keys: int) -> tuple[dict, dict]:
    inputs = {
        "Q": random(1, heads, queries, 16),
        "K": random(2, heads, keys, 16),
        "V": random(3, heads, keys, 16),
    }
    return inputs, {"heads": heads, "queries": queries, "keys": keys}


@pytest.mark.parametrize("name", ["attention_forward_64", "attention_forward_causal_64"])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(
    "sizes", sampled([((2, 130, 100),), ((1, 1, 1),), ((1, 300, 20),), ((1, 256, 96),)]), ids=str
)
def test_attention_in_tensor_memory_is_right(
    name: str, groups: int, sizes: tuple[int, int, int]
) -> None:
    tile, text = blackwell_attention(name, groups)
    launch = attention_launch(*sizes)
    assert check(tile, planting.lowered(text), *launch, interleavings(8)) == []


def test_attention_in_tensor_memory_hands_over_every_row_that_is_read_behind_the_loop() -> None:
    """The logarithm of the sum is stored as well, by the correction."""
    text = (FOLDER / "attention_forward_causal_64_sm_100a.yaml").read_text(encoding="utf-8")
    for old, new in (
        ("columns: 128, head: 64", "columns: 32, head: 16"),
        ("work:", "  L: {shape: [heads, queries], dtype: f32, output: true}\nwork:"),
        ("  - out:", "  - logarithm: {log2: total}\n  - level: {add: [logarithm, top]}\n"
         '  - sums: {store: level, to: "L[h, i * rows]"}\n  - out:'),
    ):  # fmt: skip
        assert text.count(old) == 1
        text = text.replace(old, new)
    tile = parse_tile(text)
    program = forms.blackwell(tile, Shape("", 2, overlapped=False), {}, 1)
    launch = attention_launch(2, 300, 100)
    assert check(tile, planting.lowered(program), *launch, interleavings(8)) == []


# What is cut out of the pipeline, and what comes in its place.
BLACKWELL_FAULTS = {
    "the corrected accumulator is not put back": ("            - store: o[g] = t - 1\n", ""),
    "the accumulator is not fetched again": ("            - load: o[g] = t - 1\n", ""),
    "the accumulator is not corrected": (
        "            - compute: o_shrunk\n              tile: t\n", "",
    ),
    "the factor is an old one": ("        - store: shrink[self] = t\n", ""),
    "the probabilities are not put": ("        - store: p16[self] = t\n", ""),
    "the total is not carried on": ("        - compute: total\n          tile: t + 1\n", ""),
    "scores are not waited for": ("        - wait: s_full[self]\n          phase: t\n", ""),
    "probabilities are not waited for": (
        "            - wait: p16_full[g]\n              phase: t - 1\n", "",
    ),
    "the last product is not waited for": ("        - wait: o_full[g]\n          phase: 0\n", ""),
    "keys are not waited for": (
        "        - wait: k_full[t % depth]\n          phase: t // depth\n", "",
    ),
    "the correction comes behind the product": (
        "            - load: o[g] = t - 1\n            - compute: o\n              tile: t\n",
        "            - arrive: p16_full[g]\n            - load: o[g] = t - 1\n"
        "            - compute: o\n              tile: t\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sampled(BLACKWELL_FAULTS, every=8))
def test_faults_in_tensor_memory_show_in_the_numbers(name: str) -> None:
    """Some of these the engines see as well; what only moves values is seen here alone."""
    tile, text = blackwell_attention("attention_forward_64", 2)
    old, new = BLACKWELL_FAULTS[name]
    assert text.count(old) == 1
    text = text.replace(old, new)
    if name == "the correction comes behind the product":
        late = "            - store: o[g] = t - 1\n            - arrive: p16_full[g]\n"
        text = text.replace(late, "            - store: o[g] = t - 1\n")
    inputs, sizes = attention_launch(1, 256, 128)
    rising = dict(inputs)  # a maximum that grows by much, so that something is corrected
    rising["K"] = inputs["K"] * np.repeat([1, 16, 64, 256], 32)[None, :, None]
    program = planting.lowered(text)
    assert check(tile, program, inputs, sizes, RUNS) or check(tile, program, rising, sizes, RUNS)


LAUNCH = {"M": 150, "N": 100, "K": 200}
OTHERS = [
    ("copy", "sm_90a", Shape("", 3, overlapped=False)),
    ("layer_norm", "sm_90a", Shape("", 2, overlapped=False)),
    ("row_sum", "sm_100a", Shape("", 3, overlapped=False)),
    ("scale_bias_silu", "sm_90a", Shape("", 2, specialised=False, overlapped=False)),
    ("gemm_cluster2", "sm_90a", Shape("", 3)),
    ("gemm_sm_100a", "sm_100a", Shape("", 3)),
    ("gemm_persistent_sm_100a", "sm_100a", Shape("", 2, persistent=True)),
    ("gemm_large_sm_100a", "sm_100a", Shape("", 2, persistent=True)),
    ("gemm_large_nn_sm_100a", "sm_100a", Shape("", 2, persistent=True)),
    ("gemm_gfx942", "gfx942", Shape("", 2, specialised=False)),
    ("gemm_gfx942", "gfx950", Shape("", 3, specialised=False)),
    ("gemm_f16_gfx942", "gfx942", Shape("", 3, specialised=False, ping_pong=True)),
    ("row_sum_gfx942", "gfx942", Shape("", 2, specialised=False)),
    ("copy_gfx942", "gfx942", Shape("", 2, specialised=False)),
]


def pipeline(tile: TileProgram, shape: Shape) -> ir.SyncProgram:
    if tile.target in ("gfx942", "gfx950"):
        return planting.counted(tile, shape)
    return planting.constructed(tile, shape)


def launch_of(tile: TileProgram, sizes: dict[str, int] = LAUNCH) -> tuple[dict, dict]:
    parameters = {item.name: sizes[item.name] for item in tile.parameters}
    inputs = {
        tensor.name: random(i, *(evaluate(extent, parameters) for extent in tensor.shape))
        for i, tensor in enumerate(tile.tensors)
        if not tensor.output
    }
    return inputs, parameters


@pytest.mark.parametrize(("name", "target", "shape"), sampled(OTHERS, every=3))
def test_pipelines_of_all_forms_are_right(name: str, target: str, shape: Shape) -> None:
    tile = load_tile(FOLDER / f"{name}.yaml", target)
    inputs, parameters = launch_of(tile)
    assert check(tile, pipeline(tile, shape), inputs, parameters, interleavings(4)) == []


def test_tiles_that_pass_through_registers_are_right() -> None:
    tile = load_tile(FOLDER / "gemm_small_tiles_gfx942.yaml")
    program = planting.counted(tile, Shape("", 2, specialised=False), staged=True)
    inputs, parameters = launch_of(tile)
    assert check(tile, program, inputs, parameters, interleavings(8)) == []


# ----------------------------------------------------------------------------- planted faults

RUNS = [replace(run, lenient=True) for run in interleavings(24, seed=5)]


def wrong_numbers(
    tile: TileProgram,
    program: ir.SyncProgram,
    sizes: tuple[int, int, int] = (129, 33, 150),
) -> bool:
    """Whether the numbers, and not a fault of the interpreter, tell in one of the runs."""
    inputs, parameters = gemm_launch(*sizes)
    for first in range(0, len(RUNS), 4):
        found = check(tile, program, inputs, parameters, RUNS[first : first + 4], ctas=1)
        if any(item.text.endswith("is wrong") for item in found):
            return True
    return False


def test_the_lenient_runs_of_a_good_program_are_right() -> None:
    inputs, parameters = gemm_launch(129, 33, 150)
    assert check(small("gemm"), gemm_pipeline(3), inputs, parameters, RUNS, ctas=1) == []


PLANTED = {
    "no wait for full": ("consumer", planting.without(ir.Wait, "wait full")),
    "no wait for empty": ("producer", planting.without(ir.Wait, "wait empty")),
    "no drain": ("consumer", planting.without(ir.QueueWait, "drain acc_next")),
    "drains leave one more": ("consumer", planting.wider_drain("wgmma")),
    "wrong stage": ("consumer", planting.other_stage("a", 3)),
    "wrong stage of b": ("consumer", planting.other_stage("b", 3)),
    "no first numbers": ("consumer", planting.without(ir.Compute, "what='acc'")),
    "nothing staged": ("consumer", planting.without(ir.Access, "store")),
    "no bulk store": ("consumer", planting.without(ir.Asynchronous, "bulk_store")),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_faults_show_in_the_numbers(name: str) -> None:
    role, change = PLANTED[name]
    broken = planting.changed(gemm_pipeline(3), role, change)
    assert wrong_numbers(small("gemm"), broken)


@pytest.mark.parametrize(("role", "word"), [("consumer", "wait full"), ("producer", "wait empty")])
def test_the_other_parity_never_comes_to_a_right_end(role: str, word: str) -> None:
    broken = planting.changed(gemm_pipeline(3), role, planting.other_parity(word))
    inputs, parameters = gemm_launch(129, 33, 150)
    found = check(small("gemm"), broken, inputs, parameters, RUNS, ctas=1)
    assert len(found) == len(RUNS)


def test_a_stage_given_back_too_early_shows_in_the_numbers() -> None:
    broken = planting.earlier_release(gemm_pipeline(3), "consumer", "ring_a_empty")
    assert wrong_numbers(small("gemm"), broken)


def test_a_staging_buffer_overwritten_too_early_shows_in_the_numbers() -> None:
    tile = small("gemm_bias_gelu")
    program = planting.constructed(tile, Shape("", 3, persistent=True))
    assert not wrong_numbers(tile, program, (129, 70, 20))
    broken = planting.changed(program, "consumer", planting.without(ir.QueueWait, "'read'"))
    assert wrong_numbers(tile, broken, (129, 70, 20))


@pytest.mark.parametrize(
    ("kind", "word"),
    [(ir.QueueWait, "'loads'"), (ir.QueueWait, "'reads'"), (ir.BarrierSync, "workgroup")],
    ids=["loads are not awaited", "reads are not awaited", "waves do not meet"],
)
def test_faults_of_counted_loads_show_in_the_numbers(kind: type[ir.Operation], word: str) -> None:
    tile = load_tile(FOLDER / "gemm_small_tiles_gfx942.yaml")
    program = planting.counted(tile, Shape("", 2, specialised=False))
    inputs, parameters = launch_of(tile, {"M": 64, "N": 64, "K": 400})
    assert check(tile, program, inputs, parameters, RUNS[:8]) == []
    broken = planting.changed(program, "wave", planting.without(kind, word))
    found = check(tile, broken, inputs, parameters, RUNS)
    assert any(item.text.endswith("is wrong") for item in found)


@pytest.mark.parametrize(
    "word", sampled(["what='top'", "what='o_shrunk'", "what='total'", "drain s"], every=2)
)
def test_faults_in_attention_show_in_the_numbers(word: str) -> None:
    tile = small_attention()
    program = planting.constructed(tile, Shape("", 2))
    kind = ir.QueueWait if word.startswith("drain") else ir.Compute
    broken = planting.changed(program, "consumer", planting.without(kind, word))
    inputs = {"Q": random(1, 1, 5, 16), "K": random(2, 1, 120, 16), "V": random(3, 1, 120, 16)}
    parameters = {"heads": 1, "queries": 5, "keys": 120}
    assert check(tile, program, inputs, parameters, RUNS[:8]) == []
    found = check(tile, broken, inputs, parameters, RUNS)
    assert any(item.text.endswith("is wrong") for item in found)


def test_a_program_with_a_fault_stops_unless_it_is_lenient() -> None:
    broken = planting.changed(gemm_pipeline(2), "consumer", planting.without(ir.Wait, "wait full"))
    inputs, parameters = gemm_launch(128, 32, 60)
    outcome = simulate(small("gemm"), broken, inputs, parameters, Interleaving(0, "late"))
    assert outcome.fault is not None and outcome.fault.kind in ("TTN203", "TTN204")


def test_deviations_count_what_is_missing_and_what_is_off() -> None:
    exact = np.array([1.0, -2.0, 0.5])
    meant = exact.astype(np.float32)
    assert deviation(meant, meant, exact, "bf16") == 0
    assert deviation(meant * 1.02, meant, exact, "bf16") > 1
    assert deviation(meant * 1.02, meant, exact, "e4m3") < 1
    missing = meant.copy()
    missing[1] = np.nan
    assert deviation(missing, meant, exact, "bf16") == float("inf")
    assert deviation(missing, missing, exact, "bf16") == 0
    endless = meant.copy()
    endless[0] = np.inf
    assert deviation(meant, endless, exact, "f16") == float("inf")
    assert deviation(endless, endless, exact, "f16") == 0
    assert deviation(endless, meant, exact, "f16") == float("inf")


def test_other_parameters_are_refused() -> None:
    program = replace(gemm_pipeline(2), parameters=(ir.Parameter("rounds"),))
    inputs, parameters = gemm_launch(1, 1, 1)
    with pytest.raises(ValueError, match="rounds"):
        simulate(load_tile(FOLDER / "gemm.yaml"), program, inputs, parameters, Interleaving())
