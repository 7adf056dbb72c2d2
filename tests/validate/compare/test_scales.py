"""Block scales beside their sync program; planted faults are told."""

from __future__ import annotations

import re

import pytest

from tests.sampling import sampled
from tests.validate.compare.kernels import HEADER, SOURCE, emission
from titan.validate.compare.compile import compile_package, nvcc
from titan.validate.compare.translation import translation

pytestmark = pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")
NAME = "gemm_mxf8_sm_100a"


def test_what_is_emitted_does_what_its_program_says():
    made = emission(NAME, "sm_100a")
    compiled = compile_package(made.files, "sm_100a")
    found = translation(made.tile, made.program, made.manifest, compiled)
    assert found.faults == [] and found.notes == []
    assert found.events > 500 and found.launches == len(made.launches) >= 3


COPY_OF_A = r"titan::tensor_copy_scales<1>\([^;]*s_a_scale[^;]*\);"
COPY_OF_B = r"titan::tensor_copy_scales<1>\([^;]*s_b_scale[^;]*\);"
# what is wrong: (file, pattern, replacement, what is told)
FAULTS = {
    "scales of A are not copied": (SOURCE, COPY_OF_A, "", "scales"),
    "scales of B are not copied": (SOURCE, COPY_OF_B, "", "Asynchronous"),
    "scales of another stage": (
        SOURCE, r"s_a_scale \+ \(x_t % 4\) \* 512\);", "s_a_scale);", "is not in"),
    "columns of another stage": (
        SOURCE, r"titan_tensor \+ 144 \+ \(x_t % 4\) \* 4, s_b", "titan_tensor + 144, s_b",
        "scales"),
    "scales of B for A": (
        SOURCE, r"of_left \+ atom, of_right \+ atom", "of_right + atom, of_right + atom",
        "columns of the scales"),
    "the first block for all": (
        SOURCE, r"k \* 1 % 4, x_t", "0, x_t", "instruction descriptor"),
    "the next atom for the last block": (
        SOURCE, r"k \* 1 / 4 \* 4", "(k + 1) / 4 * 4", "columns of the scales"),
    "the stage is freed by an arrival": (
        SOURCE, r"titan::tensor_commit\(b_ring_a_empty", "titan::barrier_arrive(b_ring_a_empty",
        "QueueArrive of ring_a_empty"),
    "no fence behind the wait": (
        SOURCE, r"(barrier_wait\(b_ring_a_full[^;]*;\s*)titan::tensor_fence_after\(\);", r"\1",
        "no fence after the wait"),
    "header: scales of the other type": (HEADER, r"1u << 23 \|", "0u << 23 |", "descriptor"),
    "header: scales of one warp": (
        HEADER, r"32x128b\.warpx4", "128x128b", "Asynchronous"),
    "header: rows of scales 32 bytes apart": (
        HEADER, r"\(128 >> 4\) << 32", "(256 >> 4) << 32", "scales"),
    "header: products without scales": (
        HEADER, r"kind::mxf8f6f4\.block_scale\.scale_vec::1X \[%0\], %1, %2, %3, \[%4\], \"\s*"
        r"\"\[%5\], p", 'kind::f8f6f4 [%0], %1, %2, %3, p', "Asynchronous"),
    "header: block of A alone": (HEADER, r"\(u32\)first << 4 \|", "", "instruction descriptor"),
}  # fmt: skip


@pytest.mark.parametrize("name", sampled(FAULTS, every=5))
def test_a_planted_fault_is_told(name):
    file, pattern, replacement, told = FAULTS[name]
    made = emission(NAME, "sm_100a")
    text, count = re.subn(pattern, replacement, made.files[file])
    assert count >= 1, "the fault changes the text"
    found = made.faults({**made.files, file: text})
    assert any(told in fault for fault in found), found
