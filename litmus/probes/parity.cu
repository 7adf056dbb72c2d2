// For which parities does a wait succeed, by the number of completed phases?

#include "probe.cuh"

extern "C" __global__ void probe_parity(u32* counters, int rounds) {
  __shared__ u64 barrier;
  if (threadIdx.x != 0) return;
  for (int round = 0; round < rounds; ++round) {
    barrier_init(&barrier, 1);
    for (u32 phase = 0; phase < 8; ++phase) {
      const u32 odd = phase & 1u;
      const bool even_parity = barrier_test(&barrier, 0);
      const bool odd_parity = barrier_test(&barrier, 1);
      atomicAdd(counters + (odd ? 3 : 0), 1u);
      atomicAdd(counters + (odd ? 4 : 1), even_parity ? 1u : 0u);
      atomicAdd(counters + (odd ? 5 : 2), odd_parity ? 1u : 0u);
      if (phase == 0) {
        atomicAdd(counters + 6, 1u);
        atomicAdd(counters + 7, odd_parity ? 1u : 0u);
      }
      barrier_arrive(&barrier);
    }
    barrier_invalidate(&barrier);
  }
}
