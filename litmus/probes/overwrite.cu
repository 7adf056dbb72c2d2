// Generic reads, a barrier, and a bulk copy that overwrites what was read: do reads see the copy?
//
// The values are used only after the arrival, so that nothing but the hardware's own rules keeps
// the reads before the copy. Every second CTA has a proxy fence between, as a control.

#include "probe.cuh"

enum { READERS = 128, WORDS_EACH = 8, WORDS = READERS * WORDS_EACH, BYTES = WORDS * 4 };

extern "C" __global__ void probe_overwrite(const u32* data, u32* counters, int rounds,
                                           int patience) {
  __shared__ __align__(128) u32 tile[WORDS];
  __shared__ u64 full, empty;
  const bool fenced = (blockIdx.x & 1u) != 0;
  if (threadIdx.x == 0) {
    barrier_init(&full, 1);
    barrier_init(&empty, READERS);
    asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x == READERS) {  // the copying thread, in a warp of its own
    for (int round = 0; round < rounds; ++round) {
      if (round > 0 && !barrier_within(&empty, (u32)(round - 1) & 1u, patience)) {
        atomicAdd(counters + 4, 1u);
        return;
      }
      barrier_arrive_expect(&full, BYTES);
      bulk_load(tile, data + (round & 1) * WORDS, BYTES, &full);
    }
  } else if (threadIdx.x < READERS) {
    for (int round = 0; round < rounds; ++round) {
      if (!barrier_within(&full, (u32)round & 1u, patience)) {
        atomicAdd(counters + 4, 1u);
        return;
      }
      u32 seen[WORDS_EACH];
#pragma unroll
      for (int i = 0; i < WORDS_EACH; ++i) {
        asm volatile("ld.shared.u32 %0, [%1];\n"
                     : "=r"(seen[i])
                     : "r"(shared_address(tile + i * READERS + (int)threadIdx.x)));
      }
      if (fenced) fence_proxy_async();
      barrier_arrive(&empty);
      u32 early = 0;
#pragma unroll
      for (int i = 0; i < WORDS_EACH; ++i) {
        const u32 expected = (u32)(round & 1) * WORDS + (u32)i * READERS + threadIdx.x + 1u;
        early += seen[i] != expected;
      }
      atomicAdd(counters + (fenced ? 2 : 0), 1u);
      if (early) atomicAdd(counters + (fenced ? 3 : 1), early);
    }
  }
}
