"""Kernels for sm_100a beside their sync programs: clean ones pass, planted faults are told."""

from __future__ import annotations

import pytest

from tests.sampling import sampled
from tests.validate.compare.kernels import HEADER, SOURCE, emission, is_told
from titan.validate.compare.compile import compile_package, nvcc
from titan.validate.compare.tensor import fenced, unframed
from titan.validate.compare.thread_events import TENSOR_BASE, ThreadEvent
from titan.validate.compare.translation import translation

needs_nvcc = pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")
NAMES = [
    "gemm_sm_100a", "gemm_persistent_sm_100a", "gemm_fp8_sm_100a", "gemm_bias_gelu_sm_100a",
    "gemm_bias_gelu_residual_sm_100a",
]  # fmt: skip


@needs_nvcc
@pytest.mark.parametrize("name", sampled([*NAMES, "copy", "row_sum"], every=3))
def test_what_is_emitted_does_what_its_program_says(name):
    made = emission(name, "sm_100a")
    compiled = compile_package(made.files, "sm_100a")
    found = translation(made.tile, made.program, made.manifest, compiled)
    assert [fault for fault in found.faults if "spilled" not in fault] == []
    assert found.notes == []
    assert found.events > 400 and found.launches == len(made.launches) >= 3


# what is wrong: (file, pattern, replacement, what is told)
FAULTS = {
    "no commit to empty": (
        SOURCE, r"titan::tensor_commit\(b_ring_a_empty[^;]*;", "", "QueueArrive of ring_a_empty"),
    "no commit to full": (
        SOURCE, r"titan::tensor_commit\(b_ring_acc_full[^;]*;", "", "is expected"),
    "no commit at the end": (
        SOURCE, r"titan::tensor_commit\(b_issuer_drained[^;]*;", "",
        "QueueArrive of issuer_drained"),
    "committed to the other ring": (
        SOURCE, r"titan::tensor_commit\(b_ring_a_empty", "titan::tensor_commit(b_ring_a_full",
        "QueueArrive of ring_a_empty"),
    "an arrival instead of a commit": (
        SOURCE, r"titan::tensor_commit\(b_ring_a_empty", "titan::barrier_arrive(b_ring_a_empty",
        "QueueArrive of ring_a_empty"),
    "committed before the multiplication": (
        SOURCE, r"( *// issue acc_next(?s:.*?))( *titan::tensor_commit\(b_ring_a_empty.*\n)",
        r"\2\1", "issue acc_next"),
    "no fence behind the consumer's wait": (
        SOURCE, r"(barrier_wait\(b_ring_acc_full[^;]*;)\s*titan::tensor_fence_after\(\);", r"\1",
        "no fence after the wait"),
    "no fence behind the issuer's wait": (
        SOURCE, r"(barrier_wait\(b_ring_a_full[^;]*;)\s*titan::tensor_fence_after\(\);", r"\1",
        "no fence after the wait"),
    "no fence behind the fetch": (
        SOURCE, r"(tensor_load_wait\(\);)\s*titan::tensor_fence_before\(\);", r"\1",
        "no fence after the fetch"),
    "the fetch is not waited for": (
        SOURCE, r"titan::tensor_load_wait\(\);", "", "no wait after the fetch"),
    "released before the fetch is waited for": (
        SOURCE, r"(titan::tensor_load_wait\(\);)((?s:.*)?barrier_arrive\(b_ring_acc_empty[^;]*;)",
        r"\2 \1", "no wait after the fetch"),
    "fetched before the wait": (
        SOURCE, r"( *titan::barrier_wait\(b_ring_acc_full[^;]*;)"
        r"((?s:.*?)titan::tensor_load_wait\(\);)", r"\2\1", "Wait of ring_acc_full"),
    "added to from the start": (
        SOURCE, r"x_t > 0 \|\| k > 0\)", "1)", "whether the product is added"),
    "never added to": (SOURCE, r"x_t > 0 \|\| k > 0\)", "k > 0)", "whether the product is added"),
    "wrong stage of the accumulator": (
        SOURCE, r"tensor_multiply(.*)\(x_w % 2\) \* 128", r"tensor_multiply\1(x_t % 2) * 128",
        "issue acc_next"),
    "one stage for both": (SOURCE, r"\(x_w % 2\) \* 128", "0", "overlap in tensor memory"),
    "stages that overlap": (SOURCE, r"\(x_w % 2\) \* 128", "(x_w % 2) * 64", "overlap in tensor"),
    "beyond what is taken": (
        SOURCE, r"\(x_w % 2\) \* 128", "(x_w % 2) * 256", "not allocated tensor"),
    "fetched from the wrong stage": (
        SOURCE, r"tensor_memory_fetch(.*)\(x_w % 2\) \* 128",
        r"tensor_memory_fetch\1((x_w + 1) % 2) * 128", "Access"),
    "lanes of another warp": (
        SOURCE, r"titan_warp % 4 \* 32 \+ 16", "(titan_warp + 1) % 4 * 32 + 16", "Access"),
    "half of the rows twice": (SOURCE, r"32 \+ 16 \* m\)", "32)", "Access"),
    "a step along K twice": (
        SOURCE, r"\(left, k \* 32 / 128 \* 16384 \+ k \* 32 % 128\)", "(left, k / 2 * 64)",
        "not the next step along K"),
    "operand of the other tile": (
        SOURCE, r"right = titan::descriptor_ahead\((.*), \d+\);", r"right = \1;", "is not in b["),
    "too few columns": (
        SOURCE, r"(tensor_memory_\w+)<256>", r"\1<128>", "not 256 columns of tensor memory"),
    "not given back": (
        SOURCE, r"if \(titan_warp == 0\) titan::tensor_memory_free<256>\(titan_tensor\);", "",
        "freed by another thread"),
    "given back by another warp": (
        SOURCE, r"titan_warp == 0\) titan::tensor_memory_free",
        "titan_warp == 1) titan::tensor_memory_free", "freed by another thread"),
    "given back before all have met": (
        SOURCE, r"titan::block_sync\(\);(\s*titan::tensor_fence_after\(\);\s*"
        r"if \(titan_warp == 0\) titan::tensor_memory_free)", r"\1", "no barrier with fences"),
    "taken by two warps": (
        SOURCE, r"titan_warp == 0\) titan::tensor_memory_(\w+)",
        r"titan_warp <= 1) titan::tensor_memory_\1", "tensor memory is allocated by the threads"),
    "the address assumed": (SOURCE, r"= \*titan_tensor_slot;", "= 0;", "is not what was allocated"),
    "no fence behind the allocation": (
        SOURCE, r"titan::tensor_fence_before\(\);(\s*titan::block_sync\(\);)", r"\1",
        "no fence precedes the barrier"),
    "taken before the warp has met": (
        SOURCE, r"titan::warp_sync\(\);(\s*if \(titan_warp == 0\) titan::tensor_memory_all)", r"\1",
        "before the warp has synchronised"),
    "all lanes multiply": (
        SOURCE, r"if \(titan_warp == 1 && titan::elect_one\(\)\)", "if (titan_warp == 1)",
        "is executed by lanes"),
    "the other type": (
        SOURCE, r"titan::bf16, 128, false", "titan::f16, 128, false", "instruction descriptor"),
    "other columns": (
        SOURCE, r"titan::bf16, 128, false", "titan::bf16, 64, false", "instruction descriptor"),
    "swizzle of a descriptor": (
        SOURCE, r"tensor_descriptor<128>\(s_a", "tensor_descriptor<64>(s_a",
        "version or swizzle"),
    "header: version of a descriptor": (
        HEADER, r"\(u64\)1 << 46", "(u64)0 << 46", "version or swizzle"),
    "header: rows": (HEADER, r"\(u32\)\(128 >> 4\)", "(u32)(64 >> 4)", "instruction descriptor"),
    "header: sums in f16": (HEADER, r"return 1u << 4 \|", "return 0u |", "instruction descriptor"),
    "header: the kind of 8-bit types": (
        HEADER, r"kind::f16 \[%0\]", "kind::f8f6f4 [%0]", "kind of a multiplication"),
    "header: adds always": (HEADER, r"setp\.ne\.b32 p, %4, 0", "setp.eq.b32 p, 0, 0", "whether"),
    "header: no fence after": (
        HEADER, r'asm volatile\("tcgen05.fence::after_thread_sync[^;]*;[^;]*;', "", "no fence"),
    "header: no fence before": (
        HEADER, r'asm volatile\("tcgen05.fence::before_thread_sync[^;]*;[^;]*;', "", "no fence"),
    "header: no wait for loads": (
        HEADER, r'asm volatile\("tcgen05.wait::ld[^;]*;[^;]*;', "", "no wait after"),
    "header: fetches of one chunk": (HEADER, r'"r"\(address \+ c\)', '"r"(address)', "Access"),
    "header: another shape of fetches": (
        HEADER, r"ld(.*)16x256b\.x8", r"ld\g<1>16x128b.x16", "unknown access"),
    "header: the right to allocate is kept": (
        HEADER, r'asm volatile\("tcgen05.relinquish[^;]*;[^;]*;', "", "is not allocated once"),
}  # fmt: skip


