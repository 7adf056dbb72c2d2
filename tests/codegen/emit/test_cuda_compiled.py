"""Kernels for sm_90a through nvcc: they compile, nothing spills, nothing is serialised.

Runs where nvcc is installed; no GPU is needed.
"""

from __future__ import annotations

import re

import pytest

from tests.codegen.emit.cuda_kernels import NVCC, compile_for_device, emitted, overlapped, parts
from titan.codegen.emit.model import Emitted
from titan.codegen.emit.write import HEADER, emit
from titan.foundation.resources import root

pytestmark = pytest.mark.skipif(NVCC is None, reason="nvcc is not installed")

HEAVY = (
    "gemm_bias_relu", "gemm_bias_silu", "gemm_persistent", "gemm_f16", "gemm_low_k", "gemm_fp8",
    "gemm_small_tiles", "gemm_cluster2", "attention_forward", "attention_forward_64",
    "attention_forward_256", "attention_forward_causal", "softmax_rows", "layer_norm", "rms_norm",
    "row_sum", "scale_bias_silu", "transform", "copy",
)  # fmt: skip


def spotless(said: str) -> None:
    """No serialisation (C75xx), no spills, no warnings."""
    assert "C75" not in said, said
    assert "warning" not in said, said
    assert re.search(r"\b0 bytes spill stores, 0 bytes spill loads", said), said


def test_a_gemm_with_bias_and_activation_compiles_without_spills(tmp_path):
    spotless(compile_for_device(emitted("gemm_bias_gelu", 4), tmp_path))


def test_overlapped_attention_compiles_without_serialising(tmp_path):
    """Scores of one iteration and values of the one before are in flight together."""
    late = ("p", "p_sum", "total_next", "p16", "o_next")
    said = compile_for_device(emit(*overlapped("attention_forward", *late)), tmp_path)
    assert "C75" not in said, said


@pytest.mark.heavy
@pytest.mark.parametrize("name", HEAVY)
def test_the_library_compiles_without_spills(name, tmp_path):
    spotless(compile_for_device(emitted(name), tmp_path))


@pytest.mark.heavy
@pytest.mark.parametrize("name", ("gemm", "attention_forward", "softmax_rows"))
def test_groups_that_load_for_themselves_compile(name, tmp_path):
    assert parts(name, 2, False)
    spotless(compile_for_device(emitted(name, 2, False), tmp_path))


@pytest.mark.heavy
@pytest.mark.long
def test_every_width_of_wgmma_assembles(tmp_path):
    lines = ['#include "titan_device.cuh"', "using namespace titan;"]
    for columns in range(8, 257, 8):
        for kind, transposed in (("bf16", "true"), ("f16", "false"), ("e4m3", "false"),
                                 ("e5m2", "false")):  # fmt: skip
            half = columns // 2
            shape = f"<{kind}, {columns}, {transposed}>"
            lines.append(
                f"TITAN_KERNEL(128) of_{kind}_{columns}(float* o, u64 a, u64 b) {{ "
                f"float d[{half}]; u32 r[4] = {{1, 2, 3, 4}}; "
                f"TITAN_UNROLL for (int i = 0; i < {half}; ++i) d[i] = o[i]; wgmma_fence(); "
                f"wgmma_ss{shape}(d, a, b, 1); wgmma_rs{shape}(d, r, b, 1); wgmma_commit(); "
                f"wgmma_wait<0>(); TITAN_UNROLL for (int i = 0; i < {half}; ++i) o[i] = d[i]; }}"
            )
    header = (root("backends") / "sm_90a" / HEADER).read_text(encoding="utf-8")
    text = "\n".join(lines) + "\n"
    compile_for_device(Emitted({"kernel.cu": text, HEADER: header}, {}), tmp_path)
