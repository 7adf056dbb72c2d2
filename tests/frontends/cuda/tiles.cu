// Tiles of sixteen lanes add up rows in shared memory. FAULT: 1 reads what the other tile wrote,
// 2 the tile does not meet, 3 the lower tile of each warp does not meet.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
#ifndef FAULT
#define FAULT 0
#endif
extern "C" __global__ void __launch_bounds__(64) tiles(const float* a, float* out, int rows) {
  __shared__ float row[2][64];
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  int t = threadIdx.x;
  float sum = 0;
  for (int k = 0; k < rows; k++) {
    row[k & 1][t] = a[k * 64 + t];
#if FAULT == 3
    if (t & 16) tile.sync();
#elif FAULT != 2
    tile.sync();
#endif
    sum += row[k & 1][FAULT == 1 ? t ^ 16 : t ^ 15];
  }
  out[t] = sum;
}