# A tile that is read amid the fetches of an accumulator, a block of rows at a time.
FAULTS_BESIDE = {
    "read before it is there": (
        SOURCE, r"( *titan::barrier_wait\(b_ring_r_full[^;]*;)((?s:.*?v_residual.*?\n *}\n))",
        r"\2\1", "is expected"),
    "not waited for": (
        SOURCE, r"titan::barrier_wait\(b_ring_r_full[^;]*;", "", "Wait of ring_r_full"),
    "given back before the last block": (
        SOURCE, r"(if \(titan::allocated\(titan_tensor\)\) \{(?s:.*?))"
        r"( *titan::warp_sync\(\);\s*if \(titan_elected\) "
        r"titan::barrier_arrive\(b_ring_r_empty[^;]*;)",
        r"\2\1", "is expected"),
    "another tile": (SOURCE, r"tile = s_r;", "tile = s_a;", "line"),
    "written amid the fetches": (
        SOURCE, r"(const titan::u8\* const tile = s_r;)", r"\1 *(titan::u32*)s_r = 0;", "write"),
}  # fmt: skip


@needs_nvcc
@pytest.mark.parametrize("name", sampled(FAULTS, every=12))
def test_a_planted_fault_is_told(name):
    is_told("gemm_persistent_sm_100a", *FAULTS[name])


