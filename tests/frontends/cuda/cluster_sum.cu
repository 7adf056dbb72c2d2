// Two CTAs of a cluster read each other's shared memory. FAULT: 1 a barrier of the CTA alone, 2 no
// barrier at the end, 3 a relaxed arrival.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
#ifndef FAULT
#define FAULT 0
#endif
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(64) cluster_sum(const float* a, float* out) {
  __shared__ float part[64];
  auto c = cg::this_cluster();
  int t = threadIdx.x;
  part[t] = a[blockIdx.x * 64 + t];
#if FAULT == 1
  __syncthreads();
#elif FAULT == 3
  asm volatile("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;" ::: "memory");
#else
  c.sync();
#endif
  float* other = c.map_shared_rank(part, c.block_rank() ^ 1);
  float v = part[t] + other[63 - t];
  if (c.block_rank() == 0) out[blockIdx.x / 2 * 64 + t] = v;
#if FAULT != 2
  c.sync();
#endif
}
