"""The verbs of the language as PTX, CUTLASS, HIP and Triton call them: hints for unknown verbs.

Data: each row has the words of others and what to write instead.
"""

from __future__ import annotations

import re

# words of others (any case; what separates their pieces does not matter) -> what to write
OTHER_WORDS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("wait_group", "cp_async_wait_group", "cp_async_bulk_wait_group", "cp_async_bulk_wait",
      "wgmma_wait_group", "warpgroup_wait", "mma_wait", "dot_wait", "async_wait", "tma_store_wait",
      "s_waitcnt", "waitcnt", "s_wait_loadcnt", "pipeline_wait_prior", "wait_prior", "tcgen05_wait",
      "warpgroup_mma_wait"),
     "`drain: QUEUE`, with `leaving: N`"),
    (("commit_group", "wgmma_commit_group", "warpgroup_commit_batch", "cp_async_commit_group",
      "cp_async_bulk_commit_group", "tcgen05_commit", "umma_arrive", "pipeline_commit"),
     "`commit: QUEUE`, with `arrives: BARRIER[i]`"),
    (("producer_acquire",), "`acquire: RING[t]`"),
    (("producer_commit", "fill"), "`produce: RING[t]`"),
    (("consumer_wait",), "`wait: RING[t]`"),
    (("consumer_release", "free"), "`release: RING[t]`"),
    (("producer_tail", "exit", "ret", "return", "end"), "`finalize`"),
    (("mbarrier_init", "barrier_init", "init_barrier"), "`init: BARRIER[i]`"),
    (("mbarrier_arrive", "cluster_arrive", "barrier_cluster_arrive"), "`arrive: BARRIER[i]`"),
    (("expect_tx", "arrive_expect_tx", "mbarrier_expect_tx", "barrier_expect",
      "arrive_and_expect_tx"),
     "`arrive: BARRIER[i]` with `bytes: N`, or `expect: BARRIER[i]`"),
    (("try_wait", "test_wait", "mbarrier_try_wait", "mbarrier_wait", "wait_barrier", "mbar_wait",
      "cluster_wait", "barrier_cluster_wait"),
     "`wait: BARRIER[i]` with `phase: K` or `parity: P`"),
    (("syncthreads", "bar_sync", "barrier_sync", "named_barrier_sync", "s_barrier", "barrier",
      "barrier_cta_sync", "syncwarp"),
     "`sync: NAMED_BARRIER`"),
    (("bar_arrive", "named_barrier_arrive"), "`arrive: NAMED_BARRIER`"),
    (("tma_load", "cp_async_bulk", "cp_async_bulk_tensor", "async_tma_copy_global_to_local", "tma",
      "bulk_copy", "tensor_load"),
     "`bulk_load: BUFFER[i] = TILE` with `completes: BARRIER[i]`"),
    (("tma_store", "async_tma_copy_local_to_global", "tensor_store"),
     "`bulk_store: BUFFER[i]` with `queue: QUEUE`"),
    (("wgmma", "mma_async", "warpgroup_mma", "warp_group_dot", "tcgen05_mma", "umma", "dot", "gemm",
      "mfma", "warpgroup_arrive"),
     "`issue: mma(A[t], B[t])` with `as: GROUP`, or `mma: A[i], B[i]` with `queue: QUEUE`"),
    (("cpasync", "memcpy_async", "async_copy_global_to_local", "load_async"),
     "`cp_async: BUFFER[i]` with `queue: QUEUE`"),
    (("global_load_lds", "buffer_load_lds", "raw_buffer_load_lds"),
     "`lds_dma: BUFFER[i]` with `queue: QUEUE`"),
    (("ldmatrix", "ld_shared", "ds_read", "local_load", "ld"), "`load: BUFFER[i]`"),
    (("stmatrix", "st_shared", "ds_write", "local_store", "st", "write"), "`store: BUFFER[i]`"),
    (("fence_proxy_async", "fence_view_async_shared", "tma_store_fence", "proxy_fence",
      "fence_async_shared"),
     "`fence: async`"),
    (("fence_barrier_init", "fence_mbarrier_init"), "`fence: barrier_init`"),
    (("setmaxnreg", "warpgroup_reg_alloc", "setmaxnreg_inc", "tcgen05_alloc", "tmem_alloc"),
     "`take: POOL` with `amount: N`"),
    (("warpgroup_reg_dealloc", "setmaxnreg_dec", "tcgen05_dealloc", "tmem_free"),
     "`give: POOL` with `amount: N`"),
    (("while", "loop", "repeat"), "`for: t in 0..tiles` with `do:`"),
    (("goto", "branch"), "`if: CONDITION` with `then:` and `else:`"),
)  # fmt: skip


def _plain(word: str) -> str:
    return re.sub(r"[^a-z0-9]", "", word.lower())


_WRITTEN = {_plain(word): written for words, written in OTHER_WORDS for word in words}


def named_otherwise(word: str) -> tuple[str, ...]:
    """The hint for a word of other tools; empty if it is none."""
    written = _WRITTEN.get(_plain(word))
    return (f"the language says {written}",) if written is not None else ()
