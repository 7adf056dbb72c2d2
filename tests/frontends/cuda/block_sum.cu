// A sum by shuffles and shared memory. FAULT: 1 no barrier before the partial sums are read, 2 a
// barrier of the warp alone behind the total, 3 a named barrier of one warp, 4 the total is overwritten.
#ifndef FAULT
#define FAULT 0
#endif
extern "C" __global__ void __launch_bounds__(256) block_sum(const float* a, float* out, int n) {
  __shared__ float s[8];
  __shared__ float total;
  float v = 0;
  for (int i = threadIdx.x; i < n; i += 256) v += a[blockIdx.x * n + i];
  for (int d = 16; d; d >>= 1) v += __shfl_down_sync(~0u, v, d);
  if ((threadIdx.x & 31) == 0) s[threadIdx.x >> 5] = v;
#if FAULT != 1
  __syncthreads();
#endif
  if (threadIdx.x < 32) {
    v = threadIdx.x < 8 ? s[threadIdx.x] : 0;
    for (int d = 4; d; d >>= 1) v += __shfl_down_sync(~0u, v, d);
    if (threadIdx.x == 0) total = v;
  }
#if FAULT == 2
  __syncwarp();
#elif FAULT == 3
  if (threadIdx.x < 32) asm volatile("bar.sync 1, 32;");
#else
  __syncthreads();
#endif
  out[blockIdx.x * 256 + threadIdx.x] = a[blockIdx.x * 256 + threadIdx.x] / total;
#if FAULT == 4
  if (threadIdx.x == 255) total = 0;
#endif
}
