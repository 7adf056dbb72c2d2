// Rows of a table by index, a bag of them added up. FAULT: 1 the sums are read without a barrier.
#ifndef FAULT
#define FAULT 0
#endif
extern "C" __global__ void __launch_bounds__(128) gather_rows(const int* index, const float* table, float* out, float* sums, int n) {
  __shared__ float total[128];
  int t = threadIdx.x;
  float sum = 0;
  for (int i = 0; i < n; i++) {
    int row = index[blockIdx.x * n + i];
    if (row >= 0) sum += table[row * 128 + t];
  }
  out[blockIdx.x * 128 + t] = sum;
  total[t] = sum;
#if FAULT != 1
  __syncthreads();
#endif
  if (t < 32) {
    float s = total[t] + total[t + 32] + total[t + 64] + total[t + 96];
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
    if (t == 0) sums[blockIdx.x] = s;
  }
}
