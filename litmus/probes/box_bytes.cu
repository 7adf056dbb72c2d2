// A box that hangs over the edge of its tensor: how many bytes come off the barrier?
//
// The barrier expects the whole box. Where only the part inside is counted, the phase stays open
// until the rest is taken off by hand.

#include "probe.cuh"

enum { COLUMNS = 16, ROWS = 4, BYTES = COLUMNS * ROWS * 4 };

extern "C" __global__ void probe_box_bytes(const __grid_constant__ TensorMap map, u32* counters,
                                           int patience) {
  __shared__ __align__(128) u32 box[COLUMNS * ROWS];
  __shared__ u64 barrier;
  // The tensor has 40 columns and 10 rows. Over its end, over its start, outside, inside.
  const int columns[4] = {32, -8, 4000, 16};
  const int rows[4] = {8, -2, 4000, 4};
  const u32 inside[4] = {8 * 2 * 4, 8 * 2 * 4, 0, BYTES};
  const int kind = (int)(blockIdx.x & 3u);
  for (u32 i = threadIdx.x; i < COLUMNS * ROWS; i += blockDim.x) box[i] = 0xffffffffu;
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x != 0) return;
  barrier_init(&barrier, 1);
  asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
  barrier_arrive_expect(&barrier, BYTES);
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4}], [%2];\n" ::"r"(shared_address(box)),
      "l"((u64)&map), "r"(shared_address(&barrier)), "r"(columns[kind]), "r"(rows[kind])
      : "memory");
  const bool whole = barrier_within(&barrier, 0, patience);
  bool clipped = false;
  if (!whole) {
    barrier_complete_bytes(&barrier, BYTES - inside[kind]);
    clipped = barrier_within(&barrier, 0, patience);
  }
  u32 zero = 0, filled = 0;
  for (int i = 0; i < COLUMNS * ROWS; ++i) {
    const int column = columns[kind] + i % COLUMNS, row = rows[kind] + i / COLUMNS;
    const bool there = column >= 0 && column < 40 && row >= 0 && row < 10;
    zero += !there && box[i] == 0u;
    filled += !there && box[i] != 0u;
  }
  atomicAdd(counters, 1u);
  atomicAdd(counters + 1, whole ? 1u : 0u);
  atomicAdd(counters + 2, clipped ? 1u : 0u);
  atomicAdd(counters + 3, zero);
  atomicAdd(counters + 4, filled);
  atomicAdd(counters + 5, kind == 3 && !whole ? 1u : 0u);
}
