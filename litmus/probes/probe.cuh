// What the probes share: mbarriers and bulk copies of sm_90a, each instruction once, with bounded
// waits: a probe whose answer is "never" ends all the same.

#ifndef TITAN_PROBE_CUH
#define TITAN_PROBE_CUH

typedef unsigned int u32;
typedef unsigned long long u64;

struct alignas(64) TensorMap {
  unsigned char opaque[128];
};

#define PROBE_DEVICE static __device__ __forceinline__

PROBE_DEVICE u32 shared_address(const void* pointer) {
  return (u32)__cvta_generic_to_shared(pointer);
}

PROBE_DEVICE void barrier_init(u64* barrier, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(shared_address(barrier)),
               "r"(count)
               : "memory");
}

PROBE_DEVICE void barrier_invalidate(u64* barrier) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];\n" ::"r"(shared_address(barrier)) : "memory");
}

PROBE_DEVICE void barrier_arrive(u64* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(shared_address(barrier))
               : "memory");
}

PROBE_DEVICE void barrier_arrive_expect(u64* barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(
                   shared_address(barrier)),
               "r"(bytes)
               : "memory");
}

PROBE_DEVICE void barrier_complete_bytes(u64* barrier, u32 bytes) {
  asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], %1;\n" ::"r"(
                   shared_address(barrier)),
               "r"(bytes)
               : "memory");
}

// One look, without waiting.
PROBE_DEVICE bool barrier_test(u64* barrier, u32 parity) {
  u32 ready;
  asm volatile(
      "{\n .reg .pred p;\n mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      " selp.b32 %0, 1, 0, p;\n}\n"
      : "=r"(ready)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return ready != 0;
}

// Looks again and again for `cycles` at most.
PROBE_DEVICE bool barrier_within(u64* barrier, u32 parity, long long cycles) {
  const long long begin = clock64();
  while (!barrier_test(barrier, parity)) {
    if (clock64() - begin > cycles) return false;
  }
  return true;
}

// `bytes` (a multiple of 16) from global to shared memory; off `barrier` when they have landed.
PROBE_DEVICE void bulk_load(void* target, const void* source, u32 bytes, u64* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::
          "r"(shared_address(target)),
      "l"((u64)source), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

PROBE_DEVICE void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
}

#endif  // TITAN_PROBE_CUH
