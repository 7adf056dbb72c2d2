// A tile comes by a tensor map, is scaled in place and stored by another map. FAULT: 1 always the
// same parity, 2 too many bytes expected, 3 no proxy fence, 4 no barrier before the store, 5 the next
// load does not wait for the store.
#include <stdint.h>
#ifndef FAULT
#define FAULT 0
#endif
struct alignas(64) CUtensorMap { char bytes[128]; };
__device__ uint32_t sa(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
extern "C" __global__ void __launch_bounds__(128) tma_scale(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap out, int n) {
  __shared__ alignas(128) float tile[32][32];
  __shared__ alignas(8) uint64_t bar;
  int t = threadIdx.x;
  if (t == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(sa(&bar)));
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  __syncthreads();
  for (int i = 0; i < n; i++) {
    if (t == 0) {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(sa(&bar)), "r"(FAULT == 2 ? 4112 : 4096));
      asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(sa(tile)), "l"(&in), "r"(0), "r"(i * 32), "r"(sa(&bar)) : "memory");
    }
    int ph = FAULT == 1 ? 0 : i & 1;
    asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra W; }" ::"r"(sa(&bar)), "r"(ph) : "memory");
    for (int k = t; k < 1024; k += 128) ((float*)tile)[k] *= 2;
#if FAULT != 3
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
#if FAULT != 4
    __syncthreads();
#endif
    if (t == 0) {
      asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&out), "r"(0), "r"(i * 32), "r"(sa(tile)) : "memory");
      asm volatile("cp.async.bulk.commit_group;");
#if FAULT != 5
      asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#endif
    }
  }
}
