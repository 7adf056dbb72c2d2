// A sparse matrix times a vector, a warp to a row. FAULT: 1 no barrier before the sums are read.
#ifndef FAULT
#define FAULT 0
#endif
extern "C" __global__ void __launch_bounds__(128) sparse(const int* starts, const int* columns, const float* values, const float* x, float* y) {
  __shared__ float sums[4];
  int t = threadIdx.x, lane = t & 31, row = blockIdx.x * 4 + (t >> 5);
  float sum = 0;
  for (int i = starts[row] + lane; i < starts[row + 1]; i += 32) sum += values[i] * x[columns[i]];
  for (int d = 16; d; d >>= 1) sum += __shfl_down_sync(~0u, sum, d);
  if (lane == 0) sums[t >> 5] = sum;
#if FAULT != 1
  __syncthreads();
#endif
  if (t < 4) y[blockIdx.x * 4 + t] = sums[t];
}
