"""Small kernels, one for each primitive, as texts with places to fill in."""

from __future__ import annotations

from typing import Any

HEAD = """\
#include "titan_device.cuh"
using namespace titan;
"""

# One box from the tensor to shared memory; out gets the elements in the order of their addresses.
LOAD = (
    HEAD
    + """
TITAN_KERNEL(32) load(const TITAN_GRID_CONSTANT TensorMap map, void *out) {
  TITAN_SHARED(shared);
  u64 *barrier = (u64 *)(shared + COUNT * 2);
  if (thread_index() == 0) barrier_init(barrier, 1);
  warp_sync();
  if (elect_one()) {
    barrier_arrive_expect(barrier, COUNT * 2);
    tensor_load(shared, &map, barrier, COORDINATES);
  }
  barrier_wait(barrier, 0);
  for (int i = thread_index(); i < COUNT / 2; i += 32) {
    const u32 pair = load_shared32(shared + 4 * i);
    store_global<f32>(out, 2 * i, unpack_pair<bf16, 0>(pair));
    store_global<f32>(out, 2 * i + 1, unpack_pair<bf16, 1>(pair));
  }
}
"""
)

# Elements in the order of their addresses to shared memory, then as a box to the tensor.
STORE = (
    HEAD
    + """
TITAN_KERNEL(32) store(const TITAN_GRID_CONSTANT TensorMap map, const void *in) {
  TITAN_SHARED(shared);
  for (int i = thread_index(); i < COUNT / 2; i += 32)
    store_shared32(shared + 4 * i, pack_pair<bf16>(load_global<f32>(in, 2 * i),
                                                   load_global<f32>(in, 2 * i + 1)));
  fence_proxy_async();
  warp_sync();
  if (elect_one()) {
    tensor_store(&map, shared, COORDINATES);
    bulk_commit();
    bulk_wait<0>();
  }
}
"""
)

# Images of A and B in shared memory, one wgmma, and the registers of each thread.
MULTIPLY = (
    HEAD
    + """
TITAN_KERNEL(128) multiply(const void *image, const void *registers, void *out) {
  TITAN_SHARED(shared);
  const int thread = thread_index();
  for (int i = thread; i < BYTES / 4; i += 128)
    store_shared32(shared + 4 * i, ((const u32 *)image)[i]);
  fence_proxy_async();
  block_sync();
  u32 a[4];
  for (int i = 0; i < 4; ++i) a[i] = ((const u32 *)registers)[thread * 4 + i];
  float d[COLUMNS / 2];
  for (int i = 0; i < COLUMNS / 2; ++i) d[i] = INITIAL;
  wgmma_fence();
  INSTRUCTION;
  wgmma_commit();
  wgmma_wait<0>();
  for (int i = 0; i < COLUMNS / 2; ++i) store_global<f32>(out, thread * (COLUMNS / 2) + i, d[i]);
}
"""
)

# Two CTAs: each loads half of the tile for both, arrives at the other's barrier, and copies out.
CLUSTER = (
    HEAD
    + """
TITAN_CLUSTER_KERNEL(32, 2) pair(const TITAN_GRID_CONSTANT TensorMap map, void *out) {
  TITAN_SHARED(shared);
  u64 *full = (u64 *)(shared + 4096), *empty = full + 1;
  const int rank = (int)cluster_rank();
  if (thread_index() == 0) {
    barrier_init(full, 1);
    barrier_init(empty, 2);
    fence_barrier_init();
  }
  cluster_sync();
  for (int round = 0; round < 3; ++round) {
    if (elect_one()) {
      barrier_wait_cluster(empty, (round & 1) ^ 1);
      barrier_arrive_expect(full, 4096);
      tensor_load_multicast(shared + rank * 2048, &map, full, 0, round * 32 + rank * 16, (u16)3);
    }
    warp_sync();
    barrier_wait(full, round & 1);
    for (int i = thread_index(); i < 1024; i += 32) {
      const u32 pair = load_shared32(shared + 4 * i);
      const int place = (round * 2 + rank) * 2048 + 2 * i;
      store_global<f32>(out, place, unpack_pair<bf16, 0>(pair));
      store_global<f32>(out, place + 1, unpack_pair<bf16, 1>(pair));
    }
    fence_proxy_async();
    warp_sync();
    if (elect_one()) {
      barrier_arrive_remote(empty, 0);
      barrier_arrive_remote(empty, 1);
    }
  }
  cluster_sync();
}
"""
)


def manifest(
    entry: str,
    tensors: list[dict[str, Any]],
    arguments: list[dict[str, Any]],
    block: int = 32,
    shared_bytes: int = 1024,
    cluster: int = 1,
    grid: str = "1",
) -> dict[str, Any]:
    return {
        "entry": entry,
        "source": "kernel.cu",
        "parameters": [],
        "tensors": tensors,
        "arguments": arguments,
        "constraints": [],
        "launch": {
            "block": block,
            "grid": grid,
            "cluster": cluster,
            "dynamic_shared_bytes": shared_bytes,
        },
        "roles": [{"name": "all", "first_thread": 0, "threads": block}],
    }


def tensor(name: str, dtype: str, *shape: int, output: bool = False) -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": [str(n) for n in shape], "output": output}


def pointer(name: str) -> dict[str, Any]:
    return {"kind": "pointer", "name": name, "tensor": name}
