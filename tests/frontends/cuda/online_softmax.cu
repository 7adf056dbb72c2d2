// Softmax with the maximum and the sum in one pass. FAULT: 1 no barrier before the partial results of
// the warps are read, 2 the partial results of a row are overwritten by the next row.
#include <math_constants.h>
#ifndef FAULT
#define FAULT 0
#endif
extern "C" __global__ void __launch_bounds__(128) online_softmax(const float* in, float* out, int rows, int columns) {
  __shared__ float top[4], sum[4];
  int t = threadIdx.x, warp = t >> 5;
  for (int row = blockIdx.x; row < rows; row += gridDim.x) {
    float m = -CUDART_INF_F, s = 0;
    for (int i = t; i < columns; i += 128) {
      float v = in[row * columns + i];
      if (v > m) { s *= __expf(m - v); m = v; }
      s += __expf(v - m);
    }
    for (int d = 16; d; d >>= 1) {
      float m2 = __shfl_xor_sync(~0u, m, d), s2 = __shfl_xor_sync(~0u, s, d);
      float both = fmaxf(m, m2);
      s = s * __expf(m - both) + s2 * __expf(m2 - both);
      m = both;
    }
    if ((t & 31) == 0) { top[warp] = m; sum[warp] = s; }
#if FAULT != 1
    __syncthreads();
#endif
    m = fmaxf(fmaxf(top[0], top[1]), fmaxf(top[2], top[3]));
    s = 0;
    for (int w = 0; w < 4; w++) s += sum[w] * __expf(top[w] - m);
    for (int i = t; i < columns; i += 128) out[row * columns + i] = __expf(in[row * columns + i] - m) / s;
#if FAULT != 2
    __syncthreads();
#endif
  }
}
