// A persistent GEMM written by hand for the comparison with tests/disassembly/gemm.yaml: one warp
// loads, two warpgroups multiply, the result leaves through shared memory. Not a good GEMM.
#include "titan_device.cuh"
using namespace titan;

TITAN_KERNEL(384)
gemm(TITAN_GRID_CONSTANT const TensorMap a, TITAN_GRID_CONSTANT const TensorMap b,
     TITAN_GRID_CONSTANT const TensorMap c, int M, int N, int K) {
  TITAN_SHARED(memory);
  u64* full = (u64*)(memory + 196608);
  u64* empty = full + 4;
  if (thread_index() == 0) {
    for (int i = 0; i < 4; ++i) barrier_init(full + i, 1);
    for (int i = 0; i < 4; ++i) barrier_init(empty + i, 8);
    fence_barrier_init();
  }
  block_sync();
  const int warp = uniform(thread_index() / 32);
  const int columns = (N + 127) / 128;
  const int work = ((M + 127) / 128 * columns - block_index() + grid_size() - 1) / grid_size();
  int tiles = (K + 63) / 64;
  if (tiles < 1) tiles = 1;
  int n = 0;
  if (warp < 4) {
    registers_decrease<40>();
    if (warp == 0 && elect_one()) {
      for (int w = 0; w < work; ++w) {
        const int item = block_index() + w * grid_size();
        for (int t = 0; t < tiles; ++t) {
          const int stage = n % 4;
          barrier_wait(empty + stage, (n / 4 + 1) % 2);
          barrier_arrive_expect(full + stage, 32768);
          tensor_load(memory + stage * 16384, &a, full + stage, t * 64, item / columns * 128);
          tensor_load(memory + 65536 + stage * 16384, &b, full + stage, t * 64, item % columns * 128);
          n = n + 1;
        }
      }
    }
  } else {
    registers_increase<232>();
    const int self = warp / 4 - 1;
    const bool speaks = elect_one();
    const bool first = speaks && warp % 4 == 0;
    float d[64];
    for (int w = 0; w < work; ++w) {
      const int item = block_index() + w * grid_size();
      for (int i = 0; i < 64; ++i) d[i] = 0;
      for (int t = 0; t < tiles; ++t) {
        const int stage = n % 4;
        barrier_wait(full + stage, n / 4 % 2);
        wgmma_fence();
        const u32 left = shared_address(memory) + stage * 16384 + self * 8192;
        const u32 right = shared_address(memory) + 65536 + stage * 16384;
        TITAN_UNROLL for (int k = 0; k < 4; ++k) {
          const u64 from_a = (u64)((left + k * 32) >> 4 & 0x3fff) | (u64)0x4000004000010000ull;
          const u64 from_b = (u64)((right + k * 32) >> 4 & 0x3fff) | (u64)0x4000004000010000ull;
          wgmma_ss<bf16, 128, false>(d, from_a, from_b, 1);
        }
        wgmma_commit();
        wgmma_wait<1>();
        if (t >= 1) {
          warp_sync();
          if (speaks) barrier_arrive(empty + (n - 1) % 4);
        }
        n = n + 1;
      }
      wgmma_wait<0>();
      warp_sync();
      if (speaks) barrier_arrive(empty + (n - 1) % 4);
      if (first) bulk_wait_read<0>();
      named_barrier_sync(1 + self, 128);
      unsigned char* staging = memory + 131072 + self * 16384;
      TITAN_UNROLL for (int i = 0; i < 32; ++i) {
        store_shared32(staging + (thread_index() % 128) * 128 + i * 4, float_to_bits(d[2 * i] + d[2 * i + 1]));
      }
      fence_proxy_async();
      named_barrier_sync(1 + self, 128);
      if (first) {
        tensor_store(&c, staging, item % columns * 128, item / columns * 128 + self * 64);
        tensor_store(&c, staging + 8192, item % columns * 128 + 64, item / columns * 128 + self * 64);
        bulk_commit();
      }
    }
    if (first) bulk_wait<0>();
    wgmma_wait<0>();
  }
}
