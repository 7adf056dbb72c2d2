// Which lane does elect.sync choose, for a whole warp and for part of one, and is it always one?

#include "probe.cuh"

PROBE_DEVICE u32 elected(u32 mask) {
  u32 chosen;
  asm volatile(
      "{\n .reg .pred p;\n elect.sync _|p, %1;\n selp.b32 %0, 1, 0, p;\n}\n"
      : "=r"(chosen)
      : "r"(mask));
  return __ballot_sync(mask, (int)chosen);
}

PROBE_DEVICE void count(u32* counters, u32 mask, u32 chosen, u32& first) {
  const u32 lowest = mask & (0u - mask);
  if (first == 0) first = chosen;
  if ((threadIdx.x & 31u) != (u32)__ffs((int)mask) - 1u) return;
  atomicAdd(counters, 1u);
  atomicAdd(counters + 1, chosen == lowest ? 1u : 0u);
  atomicAdd(counters + 2, __popc(chosen) != 1 ? 1u : 0u);
  atomicAdd(counters + 3, chosen != first ? 1u : 0u);
}

extern "C" __global__ void probe_elect(u32* counters, int rounds) {
  const u32 lane = threadIdx.x & 31u;
  u32 first_whole = 0, first_part = 0;
  const u32 part = 0xfff0u << (blockIdx.x & 15u);
  for (int round = 0; round < rounds; ++round) {
    __syncwarp();
    count(counters, 0xffffffffu, elected(0xffffffffu), first_whole);
    __syncwarp();
    if (part >> lane & 1u) count(counters + 4, part, elected(part), first_part);
  }
}
