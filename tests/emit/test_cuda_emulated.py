"""What emitted kernels compute, on the CPU: the numbers of the tile program, in any order."""

from __future__ import annotations

import pytest

from tests.emit.cuda_kernels import emitted, overlapped, parts
from titan.emit.write import emit
from titan.emulate.compare import compare

SEEDS = ((0, "uniform", "mixed"), (1, "priority", "lazy"), (2, "latest", "eager"))


def agrees(tile, made, parameters):
    """Every output within the tolerance of what the tile program says."""
    for seed, policy, delay in SEEDS:
        found = compare(
            tile, made.files, made.manifest, parameters, seed=seed, policy=policy, delay=delay
        )
        assert found.same, found.told()


def check(name, parameters, depth=2, specialised=True):
    tile, _, _ = parts(name, depth, specialised)
    agrees(tile, emitted(name, depth, specialised), parameters)


def test_gemm_with_ragged_edges():
    check("gemm_bias_gelu", {"M": 130, "N": 136, "K": 200})


def test_gemm_by_a_pair_of_ctas_with_an_odd_number_of_tiles():
    check("gemm_cluster2", {"M": 100, "N": 264, "K": 136})


def test_groups_that_load_for_themselves():
    check("gemm", {"M": 130, "N": 72, "K": 136}, specialised=False)


@pytest.mark.parametrize("keys", (40, 300))
def test_attention_with_two_iterations_in_one_turn(keys):
    late = ("p", "p_sum", "total_next", "p16", "o_next")
    tile, kernel, program = overlapped("attention_forward_64", *late)
    parameters = {"heads": 2, "queries": 70, "keys": keys}
    agrees(tile, emit(tile, kernel, program), parameters)


def test_causal_attention():
    check("attention_forward_causal_64", {p.name: 200 if p.name != "heads" else 1
          for p in parts("attention_forward_causal_64")[0].parameters})  # fmt: skip


def test_a_straight_copy():
    sizes = {p.name: 136 for p in parts("copy")[0].parameters}
    check("copy", sizes)


def test_rows_through_registers():
    sizes = {p.name: 136 for p in parts("softmax_rows")[0].parameters}
    check("softmax_rows", sizes)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "name",
    ("gemm", "gemm_f16", "gemm_fp8", "gemm_low_k", "gemm_persistent", "gemm_small_tiles",
     "gemm_bias_relu", "gemm_bias_silu", "attention_forward", "attention_forward_256",
     "attention_forward_causal", "layer_norm", "rms_norm", "row_sum", "scale_bias_silu",
     "transform"),
)  # fmt: skip
def test_the_library_computes_what_it_says(name):
    sizes = {p.name: 1 if p.name == "heads" else 208 for p in parts(name)[0].parameters}
    check(name, sizes)
