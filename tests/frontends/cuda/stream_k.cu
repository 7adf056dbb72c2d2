// Stream-K: blocks whose range ends inside of a tile leave their part, the block that begins it waits
// for their flags and adds the parts.
#include <cuda/atomic>
extern "C" __global__ void __launch_bounds__(128) stream_k(const float* a, float* c, float* parts, int* flags, int per_block, int per_tile) {
  __shared__ float tile[128];
  int t = threadIdx.x, at = blockIdx.x * per_block, end = at + per_block;
  while (at < end) {
    int output = at / per_tile, first = output * per_tile, last = first + per_tile;
    float sum = 0;
    int stop = end < last ? end : last;
    for (int i = at; i < stop; i++) {
      __syncthreads();
      tile[t] = a[i * 128 + t];
      __syncthreads();
      sum += tile[t ^ 64];
    }
    if (at != first) {
      parts[blockIdx.x * 128 + t] = sum;
      __threadfence();
      __syncthreads();
      if (t == 0) cuda::atomic_ref<int, cuda::thread_scope_device>(flags[blockIdx.x]).store(1, cuda::std::memory_order_release);
    } else {
      for (int other = blockIdx.x + 1, have = stop; have < last; other++, have += per_block) {
        if (t == 0)
          while (cuda::atomic_ref<int, cuda::thread_scope_device>(flags[other]).load(cuda::std::memory_order_acquire) == 0) {}
        __syncthreads();
        sum += parts[other * 128 + t];
      }
      c[output * 128 + t] = sum;
    }
    at = stop;
  }
}
