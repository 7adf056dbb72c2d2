// A product of which each block of a column has a part of K: they add their parts in turn, by a
// semaphore.
extern "C" __global__ void __launch_bounds__(128) split_k(const float* a, const float* b, float* c, int* turn, int k) {
  __shared__ float tile[2][128];
  int t = threadIdx.x, part = blockIdx.y, first = part * k;
  float sum = 0;
  for (int i = 0; i < k; i++) {
    tile[i & 1][t] = a[(first + i) * 128 + t];
    __syncthreads();
    sum += tile[i & 1][127 - t] * b[(first + i) * gridDim.x + blockIdx.x];
  }
  if (t == 0) {
    volatile int* wait = turn + blockIdx.x;
    while (*wait != part) {}
    __threadfence();
  }
  __syncthreads();
  float* to = c + blockIdx.x * 128 + 127 - t;
  *to = part ? *to + sum : sum;
  __threadfence();
  __syncthreads();
  if (t == 0) atomicExch(turn + blockIdx.x, part + 1);
}
