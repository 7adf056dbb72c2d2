// How many cycles does a fence take, right behind a store to shared memory that it has to order?
//
// Every thread stores, and warp 0 of each block counts its own cycles, a fence at a time: none, the
// proxy fence of all spaces, that of shared memory, that of fresh mbarriers, that of tensor maps.

#include "probe.cuh"

enum { KINDS = 5, THREADS = 128 };

template <int Kind>
PROBE_DEVICE void fence() {
  if (Kind == 1) asm volatile("fence.proxy.async;\n" ::: "memory");
  if (Kind == 2) asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
  if (Kind == 3) asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
  if (Kind == 4) asm volatile("fence.proxy.tensormap::generic.release.gpu;\n" ::: "memory");
}

template <int Kind>
PROBE_DEVICE u32 cycles(volatile u32* place, int rounds) {
  u32 sum = 0;
  for (int round = 0; round < rounds; ++round) {
    __syncthreads();
    place[threadIdx.x] = (u32)round;
    const u64 begin = clock64();
    fence<Kind>();
    sum += (u32)(clock64() - begin);
  }
  return sum;
}

extern "C" __global__ void probe_fence_cost(u32* counters, int rounds) {
  __shared__ u32 words[THREADS];
  u32 sums[KINDS];
  sums[0] = cycles<0>(words, rounds);
  sums[1] = cycles<1>(words, rounds);
  sums[2] = cycles<2>(words, rounds);
  sums[3] = cycles<3>(words, rounds);
  sums[4] = cycles<4>(words, rounds);
  if (threadIdx.x != 0) return;
  atomicAdd(counters, (u32)rounds);
  atomicAdd(counters + 1, sums[0]);
  atomicAdd(counters + 2, sums[1]);
  atomicAdd(counters + 3, sums[2]);
  atomicAdd(counters + 4, sums[3]);
  atomicAdd(counters + 5, sums[4]);
}
