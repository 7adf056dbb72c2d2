"""Block scales beside their sync program; planted faults are told."""

from __future__ import annotations

import pytest

from tests.sampling import sampled
from tests.validate.compare.kernels import HEADER, SOURCE, emission, is_told
from titan.validate.compare.compile import compile_package, nvcc
from titan.validate.compare.translation import translation

pytestmark = pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")
NAME = "gemm_mxf8_sm_100a"


@pytest.mark.parametrize(
    "name",
    [
        NAME,
        "gemm_nvf4_sm_100a",
        "gemm_mxf4_sm_100a",
        "gemm_nvf4_wide_sm_100a",
        "gemm_mxf8_pair_sm_100a",
    ],
)
def test_what_is_emitted_does_what_its_program_says(name):
    made = emission(name, "sm_100a")
    compiled = compile_package(made.files, "sm_100a")
    found = translation(made.tile, made.program, made.manifest, compiled)
    assert found.faults == [] and found.notes == []
    assert found.events > 500 and found.launches == len(made.launches) >= 3


COPY_OF_A = r"titan::tensor_copy_scales<1>\([^;]*_a_scale[^;]*\);"
COPY_OF_B = r"titan::tensor_copy_scales<1>\([^;]*descriptor_ahead[^;]*\);"
# what is wrong: (file, pattern, replacement, what is told)
FAULTS = {
    "scales of A are not copied": (SOURCE, COPY_OF_A, "", "scales"),
    "scales of B are not copied": (SOURCE, COPY_OF_B, "", "Asynchronous"),
    "scales of another stage": (
        SOURCE, r"d0_a_scale, x_t % 4\)\)\);", "d0_a_scale, 0)));", "is not in"),
    "columns of another stage": (
        SOURCE, r"titan_tensor \+ 144 \+ \(x_t % 4\) \* 4, t", "titan_tensor + 144, t",
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
    "header: scales of the other type": (
        HEADER, r"\(powers \? 1u : 0u\)", "0u", "instruction descriptor"),
    "header: scales of one warp": (
        HEADER, r"32x128b\.warpx4", "128x128b", "Asynchronous"),
    "header: rows of scales 32 bytes apart": (
        HEADER, r"\(128 >> 4\) << 32", "(256 >> 4) << 32", "scales"),
    "header: products without scales": (
        HEADER, r'TITAN_SCALED_PRODUCT_OF\("mxf8f6f4[^\n]*',
        "tensor_multiply<Type, N, false>(d, a, b, accumulate);", "scales"),
    "header: block of A alone": (HEADER, r"\(u32\)first << 4 \|", "", "instruction descriptor"),
}  # fmt: skip


@pytest.mark.parametrize("name", sampled(FAULTS, every=5))
def test_a_planted_fault_is_told(name):
    is_told(NAME, *FAULTS[name])


OF_PAIRS = {
    "one atom of scales": (
        SOURCE, r"tensor_copy_scales<4>\(([^;]*descriptor_ahead)", r"tensor_copy_scales<3>(\1",
        "scales"),
    "atoms side by side in the wrong order": (
        HEADER, r"start \+ atom \* \(512 / 16\)", "start + (Atoms - 1 - atom) * (512 / 16)",
        "scales"),
    "the same atom for every step": (
        SOURCE, r"k \* 4 / 4 \* 4", "0", "columns of the scales"),
    "blocks of 32": (
        HEADER, r"mxf4nvf4\.block_scale\.scale_vec::4X", "mxf4.block_scale.scale_vec::2X",
        "kind of a multiplication"),
    "powers of two": (HEADER, r"\(powers \? 1u : 0u\)", "1u", "instruction descriptor"),
    "numbers of another format": (
        HEADER, r"constexpr u32 type = pairs \|\|", "constexpr u32 type = !pairs &&",
        "instruction descriptor"),
}  # fmt: skip


@pytest.mark.parametrize("name", sampled(OF_PAIRS, every=3))
def test_a_planted_fault_in_products_of_pairs_is_told(name):
    is_told("gemm_nvf4_sm_100a", *OF_PAIRS[name])


OF_TWO_TILES = {
    "both tiles in the same columns": (
        SOURCE, r"titan_tensor \+ 308", "titan_tensor + 304", "columns of the scales"),
    "tiles the other way round": (
        SOURCE, r", 6144\)\);", ", 12288));", "is not in b_low"),
    "tiles one behind the other": (
        SOURCE, r"tensor_copy_scales<4, 8>", "tensor_copy_scales<4>", "atoms of scales"),
    "atoms as of one tile": (
        SOURCE, r"of_right \+ atom \* 2", "of_right + atom", "columns of the scales"),
    "the first tile twice": (SOURCE, r"s_b_high \+", "s_b_low +", "overlap in shared memory"),
    "half of the columns": (
        SOURCE, r"titan::e4m3, 256>", "titan::e4m3, 128>", "instruction descriptor"),
}  # fmt: skip


@pytest.mark.parametrize("name", sampled(OF_TWO_TILES, every=2))
def test_a_planted_fault_in_two_tiles_of_scales_is_told(name):
    is_told("gemm_nvf4_wide_sm_100a", *OF_TWO_TILES[name])


BY_PAIRS = {
    "one CTA copies its scales": (
        SOURCE, r"tensor_copy_scales<4, 8, 2>\(", "tensor_copy_scales<4, 8, 1>(",
        "number of CTAs that copy scales"),
    "one CTA multiplies": (
        SOURCE, r"titan::e4m3, 256, 2>", "titan::e4m3, 256>", "number of CTAs that multiply"),
    "128 rows of a pair": (
        HEADER, r"\(u32\)Ctas << 27", "(u32)1 << 27", "instruction descriptor"),
    "scales of the left operand are never copied": (
        SOURCE, r"titan::tensor_copy_scales<4, 4, 2>\([^;]*\);", "", "scales"),
    "the second tile over the first": (
        SOURCE, r"titan_tensor \+ 324", "titan_tensor + 320", "columns of the scales"),
    "the peer loads scales of its own into the other stage": (
        SOURCE, r"s_b_high \+ \(x_t % 4\)", "s_b_high + ((x_t + x_cta) % 4)", "is not in b_high"),
}  # fmt: skip


@pytest.mark.parametrize("name", sampled(BY_PAIRS, every=3))
def test_a_planted_fault_in_scales_of_a_pair_of_ctas_is_told(name):
    is_told("gemm_nvf4_pair_sm_100a", *BY_PAIRS[name])