@needs_nvcc
@pytest.mark.parametrize("name", sampled(FAULTS_BESIDE, every=2))
def test_a_planted_fault_beside_a_fetch_is_told(name):
    is_told("gemm_bias_gelu_residual_sm_100a", *FAULTS_BESIDE[name])


def events(*kinds):
    return [ThreadEvent(kind, (), (), line) for line, kind in enumerate(kinds, 1)]


def test_fences_are_judged_and_taken_away():
    good = events("wait", "tensor_after", "tensor_load", "tensor_wait", "tensor_before", "arrive")
    kept, faults = fenced(good)
    assert [event.kind for event in kept] == ["wait", "tensor_load", "arrive"] and faults == []
    for missing in (1, 3, 4):
        assert len(fenced(good[:missing] + good[missing + 1 :])[1]) == 1
    assert fenced(good[:3])[1] == ["line 3: nothing waits for this fetch, or no fence follows"]


def test_the_frame_is_judged_and_taken_away():
    prologue = [
        ThreadEvent("init", (8, 1), (), 1),
        ThreadEvent("tensor_alloc", (16, 64), (), 2, warp_met=True),
        ThreadEvent("tensor_relinquish", (), (), 3),
        ThreadEvent("tensor_before", (), (), 4),
    ]
    body = [
        *events("tensor_after", "wait", "tensor_before"),
        ThreadEvent("sync", (0, 96), (), 8),
        *events("tensor_after"),
        ThreadEvent("tensor_free", (TENSOR_BASE, 64), (), 9),
    ]
    before, after, faults = unframed(prologue, body, 96, 64)
    assert [event.kind for event in before + after] == ["init", "wait"] and faults == []
    assert any("not 32 columns" in text for text in unframed(prologue, body, 96, 32)[2])
    assert any("another thread" in text for text in unframed(prologue, body[:-1], 96, 64)[2])
    assert any("no barrier with" in text for text in unframed(prologue, body, 64, 64)[2])
