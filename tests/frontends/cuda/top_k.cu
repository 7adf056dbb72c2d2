// The largest values of a row: a bitonic sort of its 256 elements, in shared memory. FAULT: 1 no
// barrier behind steps within a warp.
#ifndef FAULT
#define FAULT 0
#endif
extern "C" __global__ void __launch_bounds__(256) top_k(const float* in, float* out, int* which, int k) {
  __shared__ float value[256];
  __shared__ int index[256];
  int t = threadIdx.x;
  value[t] = in[blockIdx.x * 256 + t];
  index[t] = t;
  __syncthreads();
  for (int size = 2; size <= 256; size <<= 1)
    for (int step = size >> 1; step; step >>= 1) {
      int other = t ^ step;
      if (other > t) {
        bool descending = (t & size) == 0;
        if ((value[t] < value[other]) == descending) {
          float v = value[t]; value[t] = value[other]; value[other] = v;
          int i = index[t]; index[t] = index[other]; index[other] = i;
        }
      }
#if FAULT == 1
      if (step > 32) __syncthreads();
#else
      __syncthreads();
#endif
    }
  if (t < k) {
    out[blockIdx.x * k + t] = value[t];
    which[blockIdx.x * k + t] = index[t];
  }
}
