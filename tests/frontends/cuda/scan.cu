// An inclusive scan of a block by shuffles and the sums of its warps. FAULT: 1 no barrier before the
// sums of the warps are read, 2 none before they are used.
#ifndef FAULT
#define FAULT 0
#endif
extern "C" __global__ void __launch_bounds__(256) scan(const int* in, int* out, int n) {
  __shared__ int sums[8];
  int i = blockIdx.x * 256 + threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  int v = i < n ? in[i] : 0;
  for (int d = 1; d < 32; d <<= 1) {
    int other = __shfl_up_sync(~0u, v, d);
    if (lane >= d) v += other;
  }
  if (lane == 31) sums[warp] = v;
#if FAULT != 1
  __syncthreads();
#endif
  if (warp == 0) {
    int s = lane < 8 ? sums[lane] : 0;
    for (int d = 1; d < 8; d <<= 1) {
      int other = __shfl_up_sync(~0u, s, d);
      if (lane >= d) s += other;
    }
    if (lane < 8) sums[lane] = s;
  }
#if FAULT != 2
  __syncthreads();
#endif
  if (warp) v += sums[warp - 1];
  if (i < n) out[i] = v;
}
