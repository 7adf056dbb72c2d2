// A fresh mbarrier, published by a barrier alone: does the copy engine, or a peer, ever miss it?
//
// In each round both barriers of a CTA are initialised; the cluster meets (no fence, no release);
// another thread than the one that initialised starts a copy onto one, and the other CTA of the
// cluster arrives at the other. Odd clusters have the fence that publishes, as a control.

#include "probe.cuh"

PROBE_DEVICE void cluster_meet() {
  __syncwarp();
  asm volatile(
      "barrier.cluster.arrive.relaxed.aligned;\n barrier.cluster.wait.acquire.aligned;\n" ::
          : "memory");
}

extern "C" __global__ void __cluster_dims__(2, 1, 1)
    probe_init_publication(const u32* data, u32* counters, int rounds, int patience) {
  __shared__ __align__(128) u32 tile[32];
  __shared__ u64 copied, arrived;
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
  const bool fenced = (blockIdx.x / 2 & 1u) != 0;
  for (int round = 0; round < rounds; ++round) {
    if (threadIdx.x == 0) {
      barrier_init(&copied, 1);
      barrier_init(&arrived, 1);
      if (fenced) asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
    }
    cluster_meet();
    if (threadIdx.x == 32) {
      barrier_arrive_expect(&copied, sizeof tile);
      bulk_load(tile, data, sizeof tile, &copied);
      u32 peer;
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;\n"
                   : "=r"(peer)
                   : "r"(shared_address(&arrived)), "r"(rank ^ 1u));
      asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];\n" ::"r"(peer)
                   : "memory");
      const bool local = barrier_within(&copied, 0, patience);
      const bool remote = barrier_within(&arrived, 0, patience);
      atomicAdd(counters + (fenced ? 3 : 0), 1u);
      if (!local) atomicAdd(counters + (fenced ? 4 : 1), 1u);
      if (!remote) atomicAdd(counters + (fenced ? 5 : 2), 1u);
    }
    __syncthreads();
    cluster_meet();
    if (threadIdx.x == 0) {
      barrier_invalidate(&copied);
      barrier_invalidate(&arrived);
    }
    __syncthreads();
  }
}
