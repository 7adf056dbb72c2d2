// Two stages filled by cp.async, read by other threads. FAULT: 1 no wait for the copy, 2 no barrier
// before the reads, 3 none behind them, 4 the wait leaves one group too many.
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#ifndef FAULT
#define FAULT 0
#endif
extern "C" __global__ void __launch_bounds__(128) copy_pipe(const float4* a, float* out, int n) {
  __shared__ float4 s[2][128];
  float sum = 0;
  int t = threadIdx.x;
  if (n > 0) __pipeline_memcpy_async(&s[0][t], &a[t], 16);
  __pipeline_commit();
  for (int i = 0; i < n; i++) {
    if (i + 1 < n) __pipeline_memcpy_async(&s[(i + 1) & 1][t], &a[(i + 1) * 128 + t], 16);
    __pipeline_commit();
#if FAULT != 1
    __pipeline_wait_prior(FAULT == 4 ? 2 : 1);
#endif
#if FAULT != 2
    __syncthreads();
#endif
    float4 v = s[i & 1][(t + 37) & 127];
    sum += v.x + v.y + v.z + v.w;
#if FAULT != 3
    __syncthreads();
#endif
  }
  out[t] = sum;
}
