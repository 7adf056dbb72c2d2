"""Kernels written by hand against the device header, with their manifests."""

from __future__ import annotations

from typing import Any

GEMM = """\
// C[M, N] = A[M, K] * B[N, K]^T in tiles of 128 x 128 x 64: a ring of DEPTH stages, two consumers.
#include "titan_device.cuh"
using namespace titan;

TITAN_CONSTANT int depth = 3;
TITAN_CONSTANT u32 tile_bytes = 128 * 64 * 2;

TITAN_KERNEL(384) gemm(const TITAN_GRID_CONSTANT TensorMap map_a,
                       const TITAN_GRID_CONSTANT TensorMap map_b,
                       const TITAN_GRID_CONSTANT TensorMap map_c, int M, int N, int K) {
  TITAN_SHARED(shared);
  require_alignment(shared, 1024);
  u8 *a = shared, *b = shared + depth * tile_bytes, *c = shared + 2 * depth * tile_bytes;
  u64 *full = (u64 *)(c + 2 * 64 * 128 * 2), *empty = full + depth;
  const int thread = thread_index();
  const int columns = (N + 127) / 128;
  const int m = block_index() / columns, n = block_index() % columns;
  const int tiles = larger(1, (K + 63) / 64);
  if (thread == 0) {
    for (int i = 0; i < depth; ++i) {
      barrier_init(full + i, 1);
      barrier_init(empty + i, 2 * 4);
    }
    fence_barrier_init();
  }
  block_sync();
  if (thread < 128) {
    registers_decrease<40>();
    if (thread < 32 && elect_one()) {
      for (int t = 0; t < tiles; ++t) {
        const int s = t % depth;
        barrier_wait(empty + s, (t / depth & 1) ^ 1);
        barrier_arrive_expect(full + s, 2 * tile_bytes);
        tensor_load(a + s * tile_bytes, &map_a, full + s, t * 64, m * 128);
        tensor_load(b + s * tile_bytes, &map_b, full + s, t * 64, n * 128);
      }
    }
  } else {
    registers_increase<232>();
    const int group = thread / 128 - 1, warp = thread % 128 / 32, lane = lane_index();
    float d[64];
    for (int t = 0; t < tiles; ++t) {
      const int s = t % depth;
      barrier_wait(full + s, t / depth & 1);
      wgmma_fence();
      for (int k = 0; k < 4; ++k) {
        const u64 da = shared_descriptor<128>(a + s * tile_bytes + group * 8192 + k * 32, 16, 1024);
        const u64 db = shared_descriptor<128>(b + s * tile_bytes + k * 32, 16, 1024);
        wgmma_ss<bf16, 128, false>(d, da, db, t + k != 0);
      }
      wgmma_commit();
      wgmma_wait<0>();
      warp_sync();
      if (elect_one()) barrier_arrive(empty + s);
    }
    u8 *mine = c + group * 64 * 128 * 2;
    for (int i = 0; i < 32; ++i) {
      const int row = warp * 16 + lane / 4 + i % 2 * 8, column = i / 2 * 8 + lane % 4 * 2;
      store_tile_pair<bf16, 0>(mine, (row * 128 + column) * 2, d[2 * i], d[2 * i + 1]);
    }
    fence_proxy_async();
    named_barrier_sync(1 + group, 128);
    if (warp == 0 && elect_one()) {
      tensor_store(&map_c, mine, n * 128, m * 128 + group * 64);
      bulk_commit();
      bulk_wait_read<0>();
    }
  }
}
"""


def tensor_map(name: str, tensor: str, box: list[int], swizzle: str) -> dict[str, Any]:
    return {
        "kind": "tensor_map",
        "name": name,
        "tensor": tensor,
        "box": box,
        "swizzle": swizzle,
        "dtype": "bf16",
    }


GEMM_MANIFEST: dict[str, Any] = {
    "entry": "gemm",
    "source": "kernel.cu",
    "parameters": [{"name": name, "minimum": 1} for name in "MNK"],
    "tensors": [
        {"name": "A", "dtype": "bf16", "shape": ["M", "K"], "output": False},
        {"name": "B", "dtype": "bf16", "shape": ["N", "K"], "output": False},
        {"name": "C", "dtype": "bf16", "shape": ["M", "N"], "output": True},
    ],
    "arguments": [
        tensor_map("map_a", "A", [64, 128], "128B"),
        tensor_map("map_b", "B", [64, 128], "128B"),
        tensor_map("map_c", "C", [128, 64], "none"),
        *({"kind": "size", "name": name} for name in "MNK"),
    ],
    "constraints": ["K % 8 == 0", "N % 8 == 0"],
    "launch": {
        "block": 384,
        "grid": "((M + 127) // 128) * ((N + 127) // 128)",
        "cluster": 1,
        "dynamic_shared_bytes": 6 * 16384 + 32768 + 64,
    },
    "roles": [
        {"name": "producer", "first_thread": 0, "threads": 32},
        {"name": "consumer", "first_thread": 128, "threads": 256},
    ],
}
