// A ring of three stages: a thread copies tiles of 4 KB by the bulk engine, four warps add them up.
// -DFAULT=1: the producer does not wait for a free stage; 2: a consumer gives a stage back early.
#include <cstdint>
#ifndef FAULT
#define FAULT 0
#endif
constexpr int kStages = 3, kFloats = 1024;

__device__ uint32_t address(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

__device__ void wait(const uint64_t* barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\nAGAIN:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra AGAIN;\n}"
      ::"r"(address(barrier)), "r"(parity) : "memory");
}

__device__ void arrive(const uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(barrier)) : "memory");
}

extern "C" __global__ void __launch_bounds__(160) ring(const float* in, float* out, int tiles) {
  __shared__ __align__(128) float stage[kStages][kFloats];
  __shared__ uint64_t full[kStages], empty[kStages];
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; s++) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(full + s)));
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 128;" ::"r"(address(empty + s)));
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x >= 128) {
    if (threadIdx.x == 128) {
      for (int t = 0; t < tiles; t++) {
        int s = t % kStages;
        if (FAULT != 1) wait(empty + s, (t / kStages & 1) ^ 1);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 4096;" ::"r"(
            address(full + s)) : "memory");
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 4096, "
            "[%2];" ::"r"(address(stage[s])), "l"(in + t * kFloats), "r"(address(full + s))
            : "memory");
      }
    }
    return;
  }
  float sum = 0;
  for (int t = 0; t < tiles; t++) {
    int s = t % kStages;
    wait(full + s, t / kStages & 1);
    if (FAULT == 2) arrive(empty + s);
    for (int i = threadIdx.x; i < kFloats; i += 128) sum += stage[s][i];
    if (FAULT != 2) arrive(empty + s);
  }
  out[blockIdx.x * 128 + threadIdx.x] = sum;
}
