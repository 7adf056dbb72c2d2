"""Pairs of CTAs that multiply together beside their sync program; planted faults are told."""

from __future__ import annotations

import re

import pytest

from tests.sampling import sampled
from tests.validate.compare.kernels import HEADER, SOURCE, emission
from titan.validate.compare.compile import compile_package, nvcc
from titan.validate.compare.translation import translation

pytestmark = pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")
NAME = "gemm_large_sm_100a"


@pytest.mark.heavy
@pytest.mark.long
def test_what_is_emitted_does_what_its_program_says():
    made = emission(NAME, "sm_100a")
    compiled = compile_package(made.files, "sm_100a")
    found = translation(made.tile, made.program, made.manifest, compiled)
    assert found.faults == [] and found.notes == []
    assert found.events > 5000 and found.launches == len(made.launches) >= 3


# what is wrong: (file, pattern, replacement, what is told)
FAULTS = {
    "stages given back to the leader alone": (
        SOURCE, r"(commit_everywhere\(b_ring_a_empty.*), 3\)", r"\1, 1)",
        "QueueArrive of ring_a_empty"),
    "the issuer in both CTAs": (
        SOURCE, r"x_cta == 0 && titan_warp == 1", "titan_warp == 1", "in a warp without a role"),
    "no issuer": (
        SOURCE, r"x_cta == 0 && titan_warp == 1", "x_cta == 2 && titan_warp == 1",
        "is executed by nobody"),
    "both CTAs expect bytes": (SOURCE, r"if \(x_cta == 0\) \{", "if (true) {", "not initialised"),
    "bytes of one CTA": (SOURCE, r"65536", "32768", "Arrive of ring_a_full"),
    "accumulators given back by the leader alone": (
        SOURCE, r"(map_shared\(b_ring_acc_empty), 0\)", r"\1, x_cta)", "Arrive of ring_acc_empty"),
    "the other accumulator given back": (
        SOURCE, r"(at0_ring_acc_empty \+ )8", r"\1(1 - x_w % 2 * 2) * 8 + 8",
        "Arrive of ring_acc_empty"),
    "accumulators given back by all lanes": (
        SOURCE, r"if \(titan_elected\) (titan::barrier_arrive_mapped)", r"\1",
        "Arrive of ring_acc_empty"),
    "count of one consumer": (
        SOURCE, r"(b_ring_acc_empty \+ stage), 8", r"\1, 4", "is initialised with 4"),
    "handed over to the leader alone": (
        SOURCE, r"(commit_everywhere\(b_ring_acc_full.*), 3\)", r"\1, 1)",
        "QueueArrive of ring_acc_full"),
    "the producer ends early": (
        SOURCE, r"titan::barrier_wait\(b_ring_a_empty \+ \(\(x_n \+ x_s\)[^;]*;", "",
        "Wait of ring_a_empty"),
    "barriers of the leader in both CTAs": (
        SOURCE, r" && x_cta == 0;", ";", "barriers are initialised"),
    "copies off the barrier of each CTA": (
        SOURCE, r"titan::tensor_load_led\(", "titan::tensor_load(", "bulk_load"),
    "freed before both CTAs have met": (
        SOURCE, r"titan::cluster_sync\(\);(\s*titan::tensor_fence_after\(\);\s*if)",
        r"titan::block_sync();\1", "no barrier with fences"),
    "no fence before the accumulator is given back": (
        SOURCE, r"titan::tensor_fence_before\(\);(\s*// arrive at ring_acc_empty)", r"\1",
        "no fence after the fetch"),
    "header: products of one CTA": (
        HEADER, r"tcgen05.mma.cta_group::2", "tcgen05.mma.cta_group::1", "Asynchronous (mma)"),
    "header: 128 rows": (
        HEADER, r" \+ \(\(u32\)\(128 >> 4\) << 24\)", "", "instruction descriptor"),
    "header: copies that may not complete at a peer": (
        HEADER, r"complete_tx::bytes\.cta_group::2", "complete_tx::bytes", "bulk_load"),
    "header: copies off the barrier of CTA 1": (
        HEADER, r"map_shared\(barrier, 0\)", "map_shared(barrier, 1)", "bulk_load"),
    "header: columns of one CTA": (
        HEADER, r"tcgen05.alloc.cta_group::2", "tcgen05.alloc.cta_group::1",
        "for another number of CTAs"),
    "header: columns freed in one CTA": (
        HEADER, r"tcgen05.dealloc.cta_group::2", "tcgen05.dealloc.cta_group::1",
        "for another number of CTAs"),
    "header: commits of one CTA": (
        HEADER, r"tcgen05.commit.cta_group::2", "tcgen05.commit.cta_group::1",
        "QueueArrive of ring_a_empty"),
}  # fmt: skip


@pytest.mark.parametrize("name", sampled(FAULTS, every=7))
def test_a_planted_fault_is_told(name):
    file, pattern, replacement, told = FAULTS[name]
    made = emission(NAME, "sm_100a")
    text, count = re.subn(pattern, replacement, made.files[file])
    assert count >= 1, "the fault changes the text"
    found = made.faults({**made.files, file: text})
    assert any(told in fault for fault in found), found
